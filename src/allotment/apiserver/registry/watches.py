"""A watch as a client sees it: lines, in batches as they come.

It starts with the state (unless a revision is given to start from), goes on with every change, and speaks in terms of
the selection: an object that begins to match is ADDED, one that ceases to is DELETED, whatever happened to it. Bookmarks
tell how far it has come. It ends after its time, when the server stops, or when its reader is too slow to be kept.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import chain

from allotment.api.status import Expired, StatusError
from allotment.apiserver.registry.catalogue import ServedResource
from allotment.apiserver.registry.forms import PIECE_BYTES, ResponseForm, encode, joined, runs
from allotment.apiserver.registry.reads import ListOptions, Reads, revision_of
from allotment.apiserver.registry.selection import Selection
from allotment.apiserver.store.errors import Compacted, Overflow, StoreClosed
from allotment.apiserver.store.record import Change, ChangeType, Record
from allotment.apiserver.store.watch import Watch

BOOKMARK_SECONDS = 60.0
SHORTEST_SECONDS = (
    1800  # of a watch that does not say how long; spread, so that clients do not come back together
)
EVENTS_PER_PIECE = 200
"""Objects of the initial state, or changes, that go out in one piece. Of large ones fewer do (``PIECE_BYTES``)."""


class Watching:
    """One client's watch of one resource. Make it, then read ``lines`` once. ``from_state`` tells whether they begin with all that
    is there."""

    def __init__(
        self,
        reads: Reads,
        served: ServedResource,
        namespace: str,
        options: ListOptions,
        form: ResponseForm,
        clock: Callable[[], float],
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        """Raises StatusError where a client gets an error in place of a stream. ``clock`` counts seconds; ``pause`` returns
        when it is the client's turn to get another piece of the state."""
        self._reads = reads
        self._served = served
        self._namespace = namespace if served.resource.namespaced else ""
        self._options = options
        self._form = form
        self._clock = clock
        self._pause = pause
        self._source: Watch | None = None
        self._closed = False
        self._asked = revision_of(options.resource_version)
        self.from_state = options.initial_events if options.initial_events is not None else not self._asked
        if options.initial_events:
            reads.check_reached(self._asked)

    async def lines(self) -> AsyncIterator[bytes]:
        """Pieces of lines, as they come. What goes wrong is told in the last line."""
        store, selection = self._reads.store, self._options.selection
        now = store.revision
        since = now if self.from_state else min(self._asked or now, now)
        try:
            source = store.watch(self._served.resource.id, self._namespace, selection.name, since=since)
        except Compacted as exc:
            yield error_line(Expired(f"too old resource version: {self._asked} ({exc.compacted})"))
            return
        self._source = source
        if self._closed:
            source.close()
        try:
            if self.from_state:
                for batch in self._state():
                    yield batch
                    del batch
                    await (
                        self._pause()
                    )  # a reader that keeps up does not make us wait, and others should not have to
                if self._options.initial_events and self._options.bookmarks:
                    yield self._form.bookmark(now, True)
            async for batch in self._changes(source):
                yield batch
        finally:
            source.close()

    def close(self) -> None:
        """Ends the lines, also while nothing happens: the client is gone or the server stops."""
        self._closed = True
        if self._source is not None:
            self._source.close()

    def _state(self) -> Iterator[bytes]:
        """ADDED for all there is. The records are taken at once, so none is missed or doubled by waiting readers."""
        records = self._reads.list(self._served, self._namespace, self._options.of_state()).records
        for run in runs(records, EVENTS_PER_PIECE):
            yield from joined(
                chain.from_iterable(self._form.parts("ADDED", record) for record in run), 3 * EVENTS_PER_PIECE
            )

    async def _changes(self, source: Watch) -> AsyncIterator[bytes]:
        clock = self._clock
        timeout = self._options.timeout or random.uniform(SHORTEST_SECONDS, 2 * SHORTEST_SECONDS)
        end = clock() + timeout
        bookmarks = self._options.bookmarks
        bookmark_at = clock() + (BOOKMARK_SECONDS if bookmarks else timeout)
        while True:
            left = min(end, bookmark_at) - clock()
            try:
                changes = await source.next(max(left, 0.0))
            except (Overflow, StoreClosed):
                return
            for run in _runs(changes):
                for batch in joined(self._told(run), EVENTS_PER_PIECE):
                    yield batch
                if run[-1] is not changes[-1] or source.more:
                    await self._pause()
            now = clock()
            if bookmarks and (
                not changes or now >= bookmark_at
            ):  # also amid changes that are nothing to this watch
                yield self._form.bookmark(source.revision, False)
                bookmark_at = now + BOOKMARK_SECONDS
            if now >= end:
                return

    def _told(self, changes: list[Change]) -> Iterator[bytes]:
        selection, form = self._options.selection, self._form
        for change in changes:
            if change.revision <= self._asked:
                continue  # it asked for what was still to come
            if not selection:
                yield form.change(change)
            elif seen := seen_as(selection, change):
                yield form.event(*seen)


def _runs(changes: list[Change]) -> Iterator[list[Change]]:
    """Groups of changes that are short work, whatever the form is in which they are told."""
    run: list[Change] = []
    size = 0
    for change in changes:
        run.append(change)
        size += len(change.record.data)
        if size >= PIECE_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


def seen_as(selection: Selection, change: Change) -> tuple[str, Record] | None:
    """What a change is to a watch that selects: the event's type and object, or None if it is nothing to it."""
    record, previous = change.record, change.previous
    was = previous is not None and selection.matches(previous)
    if change.type is ChangeType.DELETED:
        return ("DELETED", record) if was else None
    if selection.matches(record):
        return ("MODIFIED" if was else "ADDED", record)
    if previous is None or not was:
        return None
    last = previous.load()  # the last state that matched, at the revision at which it ceased to
    last["metadata"]["resourceVersion"] = str(record.revision)
    return "DELETED", Record(record.key, record.revision, encode(last))


def error_line(error: StatusError) -> bytes:
    """An error inside a stream that has begun."""
    return encode({"type": "ERROR", "object": error.to_status()}) + b"\n"
