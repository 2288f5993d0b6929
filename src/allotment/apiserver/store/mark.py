"""A small file next to a store that records its progress, to detect a log that lost its end.

SQLite reads its write-ahead log up to the first invalid frame and silently takes that for the end: a flipped bit or a
missing file looks like an earlier state. The mark detects this. It contains the last *acknowledged* revision, and the last
*reserved* one, above which none was ever given out.

``note`` runs between each commit and its answer. It overwrites a block in place without waiting for the disk, which is
enough when a process is killed. The file is synced once a second during writes, and when they stop, so after a power loss
the mark may be a second behind the log. It is never ahead of the log, as a commit is on disk before it is noted. Once in
thousands of writes, ``reserve`` waits for the disk before a revision is given out. After a power loss a store continues
above all reserved revisions (see ``database``), so no revision is ever given out twice.

Two blocks are written in turn, each with a checksum: if one write is torn, the other block remains.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from zlib import crc32

from allotment.apiserver.store.errors import Corrupt, Unwritable

AHEAD = 10_000
"""How many revisions are reserved at once."""

SYNC_SECONDS = 1.0
"""The longest time before a mark is synced."""

_FORM = Struct("<8sQQQ?16s")
_MAGIC = b"allotmk1"
_SUM = Struct("<I")
_BLOCK = 4096
_BLOCKS = 2


@dataclass(frozen=True, slots=True)
class Progress:
    """The content of a mark."""

    acknowledged: int
    reserved: int
    closed: bool = False  # closed in good order: the log ended at ``acknowledged``
    boot: bytes = bytes(16)  # identifies the boot of the machine; zeros if unknown

    @property
    def certain(self) -> bool:
        """Whether ``acknowledged`` is exact. Not so when the machine stopped before the file was synced."""
        return self.closed or (self.boot == this_boot() != bytes(16))


class Mark:
    """The mark of a store that is open. Not thread safe."""

    def __init__(self, store: Path, revision: int) -> None:
        """Starts at the store's revision; creates the file if there is none. Raises :class:`Unwritable`."""
        self.path = path_of(store)
        self._acknowledged = revision
        self._reserved = revision + AHEAD
        self._closed = False
        self._boot = this_boot()
        self._sequence = 0
        self.unsynced = False
        self._synced_at = 0.0
        try:
            there = self.path.exists()
            if there:
                self._sequence = max(number for number, _ in _blocks(self.path))
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._write_all()
            if not there:
                sync(self.path.parent)
        except OSError as exc:
            raise Unwritable(store, f"{self.path} cannot be written: {exc.strerror or exc}") from exc

    def reserve(self, revision: int) -> None:
        """Reserves revisions; call it before one is given out. Raises ``OSError``."""
        if revision <= self._reserved:
            return
        before, self._reserved = self._reserved, revision + AHEAD
        try:
            self._write_all()
        except OSError:
            self._reserved = before  # a reservation counts only on disk: the next commit tries again
            raise

    def note(self, revision: int) -> None:
        """Records that everything up to a revision is committed. Raises ``OSError``."""
        self._acknowledged = revision
        self._write()
        if time.monotonic() - self._synced_at > SYNC_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Syncs the file to disk. Raises ``OSError``."""
        getattr(os, "fdatasync", os.fsync)(self._file)  # macOS has only the latter
        self._synced_at = time.monotonic()
        self.unsynced = False

    def close(self) -> None:
        """Closes in good order: the log ends at the noted revision."""
        try:
            self._closed = True
            self._write_all()
        finally:
            os.close(self._file)

    def _write_all(self) -> None:
        """Writes to all blocks, so that one of them may be lost."""
        for _ in range(_BLOCKS):
            self._write()
        self.sync()

    def _write(self) -> None:
        self._sequence += 1
        text = _FORM.pack(
            _MAGIC, self._sequence, self._acknowledged, self._reserved, self._closed, self._boot
        )
        self.unsynced = True
        os.pwrite(self._file, text + _SUM.pack(crc32(text)), self._sequence % _BLOCKS * _BLOCK)


def read(store: Path) -> Progress | None:
    """The content of the mark of a store; None if there is no mark. Raises :class:`Corrupt` if it cannot be read."""
    path = path_of(store)
    try:
        _, newest = max(_blocks(path), key=lambda block: block[0])
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise Corrupt(store, f"{path.name} beside it cannot be read ({exc.strerror or exc})") from exc
    if newest is None:
        raise Corrupt(
            store, f"{path.name} beside it is damaged, so nobody can tell whether writes are missing"
        )
    return newest


def path_of(store: Path) -> Path:
    return store.with_name(store.name + ".mark")


def _blocks(path: Path) -> list[tuple[int, Progress | None]]:
    """The valid blocks with their numbers; at least (0, None)."""
    found: list[tuple[int, Progress | None]] = [(0, None)]
    with path.open("rb") as file:
        data = file.read(_BLOCK * _BLOCKS)
    for start in range(0, len(data), _BLOCK):
        text = data[start : start + _FORM.size]
        checksum = data[start + _FORM.size : start + _FORM.size + _SUM.size]
        if text[: len(_MAGIC)] == _MAGIC and checksum == _SUM.pack(crc32(text)):
            _, sequence, acknowledged, reserved, closed, boot = _FORM.unpack(text)
            found.append((sequence, Progress(acknowledged, reserved, closed, boot)))
    return found


def this_boot() -> bytes:
    """Identifies the boot of this machine: after another boot, unsynced writes may be gone."""
    try:
        return bytes.fromhex(_BOOT.read_text().strip().replace("-", ""))[:16].ljust(16, b"\0")
    except (OSError, ValueError):
        return bytes(16)


_BOOT = Path("/proc/sys/kernel/random/boot_id")


def sync(path: Path) -> None:
    """Syncs a file or folder to disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
