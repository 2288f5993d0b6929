"""The time as the scheduler has been told it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Clock:
    """One value for a whole core, in seconds. The core moves it, by what ``Tick`` events say; its parts only read it.

    Plugins and the placer get the time of an attempt with it (``Cycle.now``): they are asked on other clusters too.
    """

    now: float = 0.0

    def advance(self, now: float) -> None:
        """It is so late by now; the clock never goes back."""
        self.now = max(self.now, now)
