"""A full disk: what makes room still works, everything else is refused in a sentence, and room is noticed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from allotment.apiserver.store import reserve
from allotment.apiserver.store import store as store_module
from allotment.apiserver.store.errors import DiskFull
from allotment.apiserver.store.store import Store
from tests.apiserver.store.build import Disk, delete, key, opened, put, thing, values
from tests.apiserver.store.small_disk import SmallDisk, mounted, simulated

SIZE = 8 * 1024 * 1024
BIG = "x" * 20_000


@pytest.fixture(params=["simulated", "mounted"])
def disk(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SmallDisk]:
    monkeypatch.setattr(store_module, "ROOM_SECONDS", -1.0)  # look at once
    monkeypatch.setattr(reserve, "SIZE", 256 * 1024)
    folder = tmp_path / "disk"
    folder.mkdir()
    made = simulated(folder, SIZE, monkeypatch) if request.param == "simulated" else mounted(folder, SIZE)
    with made as disk:
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
        disk.fill(spare=300 * 1024)  # room for the log, and not for the reserve too
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


def test_a_deletion_that_finds_no_room_either_is_not_told_that_deletions_are_accepted(file: Path) -> None:
    """Others may have taken what the reserve gave up."""

    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a")
            broken = Disk(store)
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            broken.break_down(error)
            with pytest.raises(
                DiskFull, match=r"is full, and so is the room .* for deletions: free some space"
            ):
                await delete(store, "a")
            await refused(store, "b")
            broken.repair()

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
