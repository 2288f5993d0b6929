"""A consistent copy of a store, and the way back.

A copy is made from a snapshot on a separate connection, so this or another process may go on using the store and writing
to it. The copy is written under a temporary name, synced and renamed, so it exists completely or not at all.

Restoring an older state must not reuse revisions: a client that saw revision 500 would ignore a new revision 400 as old, or
take it for its own past. So a restored store continues far above every revision that was handed out, and has no history:
every earlier watch and continued list gets 410 Gone and lists again, as with a restored etcd.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from allotment.apiserver.store import mark
from allotment.apiserver.store.database import (
    BROKEN,
    begin_anew,
    check,
    check_pages,
    connect,
    connect_to_read,
    newest,
    translate,
    upgrade,
)
from allotment.apiserver.store.errors import Corrupt, LostWrites, Unwritable
from allotment.apiserver.store.lock import StoreLock

REVISION_STEP = 1_000_000_000
"""How far above all known revisions a restored store continues: more than any client can have seen since the backup."""


def copy(source: Path, target: Path) -> None:
    """A consistent copy of a store that may be in use. Replaces ``target``. Raises :class:`OpenError`."""
    if not source.is_file():
        raise Unwritable(source, f"there is no store at {source}")
    if StoreLock.path_of(target).exists():
        raise Unwritable(target, f"{target} is a store, not a backup; choose another name")
    with replacing(target) as temporary:
        _copy(source, temporary)


def restore(backup: Path, target: Path) -> int:
    """Replaces a store that is not in use by a backup; returns the revision at which it continues.

    The backup is checked first. The store that was there is kept beside it, with ``.replaced`` at its name's end
    (``.replaced.2`` and so on if there is such a one from before).
    Raises :class:`OpenError`: Locked if the store is in use, Corrupt or TooNew if the backup is no good.
    """
    if not backup.is_file():
        raise Unwritable(backup, f"there is no backup at {backup}")
    used = StoreLock.path_of(target).exists()
    lock = StoreLock(target)
    try:
        with replacing(target) as temporary:
            _copy(backup, temporary)
            revision = _renumber(backup, temporary, highest(target, used))
            set_aside(target, ".replaced")
        return revision
    finally:
        lock.release()


def _copy(source: Path, target: Path) -> None:
    """Copies everything acknowledged at its start. The copy is self-contained and needs no mark."""
    progress = mark.read(source)
    try:
        with closing(connect_to_read(source)) as origin, closing(sqlite3.connect(target)) as copied:
            check(source, origin)
            check_pages(source, origin)
            origin.backup(copied)
            copied.execute("PRAGMA journal_mode = DELETE")
            copied.execute("UPDATE meta SET value = 0 WHERE name = 'marked'")
            copied.commit()
            found = newest(copied)
        if progress is not None and found < progress.acknowledged:
            raise LostWrites(
                source, found + 1, progress.acknowledged, "its write-ahead log is damaged or missing"
            )
    except BROKEN as exc:
        raise translate(source, exc) from exc


def _renumber(backup: Path, path: Path, known: int) -> int:
    """Checks a copy of a backup, and moves it beyond every known revision, without history."""
    try:
        with closing(connect(path)) as db:
            upgrade(db)
            revision = max(newest(db), known) + REVISION_STEP
            begin_anew(backup, db, revision)
            return revision
    except BROKEN as exc:
        raise translate(backup, exc) from exc


def highest(store: Path, used: bool) -> int:
    """The highest revision that a store, which may be damaged or missing, can have given out.

    If a used store has no readable revision, the result is the time in milliseconds, since revisions grow more slowly.
    """
    known = 0
    with suppress(Corrupt):
        progress = mark.read(store)
        if progress is not None:
            known = progress.acknowledged if progress.closed else progress.reserved
    with suppress(OSError, *BROKEN), closing(connect_to_read(store)) as db:
        known = max(known, newest(db))
    return known or (int(time.time() * 1000) if used else 0)


def set_aside(target: Path, ending: str) -> Path:
    """Keeps the old store under another name; its write-ahead log and mark must not meet the new file."""
    name = _free_name(target.with_name(target.name + ending))
    for suffix in ("", "-wal", ".mark"):
        old = target.with_name(target.name + suffix)
        if old.exists():
            os.link(old, name.with_name(name.name + suffix))
    for suffix in (".mark", "-wal", "-shm"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    return name


def _free_name(path: Path) -> Path:
    """The path, or the first free one of ``path.2``, ``path.3``…: a second restore keeps what the first kept."""
    names = itertools.chain(
        [path], (path.with_name(f"{path.name}.{number}") for number in itertools.count(2))
    )
    return next(name for name in names if not name.exists())


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary file that replaces the target on success; its content is on disk before the rename."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield temporary
        mark.sync(temporary)
        os.replace(temporary, target)
        mark.sync(target.parent)
    except OSError as exc:
        raise Unwritable(target, f"{target} cannot be written: {exc.strerror or exc}") from exc
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):  # if nothing could be written, there is nothing to remove
                temporary.with_name(temporary.name + suffix).unlink()
