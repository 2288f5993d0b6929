"""Pods that arrive together are planned together: a plan waits until no more pods come, up to a limit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Batch:
    """Open from the first arrival until nothing has come for ``idle`` seconds, or ``most`` seconds have passed."""

    idle: float = 1.0
    most: float = 10.0
    _first: float | None = None
    _last: float = 0.0

    def add(self, now: float) -> None:
        """Records an arrival."""
        self._first = now if self._first is None else self._first
        self._last = now

    def left(self, now: float) -> float:
        """For how many seconds the batch stays open; 0 if it is not open."""
        if self._first is None:
            return 0.0
        return max(0.0, min(self._last + self.idle, self._first + self.most) - now)

    def close(self) -> None:
        self._first = None
