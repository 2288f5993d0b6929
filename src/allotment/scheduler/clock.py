"""The time as of the scheduler's last ``Tick``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Clock:
    """One time for a whole core, in seconds. The core moves it by ``Tick`` events; its parts only read it.

    Plugins and the placer get the time with each attempt (``Cycle.now``), because they also work on other clusters.
    """

    now: float = 0.0

    def advance(self, now: float) -> None:
        """Moves the clock to this time; it never goes back."""
        self.now = max(self.now, now)
