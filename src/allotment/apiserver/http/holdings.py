"""Counts the bytes that users occupy in buffers, and decides what to drop if they are too many. No clock, no I/O.

A holding is a body that is not answered yet, or the part of a reply that a peer has not read. Its owner is a user. There is
a bound for each owner and one for all. Excess is dropped from the top: from the owner who holds most, the largest holding
first.

Invariants: the sums are those of the holdings; once everything in :meth:`BufferHoldings.excess` is dropped, no bound is
exceeded.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class BufferHoldings(Generic[T]):
    """Holdings of at most ``most`` bytes in total, and ``most_each`` for one owner."""

    def __init__(self, most: int, most_each: int) -> None:
        self.most = most
        self.most_each = most_each
        self.total = 0
        self._owned: dict[str, dict[T, int]] = {}
        self._sums: dict[str, int] = {}

    def hold(self, owner: str, thing: T, size: int) -> None:
        """Sets the size of a holding."""
        things = self._owned.setdefault(owner, {})
        more = size - things.get(thing, 0)
        things[thing] = size
        self._sums[owner] = self._sums.get(owner, 0) + more
        self.total += more

    def drop(self, owner: str, thing: T) -> None:
        """Removes a holding. Does nothing if there is none."""
        things = self._owned.get(owner, {})
        size = things.pop(thing, None)
        if size is None:
            return
        self.total -= size
        self._sums[owner] -= size
        if not things:
            del self._owned[owner], self._sums[owner]

    def exceeds(self, owner: str) -> bool:
        """Whether this owner, or all together, hold too much."""
        return self.total > self.most or self._sums.get(owner, 0) > self.most_each

    def excess(self) -> list[T]:
        """The holdings to drop, in this order. They count until they are dropped."""
        found: list[T] = []
        sums, total = dict(self._sums), self.total
        left: dict[str, dict[T, int]] = {}
        while total > self.most or max(sums.values(), default=0) > self.most_each:
            owner = max(sums, key=lambda each: sums[each])
            things = left.setdefault(owner, dict(self._owned[owner]))
            largest = max(things, key=lambda each: things[each])
            size = things.pop(largest)
            sums[owner] -= size
            total -= size
            found.append(largest)
        return found

    def validate(self) -> None:
        sums = {owner: sum(things.values()) for owner, things in self._owned.items()}
        assert self._sums == sums
        assert self.total == sum(sums.values())
        assert all(self._owned.values()), "an owner is kept who holds nothing"
