"""One process at a time has a store open.

The lock is the kernel's (``flock`` on a file beside the store), so it ends with its process however that ends. The
file's text only serves the message for whoever comes second. It stays when the lock is released: removing it would let
two processes lock two different files of that name.
"""

from __future__ import annotations

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

from allotment.apiserver.store.errors import Locked, Unwritable


class Lock:
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
            since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            os.pwrite(self._file, f"{os.getpid()} {since}\n".encode(), 0)
        except BlockingIOError as exc:
            raise self._held(store) from exc
        except OSError as exc:
            self.release()
            raise self._impossible(store, exc) from exc

    @staticmethod
    def path_of(store: Path) -> Path:
        """The file that is locked; where it is, a store is or was."""
        return store.with_name(store.name + ".lock")

    def release(self) -> None:
        """Idempotent."""
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
        text = os.pread(self._file, 100, 0).decode(errors="replace").split()
        self.release()
        holder = int(text[0]) if text and text[0].isdigit() else None
        who = f"process {holder}" if holder else "another process"
        since = f", started {text[1]}" if len(text) > 1 else ""
        return Locked(
            store,
            holder,
            f"the store in {store.parent} is in use by {who}{since}. Stop it first, or use another folder",
        )
