"""Lets users take turns where few are served at a time. Events in, decisions out; no clock, no I/O.

The next turn goes to the user whose last turn is longest ago; users without one come first, in the order of arrival. So
between the arrival of a user's first request and its turn, every other user has at most one turn. ``fairness.py`` differs:
there many small requests have seats at a time. Here, being served at once counts as a turn, and nothing is refused.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """At most ``places`` requests are served at a time. :meth:`arrive` and :meth:`leave` return those whose turn it is."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._serving: Counter[str] = Counter()
        self._waiting: dict[str, deque[T]] = {}
        self._last: dict[str, int] = {}  # last turn of the users that are served or wait
        self._turns = 0

    def arrive(self, user: str, one: T) -> list[T]:
        self._waiting.setdefault(user, deque()).append(one)
        return self._next()

    def leave(self, user: str) -> list[T]:
        """A request that had its turn is done."""
        self._serving[user] -= 1
        return self._next()

    def give_up(self, user: str, one: T) -> None:
        """A waiting request gives up."""
        self._waiting[user].remove(one)
        self._forget(user)

    def _next(self) -> list[T]:
        begun = []
        while self._serving.total() < self._places and self._waiting:
            user = min(self._waiting, key=lambda each: self._last.get(each, 0))
            begun.append(self._waiting[user].popleft())
            self._turns += 1
            self._last[user] = self._turns
            self._serving[user] += 1
            self._forget(user)
        for user in [user for user, count in self._serving.items() if not count]:
            del self._serving[user]
            self._forget(user)
        return begun

    def _forget(self, user: str) -> None:
        if not self._waiting.get(user):
            self._waiting.pop(user, None)
            if user not in self._serving:
                self._last.pop(user, None)

    def validate(self) -> None:
        serving = self._serving.total()
        assert serving <= self._places
        assert not self._waiting or serving == self._places, "a place is free and somebody waits"
        assert all(self._waiting.values()), "users are kept that have nothing waiting"
        assert set(self._last) <= set(self._waiting) | set(self._serving), "users are kept that are gone"
