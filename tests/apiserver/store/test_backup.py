"""Copies of a running store, and the way back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from allotment.apiserver.store.backup import REVISION_STEP, copy, restore
from allotment.apiserver.store.errors import Compacted, Corrupt, Locked, Unwritable
from tests.apiserver.store.build import delete, key, opened, put, thing, values


def test_a_backup_while_writing_is_the_state_of_one_revision(file: Path, tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            stop = asyncio.Event()

            async def write() -> None:
                i = 0
                while not stop.is_set():
                    i += 1
                    await asyncio.gather(*[store.put(key(f"p{n}"), thing(f"p{n}", i)) for n in range(10)])

            await put(store, "first", "x" * 1_000_000)
            writer = asyncio.create_task(write())
            copies = []
            for n in range(5):
                target = tmp_path / f"{n}.backup"
                acknowledged = store.revision
                await store.backup(target)
                copies.append((acknowledged, target, store.revision))
            stop.set()
            await writer
            for acknowledged, target, newest in copies:
                async with opened(target) as copied:
                    assert acknowledged <= copied.revision <= newest + 10  # durable, and not yet heard of
                    assert copied.compacted == store.compacted
                    at = min(copied.revision, store.revision)
                    assert values(copied.list("pods")) == values(store.list_at("pods", "", at))

    asyncio.run(run())


def test_a_backup_leaves_nothing_but_itself_and_replaces_an_older_one(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()

    async def run() -> None:
        async with opened(file) as store:
            for i in range(2):
                await put(store, "a", i)
                await store.backup(folder / "b")
        assert [path.name for path in folder.iterdir()] == ["b"]
        async with opened(folder / "b") as copied:
            assert values(copied.list("pods")) == {"a": 1}

    asyncio.run(run())


def test_a_backup_is_never_written_over_a_store_or_into_nowhere(file: Path, tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            with pytest.raises(Unwritable, match="is a store"):
                await store.backup(file)
            with pytest.raises(Unwritable, match="cannot be written"):
                await store.backup(tmp_path / "nowhere" / "b")
            await put(store, "a")

    asyncio.run(run())
    with pytest.raises(Unwritable, match="no store at"):
        copy(tmp_path / "nothing", tmp_path / "b")


def test_a_restored_store_goes_on_far_above_every_revision_that_was_handed_out(
    file: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "saved"

    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", 1)
            await put(store, "gone", 1)
            await put(store, "a", 2)
            await delete(store, "gone")
            await store.backup(saved)
            await put(store, "a", 3)
            await put(store, "b", 1)
            seen = store.revision
        assert restore(saved, file) == seen + REVISION_STEP
        async with opened(file) as store:
            assert values(store.list("pods")) == {"a": 2}
            assert store.revision == store.compacted == seen + REVISION_STEP
            for since in (1, 5, seen):
                with pytest.raises(Compacted):
                    store.watch("pods", since=since)
            record = await put(store, "b", 2)
            assert record.revision == seen + REVISION_STEP + 1
        assert restore(saved, file) == seen + 2 * REVISION_STEP + 1  # again, and again above
        async with opened(file.with_name("store.db.replaced")) as replaced:
            assert values(replaced.list("pods")) == {"a": 3, "b": 1}
        async with opened(file.with_name("store.db.replaced.2")) as replaced:
            assert values(replaced.list("pods")) == {"a": 2, "b": 2}

    asyncio.run(run())


def test_a_backup_can_be_restored_where_no_store_is_or_a_broken_one(file: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"

    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", 1)
            await store.backup(saved)
        restore(saved, tmp_path / "elsewhere" / "store.db")
        async with opened(tmp_path / "elsewhere" / "store.db") as store:
            assert values(store.list("pods")) == {"a": 1}
        file.write_bytes(b"broken" * 1000)
        assert restore(saved, file) == 2 + REVISION_STEP
        async with opened(file) as store:
            assert values(store.list("pods")) == {"a": 1}
        assert file.with_name("store.db.replaced").read_bytes() == b"broken" * 1000

    asyncio.run(run())


def test_a_store_in_use_is_not_restored_over(file: Path, tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", 1)
            await store.backup(tmp_path / "saved")
            with pytest.raises(Locked, match="in use by process"):
                restore(tmp_path / "saved", file)
            assert values(store.list("pods")) == {"a": 1}

    asyncio.run(run())


def test_a_broken_backup_is_refused_and_the_store_left_as_it_is(file: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"

    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", "x" * 20_000)
            await store.backup(saved)
        before = file.read_bytes()
        whole = saved.read_bytes()
        broken = bytearray(whole)
        broken[broken.index(b"xxxx" * 1000) + 99] = ord("y")
        for damage in (whole[: len(whole) // 2], bytes(broken), b"nothing" * 1000):
            saved.write_bytes(damage)
            with pytest.raises(Corrupt, match="saved"):
                restore(saved, file)
            assert file.read_bytes() == before
        with pytest.raises(Unwritable, match="no backup at"):
            restore(tmp_path / "nothing", file)
        assert sorted(path.name for path in file.parent.iterdir()) == [
            "store.db",
            "store.db.lock",
            "store.db.mark",
        ]

    asyncio.run(run())
