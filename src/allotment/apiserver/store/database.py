"""The SQLite file: a log of revisions, and a summary of its compacted part.

``revisions`` has a row for each write; the newest row of a key is its state, unless it is a deletion. ``meta`` has the
schema's version and the compacted revision C. Compaction removes rows up to C that a row up to C supersedes, and
deletions up to C; so for every change after C the state before it is known, and rows after C have no gap.

Journal mode WAL with synchronous=FULL: a finished transaction is on disk, an unfinished one leaves no trace, whenever the
process or the machine stops. Still, disks lose and change bytes, and SQLite does not notice. So each row has a checksum;
``meta`` counts and sums up the rows that may have gaps between them; and the mark (see ``mark``) says how far the log must
reach. :func:`examine` compares all of these before the file is opened for writing.

A stopped machine may have lost data that its disk only claimed to have. Then the store continues without history, above
every revision that can have been given out.

Not thread safe: the opening thread hands it over to the writer's thread.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from allotment.apiserver.store.errors import Corrupt, LostWrites, OpenError, TooNew, Unwritable
from allotment.apiserver.store.history import DroppedChange
from allotment.apiserver.store.mark import Mark, Progress
from allotment.apiserver.store.mark import path_of as mark_path
from allotment.apiserver.store.mark import read as read_mark
from allotment.apiserver.store.pending import Pending
from allotment.apiserver.store.record import ChangeType, Key, Record
from allotment.apiserver.store.reserve import DiskReserve

log = logging.getLogger(__name__)

SCHEMA = 2
"""The version of the file format. A file with a higher one is refused; see :func:`upgrade` for a lower one."""

FIRST_REVISION = 1
"""The revision of an empty store; to clients, 0 means "any"."""

SMALLEST = 512
"""The least bytes of a database with any content. SQLite treats a file of one byte as empty."""

PAGE_BYTES = 4096
"""Bytes of a page, SQLite's default."""

LOG_PAGES = 2000
"""Pages after which the write-ahead log moves into the file: fewer, longer pauses than with SQLite's 1000."""

LARGE_COMMIT = 256 * 1024
"""Bytes of writes up to which a commit is one statement: SQLite keeps the values of each cached statement."""

_CREATE = f"""
BEGIN IMMEDIATE;
CREATE TABLE revisions (
    revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    type TEXT NOT NULL, created REAL NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('schema', {SCHEMA}), ('compacted', {FIRST_REVISION}),
    ('marked', 0), ('count', 0), ('checksums', 0);
COMMIT;
"""

SELECT = "SELECT revision, resource, namespace, name, type, created, checksum, data FROM revisions"

BROKEN = (sqlite3.Error, UnicodeDecodeError)
"""Exceptions from a damaged file: SQLite's messages may quote bytes of it that are not text."""

_FREE = ("freelist_count", "page_size")

_UNREADABLE = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS)

_TYPES = {type_.value: type_ for type_ in ChangeType}


class LogRow:
    """A verified row of the log."""

    __slots__ = ("created", "record", "type")

    def __init__(self, type_: ChangeType, record: Record, created: float) -> None:
        self.type = type_
        self.record = record
        self.created = created


class Meta(NamedTuple):
    """The file's description of itself. Rows up to ``compacted`` may have gaps, so it contains their count."""

    compacted: int
    marked: bool  # whether a mark belongs to the file
    rows: int | None  # up to ``compacted``; none in a file of the first form
    checksums: int  # their sum


class Database:
    """An open file, and in ``compacted`` the revision up to which its log was forgotten.

    ``full`` is true once the disk is full and the space reserved for deletions is in use.
    """

    def __init__(self, path: Path, expected: Path | None = None) -> None:
        """Opens or creates the file and checks it, and its log against its mark. Raises :class:`OpenError`."""
        self.path = path
        self.full = False
        progress, self._rows = examine(path, expected)
        self.reserve = DiskReserve(path)
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # objects hold secrets
            self.connection = connect(path)
        except OSError as exc:
            raise Unwritable(path, f"the store {path} cannot be opened for writing: {exc.strerror}") from exc
        try:
            self._prepare(progress)
        except BROKEN as exc:
            self.connection.close()
            raise translate(path, exc) from exc
        except OpenError:
            self.connection.close()
            raise
        self.full = not self.reserve.take()

    def _prepare(self, progress: Progress | None) -> None:
        db = self.connection
        if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            create(db)
        upgrade(db)
        meta = check(self.path, db)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA wal_autocheckpoint = {min(LOG_PAGES, self.reserve.size // 2 // PAGE_BYTES)}")
        db.execute("PRAGMA journal_size_limit = 67108864")
        if progress is not None and not progress.certain:
            begin_anew(self.path, db, progress.reserved)
            meta = check(self.path, db)
            self._rows = list(read(self.path, db, meta))
        self.compacted = meta.compacted
        self._mark = Mark(self.path, newest(db))
        if not meta.marked:
            db.execute("UPDATE meta SET value = 1 WHERE name = 'marked'")

    def rows(self) -> list[LogRow]:
        """The whole log in order, as it was when the file was opened. It can be read once."""
        rows, self._rows = self._rows, []
        return rows

    def commit(self, writes: Sequence[Pending], evicted: Sequence[DroppedChange] = ()) -> None:
        """Makes writes durable and removes rows that left the history, all or nothing. Raises ``sqlite3.Error`` or ``OSError``.

        A commit for which the disk has no room is tried once more, with the room that was kept for deletions, or when that is
        used up, with the write-ahead log begun anew in the place that it has.
        """
        if writes:
            self._mark.reserve(writes[-1].record.revision)
        try:
            self._commit(writes, evicted)
        except sqlite3.OperationalError as exc:
            if not no_room(exc):
                raise
            self.full = True
            if not self.reserve.release():
                self._rewind()
            self._commit(writes, evicted)
        if writes:
            self._note(writes[-1].record.revision)
        if not self.reserve.held:
            self.find_room()

    def _commit(self, writes: Sequence[Pending], evicted: Sequence[DroppedChange]) -> None:
        """Every call into SQLite gives up the interpreter and may wait for a busy event loop to get it back, so the usual
        commit is a single statement. A revision that is already there is refused by the primary key: should a commit
        that SQLite reported as failed be found on disk after all, nothing is written over it.
        """
        db = self.connection
        if db.in_transaction:  # left over from a failed commit; nothing inside it would become durable
            db.execute("ROLLBACK")
        rows = [_values(write.record, write.change.type, write.created) for write in writes]
        large = sum(len(write.record.data) for write in writes) > LARGE_COMMIT
        if not evicted and not large:
            db.execute(_insert(len(rows)), [value for row in rows for value in row])
            return
        db.execute("BEGIN IMMEDIATE")
        db.executemany(_insert(1), rows)
        if evicted:
            forget(db, [row for each in evicted for row in each.rows], evicted[-1].revision)
        db.execute("COMMIT")
        if evicted:
            self.compacted = evicted[-1].revision

    def _rewind(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        with suppress(sqlite3.Error):
            self.connection.execute("PRAGMA wal_checkpoint(RESTART)")

    def _note(self, revision: int) -> None:
        """Records the commit in the mark. The commit is on disk, so a failure here is not reported."""
        try:
            self._mark.note(revision)
        except OSError as exc:
            log.warning("a write was committed, but %s could not be written: %s", self._mark.path, exc)

    def find_room(self) -> None:
        """Looks whether there is room for more than deletions: on the disk, or in pages of the file that were freed. Of those it
        takes more to be well again than to stay so."""
        enough = self.reserve.size if self.full else self.reserve.size // 2
        self.full = not self.reserve.take() and self._free() < enough

    def _free(self) -> int:
        try:
            return math.prod(self.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _FREE)
        except sqlite3.Error:
            return 0

    @property
    def restless(self) -> bool:
        """Whether :meth:`rest` has anything to do."""
        return self._mark.unsynced

    def rest(self) -> None:
        """Does postponed work after a moment without writes."""
        try:
            self._mark.sync()
        except OSError as exc:
            log.warning("%s could not be synced: %s", self._mark.path, exc)

    def abandon(self) -> None:
        """Closes a faulty file; its mark continues to show that it was not closed in good order."""
        self.connection.close()
        self.reserve.release()

    def close(self) -> None:
        """Closes the file and moves the write-ahead log into it, so that it is self-contained."""
        self.connection.close()
        try:
            self._mark.close()
        except OSError as exc:
            log.warning("%s could not be written: %s", self._mark.path, exc)
        self.reserve.release()


def examine(path: Path, expected: Path | None = None) -> tuple[Progress | None, list[LogRow]]:
    """Checks a store that is not open, and compares it with its mark. Raises :class:`OpenError`.

    Returns the content of the mark, and all rows. It changes nothing, whereas SQLite would truncate a damaged log at what
    it takes for the end.
    """
    progress, damaged = None, None
    try:
        progress = read_mark(path)
    except Corrupt as exc:  # perhaps an unfinished mark of a store that never used it
        damaged = exc
    used = damaged is not None
    found, rows = FIRST_REVISION, list[LogRow]()
    try:
        if path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        if size_of(path):
            if size_of(path) < SMALLEST:
                raise Corrupt(path, "it is not a database")
            with closing(connect_to_read(path)) as db:
                if db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                    meta = check(path, db)
                    found, used = newest(db), meta.marked
                    _compare(
                        path, found, progress
                    )  # this comes first: people need to know about loss more than about damage
                    check_pages(path, db)
                    rows = list(read(path, db, meta))
        elif progress is None:
            _expect_none(path, expected)
        if used and progress is None:
            what = f"{mark_path(path).name} is not beside it, so nobody can tell whether writes are missing"
            raise damaged or Corrupt(path, what)
        _compare(path, found, progress)
    except BROKEN as exc:
        raise translate(path, exc) from exc
    except OSError as exc:
        raise Unwritable(path, f"the store {path} cannot be opened for writing: {exc.strerror}") from exc
    return progress, rows


def _compare(path: Path, found: int, progress: Progress | None) -> None:
    """Checks that a log up to ``found`` reaches its mark. Raises :class:`LostWrites`.

    Raises :class:`Corrupt` if the mark is an older one, which proves nothing.
    """
    if progress is None:
        return
    if found < progress.acknowledged:
        raise LostWrites(path, found + 1, progress.acknowledged, _culprit(path, progress))
    if found > (progress.acknowledged if progress.closed else progress.reserved):
        what = f"{mark_path(path).name} beside it is of an earlier time, so nobody can tell whether writes are missing"
        raise Corrupt(path, what)


def _culprit(path: Path, progress: Progress) -> str:
    """The file of a store that must have lost writes, and how."""
    wal = wal_path(path)
    for file in [path] if progress.closed else [path, wal]:
        if not size_of(file):
            return f"{file.name} is {'empty' if file.exists() else 'missing'}"
    return (
        f"{path.name} is damaged, or an older one"
        if progress.closed
        else f"{wal.name} is damaged, or was cut"
    )


def _expect_none(path: Path, expected: Path | None) -> None:
    """Raises :class:`Corrupt` if there are remains of a store but no store."""
    signs = [expected] if expected is not None and expected.exists() else []
    signs += [wal_path(path)] if size_of(wal_path(path)) else []
    for sign in signs:
        state = "empty" if path.exists() else "not there"
        raise Corrupt(path, f"it is {state}, although {sign} shows that a server has run here")


def size_of(path: Path) -> int:
    """The size of a file; 0 if there is none."""
    return path.stat().st_size if path.exists() else 0


def wal_path(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def create(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(_CREATE)


def connect(path: Path) -> sqlite3.Connection:
    """A connection whose caller controls transactions. The file must exist."""
    return _connect(path, "mode=rw")


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, neither while it is open nor when it is closed, and leaves no files behind."""
    return _connect(path, "mode=ro" if wal_path(path).exists() else "mode=ro&immutable=1")


def _connect(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
        timeout=5,
    )


def check(path: Path, db: sqlite3.Connection) -> Meta:
    """The meta data of a file, which must be a store of a known version. Raises :class:`OpenError`."""
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not {"meta", "revisions"} <= tables:
        raise Corrupt(path, "it is a database of something else")
    meta = dict(db.execute("SELECT name, value FROM meta"))
    schema = meta.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise TooNew(
            path,
            f"the store {path} has form {schema} and this version of Allotment knows forms up to {SCHEMA}. "
            f"Use the version that wrote it, or a newer one",
        )
    wanted = ("compacted",) if schema == 1 else ("compacted", "marked", "count", "checksums")
    sound = isinstance(schema, int) and all(isinstance(meta.get(name), int) for name in wanted)
    if not sound or meta["compacted"] < FIRST_REVISION:
        raise Corrupt(path, f"its meta table is damaged ({meta})")
    return Meta(
        meta["compacted"], bool(meta.get("marked")), meta.get("count"), int(meta.get("checksums") or 0)
    )


def check_pages(path: Path, db: sqlite3.Connection) -> None:
    """Checks that SQLite can traverse the file. Raises :class:`Corrupt`."""
    verdict = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise Corrupt(path, f"it is damaged ({' '.join(verdict.split())})")


def newest(db: sqlite3.Connection) -> int:
    """The newest revision."""
    found: int = db.execute(
        "SELECT max(value) FROM (SELECT max(revision) AS value FROM revisions UNION SELECT value FROM meta WHERE name = 'compacted')"
    ).fetchone()[0]
    return found


def read(path: Path, db: sqlite3.Connection, meta: Meta) -> Iterator[LogRow]:
    """The rows of a log, each checked. Up to the compacted revision they are counted; after it none may be missing. Raises
    :class:`Corrupt`."""
    expected = meta.compacted
    count = checksums = 0
    there: set[Key] = set()
    for values in db.execute(SELECT + " ORDER BY revision"):
        revision = values[0]
        if revision > meta.compacted:
            expected += 1
            if revision != expected:
                raise Corrupt(path, f"revision {expected} is missing")
        row = row_of(values)
        if row is None:
            raise Corrupt(path, f"revision {revision} ({values[1]} {values[2]}/{values[3]}) is damaged")
        key = row.record.key
        if revision <= meta.compacted:
            count += 1
            checksums += values[6]
        elif (key in there) is (row.type is ChangeType.ADDED):
            raise Corrupt(path, f"the state before revision {revision} is missing")
        if row.type is ChangeType.DELETED:
            there.discard(key)
        else:
            there.add(key)
        yield row
    if meta.rows is not None and (count, checksums) != (meta.rows, meta.checksums):
        raise Corrupt(
            path,
            f"its meta table tells of {meta.rows} objects written up to revision {meta.compacted}, and it has {count}"
            + ("" if count != meta.rows else ", and they are not those"),
        )


def row_of(values: tuple[Any, ...]) -> LogRow | None:
    """A row as it was selected; none if it is damaged: then it may have values of any type."""
    revision, resource, namespace, name, type_, created, checksum, data = values
    try:
        key = Key(sys.intern(resource), sys.intern(namespace), name)
        if checksum != _checksum(key, revision, type_, data) or not isinstance(created, float):
            return None
        return LogRow(_TYPES[type_], Record(key, revision, data), created)
    except (TypeError, ValueError, KeyError):
        return None


def forget(db: sqlite3.Connection, rows: Iterable[int], compacted: int) -> None:
    """Removes rows and moves the compacted revision, inside the caller's transaction."""
    doomed = json.dumps(list(rows))
    among = "revision IN (SELECT value FROM json_each(?))"
    new = "revision > (SELECT value FROM meta WHERE name = 'compacted') AND revision <= ?"
    more = _summed(db, new, compacted)
    less = _summed(db, among, doomed)
    db.execute(f"DELETE FROM revisions WHERE {among}", (doomed,))
    for name, change in zip(
        ("count", "checksums"), (m - n for m, n in zip(more, less, strict=True)), strict=True
    ):
        db.execute("UPDATE meta SET value = value + ? WHERE name = ?", (change, name))
    db.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (compacted,))


def _summed(db: sqlite3.Connection, which: str, value: int | str) -> tuple[int, int]:
    """How many rows there are, and the sum of their checksums."""
    count, checksums = db.execute(
        f"SELECT count(*), coalesce(sum(checksum), 0) FROM revisions WHERE {which}", (value,)
    ).fetchone()
    return count, checksums


def begin_anew(path: Path, db: sqlite3.Connection, revision: int) -> None:
    """Continues at a revision above all known ones, without history. Raises :class:`Corrupt`.

    Every earlier watch and continued list gets 410 Gone, and lists again.
    """
    current: dict[Key, int] = {}
    outdated: list[int] = []
    for row in read(path, db, check(path, db)):
        superseded = current.pop(row.record.key, None)
        if superseded is not None:
            outdated.append(superseded)
        if row.type is ChangeType.DELETED:
            outdated.append(row.record.revision)
        else:
            current[row.record.key] = row.record.revision
    db.execute("BEGIN IMMEDIATE")
    forget(db, outdated, revision)
    db.execute("COMMIT")


def fill(db: sqlite3.Connection, rows: Iterable[LogRow], revision: int) -> None:
    """Writes the newest rows of objects into an empty store, which continues at a revision above theirs."""
    db.execute("BEGIN IMMEDIATE")
    db.executemany(_insert(1), [_values(row.record, row.type, row.created) for row in rows])
    forget(db, (), revision)
    db.execute("COMMIT")


def upgrade(db: sqlite3.Connection) -> None:
    """Upgrades a file of the first format, which had no counts."""
    if db.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone() != (1,):
        return
    db.execute("BEGIN IMMEDIATE")
    counted = _summed(
        db, "revision <= (SELECT value FROM meta WHERE name = 'compacted') AND ? IS NOT NULL", 0
    )
    db.executemany(
        "INSERT OR REPLACE INTO meta VALUES (?, ?)",
        [("schema", SCHEMA), ("marked", 0), ("count", counted[0]), ("checksums", counted[1])],
    )
    db.execute("COMMIT")


def translate(path: Path, exc: Exception) -> OpenError:
    """Translates SQLite's errors on opening and reading a file into ours."""
    code = _code(exc)
    if code == sqlite3.SQLITE_NOTADB:
        return Corrupt(path, "it is not a database")
    if getattr(exc, "sqlite_errorcode", 0) in _UNREADABLE:
        return Corrupt(path, f"the disk cannot read it ({exc})")
    if no_room(exc):
        return Unwritable(path, f"the store {path} cannot be opened: its disk is full. Free some space on it")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR):
        return Unwritable(path, f"the store {path} cannot be opened for writing: {exc}")
    return Corrupt(path, f"it is damaged ({exc})")


def _code(exc: Exception) -> int:
    code: int = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    return code


def no_room(exc: Exception) -> bool:
    """Whether an error means that the disk is full."""
    code = getattr(exc, "sqlite_errorcode", 0)
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)


@cache
def _insert(rows: int) -> str:
    return "INSERT INTO revisions VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * rows)


def _values(record: Record, type_: ChangeType, created: float) -> tuple[object, ...]:
    key, revision, data = record.key, record.revision, record.data
    return (revision, *key, type_.value, created, _checksum(key, revision, type_.value, data), data)


def _checksum(key: Key, revision: int, type_: str, data: bytes) -> int:
    return crc32(data, crc32(f"{revision}\0{type_}\0{key.resource}\0{key.namespace}\0{key.name}".encode()))
