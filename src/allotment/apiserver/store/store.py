"""The state of the server: every object at its newest revision, the recent history, and the open watches.

There are two views. *Durable* is the fsynced state: reads and watches see only this. *Head* is the durable state plus the
writes on their way to disk: decisions about writes are based on it, without an await between decision and write, so there
are no races to retry. Writes of one turn of the event loop go to the writer together, and those that arrive while the disk
is busy are committed together. Then, in order, they become durable, watches receive them, and the writers get their
answers.

A failed commit reverts everything on its way to disk: the head is the durable state again, followers receive the inverse
of each write, newest first, and every waiter gets :class:`CommitFailed`. Later writes start from there.

Everything but :meth:`Store.open` runs on the event loop; the writer's thread hands results over to it. Only :meth:`Store.head`
may be asked from a thread that prepares a large write: what it gives may be old by then, which is looked at before the commit.

Invariants, re-derived by :meth:`Store.validate`: the state is the replay of the log in the file; keys are sorted; the
head is the state plus the writes on their way, whose revisions follow the durable one without a gap; the history has
every change after ``compacted``; the file has the rows that state and history need, and rows about to be removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from allotment.apiserver.store import backup
from allotment.apiserver.store.database import Database, check, check_pages, connect, no_room, read
from allotment.apiserver.store.errors import (
    CommitFailed,
    Compacted,
    Corrupt,
    DiskFull,
    LostWrites,
    ObjectTooLarge,
    Overloaded,
    StoreClosed,
)
from allotment.apiserver.store.history import DroppedChange, History, Window, superseded
from allotment.apiserver.store.lock import StoreLock
from allotment.apiserver.store.pending import Pending
from allotment.apiserver.store.record import Change, ChangeType, Key, Obj, Record
from allotment.apiserver.store.salvage import salvage
from allotment.apiserver.store.scope import Scope, covers
from allotment.apiserver.store.state import StoreState
from allotment.apiserver.store.stats import Stats
from allotment.apiserver.store.watch import Buffer, Watch, Watches
from allotment.apiserver.store.writer import Barrier, FindRoom, Stop, Trim, Writer

Follower = Callable[[Record | None, Record | None], None]
"""Called with the record before and after each write on the head. It must not raise, await or write."""

MAX_PENDING_WRITES = 100_000
MAX_PENDING_BYTES = 256 * 1024 * 1024
"""The most bytes on their way to disk; further writes are refused with :class:`Overloaded`."""

MAX_OBJECT = 4 * 1024 * 1024
"""The most bytes of one object. A request may have fewer, as the server adds to what it receives."""

TRIM_AT = 250
"""How many dropped changes accumulate before their rows are removed: a transaction for each would double the work."""

TRIM_MOST = 1000
"""The most dropped changes whose rows one transaction removes, so that no write waits long for it."""

ROOM_SECONDS = 1.0
"""On a full disk, the least time between two checks for room that refused writes cause."""

log = logging.getLogger(__name__)

_ENCODER = msgspec.json.Encoder()


def _encode(obj: Obj) -> bytes:
    """JSON in memory of exactly its size: the encoder's own result has room for half as much again."""
    return bytes(memoryview(_ENCODER.encode(obj)))


class Store:
    """The object store of the server. :meth:`open` creates it, :meth:`close` ends it."""

    def __init__(
        self, lock: StoreLock, database: Database, window: Window, buffer: Buffer, clock: Callable[[], float]
    ) -> None:
        self.path = database.path
        self.on_commit: Callable[[float, int], None] | None = None  # seconds and number of writes
        self._lock = lock
        self._database = database
        self._buffer = buffer
        self._clock = clock
        self._history = History(database.compacted, window)
        self._state = StoreState(self._replay(database))
        self.revision = max(database.compacted, self._newest)
        self._head_revision = self.revision
        self._ahead: dict[Key, Pending] = {}  # the newest write on its way to disk, by key
        self._in_flight: deque[Pending] = deque()
        self._in_flight_bytes = 0
        # the part of those that goes to the writer in the next turn of the loop
        self._unsent: list[Pending] = []
        self._epoch = 0
        self._followers: dict[str, list[Follower]] = {}
        self._watches = Watches(lambda: self.revision)
        self._garbage: list[DroppedChange] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self.full = database.full  # only deletions are accepted
        self._looked_for_room = 0.0  # in monotonic seconds
        self.failed_at: float | None = None  # when the newest commit failed, if it did, in monotonic seconds
        self._commits = self._writes = self._failures = self._last_writes = 0
        self._seconds = self._last_seconds = 0.0
        self._writer = Writer(database, self)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        window: Window | None = None,
        buffer: Buffer | None = None,
        clock: Callable[[], float] = time.time,
        expected: Path | None = None,
        accept_loss: bool = False,
    ) -> Store:
        """Opens the store in a file, which is created with its folder if it does not exist. Raises :class:`OpenError`.

        If the file ``expected`` exists, there must be a store next to it. With ``accept_loss``, a damaged or incomplete store
        continues with its readable parts. Reads the whole file. It needs no event loop; all later calls do.
        """
        lock = StoreLock(path)

        def load() -> Store:
            database = Database(path, expected)
            try:
                return cls(lock, database, window or Window(), buffer or Buffer(), clock)
            except BaseException:
                database.abandon()
                raise

        try:
            try:
                store = load()
            except (Corrupt, LostWrites) as exc:
                if not accept_loss:
                    raise
                saved = salvage(path)
                log.warning(
                    "%s: it goes on at revision %d with the %d objects that could be read; what was there is kept as %s",
                    exc.what,
                    saved.revision,
                    saved.objects,
                    saved.kept,
                )
                store = load()
        except BaseException:
            lock.release()
            raise
        store._writer.start()
        store._trim(store._history.trim(clock()))
        return store

    async def close(self) -> None:
        """Ends watches, finishes the writes on their way to disk, closes the file and releases the lock. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._watches.close()
        self._collect(at_least=1)
        self._bind()
        self._send()
        self._writer.submit(Stop())
        await asyncio.to_thread(self._writer.join)

    # Reads: durable

    @property
    def compacted(self) -> int:
        """The oldest revision from which watches can resume and lists can be made."""
        return self._history.compacted

    def get(self, key: Key) -> Record | None:
        return self._state.get(key)

    def list(self, resource: str, namespace: str = "") -> list[Record]:
        """All records of a resource, or of one namespace of it, sorted by namespace and name. The caller may keep the list."""
        return self._state.list(resource, namespace)

    def count(self, resource: str) -> int:
        """How many records of a resource exist, in all namespaces."""
        return self._state.count(resource)

    def list_at(self, resource: str, namespace: str, revision: int) -> Sequence[Record]:
        """The list as it was at a revision, not above the durable one. Raises :class:`Compacted`."""
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        if revision > self.revision:
            raise ValueError(f"revision {revision} is not there yet; the newest is {self.revision}")
        undone: dict[Key, Record | None] = {}
        for change in self._history.undo(resource, revision):
            if not namespace or change.record.key.namespace == namespace:
                undone[change.record.key] = change.previous
        current = self._state.list(resource, namespace)
        if not undone:
            return current
        kept = [record for record in current if record.key not in undone]
        kept += [record for record in undone.values() if record is not None]
        kept.sort(key=lambda record: record.key)
        return kept

    # The head, and writes

    def head(self, key: Key) -> Record | None:
        """The newest record, including writes on their way to disk."""
        ahead = self._ahead.get(key)
        return self._state.get(key) if ahead is None else _after(ahead.change)

    def on_its_way(self, key: Key) -> Pending | None:
        """The newest write of an object while it is not durable: answers based on the head must wait for it."""
        return self._ahead.get(key)

    def heads(self, resource: str, namespace: str = "") -> Iterable[Record]:
        """The newest records, including writes on their way to disk, sorted like :meth:`list`."""
        current = self._state.list(resource, namespace)
        scope = Scope(resource, namespace, "")
        ahead = {k: p for k, p in self._ahead.items() if covers(scope, k)}
        if not ahead:
            return current
        newest = [record for record in current if record.key not in ahead]
        newest += [record for record in (_after(p.change) for p in ahead.values()) if record is not None]
        newest.sort(key=lambda record: record.key)
        return newest

    def put(self, key: Key, obj: Obj) -> Pending:
        """Stores an object, new or changed, and writes its revision into it.

        It is on the head when this returns, and durable when the result was awaited. Raises :class:`Overloaded`,
        :class:`ObjectTooLarge` or :class:`Closed`, and then did nothing.
        """
        previous = self.head(key)
        return self._write(ChangeType.MODIFIED if previous else ChangeType.ADDED, key, obj, previous)

    def delete(self, key: Key, obj: Obj) -> Pending:
        """Removes an object, which must exist. ``obj`` is its last state, and gets the revision of the deletion."""
        previous = self.head(key)
        if previous is None:
            raise LookupError(f"{key} is not there, so it cannot be deleted")
        return self._write(ChangeType.DELETED, key, obj, previous)

    def follow(self, resource: str, follower: Follower) -> None:
        """Calls the follower for every record on the head now, and for every write as it enters the head.

        After a failed commit it is called with the inverse of each write, newest first. An empty ``resource`` means all.
        """
        resources = {resource} if resource else {*self._state.resources(), *(k.resource for k in self._ahead)}
        for each in sorted(resources):
            for record in self.heads(each):
                follower(None, record)
        self._followers.setdefault(resource, []).append(follower)

    def _write(self, type_: ChangeType, key: Key, obj: Obj, previous: Record | None) -> Pending:
        if self._closed:
            raise StoreClosed("the store was closed")
        if self._in_flight_bytes > MAX_PENDING_BYTES or len(self._in_flight) >= MAX_PENDING_WRITES:
            raise Overloaded(f"{len(self._in_flight)} writes wait for the disk")
        loop = self._bind()
        if self.full and not _makes_room(type_, obj):
            self._look_for_room()
            raise DiskFull(self.path)
        revision = self._head_revision + 1
        obj["metadata"]["resourceVersion"] = str(revision)
        key = previous.key if previous else Key(sys.intern(key.resource), sys.intern(key.namespace), key.name)
        record = Record(key, revision, _encode(obj))
        if type_ is not ChangeType.DELETED:
            check_size(record, previous)
        pending = Pending(Change(type_, record, previous), self._clock(), self._epoch)
        self._head_revision = revision
        self._ahead[key] = pending
        self._in_flight.append(pending)
        self._in_flight_bytes += len(record.data)
        if not self._unsent:
            loop.call_soon(self._send)
        self._unsent.append(pending)
        record.at_hand = obj
        self._tell(key.resource, previous, None if type_ is ChangeType.DELETED else record)
        record.at_hand = None
        return pending

    def _look_for_room(self) -> None:
        if time.monotonic() - self._looked_for_room > ROOM_SECONDS:
            self._looked_for_room = time.monotonic()
            self._writer.submit(FindRoom())

    def _send(self) -> None:
        """Hands all writes of a turn to the writer together, as a commit for each would cost more than the writes."""
        unsent, self._unsent = self._unsent, []
        if unsent:
            self._writer.submit(unsent)

    def _tell(self, resource: str, before: Record | None, after: Record | None) -> None:
        for follower in self._followers.get(resource, ()):
            follower(before, after)
        for follower in self._followers.get("", ()):
            follower(before, after)

    def _bind(self) -> asyncio.AbstractEventLoop:
        """Binds the store to the loop that writes. A store may outlive a loop if nothing is on its way to disk."""
        if self._loop is None or not self._in_flight:
            self._loop = asyncio.get_running_loop()
        return self._loop

    # The writer's reports, first on its thread, then on the loop

    def committed(self, writes: Sequence[Pending], seconds: float) -> None:
        self._call(lambda: self._settle(writes, seconds))

    def failed(self, epoch: int, error: Exception) -> None:
        self._call(lambda: self._take_back(epoch, error))

    def filled(self, full: bool) -> None:
        self._call(lambda: self._become_full(full))

    def ended(self) -> None:
        self._lock.release()

    def _call(self, callback: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it everybody who waits
            assert self._loop is not None
            self._loop.call_soon_threadsafe(callback)

    def _settle(self, writes: Sequence[Pending], seconds: float) -> None:
        self.failed_at = None
        self._commits += 1
        self._writes += len(writes)
        self._last_writes = len(writes)
        self._seconds += seconds
        self._last_seconds = seconds
        for pending in writes:
            self._in_flight.popleft()
            self._become_durable(pending)
        for pending in writes:
            pending.settle()
        self._trim(self._history.trim(self._clock()))
        if self.full:
            self._forget_all()
        if self.on_commit is not None:
            self.on_commit(seconds, len(writes))

    def _become_full(self, full: bool) -> None:
        self.full = full
        if full:
            log.error("%s", DiskFull(self.path))
            self._forget_all()
        else:
            log.warning("there is room again on the disk that holds the store %s", self.path)

    def _forget_all(self) -> None:
        """Drops the history: on a full disk there is no room for it, and deletions then free space at once."""
        self._trim(self._history.compact(self.revision))
        self._collect(at_least=1)

    def _become_durable(self, pending: Pending) -> None:
        change = pending.change
        record = change.record
        self._in_flight_bytes -= len(record.data)
        if change.type is ChangeType.DELETED:
            self._state.remove(record.key)
        else:
            self._state.put(record)
        if self._ahead[record.key] is pending:  # after the state, for threads that read the head
            del self._ahead[record.key]
        self.revision = record.revision
        self._history.append(change, pending.created)
        self._watches.dispatch(self._history.share(change))

    def _take_back(self, epoch: int, error: Exception) -> None:
        assert epoch == self._epoch
        self._epoch += 1
        self._failures += 1
        self.failed_at = time.monotonic()
        failed = list(self._in_flight)
        self._in_flight.clear()
        self._in_flight_bytes = 0
        self._ahead.clear()
        self._head_revision = self.revision
        for pending in reversed(failed):
            change = pending.change
            self._tell(change.record.key.resource, _after(change), change.previous)
        for pending in failed:
            failure = (
                DiskFull(self.path, used_up=pending.change.type is ChangeType.DELETED)
                if isinstance(error, sqlite3.Error) and no_room(error)
                else CommitFailed(f"the store {self.path} could not be written: {error}")
            )
            failure.__cause__ = error
            pending.settle(failure)

    # Watches

    def watch(self, resource: str, namespace: str = "", name: str = "", *, since: int) -> Watch:
        """The changes after a revision, from the history and then as they become durable. Raises :class:`Compacted`.

        With a name and no namespace it covers that name in every namespace.
        """
        if self._closed:
            raise StoreClosed("the store was closed")
        if since < self.compacted:
            raise Compacted(since, self.compacted)
        scope = Scope(resource, namespace, name)
        watch = Watch(scope, since, self._history.since(scope, since), self._buffer, self._watches)
        self._watches.add(watch)
        return watch

    def end_watches(self, resource: str) -> None:
        """Ends the watches of a removed resource; new requests for it get an error."""
        self._watches.close(resource)

    # Compaction and backup

    async def compact(self, revision: int) -> None:
        """Drops history up to a revision (at most the durable one), in memory and on disk.

        The store does so by itself within the limits of its :class:`Window`; this method does it at once.
        """
        if self._closed:
            raise StoreClosed("the store was closed")
        self._trim(self._history.compact(revision))
        self._collect(at_least=1)
        self._bind()
        self._send()
        passed = asyncio.get_running_loop().create_future()
        self._writer.submit(Barrier(lambda: self._call(lambda: _resolve(passed))))
        await passed

    async def backup(self, path: Path) -> None:
        """Writes a consistent copy to a file, completely or not at all. Other writes continue meanwhile."""
        await asyncio.to_thread(backup.copy, self.path, path)

    def _trim(self, evicted: Iterable[DroppedChange]) -> None:
        self._garbage += evicted
        self._collect(at_least=TRIM_AT)

    def _collect(self, at_least: int) -> None:
        while len(self._garbage) >= at_least:
            self._writer.submit(Trim(self._garbage[:TRIM_MOST]))
            del self._garbage[:TRIM_MOST]

    # Opening, numbers, invariants

    def _replay(self, database: Database) -> Iterable[Record]:
        current: dict[Key, Record] = {}
        self._newest = 0
        for row in database.rows():
            record = row.record
            previous = current.get(record.key)
            if previous is not None:
                record.key = previous.key
            if record.revision > database.compacted:
                self._history.append(Change(row.type, record, previous), row.created)
            if row.type is ChangeType.DELETED:
                current.pop(record.key, None)
            else:
                current[record.key] = record
            self._newest = record.revision
        return current.values()

    @property
    def stats(self) -> Stats:
        return Stats(
            commits=self._commits,
            commit_seconds=self._seconds,
            last_commit_seconds=self._last_seconds,
            last_commit_writes=self._last_writes,
            writes=self._writes,
            failures=self._failures,
            pending=len(self._in_flight),
            pending_bytes=self._in_flight_bytes,
            objects=len(self._state),
            bytes=self._state.bytes,
            history=len(self._history),
            history_bytes=self._history.bytes,
            watches=len(self._watches),
            revision=self.revision,
            compacted=self.compacted,
        )

    def validate(self) -> None:
        """Checks the invariants from scratch; with nothing on its way to disk, against the file too. For tests."""
        self._state.validate()
        self._history.validate(self.revision)
        self._watches.validate()
        revisions = [pending.record.revision for pending in self._in_flight]
        assert revisions == list(range(self.revision + 1, self._head_revision + 1)), "the head has a gap"
        assert self._ahead == {pending.record.key: pending for pending in self._in_flight}
        assert self._in_flight_bytes == sum(len(pending.record.data) for pending in self._in_flight)
        if not self._in_flight and not self._closed:
            self._validate_file()

    def _validate_file(self) -> None:
        with contextlib.closing(connect(self.path)) as db:
            db.execute("BEGIN")  # one snapshot, as the writer may be removing rows
            check_pages(self.path, db)
            rows = list(read(self.path, db, check(self.path, db)))
        replayed: dict[Key, Record] = {}
        for row in rows:
            replayed[row.record.key] = row.record
            if row.type is ChangeType.DELETED:
                del replayed[row.record.key]
        state = [record for resource in self._state.resources() for record in self._state.list(resource)]
        assert {r.key: (r.revision, r.data) for r in replayed.values()} == {
            r.key: (r.revision, r.data) for r in state
        }, "the state is not the replay of the log"
        needed = {record.revision for record in state}
        for change in self._history:
            needed |= {change.revision, *superseded(change)}
        found = {row.record.revision for row in rows}
        assert needed <= found, f"rows {needed - found} are missing"
        assert all(row <= self.compacted for row in found - needed), f"rows {found - needed} are surplus"


def check_size(record: Record, previous: Record | None) -> None:
    """Raises :class:`ObjectTooLarge`. An object that is already too large may keep its size or shrink."""
    before = len(previous.data) if previous is not None else 0
    if len(record.data) > max(MAX_OBJECT, before):
        raise ObjectTooLarge(MAX_OBJECT)


def _makes_room(type_: ChangeType, obj: Obj) -> bool:
    """Whether a write is a deletion or a step towards one: finalizers are removed one by one."""
    return type_ is ChangeType.DELETED or "deletionTimestamp" in obj["metadata"]


def _after(change: Change) -> Record | None:
    """The record that exists after a change."""
    return None if change.type is ChangeType.DELETED else change.record


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
