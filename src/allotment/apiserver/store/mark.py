"""How far a store got, in a small file beside it: what notices a log that lost its end.

SQLite reads its write-ahead log up to the first frame that does not add up, and takes that for the end, without a word: a
flipped bit or a missing file looks like an earlier state. The mark knows better. It says up to where revisions were
*acknowledged*, and above which none was ever given out (*reserved*).

``note`` runs between each commit and its answer. It writes one block over another in place, without waiting for the disk:
a killed process leaves the file as it was written. The file is synced once a second while there are writes, and when
they stop, so that after a power loss the mark may be behind the log by a second; it is never ahead of it, as a commit is on
disk before it is noted. ``reserve`` waits for the disk, once in thousands of writes, before a revision is given out: after
a power loss a store goes on above all that are reserved (see ``database``), so no revision is ever given out twice.

Two blocks are written in turn, each with a checksum: a block that was torn leaves the other.
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
"""Revisions that are reserved at once."""

SYNC_SECONDS = 1.0
"""How long a mark may wait to be synced."""

_FORM = Struct("<8sQQQ?16s")
_MAGIC = b"allotmk1"
_SUM = Struct("<I")
_BLOCK = 4096
_BLOCKS = 2


@dataclass(frozen=True, slots=True)
class Progress:
    """What a mark says."""

    acknowledged: int
    reserved: int
    closed: bool = False  # in good order: the log ended at ``acknowledged``
    boot: bytes = bytes(16)  # of the run of the machine; zeros where that is not known

    @property
    def certain(self) -> bool:
        """Whether ``acknowledged`` is exact. Not so when the machine stopped before the file was synced."""
        return self.closed or (self.boot == this_boot() != bytes(16))


class Mark:
    """The mark of a store that is open. Not thread safe."""

    def __init__(self, store: Path, revision: int) -> None:
        """Starts at the store's revision; the file is made if it is not there. Raises :class:`Unwritable`."""
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
        """Before a revision may be given out. Raises ``OSError``."""
        if revision <= self._reserved:
            return
        before, self._reserved = self._reserved, revision + AHEAD
        try:
            self._write_all()
        except OSError:
            self._reserved = (
                before  # what the disk does not have is not reserved: the next commit tries again
            )
            raise

    def note(self, revision: int) -> None:
        """Everything up to a revision is committed. Raises ``OSError``."""
        self._acknowledged = revision
        self._write()
        if time.monotonic() - self._synced_at > SYNC_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Raises ``OSError``."""
        getattr(os, "fdatasync", os.fsync)(self._file)  # macOS has only the latter
        self._synced_at = time.monotonic()
        self.unsynced = False

    def close(self) -> None:
        """In good order: what is noted is where the log ends."""
        try:
            self._closed = True
            self._write_all()
        finally:
            os.close(self._file)

    def _write_all(self) -> None:
        """In all blocks, so that one of them may be lost."""
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
    """What the mark beside a store says; none if there is no mark. Raises :class:`Corrupt` if it cannot be read."""
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
    """The sound ones with their numbers; at least (0, None)."""
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
    """Names the run of this machine: with another one, what was written and not synced may be gone."""
    try:
        return bytes.fromhex(_BOOT.read_text().strip().replace("-", ""))[:16].ljust(16, b"\0")
    except (OSError, ValueError):
        return bytes(16)


_BOOT = Path("/proc/sys/kernel/random/boot_id")


def sync(path: Path) -> None:
    """A file or folder, to disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
