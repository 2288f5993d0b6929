"""Chooses the next of several tenants: the highest priority first; among equals, the tenant that has cost least so far.

Cost is what decisions took, in steps (``allocator.effort``). A tenant that was idle for a while starts level with the tenant that
is being served. So no tenant saves up cost for later, and a new tenant does not wait for what others used before. Two tenants
that always have entries waiting each get half of all steps, whatever their entries are.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.scheduler.queue import QueueEntry, Rank

_MOST_IDLE = 10_000

_Turn = tuple[int, int, float, int, str]
"""The lowest is served first: the negated priority, the tenant's cost, the entry's time of arrival, its number, and the
tenant."""


class FairOrder:
    """Orders ranks by tenant. ``entry`` returns the entry of a rank, or None if that entry no longer waits to be served."""

    def __init__(self, entry: Callable[[Rank], QueueEntry | None]) -> None:
        self._entry = entry
        self._ranks: dict[str, list[Rank]] = {}  # a heap per tenant, which may hold ranks without an entry
        self._cost: dict[str, int] = {}
        self._turns: list[_Turn] = []  # a heap; only those in ``_turn`` count
        self._turn: dict[str, _Turn] = {}
        self._now = 0  # the cost of the tenant that was served last, when it was

    def add(self, tenant: str, rank: Rank) -> None:
        """Adds an entry to be served."""
        ranks = self._ranks.get(tenant)
        if ranks is None:
            ranks = self._ranks[tenant] = []
            self._cost[tenant] = max(self._cost.get(tenant, 0), self._now)
            if len(self._cost) > _MOST_IDLE:
                self._forget_idle()
        heappush(ranks, rank)
        turn = self._turn_of(tenant, rank)
        if tenant not in self._turn or turn < self._turn[tenant]:
            self._await_turn(turn)

    def first(self) -> QueueEntry | None:
        """The entry to serve next. It stays first until ``entry`` returns None for it."""
        while self._turns:
            turn = self._turns[0]
            tenant = turn[-1]
            if self._turn.get(tenant) is not turn:
                heappop(self._turns)
                continue
            found = self._first_of(tenant)
            if found is None:
                heappop(self._turns)
                del self._turn[tenant], self._ranks[tenant]
                continue
            now = self._turn_of(tenant, found.rank)
            if now == turn:
                return found
            heappop(self._turns)
            self._await_turn(now)
        return None

    def charge(self, tenant: str, steps: int) -> None:
        """Charges a tenant for the steps that a decision about one of its entries took."""
        before = self._cost.get(tenant, self._now)
        self._now = max(self._now, before)
        self._cost[tenant] = before + steps

    def ranks(self) -> set[Rank]:
        return {rank for ranks in self._ranks.values() for rank in ranks}

    def _first_of(self, tenant: str) -> QueueEntry | None:
        ranks = self._ranks[tenant]
        while ranks:
            found = self._entry(ranks[0])
            if found is not None:
                return found
            heappop(ranks)
        return None

    def _turn_of(self, tenant: str, rank: Rank) -> _Turn:
        return rank[0], self._cost[tenant], rank[1], rank[2], tenant

    def _await_turn(self, turn: _Turn) -> None:
        self._turn[turn[-1]] = turn
        heappush(self._turns, turn)

    def _forget_idle(self) -> None:
        """Forgets idle tenants whose cost does not exceed that of a new tenant."""
        self._cost = {
            name: cost for name, cost in self._cost.items() if name in self._ranks or cost > self._now
        }
