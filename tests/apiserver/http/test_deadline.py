"""Deadlines on a loop whose clock the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.http.deadline import Deadline


@dataclass(eq=False)
class Timer:
    time: float
    call: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Loop:
    now: float = 0.0
    timers: list[Timer] = field(default_factory=list)
    set_in_all: int = 0

    def time(self) -> float:
        return self.now

    def call_at(self, time: float, call: Callable[[], None]) -> Timer:
        self.set_in_all += 1
        self.timers.append(Timer(time, call))
        return self.timers[-1]

    def pass_to(self, time: float) -> None:
        """Rings what is due on the way, in order."""
        while True:
            due = [timer for timer in self.timers if not timer.cancelled and timer.time <= time]
            if not due:
                break
            first = min(due, key=lambda timer: timer.time)
            self.timers.remove(first)
            self.now = max(self.now, first.time)
            first.call()
        self.now = time

    def open(self) -> int:
        return sum(not timer.cancelled for timer in self.timers)


def made() -> tuple[Deadline, Loop, list[float]]:
    loop, passed = Loop(), list[float]()
    faked: Any = loop
    own: asyncio.AbstractEventLoop = faked
    return Deadline(own, lambda: passed.append(loop.now)), loop, passed


@given(st.lists(st.tuples(st.sampled_from(["set", "lift"]), st.integers(1, 20), st.integers(0, 9))))
def test_it_passes_when_and_only_when_the_last_time_set_is_over(steps: list[tuple[str, int, int]]) -> None:
    deadline, loop, passed = made()
    expected: list[float] = []
    due: float | None = None
    for what, seconds, wait in steps:
        if what == "set":
            deadline.set(seconds)
            due = loop.now + seconds
        else:
            deadline.lift()
            due = None
        until = loop.now + wait
        if due is not None and due <= until:
            expected.append(due)
            due = None
        loop.pass_to(until)
        assert passed == expected
        assert loop.open() <= 1


def test_putting_it_off_time_and_again_sets_no_timer() -> None:
    deadline, loop, passed = made()
    for second in range(100):
        loop.pass_to(float(second))
        deadline.set(200.0)
    assert (loop.set_in_all, passed) == (1, [])
    loop.pass_to(1000.0)
    assert passed == [299.0]


def test_nothing_is_told_or_kept_once_it_is_closed() -> None:
    deadline, loop, passed = made()
    deadline.set(1.0)
    deadline.close()
    loop.pass_to(5.0)
    assert (passed, loop.open()) == ([], 0)
