"""Pods that arrive together are planned for together: a plan waits until no more come, but not for ever."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Batch:
    """Open from the first arrival until nothing came for ``idle`` seconds, or ``most`` have passed."""

    idle: float = 1.0
    most: float = 10.0
    _first: float | None = None
    _last: float = 0.0

    def add(self, now: float) -> None:
        """Something arrived."""
        self._first = now if self._first is None else self._first
        self._last = now

    def left(self, now: float) -> float:
        """For how many seconds it stays open; 0 if it is not open."""
        if self._first is None:
            return 0.0
        return max(0.0, min(self._last + self.idle, self._first + self.most) - now)

    def close(self) -> None:
        self._first = None
