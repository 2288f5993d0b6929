"""Deadlines for peers and for answers, each with one reusable timer.

Most deadlines are extended or met long before they pass. Setting and cancelling a timer for each would be wasteful.
Instead, a timer that fires checks what its deadline has become meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any


class Deadline:
    """Calls ``passed`` when the time that was last set is over. Initially none is set."""

    __slots__ = ("_due", "_loop", "_passed", "_rings", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, passed: Callable[[], None]) -> None:
        self._loop = loop
        self._passed = passed
        self._due = inf
        self._timer: asyncio.TimerHandle | None = None
        self._rings = inf  # the timer, which may fire before the deadline

    def set(self, seconds: float) -> None:
        """Sets the deadline from now, replacing the previous one."""
        due = self._due = self._loop.time() + seconds
        if due < self._rings:
            self._ring_at(due)

    def lift(self) -> None:
        """Removes the deadline."""
        self._due = inf

    def close(self) -> None:
        """Removes the deadline for good, and drops the reference to its callback."""
        self._due, self._passed = inf, _nobody
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def ring(self) -> None:
        """Called when the timer fires."""
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
        self._begun: dict[asyncio.Task[Any], float] = {}  # in the order of their start
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, task: asyncio.Task[Any]) -> None:
        loop = asyncio.get_running_loop()
        self._begun[task] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._ring, loop)

    def end(self, task: asyncio.Task[Any]) -> bool:
        """Ends the deadline of a task. True if the task was cancelled for being late. Call it exactly once for each task."""
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
    """The callback of a closed deadline: does nothing."""
