"""Heavy work: users take turns, whoever gives up frees no thread, and failures reach whoever asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event

import pytest

from allotment.apiserver.http.heavy import HeavyWork


class Jobs:
    """Pieces of work that note when they begin; the first waits until it is let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.go = Event()

    def named(self, name: str) -> Callable[[], str]:
        def work() -> str:
            self.begun.append(name)
            assert self.go.wait(30)
            return name

        return work


async def asked(heavy: HeavyWork, jobs: Jobs, *names: str) -> list[asyncio.Task[str]]:
    """Work of these names, whose first letter is the user's, in this order; the first of it has begun."""
    tasks = []
    for name in names:
        tasks.append(asyncio.create_task(heavy.run(name[0], jobs.named(name))))
        await asyncio.sleep(0)
    while not jobs.begun:
        await asyncio.sleep(0)
    return tasks


@pytest.mark.parametrize(
    ("arriving", "begun"),
    {
        "a user who comes late waits for one piece": (["a1", "a2", "a3", "a4", "b1"], "a1 b1 a2 a3 a4"),
        "users take turns": (["a1", "a2", "a3", "b1", "b2", "c1"], "a1 b1 c1 a2 b2 a3"),
        "one user's come in their order": (["a1", "a2", "a3"], "a1 a2 a3"),
    }.values(),
)
def test_users_take_turns(arriving: list[str], begun: str) -> None:
    async def scenario() -> None:
        heavy, jobs = HeavyWork(1), Jobs()
        tasks = await asked(heavy, jobs, *arriving)
        assert jobs.begun == [arriving[0]]  # one thread
        jobs.go.set()
        assert await asyncio.gather(*tasks) == arriving
        assert jobs.begun == begun.split()

    asyncio.run(scenario())


def test_whoever_gives_up_while_the_thread_works_frees_none() -> None:
    async def scenario() -> None:
        heavy, jobs = HeavyWork(1), Jobs()
        first, second = await asked(heavy, jobs, "a1", "b1")
        first.cancel()
        await asyncio.wait([first])
        await asyncio.sleep(0)
        assert jobs.begun == ["a1"]
        jobs.go.set()
        assert await second == "b1"

    asyncio.run(scenario())


def test_whoever_gives_up_in_the_queue_keeps_nobody_waiting() -> None:
    async def scenario() -> None:
        heavy, jobs = HeavyWork(1), Jobs()
        first, second, third = await asked(heavy, jobs, "a1", "b1", "c1")
        second.cancel()
        await asyncio.wait([second])
        jobs.go.set()
        assert (await first, await third) == ("a1", "c1")
        assert jobs.begun == ["a1", "c1"]
        assert await heavy.run("b", jobs.named("b2")) == "b2"

    asyncio.run(scenario())


def test_a_failure_reaches_whoever_asked_and_the_thread_is_free_again() -> None:
    def fail() -> None:
        raise LookupError("no")

    async def scenario() -> None:
        heavy = HeavyWork(1)
        for _ in range(3):
            with pytest.raises(LookupError):
                await heavy.run("a", fail)

    asyncio.run(scenario())
