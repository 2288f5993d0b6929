"""Reads, writes, the two views, and those who follow them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from allotment.apiserver.store import store as store_module
from allotment.apiserver.store.errors import Compacted, ObjectTooLarge, Overloaded, StoreClosed
from allotment.apiserver.store.history import Window
from allotment.apiserver.store.record import Record
from allotment.apiserver.store.store import Store
from tests.apiserver.store.build import (
    Disk,
    delete,
    key,
    opened,
    put,
    revision,
    revisions_in_file,
    thing,
    values,
)


def test_an_empty_store_starts_at_revision_1_since_clients_take_0_for_any(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            assert (store.revision, store.compacted) == (1, 1)
            assert store.list("pods") == []
            assert (await put(store, "a")).revision == 2

    asyncio.run(run())


def test_a_write_puts_its_revision_into_the_object_and_the_bytes(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            obj = thing("a", "x")
            record = await store.put(key("a"), obj)
            assert obj["metadata"]["resourceVersion"] == str(record.revision) == "2"
            assert record.load() == obj
            assert store.get(key("a")) is record

    asyncio.run(run())


def test_what_was_written_is_there_after_opening_again(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", 1)
            await put(store, "b", 2)
            await put(store, "a", 3)
            await put(store, "node", 4, namespace="", resource="nodes")
            await delete(store, "b")
        async with opened(file) as store:
            assert store.revision == 6
            assert values(store.list("pods")) == {"a": 3}
            assert values(store.list("nodes")) == {"node": 4}
            assert values(store.list_at("pods", "", 3)) == {"a": 1, "b": 2}
            assert (await put(store, "c")).revision == 7

    asyncio.run(run())


def test_a_list_is_sorted_by_namespace_and_name_and_a_namespace_is_a_part_of_it(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            for namespace in ("b", "a", "a-1", "aa"):
                for name in ("y", "x"):
                    await put(store, name, namespace, namespace)
            places = [(r.key.namespace, r.key.name) for r in store.list("pods")]
            assert places == sorted(places)
            assert len(places) == 8
            assert [r.key.name for r in store.list("pods", "a")] == ["x", "y"]
            assert store.list("pods", "nowhere") == []

    asyncio.run(run())


def test_reads_see_only_what_is_durable_and_the_head_sees_all(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", 1)
            await put(store, "c", 1)
            disk = Disk(store)
            disk.hold()
            pending = [
                store.put(key("a"), thing("a", 2)),
                store.put(key("b"), thing("b", 1)),
                store.put(key("a"), thing("a", 3)),
                store.delete(key("c"), thing("c", 1)),
            ]
            assert values(store.list("pods")) == {"a": 1, "c": 1}
            assert store.get(key("b")) is None
            assert store.revision == 3
            assert values(list(store.heads("pods"))) == {"a": 3, "b": 1}
            assert values(list(store.heads("pods", "default"))) == {"a": 3, "b": 1}
            assert list(store.heads("pods", "other")) == []
            assert store.head(key("c")) is None
            assert store.stats.pending == 4
            store.validate()
            disk.release()
            assert [(await each).revision for each in pending] == [4, 5, 6, 7]
            assert values(store.list("pods")) == {"a": 3, "b": 1}

    asyncio.run(run())


def test_writes_of_one_turn_are_committed_together(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            disk = Disk(store)
            await asyncio.gather(*(put(store, f"p{i}", i) for i in range(50)))
            assert disk.transactions == [50]

    asyncio.run(run())


def test_a_store_that_is_closed_at_once_keeps_what_was_written(file: Path) -> None:
    async def write() -> None:
        async with opened(file) as store:
            store.put(key("a"), thing("a", 1))

    async def read() -> None:
        async with opened(file) as store:
            assert values(store.list("pods")) == {"a": 1}

    asyncio.run(write())
    asyncio.run(read())


def test_followers_may_look_at_the_object_while_they_are_told(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            seen = []
            store.follow("pods", lambda before, after: seen.append(after and after.at_hand))
            obj = thing("a", 1)
            pending = store.put(key("a"), obj)
            assert seen == [obj]
            assert seen[0] is obj
            assert pending.record.at_hand is None
            assert pending.record.peek() == obj
            assert pending.record.peek() is not obj

    asyncio.run(run())


def test_writes_that_meet_a_busy_disk_are_committed_together(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            seen: list[int] = []
            store.on_commit = lambda seconds, writes: seen.append(writes)
            disk = Disk(store)
            disk.hold()
            pending = [store.put(key(f"p{i}"), thing(f"p{i}")) for i in range(1200)]
            disk.release()
            await asyncio.gather(*pending)
            assert sum(disk.transactions) == 1200
            assert len(disk.transactions) <= 4  # what came first, then 500 at a time
            assert max(disk.transactions) <= 500
            assert seen == disk.transactions
            assert store.stats.writes == 1200
            assert store.stats.commits == len(seen)
            assert store.stats.last_commit_writes == seen[-1]
            assert store.stats.commit_seconds >= store.stats.last_commit_seconds > 0

    asyncio.run(run())


def test_a_cancelled_waiter_cancels_neither_the_write_nor_other_waiters(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            disk = Disk(store)
            disk.hold()
            pending = store.put(key("a"), thing("a", 1))

            async def wait() -> Record:
                return await pending

            impatient, patient = asyncio.create_task(wait()), asyncio.create_task(wait())
            await asyncio.sleep(0)
            impatient.cancel()
            with pytest.raises(asyncio.CancelledError):
                await impatient
            disk.release()
            assert (await patient).revision == 2
            assert await pending is await patient  # also when it is long done
            assert values(store.list("pods")) == {"a": 1}

    asyncio.run(run())


def test_an_old_list_is_what_was_there_at_its_revision(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", 1)
            await put(store, "b", 1, namespace="other")
            await delete(store, "a")
            await put(store, "a", 2)
            await put(store, "b", 2, resource="claims")
            expected: dict[int, dict[str, int]] = {
                1: {},
                2: {"a": 1},
                3: {"a": 1, "b": 1},
                4: {"b": 1},
                5: {"a": 2, "b": 1},
                6: {"a": 2, "b": 1},
            }
            for when, there in expected.items():
                assert values(store.list_at("pods", "", when)) == there
            assert values(store.list_at("pods", "default", 3)) == {"a": 1}
            with pytest.raises(ValueError, match="not there yet"):
                store.list_at("pods", "", 7)
            await store.compact(4)
            with pytest.raises(Compacted, match="revision 3 is older"):
                store.list_at("pods", "", 3)
            assert values(store.list_at("pods", "", 4)) == {"b": 1}

    asyncio.run(run())


def test_followers_hear_of_what_is_there_and_of_every_write_on_the_head(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", 1)
            disk = Disk(store)
            disk.hold()
            store.put(key("b"), thing("b", 1))
            heard: list[tuple[int | None, int | None]] = []
            everywhere: list[str] = []

            def follow(before: Record | None, after: Record | None) -> None:
                heard.append((revision(before), revision(after)))

            def follow_all(before: Record | None, after: Record | None) -> None:
                record = after or before
                assert record is not None
                everywhere.append(record.key.resource)

            store.follow("pods", follow)
            store.follow("", follow_all)
            assert heard == [(None, 2), (None, 3)]
            store.put(key("a"), thing("a", 2))
            store.put(key("n", "", "nodes"), thing("n"))
            pending = store.delete(key("a"), thing("a", 2))
            assert heard[2:] == [(2, 4), (4, None)]
            assert everywhere == ["pods", "pods", "pods", "nodes", "pods"]
            disk.release()
            await pending

    asyncio.run(run())


def test_what_is_not_there_cannot_be_deleted(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            with pytest.raises(LookupError, match="not there"):
                store.delete(key("a"), thing("a"))
            assert store.revision == 1

    asyncio.run(run())


def test_an_object_that_cannot_be_encoded_changes_nothing(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            with pytest.raises(TypeError):
                store.put(key("a"), thing("a", object()))
            assert store.head(key("a")) is None
            assert (await put(store, "b")).revision == 2

    asyncio.run(run())


def test_more_than_the_disk_can_take_is_refused_and_taken_later(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with opened(file) as store:
            monkeypatch.setattr(store_module, "MAX_PENDING_BYTES", 1000)
            disk = Disk(store)
            disk.hold()
            first = store.put(key("a"), thing("a", "x" * 1000))
            with pytest.raises(Overloaded, match="1 writes wait"):
                store.put(key("b"), thing("b"))
            disk.release()
            await first
            await put(store, "b")

    asyncio.run(run())


def test_an_object_that_grows_too_large_is_refused_and_one_that_is_may_shrink(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", "x" * 300)
            monkeypatch.setattr(store_module, "MAX_OBJECT", 200)
            for name in ("a", "b"):
                with pytest.raises(ObjectTooLarge):
                    store.put(key(name), thing(name, "x" * 301))
            assert (await put(store, "a", "x" * 299)).revision == 3
            await delete(store, "a")
            store.validate()

    asyncio.run(run())


def test_closing_finishes_what_is_on_its_way_and_refuses_the_rest(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            pending = [store.put(key(f"p{i}"), thing(f"p{i}")) for i in range(100)]
            await store.close()
            assert all(each.done for each in pending)
            assert (await pending[-1]).revision == 101
            with pytest.raises(StoreClosed):
                store.put(key("b"), thing("b"))
            with pytest.raises(StoreClosed):
                store.watch("pods", since=1)
            await store.close()
        async with opened(file) as store:
            assert len(store.list("pods")) == 100

    asyncio.run(run())


def test_a_store_may_outlive_an_event_loop(file: Path) -> None:
    store = Store.open(file)
    asyncio.run(put(store, "a"))
    asyncio.run(put(store, "b"))
    asyncio.run(store.close())
    assert store.revision == 3


WINDOWS = {
    "number": Window(changes=10),
    "bytes": Window(bytes=800),
    "age": Window(seconds=-1),
}


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_the_history_is_bounded_by(window: Window, file: Path) -> None:
    async def run() -> None:
        async with opened(file, window) as store:
            for i in range(100):
                await put(store, f"p{i % 3}", i)
            assert store.stats.history <= 10
            assert store.stats.history_bytes <= 1000
            assert store.compacted == store.revision - store.stats.history
            await store.compact(0)  # nothing more, but what was let go leaves the file now
            rows = store.stats.history + 3
        async with opened(file, window) as store:
            assert store.revision == 101
            assert len(revisions_in_file(store)) <= rows

    asyncio.run(run())


def test_revisions_go_on_when_everything_was_deleted_and_forgotten(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a")
            await delete(store, "a")
            await store.compact(store.revision)
        async with opened(file) as store:
            assert (store.revision, store.compacted) == (3, 3)
            assert (await put(store, "a")).revision == 4

    asyncio.run(run())
