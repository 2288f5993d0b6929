"""A disk that is full or broken: what was on its way did not happen, and the store goes on."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from allotment.apiserver.store.errors import CommitFailed
from allotment.apiserver.store.history import DroppedChange, Window
from allotment.apiserver.store.pending import Pending
from allotment.apiserver.store.record import Record
from tests.apiserver.store.build import (
    Disk,
    delete,
    drain,
    key,
    opened,
    put,
    revision,
    revisions_in_file,
    thing,
    values,
)


def test_everything_on_its_way_fails_and_the_head_is_the_durable_state_again(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", 1)
            watch = store.watch("pods", since=store.revision)
            disk = Disk(store)
            disk.hold()
            disk.break_down()
            pending = [store.put(key("a"), thing("a", 2)), store.delete(key("a"), thing("a", 2))]
            pending += [
                store.put(key(f"p{i}"), thing(f"p{i}")) for i in range(1000)
            ]  # more than one turn's worth
            disk.release()
            for each in pending:
                with pytest.raises(CommitFailed, match="disk I/O error"):
                    await each
            assert values(list(store.heads("pods"))) == values(store.list("pods")) == {"a": 1}
            assert store.revision == 2
            assert store.stats.pending == store.stats.pending_bytes == 0
            assert store.stats.failures == 1
            assert await drain(watch) == []
            store.validate()

            disk.repair()
            assert (await put(store, "b")).revision == 3
            assert [c.revision for c in await drain(watch)] == [3]

    asyncio.run(run())


def test_followers_are_told_the_inverse_newest_first(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", 1)
            heard: list[tuple[int | None, int | None]] = []
            counted: dict[str, int] = {}

            def follow(before: Record | None, after: Record | None) -> None:
                heard.append((revision(before), revision(after)))
                if before:
                    assert counted.pop(before.key.name) == before.revision
                if after:
                    counted[after.key.name] = after.revision

            store.follow("pods", follow)
            disk = Disk(store)
            disk.hold()
            disk.break_down()
            store.put(key("a"), thing("a", 2))
            store.delete(key("a"), thing("a", 2))
            last = store.put(key("a"), thing("a", 3))
            disk.release()
            with pytest.raises(CommitFailed):
                await last
            assert heard == [(None, 2), (2, 3), (3, None), (None, 5), (5, None), (None, 3), (3, 2)]
            assert counted == {"a": 2}

    asyncio.run(run())


def test_a_write_decided_on_a_head_that_failed_is_never_committed(file: Path) -> None:
    """The loop has not yet heard of the failure when it decides the second write."""

    async def run() -> None:
        async with opened(file) as store:
            disk = Disk(store)
            disk.break_down()
            first = store.put(key("a"), thing("a", 1))
            store._send()  # as when the loop turns, without letting it hear of the failure
            while store._writer._failed_epoch != 0:  # the writer has failed, and the loop did not run
                pass
            disk.repair()
            second = store.put(key("a"), thing("a", 2))
            for each in (first, second):
                with pytest.raises(CommitFailed):
                    await each
            assert store.head(key("a")) is None
            assert (await put(store, "a", 3)).revision == 2
            assert disk.transactions == [1]

    asyncio.run(run())


def test_a_full_disk_refuses_writes_until_there_is_room(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", 1)
            pages = store._database.connection.execute("PRAGMA page_count").fetchone()[0]
            store._database.connection.execute(f"PRAGMA max_page_count = {pages + 3}")
            with pytest.raises(CommitFailed, match="full"):
                await put(store, "b", "x" * 100_000)
            assert values(store.list("pods")) == {"a": 1}
            await delete(store, "a")
            store._database.connection.execute("PRAGMA max_page_count = 1000000")
            await put(store, "b", "x" * 100_000)
            assert store.revision == 4

    asyncio.run(run())


def test_what_left_the_history_leaves_the_file_once_commits_succeed_again(file: Path) -> None:
    async def run() -> None:
        async with opened(file, Window(changes=1)) as store:
            for i in range(5):
                await put(store, "a", i)
            disk = Disk(store)
            disk.break_down(sqlite3.OperationalError("database or disk is full"))
            await store.compact(store.revision)
            disk.repair()
            store.validate()
            await put(store, "b")
            await store.compact(store.revision)
        async with opened(file) as store:
            assert revisions_in_file(store) == [6, 7]

    asyncio.run(run())


def test_a_waiter_that_nobody_is_hurts_nobody_when_its_write_fails(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            disk = Disk(store)
            disk.break_down()
            store.put(key("a"), thing("a"))
            await store.compact(0)  # a way to wait until the writer got there
            disk.repair()
            assert store.stats.failures == 1

    asyncio.run(run())


@pytest.mark.parametrize("trimming", [False, True], ids=["writes alone", "with compaction"])
def test_a_transaction_that_was_left_open_swallows_nothing(trimming: bool, file: Path) -> None:
    """Whatever is written inside it would be gone after a restart."""

    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", 1)
            await put(store, "a", 2)
            store._database.connection.execute("BEGIN IMMEDIATE")
            store._database.connection.execute("DELETE FROM revisions")
            if trimming:
                await store.compact(2)
            await put(store, "b", 1)
            assert not store._database.connection.in_transaction
        async with opened(file) as store:
            assert values(store.list("pods")) == {"a": 2, "b": 1}

    asyncio.run(run())


def test_a_commit_that_failed_in_word_only_is_not_written_over(file: Path) -> None:
    """SQLite said no, and yet it is on disk: writes fail until the store is opened again and sees it."""

    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", 1)
            commit = store._database.commit

            def lie(writes: Sequence[Pending], evicted: Sequence[DroppedChange] = ()) -> None:
                commit(writes, evicted)
                raise sqlite3.OperationalError("disk I/O error")

            store._database.commit = lie  # type: ignore[method-assign]  # the seam for broken disks
            with pytest.raises(CommitFailed, match="I/O"):
                await put(store, "a", 2)
            store._database.commit = commit  # type: ignore[method-assign]  # as above
            with pytest.raises(CommitFailed, match="UNIQUE"):
                await put(store, "a", 3)
            assert values(store.list("pods")) == {"a": 1}
            await store.close()
        async with opened(file) as store:
            assert values(store.list("pods")) == {"a": 2}
            await put(store, "a", 4)

    asyncio.run(run())
