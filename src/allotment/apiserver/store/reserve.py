"""Disk space that is reserved for deletions.

A deletion is a write, and on a full disk even that would fail, so nobody could make room. So a file next to the store
occupies some space, which is released when a commit finds none. It is reserved again once there is enough.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

SIZE = 16 * 1024 * 1024
"""Bytes: twice what the write-ahead log needs between two checkpoints, which let it start anew."""

DISK_PART = 16
"""At most this part of the file system."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskReserve:
    """The reserved space, held or released. ``size`` is what it holds or tries to hold."""

    def __init__(self, store: Path) -> None:
        self.path = store.with_name(store.name + ".reserve")
        self.held = False
        self._possible = True
        self.release()  # of a process that was killed: opening the store may need it
        try:
            system = os.statvfs(store.parent)
            self.size = min(SIZE, system.f_blocks * system.f_frsize // DISK_PART)
        except OSError:
            self.size = SIZE

    def take(self) -> bool:
        """Reserves the space; returns whether there is enough. If a file system cannot reserve space, it returns True."""
        if self.held or not self._possible:
            return True
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, self.size)
            finally:
                os.close(file)
        except (OSError, AttributeError) as exc:
            self.release()
            self._possible = getattr(exc, "errno", None) in _NO_ROOM
            return not self._possible
        self.held = True
        return True

    def release(self) -> bool:
        """Releases the space; returns whether there was any."""
        held, self.held = self.held, False
        with suppress(OSError):
            self.path.unlink()
        return held
