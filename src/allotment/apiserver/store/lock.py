"""A lock that lets only one process at a time open a store.

It is a kernel lock (``flock`` on a file next to the store), so it ends with its process however that ends. The file's text
only serves the message for a second process. The file stays when the lock is released: removing it would allow two
processes to lock two different files of that name.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from allotment.api.timestamps import timestamp
from allotment.apiserver.store.errors import Locked, Unwritable


class StoreLock:
    """Held from construction to ``release()``. Raises :class:`Locked` naming the holder, or :class:`Unwritable`."""

    def __init__(self, store: Path) -> None:
        self.path = self.path_of(store)
        try:
            store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise self._impossible(store, exc) from exc
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._file, 0)
            since = timestamp(datetime.now(UTC))
            os.pwrite(self._file, f"{os.getpid()} {since}\n".encode(), 0)
        except BlockingIOError as exc:
            raise self._held(store) from exc
        except OSError as exc:
            self.release()
            raise self._impossible(store, exc) from exc

    @staticmethod
    def path_of(store: Path) -> Path:
        """The lock file; where it exists, there is or was a store."""
        return store.with_name(store.name + ".lock")

    def release(self) -> None:
        """Releases the lock. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _impossible(self, store: Path, exc: OSError) -> Unwritable:
        return Unwritable(
            store,
            f"the folder {store.parent} cannot hold a store: {exc.strerror or exc}. "
            f"Choose one that can be written to",
        )

    def _held(self, store: Path) -> Locked:
        holder = _written(self._file)
        self.release()
        who = f"process {holder.process}" if holder.process else "another process"
        since = f", started {holder.since}" if holder.since else ""
        return Locked(
            store,
            holder.process,
            f"the store in {store.parent} is in use by {who}{since}. Stop it first, or use another folder",
        )


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that has a store open, with what it recorded about itself."""

    process: int | None
    since: str


def holder_of(store: Path) -> Holder | None:
    """The process that has the store open now; None if there is none."""
    try:
        file = os.open(StoreLock.path_of(store), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        holder = _written(file)
        if holder.process is not None and not _alive(holder.process):
            return None  # so that a server that starts at this moment does not meet our own lock below
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return holder
    finally:
        os.close(file)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _written(file: int) -> Holder:
    text = os.pread(file, 100, 0).decode(errors="replace").split()
    process = int(text[0]) if text and text[0].isdigit() else None
    return Holder(process, text[1] if len(text) > 1 else "")
