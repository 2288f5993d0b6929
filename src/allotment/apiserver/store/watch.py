"""Open watches, and the changes that their readers have not taken yet.

A watch has a scope: a resource, or a namespace of it, or a name. Watches are indexed by scope, so a change looks up
the four scopes that it can belong to and meets no watch of another key. A watch first hands out its backlog (changes of
the history after the revision that it resumes from; bounded as the history is), then what arrives, from a buffer
bounded in changes and bytes. A reader that lets it overflow loses the watch, never a change in the middle.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from allotment.apiserver.store.errors import Overflow, StoreClosed, StoreError
from allotment.apiserver.store.record import Change
from allotment.apiserver.store.scope import Scope, scopes, spelled


@dataclass(frozen=True, slots=True)
class Buffer:
    """The limits on what a watch keeps for its reader, and on how much the reader gets at once."""

    changes: int = 10_000
    bytes: int = 16 * 1024 * 1024
    turn_changes: int = 500
    turn_bytes: int = 1024 * 1024


class Watch:
    """Changes of a scope after a revision, each once, in order, without a gap. Made by ``Store.watch``; one reader."""

    def __init__(
        self, scope: Scope, since: int, backlog: list[Change], buffer: Buffer, watches: Watches
    ) -> None:
        self.scope = scope
        self._seen = since
        self._since = since
        self._backlog = deque(backlog)
        self._arrived: deque[Change] = deque()
        self._bytes = 0  # bytes of the buffer
        self._buffer = buffer
        self._watches = watches
        self._waiter: asyncio.Future[None] | None = None
        self._due = inf  # the time limit of the present wait
        # one timer for many waits, which may fire before the limit
        self._alarm: asyncio.TimerHandle | None = None
        self._error: StoreError | None = None

    @property
    def revision(self) -> int:
        """Every change of the scope up to this revision was handed out, so a bookmark may carry it."""
        if self._backlog or self._arrived or self._error:
            return self._seen
        return max(self._seen, self._watches.revision())

    @property
    def more(self) -> bool:
        """Whether there are changes to hand out, so that :meth:`next` does not wait."""
        return bool(self._backlog or self._arrived)

    async def next(self, timeout: float | None = None) -> list[Change]:
        """The changes since the last call; waits for at least one, and is empty when the timeout (seconds) passed.

        At most a turn's worth (``Buffer``), to be sent before the next call. Raises :class:`Overflow` when the reader
        was too slow, :class:`Closed` when the watch or the store was closed.
        """
        if not (self._backlog or self._arrived or self._error):
            await self._wait(timeout)
        if self._error:
            raise self._error
        return self._take()

    def close(self, error: StoreError | None = None) -> None:
        """Ends the watch; idempotent. A reader that waits in ``next`` gets the error."""
        if self._error is None:
            self._error = error or StoreClosed("the watch was closed")
            self._watches.remove(self)
            self._backlog.clear()
            self._arrived.clear()
            self._bytes = 0
            if self._alarm is not None:
                self._alarm.cancel()
            self._wake()

    def push(self, change: Change, size: int) -> None:
        """Takes a change of the scope that became durable. The store calls it, in order."""
        if change.record.revision <= self._since:
            return
        self._arrived.append(change)
        self._bytes += size
        if len(self._arrived) > self._buffer.changes or self._bytes > self._buffer.bytes:
            self.close(
                Overflow(f"{len(self._arrived)} changes waited for a slow reader of {spelled(self.scope)}")
            )
        elif self._waiter is not None:
            self._wake()

    async def _wait(self, timeout: float | None) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        self._due = inf if timeout is None else loop.time() + timeout
        if self._due < inf and (self._alarm is None or self._due < self._alarm.when()):
            self._set_alarm(loop)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _set_alarm(self, loop: asyncio.AbstractEventLoop) -> None:
        """Sets the timer. Most waits end early with a change, so a timer for each would cost more than the change."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = loop.call_at(self._due, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._alarm = None
        if self._waiter is None:
            return
        if self._due <= loop.time():
            self._wake()
        elif self._due < inf:
            self._set_alarm(loop)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _take(self) -> list[Change]:
        arrived, buffer = self._arrived, self._buffer
        if self._backlog or len(arrived) > buffer.turn_changes or self._bytes > buffer.turn_bytes:
            return self._take_some()
        taken = list(arrived)
        if taken:
            arrived.clear()
            self._bytes = 0
            self._seen = taken[-1].record.revision
        return taken

    def _take_some(self) -> list[Change]:
        taken: list[Change] = []
        room = self._buffer.turn_bytes
        while len(taken) < self._buffer.turn_changes and room > 0:
            if self._backlog:
                change = self._backlog.popleft()
                size = len(change.record.data)
            elif self._arrived:
                change = self._arrived.popleft()
                size = len(change.record.data)
                self._bytes -= size
            else:
                break
            taken.append(change)
            room -= size
        if taken:
            self._seen = taken[-1].record.revision
        return taken

    def validate(self) -> None:
        revisions = [change.revision for change in (*self._backlog, *self._arrived)]
        assert revisions == sorted(set(revisions)), f"watch of {spelled(self.scope)} is out of order"
        assert not revisions or revisions[0] > self._seen
        assert self._bytes == sum(len(change.record.data) for change in self._arrived)


class Watches:
    """All open watches, by scope. Changes up to ``revision`` have been dispatched."""

    def __init__(self, revision: Callable[[], int]) -> None:
        self.revision = revision
        self._by_scope: dict[tuple[str, str, str], dict[Watch, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, watch: Watch) -> None:
        self._by_scope.setdefault(watch.scope, {})[watch] = None
        self._count += 1

    def remove(self, watch: Watch) -> None:
        watches = self._by_scope.get(watch.scope, {})
        if watch in watches:
            del watches[watch]
            self._count -= 1
            if not watches:
                del self._by_scope[watch.scope]

    def dispatch(self, change: Change) -> None:
        """Hands a change to every watch that covers its key."""
        size = len(change.record.data)
        for scope in scopes(change.record.key):
            watches = self._by_scope.get(scope)
            if watches:
                for watch in tuple(watches):  # a watch that overflows removes itself
                    watch.push(change, size)

    def close(self, resource: str = "") -> None:
        """Ends the watches of a resource or, without one, all of them, as the store is closed."""
        for (of, _, _), watches in tuple(self._by_scope.items()):
            for watch in tuple(watches) if resource in ("", of) else ():
                watch.close(StoreClosed(f"{resource or 'the store'} was closed"))

    def validate(self) -> None:
        assert self._count == sum(map(len, self._by_scope.values()))
        for scope, watches in self._by_scope.items():
            for watch in watches:
                assert watch.scope == scope
                watch.validate()
