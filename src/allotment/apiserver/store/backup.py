"""A consistent copy of a store, and the way back.

A copy is made from a snapshot on a connection of its own, so the store may be in use, by this or another process, and
its writes go on. It is written under a temporary name, synced and renamed: it is there whole or not at all.

Going back to an older state must not take revisions back: a client that saw revision 500 would take a new revision 400
for old news, or for its own past. So a restored store continues far above every revision that was handed out, and has no
history: every watch and continued list from before is told 410 Gone and lists anew, as with a restored etcd.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from allotment.apiserver.store.database import check, connect, forget, read, translate
from allotment.apiserver.store.errors import Unwritable
from allotment.apiserver.store.lock import Lock
from allotment.apiserver.store.record import ChangeType, Key

REVISION_STEP = 1_000_000_000
"""How far above all known revisions a restored store goes on: more than any client can have seen since the backup."""


def copy(source: Path, target: Path) -> None:
    """A consistent copy of a store that may be in use. Replaces ``target``. Raises :class:`OpenError`."""
    if not source.is_file():
        raise Unwritable(source, f"there is no store at {source}")
    if Lock.path_of(target).exists():
        raise Unwritable(target, f"{target} is a store, not a backup; choose another name")
    with _replacing(target) as temporary:
        _copy(source, temporary)


def restore(backup: Path, target: Path) -> int:
    """Puts a backup in the place of a store that is not in use; returns the revision at which it goes on.

    The backup is checked first. The store that was there is kept beside it, with ``.replaced`` at its name's end
    (``.replaced.2`` and so on if there is such a one from before).
    Raises :class:`OpenError`: Locked if the store is in use, Corrupt or TooNew if the backup is no good.
    """
    if not backup.is_file():
        raise Unwritable(backup, f"there is no backup at {backup}")
    lock = Lock(target)
    try:
        with _replacing(target) as temporary:
            _copy(backup, temporary)
            revision = _renumber(backup, temporary, _newest(target))
            _set_aside(target)
        return revision
    finally:
        lock.release()


def _copy(source: Path, target: Path) -> None:
    try:
        with (
            contextlib.closing(connect(source)) as origin,
            contextlib.closing(sqlite3.connect(target)) as copied,
        ):
            check(source, origin)
            origin.backup(copied)
    except sqlite3.Error as exc:
        raise translate(source, exc) from exc


def _renumber(backup: Path, path: Path, known: int) -> int:
    """Checks a copy of a backup, and moves it beyond every known revision, without history."""
    try:
        with contextlib.closing(connect(path)) as db:
            db.execute("PRAGMA journal_mode = DELETE")  # so that the file is complete by itself
            newest = compacted = check(backup, db)
            current: dict[Key, int] = {}
            outdated: list[int] = []
            for row in read(backup, db, compacted):
                newest = max(newest, row.record.revision)
                superseded = current.pop(row.record.key, None)
                if superseded is not None:
                    outdated.append(superseded)
                if row.type is ChangeType.DELETED:
                    outdated.append(row.record.revision)
                else:
                    current[row.record.key] = row.record.revision
            revision = max(newest, known) + REVISION_STEP
            db.execute("BEGIN IMMEDIATE")
            forget(db, outdated, revision)
            db.execute("COMMIT")
            return revision
    except sqlite3.Error as exc:
        raise translate(backup, exc) from exc


def _newest(target: Path) -> int:
    """The newest revision of the store that is about to be replaced, as far as it can be read."""
    if not target.is_file():
        return 0
    newest = 0
    with contextlib.suppress(sqlite3.Error), contextlib.closing(connect(target)) as db:
        newest = db.execute("SELECT max(revision) FROM revisions").fetchone()[0] or 0
        compacted = db.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchone()[0]
        newest = max(newest, compacted)
    return newest


def _set_aside(target: Path) -> None:
    """Keeps the old store under another name; its write-ahead log must not meet the new file."""
    if target.exists():
        name = _free_name(target.with_name(target.name + ".replaced"))
        for suffix in ("", "-wal"):
            old = target.with_name(target.name + suffix)
            if old.exists():
                os.link(old, name.with_name(name.name + suffix))
    for suffix in ("-wal", "-shm"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)


def _free_name(path: Path) -> Path:
    """The path, or the first of ``path.2``, ``path.3``… that is not there: a second restore keeps what the first kept."""
    names = itertools.chain(
        [path], (path.with_name(f"{path.name}.{number}") for number in itertools.count(2))
    )
    return next(name for name in names if not name.exists())


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A temporary file that takes the target's place when all went well, on disk before its name is."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield temporary
        _sync(temporary)
        os.replace(temporary, target)
        _sync(target.parent)
    except OSError as exc:
        raise Unwritable(target, f"{target} cannot be written: {exc.strerror or exc}") from exc
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(OSError):  # where nothing could be written there is nothing to remove
                temporary.with_name(temporary.name + suffix).unlink()


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
