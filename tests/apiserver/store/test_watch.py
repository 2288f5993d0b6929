"""Watches: each change once, in order, to whom it concerns; and what happens to slow readers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.store.errors import Compacted, Overflow, StoreClosed
from allotment.apiserver.store.history import Window
from allotment.apiserver.store.record import Change
from allotment.apiserver.store.store import Store
from allotment.apiserver.store.watch import Buffer, Watch
from tests.apiserver.store.build import Disk, delete, drain, key, opened, put, story, thing


def test_a_watch_tells_every_change_after_its_revision(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            await put(store, "a", 1)
            await put(store, "b", 1)
            watch = store.watch("pods", since=2)
            await put(store, "a", 2)
            await delete(store, "b")
            changes = await drain(watch)
            assert story(changes) == [
                ("ADDED", "b", 1),
                ("MODIFIED", "a", 2),
                ("DELETED", "b", 1),
            ]
            assert [c.revision for c in changes] == [3, 4, 5]
            assert changes[0].previous is None
            assert changes[1].previous is not None
            assert changes[1].previous.load()["value"] == 1
            assert changes[2].record.load()["metadata"]["resourceVersion"] == "5"

    asyncio.run(run())


async def _fill(store: Store) -> None:
    await put(store, "x", 1, "a")
    await put(store, "y", 2, "a")
    await put(store, "x", 3, "b")
    await put(store, "x", 4, "", "nodes")
    await put(store, "y", 5, "", "nodes")
    await put(store, "x", 6, "a", "claims")


SCOPES = {
    "all pods": (("pods", "", ""), [1, 2, 3]),
    "pods of a namespace": (("pods", "a", ""), [1, 2]),
    "one pod": (("pods", "a", "x"), [1]),
    "a name in every namespace": (("pods", "", "x"), [1, 3]),
    "all nodes": (("nodes", "", ""), [4, 5]),
    "one node": (("nodes", "", "y"), [5]),
    "nothing there": (("pods", "c", ""), []),
}


@pytest.mark.parametrize(("scope", "expected"), SCOPES.values(), ids=SCOPES)
def test_a_watch_sees_its_scope_only(scope: tuple[str, str, str], expected: list[int], file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            live = store.watch(*scope, since=store.revision)
            await _fill(store)
            resumed = store.watch(*scope, since=1)
            for watch in (live, resumed):
                assert [c.record.load()["value"] for c in await drain(watch)] == expected
                assert watch.revision == store.revision

    asyncio.run(run())


def test_a_reader_waits_until_something_happens_or_time_is_up(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            watch = store.watch("pods", since=1)
            assert await watch.next(0) == []
            waiting = asyncio.create_task(watch.next(None))
            await asyncio.sleep(0)
            await put(store, "a", 1)
            assert story(await waiting) == [("ADDED", "a", 1)]
            waiting = asyncio.create_task(watch.next(60))
            await asyncio.sleep(0)
            waiting.cancel()
            await put(store, "a", 2)
            assert story(await watch.next(60)) == [("MODIFIED", "a", 2)]  # a cancelled read loses nothing

    asyncio.run(run())


def test_waits_that_end_with_a_change_set_one_alarm_and_leave_none(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        alarms: list[asyncio.TimerHandle] = []
        loop = asyncio.get_running_loop()
        call_at = loop.call_at

        def noted(when: float, call: Any, *args: Any, **more: Any) -> asyncio.TimerHandle:
            alarms.append(call_at(when, call, *args, **more))
            return alarms[-1]

        async with opened(file) as store:
            watch = store.watch("pods", since=1)
            monkeypatch.setattr(loop, "call_at", noted)
            for number in range(5):
                waiting = asyncio.create_task(watch.next(60))
                await asyncio.sleep(0)
                await put(store, "a", number)
                assert len(await waiting) == 1
            assert len(alarms) == 1
            watch.close()
            assert alarms[0].cancelled()

    asyncio.run(run())


@pytest.mark.parametrize("seconds", [90.0, None])
def test_an_alarm_of_an_earlier_wait_ends_no_later_one(file: Path, seconds: float | None) -> None:
    async def run() -> None:
        async with opened(file) as store:
            watch = store.watch("pods", since=1)
            for number, wait in enumerate((60.0, seconds)):
                waiting = asyncio.create_task(watch.next(wait))
                await asyncio.sleep(0)
                if number:
                    watch._ring(asyncio.get_running_loop())  # set by the first
                    await asyncio.sleep(0)
                    assert not waiting.done()
                await put(store, "a", number)
                assert len(await waiting) == 1
            async with asyncio.timeout(30):
                assert await watch.next(0.001) == []  # nor does a later one keep a short one waiting

    asyncio.run(run())


def test_a_watch_sees_only_what_is_durable(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            watch = store.watch("pods", since=1)
            disk = Disk(store)
            disk.hold()
            pending = store.put(key("a"), thing("a"))
            assert await watch.next(0) == []
            assert watch.revision == 1
            disk.release()
            await pending
            assert [c.revision for c in await watch.next(0)] == [2]

    asyncio.run(run())


def test_its_revision_is_what_a_bookmark_may_say(file: Path) -> None:
    async def run() -> None:
        async with opened(file, buffer=Buffer(turn_changes=1)) as store:
            for i in range(3):
                await put(store, "a", i)
            watch = store.watch("pods", since=2)
            assert watch.revision == 2
            await watch.next()
            assert watch.revision == 3  # one more is waiting
            await put(store, "x", resource="claims")
            await watch.next()
            assert watch.revision == store.revision == 5

    asyncio.run(run())


def test_a_watch_from_a_revision_to_come_starts_there(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            watch = store.watch("pods", since=3)
            assert watch.revision == 3
            for i in range(4):
                await put(store, "a", i)
            assert [c.revision for c in await drain(watch)] == [4, 5]

    asyncio.run(run())


def test_a_watch_from_before_the_history_is_refused(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            for i in range(5):
                await put(store, "a", i)
            old = store.watch("pods", since=2)
            await store.compact(4)
            with pytest.raises(Compacted) as refused:
                store.watch("pods", since=3)
            assert (refused.value.revision, refused.value.compacted) == (3, 4)
            assert [c.revision for c in await drain(store.watch("pods", since=4))] == [5, 6]
            assert [c.revision for c in await drain(old)] == [3, 4, 5, 6]  # it had them already

    asyncio.run(run())


OVERFLOWS = {"changes": Buffer(changes=3), "bytes": Buffer(bytes=3 * len(b"x" * 1000))}


@pytest.mark.parametrize("buffer", OVERFLOWS.values(), ids=OVERFLOWS)
def test_a_slow_reader_loses_the_watch_and_no_change_before_that(buffer: Buffer, file: Path) -> None:
    async def run() -> None:
        async with opened(file, buffer=buffer) as store:
            slow, quick = store.watch("pods", since=1), store.watch("pods", since=1)
            seen: list[Change] = []
            for i in range(2):
                await put(store, "a", str(i) * 1000)
                seen += await quick.next()
            assert [c.revision for c in await slow.next()] == [2, 3]
            for i in range(4):
                await put(store, "a", str(i) * 1000)
                seen += await quick.next()
            for _ in range(2):
                with pytest.raises(Overflow, match="slow reader of pods"):
                    await slow.next(0)
            assert slow.revision == 3
            assert store.stats.watches == 1
            assert [c.revision for c in seen] == [2, 3, 4, 5, 6, 7]

    asyncio.run(run())


def test_a_long_backlog_does_not_count_as_slowness_and_comes_in_portions(file: Path) -> None:
    async def run() -> None:
        async with opened(file, buffer=Buffer(changes=3, turn_changes=10, turn_bytes=400)) as store:
            for i in range(30):
                await put(store, "a", "x" * (0 if i < 15 else 500))
            watch = store.watch("pods", since=1)
            await put(store, "a", "new")
            portions = []
            while changes := await watch.next(0):
                portions.append(len(changes))
                assert len(changes) <= 10
            assert sum(portions) == 31
            assert portions[-5:-1] == [1, 1, 1, 1]

    asyncio.run(run())


def test_closing_the_watch_or_the_store_ends_a_waiting_reader(file: Path) -> None:
    async def run() -> None:
        async with opened(file) as store:
            first, second = store.watch("pods", since=1), store.watch("pods", since=1)
            readers = [asyncio.create_task(watch.next(None)) for watch in (first, second)]
            await asyncio.sleep(0)
            first.close()
            first.close()
            await store.close()
            assert store.stats.watches == 0
            for result in await asyncio.gather(*readers, return_exceptions=True):
                assert isinstance(result, StoreClosed)

    asyncio.run(run())


def test_the_newest_changes_are_shared_and_old_ones_are_not_kept_with_their_lines(file: Path) -> None:
    async def run() -> None:
        async with opened(file, Window(shared_bytes=200)) as store:
            watches = [store.watch("pods", since=1) for _ in range(2)]
            for i in range(20):
                await put(store, "a", i)
            one, other = [await drain(watch) for watch in watches]
            assert all(a is b for a, b in zip(one, other, strict=True))
            for change in one:
                change.line = b"encoded"
            late = await drain(store.watch("pods", since=1))
            assert [c.revision for c in late] == [c.revision for c in one]
            assert [c.line for c in late] == [None] * 18 + [b"encoded"] * 2
            store.validate()

    asyncio.run(run())


def test_a_change_meets_only_the_watches_that_it_concerns(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with opened(file) as store:
            met: list[Watch] = []
            push = Watch.push

            def spy(watch: Watch, change: Change, size: int) -> None:
                met.append(watch)
                push(watch, change, size)

            monkeypatch.setattr(Watch, "push", spy)
            for i in range(1000):
                store.watch("pods", "default", f"idle-{i}", since=1)
            store.watch("claims", since=1)
            busy = [store.watch("pods", since=1) for _ in range(50)]
            await put(store, "a")
            assert len(met) == 50
            assert set(met) == set(busy)
            assert store.stats.watches == 1051

    asyncio.run(run())
