"""Queues of keys: each once, never by two workers, failures later and later."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.client.backoff import Backoff
from allotment.client.work_queue import QueueClosed, WorkQueue


def in_loop(scenario: Callable[[WorkQueue[str]], Awaitable[None]]) -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue()
        await scenario(queue)
        queue.validate()
        queue.close()

    asyncio.run(run())


def test_a_key_added_often_is_handed_out_once() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        for _ in range(3):
            queue.add("a")
        queue.add("b")
        assert [await queue.get(), await queue.get(), len(queue)] == ["a", "b", 0]

    in_loop(scenario)


def test_a_key_added_while_it_is_worked_on_comes_again_when_that_is_done() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        queue.add("a")
        key = await queue.get()
        queue.add("a")
        assert len(queue) == 0
        queue.done(key)
        assert await queue.get() == "a"

    in_loop(scenario)


def test_a_waiting_worker_wakes_up() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        worker = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        queue.add("late")
        assert await worker == "late"

    in_loop(scenario)


def test_of_two_delays_the_earlier_counts() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        queue.add_after("a", 3600)
        queue.add_after("a", 0.001)
        queue.add_after("a", 3600)
        assert await queue.get() == "a"

    in_loop(scenario)


def test_closing_ends_waiting_workers_but_hands_out_what_is_there() -> None:
    async def scenario(queue: WorkQueue[str]) -> None:
        queue.add("last")
        queue.close()
        queue.add("too late")
        assert await queue.get() == "last"
        with pytest.raises(QueueClosed):
            await queue.get()

    in_loop(scenario)


def test_retries_of_one_key_double_and_success_starts_over() -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue(first_delay=10, longest_delay=50, now=lambda: 0.0)
        due = []
        for _ in range(4):
            queue.retry("a")
            due.append(queue._timers["a"][0])
            queue._stop_timer("a")
        assert due == [10, 20, 40, 50]
        assert queue.failures("a") == 4
        queue.forget("a")
        queue.retry("a")
        assert queue._timers["a"][0] == 10
        queue.close()

    asyncio.run(run())


def test_many_failing_keys_share_one_rate() -> None:
    async def run() -> None:
        queue: WorkQueue[int] = WorkQueue(first_delay=0.001, retries_per_second=2, burst=2, now=lambda: 100.0)
        for key in range(6):
            queue.retry(key)
        delays = [queue._timers[key][0] - 100 for key in range(6)]
        assert delays == pytest.approx([0.001, 0.001, 0.5, 1, 1.5, 2])
        queue.close()

    asyncio.run(run())


@given(st.lists(st.tuples(st.sampled_from(["add", "get", "done"]), st.sampled_from("abc")), max_size=60))
def test_any_sequence_of_calls_keeps_the_invariants_and_loses_no_key(calls: list[tuple[str, str]]) -> None:
    async def run() -> None:
        queue: WorkQueue[str] = WorkQueue()
        owed: set[str] = set()  # keys added since their work last began
        working: set[str] = set()
        for call, key in calls:
            if call == "add":
                queue.add(key)
                owed.add(key)
            elif call == "get" and len(queue):
                got = await queue.get()
                assert got not in working
                working.add(got)
                owed.discard(got)
            elif call == "done" and key in working:
                working.discard(key)
                queue.done(key)
            queue.validate()
        for key in sorted(working):
            queue.done(key)
        assert {await queue.get() for _ in range(len(queue))} == owed
        queue.close()

    asyncio.run(run())


def test_backoff_doubles_up_to_a_limit_and_varies() -> None:
    whole = Backoff(1, 10, random=lambda: 0.0)
    assert [whole.next() for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    whole.reset()
    assert whole.next() == 1
    assert Backoff(1, 10, random=lambda: 1.0).next() == 0.5
