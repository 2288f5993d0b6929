"""From a plan in fractions to a plan of whole machines.

Whole parts of the fractions are bought; then one more of the machine with the largest fraction, and the relaxation is solved
again for the rest. New patterns are found on the way, so that the last pods get machines of suitable size. When little is
left, branch and bound finishes.
"""

from __future__ import annotations

from collections.abc import Sequence

from allotment.autoscaler.solver.branch_and_bound import Branching
from allotment.autoscaler.solver.covering_problem import (
    CoveringProblem,
    FairPrices,
    MachineGroup,
    Pattern,
    pattern_of,
)
from allotment.autoscaler.solver.knapsack import PreparedOffer
from allotment.autoscaler.solver.relaxation import PatternColumn, Relaxation

BRANCHED_PODS = 10  # pods that branch and bound takes on
BRANCH_STEPS = 3_000
SHAPES_PER_PURCHASE = 16  # for this number of remaining shapes, one more machine is bought before the relaxation is solved again
COLUMN_ROUNDS = 12  # of column generation, after each purchase


class RoundingDescent:
    """One descent to a plan. ``columns`` are patterns known to hold; new ones are added to them."""

    def __init__(
        self,
        problem: CoveringProblem,
        offers: Sequence[int],
        sacks: dict[int, PreparedOffer],
        columns: dict[PatternColumn, None],
        fair: FairPrices,
        without: int,
    ) -> None:
        self._problem = problem
        self._offers = offers
        self._sacks = sacks
        self._columns = columns
        self._branching = Branching(problem, offers, fair, without)
        self._without = without
        self._bought: dict[tuple[int, Pattern], int] = {}

    def plan(self, demand: Sequence[int], limits: Sequence[int]) -> tuple[MachineGroup, ...]:
        """Machines for the demand, within the limits."""
        self._wanted, self._left, self._bought = list(demand), list(limits), {}
        while any(self._wanted):
            if sum(self._wanted) <= BRANCHED_PODS and self._finish():
                break
            if not self._buy_some():
                break
        return tuple(MachineGroup(*what, count) for what, count in sorted(self._bought.items()))

    def _finish(self) -> bool:
        ceiling = (sum(self._wanted) + 1) * self._without
        rest = self._branching.solve(self._wanted, self._left, ceiling, BRANCH_STEPS)
        if not rest.complete or rest.machines is None:
            return False
        for each in rest.machines:
            self._buy(each.offer, each.pattern, each.count)
        return True

    def _buy_some(self) -> bool:
        relaxation = Relaxation(self._problem, self._offers, self._wanted, self._left, self._sacks)
        for column in self._columns:
            if any(self._wanted[shape] for shape, _ in column.pattern):
                relaxation.take(column)
        if not self._columns:
            relaxation.begin()
        for number, _ in enumerate(relaxation.rounds(patience=())):
            if number == COLUMN_ROUNDS:
                break
        amounts = relaxation.amounts()
        for column, _ in amounts:
            self._columns.setdefault(column)
        bought = [self._buy(column.offer, column.pattern, int(amount + 1e-6)) for column, amount in amounts]
        if any(bought):
            return True
        amounts.sort(key=lambda each: (-each[1], each[0].offer, each[0].pattern))
        most = 1 + sum(map(bool, self._wanted)) // SHAPES_PER_PURCHASE
        taken = 0
        for column, _ in amounts:
            taken += self._buy(column.offer, column.pattern, 1)
            if taken >= most:
                break
        return bool(taken)

    def _buy(self, offer: int, pattern: Pattern, count: int) -> int:
        """Buys up to ``count`` machines, within the limits; the last pods of a shape may not fill them."""
        draws, bought = self._problem.offers[offer].draws, 0
        while bought < count:
            cut = pattern_of((shape, min(each, self._wanted[shape])) for shape, each in pattern)
            if not cut:
                break
            times = min([count - bought, *[self._wanted[shape] // each for shape, each in cut]])
            times = min(
                [times, *[left // draw for left, draw in zip(self._left, draws, strict=True) if draw]]
            )
            if times < 1:
                break
            for shape, each in cut:
                self._wanted[shape] -= each * times
            self._left = [left - draw * times for left, draw in zip(self._left, draws, strict=True)] or []
            self._bought[offer, cut] = self._bought.get((offer, cut), 0) + times
            bought += times
        return bought
