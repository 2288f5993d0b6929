"""The SQLite file: a log of revisions, and what the log has forgotten.

``revisions`` has a row for each write; the newest row of a key is its state, unless it is a deletion. ``meta`` has the
schema's version and the compacted revision C. Compaction removes rows up to C that a row up to C supersedes, and
deletions up to C; so for every change after C the state before it is known, and rows after C have no gap.

Journal mode WAL with synchronous=FULL: a transaction that returned is on disk, one that did not leaves no trace, whenever
the process or the machine stops. A checksum in each row finds what SQLite does not: bytes that changed on disk.

Not thread safe: whoever opened it hands it to the writer's thread.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from zlib import crc32

from allotment.apiserver.store.errors import Corrupt, OpenError, TooNew, Unwritable
from allotment.apiserver.store.history import Evicted
from allotment.apiserver.store.pending import Pending
from allotment.apiserver.store.record import ChangeType, Key, Record

SCHEMA = 1
"""Version of the file's form. A file with a higher one is refused; one with a lower one would be migrated here."""

FIRST_REVISION = 1
"""Of an empty store; clients take 0 for "any"."""

SMALLEST = 512
"""Bytes of a database with anything in it. SQLite takes a file of one byte for an empty one."""

LARGE = 256 * 1024
"""Bytes of writes up to which a commit is one statement: SQLite keeps the values of each statement that it remembers."""

_CREATE = f"""
BEGIN IMMEDIATE;
CREATE TABLE revisions (
    revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    type TEXT NOT NULL, created REAL NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('schema', {SCHEMA}), ('compacted', {FIRST_REVISION});
COMMIT;
"""

_TYPES = {type_.value: type_ for type_ in ChangeType}


class Row:
    """A row of the log, checked."""

    __slots__ = ("created", "record", "type")

    def __init__(self, type_: ChangeType, record: Record, created: float) -> None:
        self.type = type_
        self.record = record
        self.created = created


class Database:
    """An open file, and in ``compacted`` the revision up to which its log was forgotten."""

    def __init__(self, path: Path) -> None:
        """Opens or creates the file and checks it. Raises :class:`OpenError`."""
        self.path = path
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # objects hold secrets
            if 0 < path.stat().st_size < SMALLEST:
                raise Corrupt(path, "it is not a database")
            self.connection = connect(path)
        except OSError as exc:
            raise Unwritable(path, f"the store {path} cannot be opened for writing: {exc.strerror}") from exc
        try:
            self.compacted = self._prepare()
        except sqlite3.Error as exc:
            self.connection.close()
            raise translate(path, exc) from exc
        except OpenError:
            self.connection.close()
            raise

    def _prepare(self) -> int:
        db = self.connection
        if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(_CREATE)
        compacted = check(self.path, db)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA wal_autocheckpoint = 2000")  # pages: fewer, longer pauses than SQLite's 1000
        db.execute("PRAGMA journal_size_limit = 67108864")
        return compacted

    def rows(self) -> Iterator[Row]:
        """The whole log in order. Raises :class:`Corrupt` at a row that is damaged, or missing."""
        try:
            yield from read(self.path, self.connection, self.compacted)
        except sqlite3.Error as exc:
            raise translate(self.path, exc) from exc

    def commit(self, writes: Sequence[Pending], evicted: Sequence[Evicted] = ()) -> None:
        """Makes writes durable and forgets what left the history, all or nothing. Raises ``sqlite3.Error``.

        Every call into SQLite gives up the interpreter and may wait for a busy event loop to get it back, so the usual
        commit is a single statement. A revision that is already there is refused by the primary key: should a commit
        that SQLite reported as failed be found on disk after all, nothing is written over it.
        """
        db = self.connection
        if db.in_transaction:  # left by a commit that failed; in it nothing would become durable
            db.execute("ROLLBACK")
        rows = [_values(write) for write in writes]
        large = sum(len(write.record.data) for write in writes) > LARGE
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

    def close(self) -> None:
        """Also moves the write-ahead log into the file, which then is complete by itself."""
        self.connection.close()


def connect(path: Path) -> sqlite3.Connection:
    """A connection whose transactions are the caller's. The file must exist."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=64, timeout=5
    )


def check(path: Path, db: sqlite3.Connection) -> int:
    """The compacted revision of a file that is a sound store of a known version. Raises :class:`OpenError`."""
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not {"meta", "revisions"} <= tables:
        raise Corrupt(path, "it is a database of something else")
    meta = dict(db.execute("SELECT name, value FROM meta"))
    schema, compacted = meta.get("schema"), meta.get("compacted")
    if not isinstance(schema, int) or not isinstance(compacted, int) or compacted < FIRST_REVISION:
        raise Corrupt(path, f"its meta table is damaged ({meta})")
    if schema > SCHEMA:
        raise TooNew(
            path,
            f"the store {path} has form {schema} and this version of Allotment knows forms up to {SCHEMA}. "
            f"Use the version that wrote it, or a newer one",
        )
    verdict = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise Corrupt(path, f"it is damaged ({' '.join(verdict.split())})")
    return compacted


def read(path: Path, db: sqlite3.Connection, compacted: int) -> Iterator[Row]:
    """The rows of a log, each checked. After the compacted revision none may be missing."""
    expected = compacted
    for revision, resource, namespace, name, type_, created, checksum, data in db.execute(
        "SELECT revision, resource, namespace, name, type, created, checksum, data FROM revisions ORDER BY revision"
    ):
        if revision > compacted:
            expected += 1
            if revision != expected:
                raise Corrupt(path, f"revision {expected} is missing")
        try:
            key = Key(sys.intern(resource), sys.intern(namespace), name)
            sound = checksum == _checksum(key, revision, type_, data) and isinstance(created, float)
        except (TypeError, ValueError):  # a damaged row may have values of any type
            sound = False
        if not sound:
            raise Corrupt(path, f"revision {revision} ({resource} {namespace}/{name}) is damaged")
        yield Row(_TYPES[type_], Record(key, revision, data), created)


def forget(db: sqlite3.Connection, rows: Iterable[int], compacted: int) -> None:
    """Removes rows and moves the compacted revision, inside the caller's transaction."""
    db.execute(
        "DELETE FROM revisions WHERE revision IN (SELECT value FROM json_each(?))", (json.dumps(list(rows)),)
    )
    db.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (compacted,))


def translate(path: Path, exc: sqlite3.Error) -> OpenError:
    """What SQLite says when a file is opened and read, as ours."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return Corrupt(path, "it is not a database")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_FULL):
        return Unwritable(path, f"the store {path} cannot be opened for writing: {exc}")
    return Corrupt(path, f"it is damaged ({exc})")


@cache
def _insert(rows: int) -> str:
    return "INSERT INTO revisions VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * rows)


def _values(write: Pending) -> tuple[object, ...]:
    key, revision, data = write.record.key, write.record.revision, write.record.data
    type_ = write.change.type.value
    return (revision, *key, type_, write.created, _checksum(key, revision, type_, data), data)


def _checksum(key: Key, revision: int, type_: str, data: bytes) -> int:
    return crc32(data, crc32(f"{revision}\0{type_}\0{key.resource}\0{key.namespace}\0{key.name}".encode()))
