"""How long to wait before the next attempt: longer each time, with a random part."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Delays that double from ``first`` to ``longest`` seconds, each shortened at random by up to half.

    The random part keeps many clients that lost the same server from returning at the same moment.
    """

    def __init__(
        self, first: float = 0.1, longest: float = 30.0, *, random: Callable[[], float] = random.random
    ) -> None:
        self._first = first
        self._longest = longest
        self._random = random
        self._failures = 0

    def next(self) -> float:
        """The delay after one more failure."""
        delay = min(self._first * 2.0 ** min(self._failures, 60), self._longest)
        self._failures += 1
        return delay * (1.0 - 0.5 * self._random())

    def reset(self) -> None:
        """Starts over after a success."""
        self._failures = 0
