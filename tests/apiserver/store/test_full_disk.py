"""A full disk: what makes room still works, everything else is refused in a sentence, and room is noticed."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import pytest

from allotment.apiserver.store import reserve
from allotment.apiserver.store import store as store_module
from allotment.apiserver.store.errors import DiskFull
from allotment.apiserver.store.store import Store
from tests.apiserver.store.build import delete, key, put, thing, values
from tests.apiserver.store.recording import Recording

SIZE = 8 * 1024 * 1024
BIG = "x" * 20_000


class SmallDisk(Protocol):
    """Has room for so many bytes, of which others may take what is left."""

    folder: Path

    def fill(self) -> None: ...

    def empty(self) -> None: ...


class SimulatedDisk:
    def __init__(self, recording: Recording) -> None:
        self.folder = recording.folder
        self._recording = recording
        self.empty()

    def fill(self) -> None:
        self._recording.room = self._recording.used

    def empty(self) -> None:
        self._recording.room = SIZE


class MountedDisk:
    """A file system in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self._others = folder / "others"

    def fill(self) -> None:
        with suppress(OSError), self._others.open("ab", buffering=0) as file:
            for block in (65536, 4096, 1):
                with suppress(OSError):
                    while True:
                        file.write(bytes(block))

    def empty(self) -> None:
        self._others.unlink()


@contextmanager
def _simulated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    recording = Recording(folder)
    with recording.running(monkeypatch):
        yield SimulatedDisk(recording)


@contextmanager
def _mounted(folder: Path, _: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    if os.geteuid() != 0 or not Path("/proc/filesystems").exists():
        pytest.skip("to mount a small file system takes root on Linux")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield MountedDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(params=[_simulated, _mounted], ids=["simulated", "mounted"])
def disk(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SmallDisk]:
    monkeypatch.setattr(store_module, "ROOM_SECONDS", -1.0)  # look at once
    monkeypatch.setattr(reserve, "SIZE", 256 * 1024)
    folder = tmp_path / "disk"
    folder.mkdir()
    with request.param(folder, monkeypatch) as disk:
        yield disk


async def fill_up(store: Store, disk: SmallDisk) -> None:
    """Writes until one is refused."""
    disk.fill()
    for number in range(200):
        try:
            await put(store, f"last-{number}", BIG)
        except DiskFull:
            return
    raise AssertionError("nothing was refused")


async def refused(store: Store, name: str) -> None:
    with pytest.raises(DiskFull, match="only deletions are accepted: free some space"):
        await put(store, name, BIG)


def test_on_a_full_disk_deletions_work_and_everything_does_once_there_is_room(disk: SmallDisk) -> None:
    async def run() -> None:
        store = Store.open(disk.folder / "store.db")
        for number in range(60):
            await put(store, f"p{number}", BIG)
        await fill_up(store, disk)
        await refused(store, "p0")
        for number in range(40):
            ending = thing(f"p{number}", BIG)
            ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            await store.put(key(f"p{number}"), ending)  # as one whose finalizers are about to go
            await delete(store, f"p{number}")
        store.validate()
        disk.empty()
        with suppress(DiskFull):
            await put(store, "after", 0)  # it looks for room, and is refused for the last time
        await store.compact(0)  # a way to wait until the writer got there
        await put(store, "after", 1)
        assert not store.full
        store.validate()
        found = values(store.list("pods"))
        await store.close()
        again = Store.open(disk.folder / "store.db")
        assert values(again.list("pods")) == found
        assert found["after"] == 1
        assert "p0" not in found
        assert found["p41"] == BIG
        await again.close()

    asyncio.run(run())


def test_what_deletions_freed_in_the_file_is_room_too(disk: SmallDisk) -> None:
    """The disk stays full; the store lives on what it has."""

    async def run() -> None:
        store = Store.open(disk.folder / "store.db")
        for number in range(60):
            await put(store, f"p{number}", BIG)
        await fill_up(store, disk)
        for number in range(40):
            await delete(store, f"p{number}")
        await store.compact(store.revision)
        assert not store.full
        for number in range(5):
            await put(store, f"new-{number}", BIG)
        store.validate()
        await fill_up(store, disk)
        for number in range(40, 60):
            await delete(store, f"p{number}")
        await store.close()

    asyncio.run(run())


def test_a_store_that_starts_on_a_full_disk_takes_deletions(disk: SmallDisk) -> None:
    async def run() -> None:
        store = Store.open(disk.folder / "store.db")
        for number in range(20):
            await put(store, f"p{number}", BIG)
        await store.close()
        reserve_size = 300 * 1024  # room for the log, and not for the reserve too
        disk.fill()
        if isinstance(disk, SimulatedDisk):
            disk._recording.room = disk._recording.used + reserve_size
        else:
            os.truncate(
                disk.folder.parent / "others",
                (disk.folder.parent / "others").stat().st_size - reserve_size,
            )
        store = Store.open(disk.folder / "store.db")
        for number in range(200):
            try:
                await put(store, f"last-{number}", BIG)
            except DiskFull:
                break
        await refused(store, "p0")
        for number in range(10):
            await delete(store, f"p{number}")
        store.validate()
        await store.close()

    asyncio.run(run())


def test_groups_are_not_torn_apart_by_a_disk_that_fills_in_between(disk: SmallDisk) -> None:
    """Deletions that share a commit with what finds no room are done, with the room that was kept."""

    async def run() -> None:
        store = Store.open(disk.folder / "store.db")
        for number in range(20):
            await put(store, f"p{number}", BIG)
        disk.fill()
        last = store.head(key("p1"))
        assert last is not None
        writes = [store.put(key("new"), thing("new", BIG)), store.delete(key("p1"), last.load())]
        for write in writes:
            await write
        assert "p1" not in values(store.list("pods"))
        await store.close()

    asyncio.run(run())
