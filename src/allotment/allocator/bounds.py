"""Proves by counting, without search, that the rest of a demand cannot be served.

Each bound is a necessary condition, never a sufficient one: it ignores all rules but one, and even that one cannot be met.

* *Devices*: requests need different devices (``matching``).
* *Values*: requests under a distinctAttribute need different values, in the same way.
* *Counters*: all requests together draw more than is left, even if each takes the least it can (``counters``).
* *Locks*: of alternative ways to split something, only one can be in use (``locks``).

A bound does not judge devices one by one, so it must not be used where judging one could raise an error, nor where a claim
could get more devices than it can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from allotment.allocator.locks import Locks
from allotment.allocator.matching import Shortage, unmatched

if TYPE_CHECKING:
    from allotment.allocator.constraint import AttributeValues
    from allotment.allocator.problem import Problem
    from allotment.allocator.request import Ask, RequestDemand

States = Sequence[Sequence[int]]
"""For each claim the state of each constraint; see ``constraint``."""

Want = tuple[int, int, int]
"""A request, how many devices it needs, and the bit set of candidates."""


class Bounds:
    """The bounds on one problem, whose devices must all have been judged. ``alls`` includes requests for all devices."""

    def __init__(self, problem: Problem, *, alls: bool = True) -> None:
        self._alls = alls
        self._problem = problem
        self._requests = problem.demand.requests
        self._free = (1 << len(problem.devices)) - 1 & ~problem.used
        self._locks = Locks(problem.draws, problem.counters) if problem.counters is not None else None
        # A value of unknown type does not count, and yet a device with such a value can be chosen first.
        self._count_values = any(
            relation.distinct for relations in problem.demand.relations for relation in relations
        ) and not any(values.unknown for tables in problem.terms.values.values() for values in tables)

    def shortage(self, before: int) -> Shortage | None:
        """A certificate that the requests before this number could not all get different devices even if nothing had been chosen yet."""
        wants = self._wants(range(before), self._free, None)
        return wants if isinstance(wants, Shortage) else unmatched(wants)

    def hopeless(
        self, number: int, ask: Ask, missing: int, candidates: int, taken: int, states: States
    ) -> bool:
        """Whether it is impossible to serve both the missing devices of request ``number`` and all requests after it."""
        wants = self._wants(range(number + 1, len(self._requests)), self._free & ~taken, states)
        if isinstance(wants, Shortage):
            return True
        if not (ask.admin or candidates & self._problem.shareable):
            wants.append((number, missing, candidates))
        if unmatched(wants) is not None:
            return True
        counters = self._problem.counters
        if counters is not None and counters.hopeless(wants):
            return True
        if self._locks is not None and self._locks.hopeless(wants):
            return True
        return self._count_values and self._too_few_values(number, ask, missing, candidates, taken, states)

    def _wants(self, numbers: range, free: int, states: States | None) -> list[Want] | Shortage:
        """What these requests need, or the one request that cannot be served even alone.

        A shared device can serve several requests, so requests that may get one are left out.
        """
        wants: list[Want] = []
        for number in numbers:
            request = self._requests[number]
            if any(ask.admin or (ask.all and not self._alls) for ask in request.asks):
                continue
            candidates = self._candidates(request, free, states)
            least = min([self._problem.terms.size(ask) for ask in request.asks])
            if not candidates & self._problem.shareable:
                wants.append((number, least, candidates))
            elif candidates.bit_count() < least:
                return Shortage(((number, least),), candidates)
        return wants

    def _candidates(self, request: RequestDemand, free: int, states: States | None) -> int:
        candidates = 0
        for ask in request.asks:
            suits = self._problem.suits[ask.shape]
            suited = free & suits.selectable & suits.allowed
            if states is not None and ask.constraints:
                suited = self._problem.terms.related(ask, request.claim, suited, states[request.claim])
            candidates |= suited
        return candidates

    def _too_few_values(
        self, number: int, ask: Ask, missing: int, candidates: int, taken: int, states: States
    ) -> bool:
        """Whether a distinctAttribute of the claim has fewer unspent values than devices still to choose."""
        request = self._requests[number]
        constraints = self._problem.terms.constraints[request.claim]
        for index, constraint in enumerate(constraints):
            if not constraint.distinct or index not in ask.constraints:
                continue
            wants = [(number, missing, self._values(ask, index, candidates))]
            for later in range(number + 1, len(self._requests)):
                other = self._requests[later]
                if other.claim != request.claim or any(index not in each.constraints for each in other.asks):
                    continue
                values = 0
                for each in other.asks:
                    suits = self._problem.suits[each.shape]
                    free = -1 if each.admin else self._free & ~taken
                    free &= suits.selectable & suits.allowed
                    suited = self._problem.terms.related(each, other.claim, free, states[other.claim])
                    values |= self._values(each, index, suited)
                wants.append((later, min(each.count for each in other.asks), values))
            if unmatched(wants) is not None:
                return True
        return False

    def _values(self, ask: Ask, index: int, candidates: int) -> int:
        """The values, as a bit set, that candidates hold for one of the ask's constraints."""
        table: AttributeValues = self._problem.terms.values[ask][ask.constraints.index(index)]
        values = 0
        while candidates:
            lowest = candidates & -candidates
            candidates ^= lowest
            values |= table.held[lowest.bit_length() - 1]
        return values
