"""When a peer has to have done what it is waited for, with one timer that stays.

Most deadlines are put off long before they pass. So a timer is not set and cancelled for each: when it rings, it looks
whether its time has been put off meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf


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


def _nobody() -> None:
    """Is told that a time has passed that nobody waits for."""
