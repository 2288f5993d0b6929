"""A disk that remembers each write and each sync, so that a test can have what any moment's end would leave.

SQLite's own file functions are replaced by ones that call them and take notes (its VFS, through ctypes: in the library that
Python's ``sqlite3`` uses). ``Recording`` also hears of the store's mark. From its notes it makes the files as they would be

* after a killed process: everything written up to a step is there;
* after a power loss: of what was written since a file's last sync, each sector is there or not, in any mixture.

It can refuse what would make the files larger than a disk (``room``), or a step of one's choice (``fail_at``).
"""

from __future__ import annotations

import _sqlite3
import ctypes as c
import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from allotment.apiserver.store import mark, reserve

SECTOR = 512
OK, IOERR_WRITE, IOERR_FSYNC, FULL = 0, 10 | 3 << 8, 10 | 4 << 8, 13
"""SQLite's codes."""

_METHODS = (
    *("xClose", "xRead", "xWrite", "xTruncate", "xSync", "xFileSize", "xLock", "xUnlock"),
    *("xCheckReservedLock", "xFileControl", "xSectorSize", "xDeviceCharacteristics", "xShmMap"),
    *("xShmLock", "xShmBarrier", "xShmUnmap", "xFetch", "xUnfetch"),
)
_WRITE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_int, c.c_int64)
_TRUNCATE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int64)
_SYNC = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int)
_OPEN = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_void_p, c.c_int, c.c_void_p)


class _IoMethods(c.Structure):
    _fields_ = (("iVersion", c.c_int), *((name, c.c_void_p) for name in _METHODS))


class _Vfs(c.Structure):
    _fields_ = (
        *(("iVersion", c.c_int), ("szOsFile", c.c_int), ("mxPathname", c.c_int), ("pNext", c.c_void_p)),
        *(("zName", c.c_char_p), ("pAppData", c.c_void_p), ("xOpen", c.c_void_p)),
        ("rest", c.c_void_p * 15),
    )


class Step(NamedTuple):
    """What reached a file: data at an offset, a new length, or (without either) a sync of all before."""

    file: str
    offset: int = 0
    data: bytes | None = None
    length: int | None = None


class Recording:
    """What happened to the files of a folder. ``acknowledged`` has, by revision, after how many steps a write was."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[Step] = []
        self.acknowledged: dict[int, int] = {}
        self.fail_at: int | None = None  # the number of a step
        self.room: int | None = None  # bytes of all files together
        self._sizes: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []

    def acknowledge(self, revision: int) -> None:
        self.acknowledged[revision] = len(self.steps)

    def note(self, step: Step) -> int:
        """Takes a step that is about to be done, or refuses it with SQLite's code."""
        if self.fail_at is not None and len(self.steps) >= self.fail_at:
            self.fail_at = None
            return IOERR_WRITE if step.data is not None else IOERR_FSYNC
        size = self._sizes.get(step.file, 0)
        if step.data is not None:
            size = max(size, step.offset + len(step.data))
        elif step.length is not None:
            size = step.length
        grown = size - self._sizes.get(step.file, 0)
        if self.room is not None and grown > 0 and self.used + grown > self.room:
            return FULL
        self._sizes[step.file] = size
        self.steps.append(step)
        return OK

    @property
    def used(self) -> int:
        """Bytes of all files, the reserve among them."""
        kept = self.folder / "store.db.reserve"
        return sum(self._sizes.values()) + (kept.stat().st_size if kept.exists() else 0)

    # What a crash leaves

    def after_kill(self, step: int, target: Path) -> None:
        """The files with everything that was written before a step."""
        self._lay_down(self.steps[:step], target)

    def after_power_loss(self, step: int, target: Path, dice: random.Random) -> None:
        """The files with all that was synced before a step, and any sectors of the rest, in any order."""
        synced = {each.file: at for at, each in enumerate(self.steps[:step]) if _is_sync(each)}
        sure = [each for at, each in enumerate(self.steps[:step]) if at < synced.get(each.file, -1)]
        unsure = [each for at, each in enumerate(self.steps[:step]) if at > synced.get(each.file, -1)]
        survivors = [part for each in unsure for part in _sectors(each) if dice.random() < 0.5]
        dice.shuffle(survivors)
        self._lay_down(sure + survivors, target)

    @staticmethod
    def _lay_down(steps: list[Step], target: Path) -> None:
        target.mkdir()
        for name in {step.file for step in steps}:
            content = bytearray()
            for step in steps:
                if step.file != name or _is_sync(step):
                    continue
                end = step.length if step.data is None else step.offset + len(step.data)
                assert end is not None
                content.extend(bytes(max(end - len(content), 0)))
                if step.data is None:
                    del content[end:]
                else:
                    content[step.offset : end] = step.data
            (target / name).write_bytes(content)

    # Standing in for SQLite's functions and the mark's

    @contextmanager
    def running(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Connections that are opened meanwhile are recorded."""
        library = c.CDLL(_sqlite3.__file__)
        find, register = library.sqlite3_vfs_find, library.sqlite3_vfs_register
        find.restype = c.c_void_p
        register.argtypes = (c.c_void_p, c.c_int)
        usual = find(None)
        vfs = _Vfs.from_buffer_copy(c.string_at(usual, c.sizeof(_Vfs)))
        vfs.zName = b"recording"
        vfs.xOpen = self._keep(_OPEN(self._opening(_OPEN(vfs.xOpen))))
        self._kept.append(vfs)
        register(c.addressof(vfs), 1)
        monkeypatch.setattr(mark, "os", _RecordedOs(self))
        monkeypatch.setattr(reserve, "os", _RecordedOs(self))
        try:
            yield
        finally:
            monkeypatch.setattr(mark, "os", os)
            monkeypatch.setattr(reserve, "os", os)
            register(usual, 1)
            library.sqlite3_vfs_unregister(c.c_void_p(c.addressof(vfs)))

    def _keep(self, function: Any) -> int:
        self._kept.append(function)
        address = c.cast(function, c.c_void_p).value
        assert address
        return address

    def _opening(self, usual: Any) -> Callable[..., int]:
        def opening(vfs: int, where: int | None, file: int, flags: int, out: int) -> int:
            code: int = usual(vfs, where, file, flags, out)  # SQLite keeps the address of the name
            path = Path(os.fsdecode(c.string_at(where))) if where else Path()
            if code == OK and path.parent == self.folder and not path.name.endswith("-journal"):
                self._names[file] = path.name
                methods = c.cast(file, c.POINTER(c.c_void_p))
                assert methods[0]
                methods[0] = self._recorded(methods[0])
            return code

        return opening

    def _recorded(self, usual: int) -> int:
        methods = _IoMethods.from_buffer_copy(c.string_at(usual, c.sizeof(_IoMethods)))
        do_write, do_cut, do_sync = (
            _WRITE(methods.xWrite),
            _TRUNCATE(methods.xTruncate),
            _SYNC(methods.xSync),
        )

        def write(file: int, data: int, length: int, offset: int) -> int:
            code = self.note(Step(self._names[file], offset, c.string_at(data, length)))
            return code or int(do_write(file, data, length, offset))

        def truncate(file: int, length: int) -> int:
            code = self.note(Step(self._names[file], length=length))
            return code or int(do_cut(file, length))

        def sync(file: int, flags: int) -> int:
            return self.note(Step(self._names[file])) or int(do_sync(file, flags))

        methods.xWrite = self._keep(_WRITE(write))
        methods.xTruncate = self._keep(_TRUNCATE(truncate))
        methods.xSync = self._keep(_SYNC(sync))
        self._kept.append(methods)
        return c.addressof(methods)


class _RecordedOs:
    """``os`` as mark and reserve see it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwrite(self, file: int, data: bytes, offset: int) -> int:
        self._check(self._recording.note(Step("store.db.mark", offset, data)))
        return os.pwrite(file, data, offset)

    def fdatasync(self, file: int) -> None:
        self._check(self._recording.note(Step("store.db.mark")))
        os.fdatasync(file)

    def posix_fallocate(self, file: int, offset: int, length: int) -> None:
        room = self._recording.room
        self._check(FULL if room is not None and self._recording.used + length > room else OK)
        os.posix_fallocate(file, offset, length)

    @staticmethod
    def _check(code: int) -> None:
        if code:
            raise OSError(errno.ENOSPC if code == FULL else errno.EIO, "the recording refuses it")


def _is_sync(step: Step) -> bool:
    return step.data is None and step.length is None


def _sectors(step: Step) -> Iterator[Step]:
    """The parts of a write that a disk may do or not do."""
    if step.data is None:
        yield step
        return
    at = 0
    while at < len(step.data):
        end = min(at + SECTOR - (step.offset + at) % SECTOR, len(step.data))
        yield Step(step.file, step.offset + at, step.data[at:end])
        at = end
