"""When a peer has to have done what it is waited for, and a request has to be answered, with one timer that stays.

Most deadlines are put off or met long before they pass. So a timer is not set and cancelled for each: when it rings, it looks
what its time has become meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any


class Deadline:
    """Calls ``passed`` when the time that was last set is over. None is set at first."""

    __slots__ = ("_due", "_loop", "_passed", "_rings", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, passed: Callable[[], None]) -> None:
        self._loop = loop
        self._passed = passed
        self._due = inf
        self._timer: asyncio.TimerHandle | None = None
        self._rings = inf  # the timer; perhaps before it is due

    def set(self, seconds: float) -> None:
        """From now, in place of what was set before."""
        due = self._due = self._loop.time() + seconds
        if due < self._rings:
            self._ring_at(due)

    def lift(self) -> None:
        """Nothing is waited for."""
        self._due = inf

    def close(self) -> None:
        """Nothing will be any more, and whoever was to be told is let go."""
        self._due, self._passed = inf, _nobody
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def ring(self) -> None:
        """The timer's."""
        self._timer, self._rings = None, inf
        if self._due <= self._loop.time():
            self._passed()
        elif self._due < inf:
            self._ring_at(self._due)

    def _ring_at(self, time: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings = self._loop.call_at(time, self.ring), time


class Deadlines:
    """Cancels tasks that take longer than ``seconds``, which is the same for all of them."""

    __slots__ = ("_begun", "_late", "_timer", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._begun: dict[asyncio.Task[Any], float] = {}  # in the order in which they began
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, task: asyncio.Task[Any]) -> None:
        loop = asyncio.get_running_loop()
        self._begun[task] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._ring, loop)

    def end(self, task: asyncio.Task[Any]) -> bool:
        """Whether it was cancelled for being late. To be called once, whatever became of it."""
        self._begun.pop(task, None)
        if task not in self._late:
            return False
        self._late.discard(task)
        return True

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        for task, begun in list(self._begun.items()):
            left = begun + self.seconds - loop.time()
            if left > 0:
                self._timer = loop.call_later(left, self._ring, loop)
                return
            del self._begun[task]
            self._late.add(task)
            task.cancel()


def _nobody() -> None:
    """Is told that a time has passed that nobody waits for."""
