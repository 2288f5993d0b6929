"""The thread that commits.

Each turn takes everything that is waiting (within bounds), commits it as one transaction with one fsync, and informs the
store. It never waits for more: while one transaction is on its way to disk, the next one accumulates by itself.

When a commit fails, writes that were decided on top of the failed ones must not be committed either. The store counts
failures as epochs and marks each write with the epoch in which it was decided: the writer drops those of a failed one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Protocol

from allotment.apiserver.store.database import Database
from allotment.apiserver.store.history import DroppedChange
from allotment.apiserver.store.pending import Pending

MAX_WRITES = 500
MAX_TRANSACTION_BYTES = 16 * 1024 * 1024
"""The most bytes of one transaction."""

REST_SECONDS = 1.0
"""After this time without a write, the database does its postponed work."""


@dataclass(frozen=True, slots=True)
class Trim:
    """Changes that left the history, oldest first; their rows can be removed."""

    evicted: list[DroppedChange]


class FindRoom:
    """A request to check whether the disk has room again."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Calls ``passed`` on the writer's thread when everything queued earlier is done."""

    passed: Callable[[], None]


class Stop:
    """The last item: the writer closes the file and ends."""


@dataclass(slots=True)
class WriterTurn:
    """The work of one turn: any number of writes, then at most one other item."""

    writes: list[Pending] = field(default_factory=list)
    then: Trim | FindRoom | Barrier | Stop | None = None


class WriterListener(Protocol):
    """Receives the writer's reports, on the writer's thread."""

    def committed(self, writes: list[Pending], seconds: float) -> None: ...

    def failed(self, epoch: int, error: Exception) -> None:
        """The epoch has failed: its writes not yet reported as committed never will be."""

    def filled(self, full: bool) -> None:
        """The disk has room only for deletions, or for everything again."""

    def ended(self) -> None:
        """The file is closed."""


class Writer:
    """Owns the database from ``start()`` until it ended."""

    def __init__(self, database: Database, listener: WriterListener) -> None:
        self._database = database
        self._listener = listener
        self._queue: SimpleQueue[list[Pending] | Trim | FindRoom | Barrier | Stop] = SimpleQueue()
        self._left: deque[Pending] = deque()  # items taken from the queue, kept for later turns
        self._failed_epoch = -1
        self._evicted: list[DroppedChange] = []  # rows not removed yet, because the commit failed
        self._full = False  # the last report to the listener
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, item: list[Pending] | Trim | FindRoom | Barrier | Stop) -> None:
        """Submits items, many at a time: each call wakes the thread, which costs more than handling most items."""
        self._queue.put(item)

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        while True:
            turn = self._gather()
            if isinstance(turn.then, Trim):
                self._evicted += turn.then.evicted
            self._commit([write for write in turn.writes if write.epoch > self._failed_epoch])
            if isinstance(turn.then, FindRoom):
                self._database.find_room()
            self._tell_of_room()
            if isinstance(turn.then, Barrier):
                turn.then.passed()
            elif isinstance(turn.then, Stop):
                self._database.close()
                self._listener.ended()
                return

    def _gather(self) -> WriterTurn:
        turn, left = WriterTurn(), self._left
        size = 0
        while len(turn.writes) < MAX_WRITES and size < MAX_TRANSACTION_BYTES:
            if left:
                turn.writes.append(left.popleft())
                size += len(turn.writes[-1].record.data)
                continue
            try:
                item = self._queue.get(
                    block=not turn.writes, timeout=REST_SECONDS if self._database.restless else None
                )
            except Empty:
                if turn.writes:
                    break
                self._database.rest()
                continue
            if not isinstance(item, list):
                turn.then = item
                break
            left.extend(item)
        return turn

    def _commit(self, writes: list[Pending]) -> None:
        if writes:
            started = perf_counter()
            try:
                self._write(writes)
            except Exception as exc:  # any exception: if the writer died, everybody would wait for ever
                self._tell_of_room()
                self._failed_epoch = writes[-1].epoch
                self._listener.failed(self._failed_epoch, exc)
            else:
                self._tell_of_room()
                self._listener.committed(writes, perf_counter() - started)
        self._forget()

    def _write(self, writes: list[Pending]) -> None:
        """Commits writes and, if possible, removes rows in the same transaction."""
        if self._evicted:
            with suppress(Exception):
                self._database.commit(writes, self._evicted)
                self._evicted = []
                return
        self._database.commit(writes)

    def _forget(self) -> None:
        """Removes as many rows as fit in one transaction, perhaps few on a full disk. The rest waits for the next turn."""
        most = len(self._evicted)
        while self._evicted and most:
            try:
                self._database.commit((), self._evicted[:most])
                del self._evicted[:most]
            except Exception:
                most //= 2

    def _tell_of_room(self) -> None:
        if self._database.full is not self._full:
            self._full = self._database.full
            self._listener.filled(self._full)
