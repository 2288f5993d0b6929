"""The cheapest plan in fractions of machines; it proves a lower bound for every plan of whole machines.

Column generation (Gilmore and Gomory): a linear program over the known patterns gives the value of one pod of each shape (the
duals). For every offer, a knapsack finds the pattern with the largest value; if this exceeds the machine's cost, the pattern
is added to the program, until there is none. Before a pattern is added, the problem is asked whether it holds; if not, the
part that holds is added.

The bound (Farley) does not require this to end: divide the values by the largest ratio of a pattern's value to its machine's
price, over all patterns that rooms allow, whether they hold or not. Then no pattern is worth more than it costs, and the
value of the demand is the least possible price. These *fair values* also give a bound for every other demand.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allotment.autoscaler.solver.covering_problem import CoveringProblem, FairPrices, Pattern, pattern_of
from allotment.autoscaler.solver.knapsack import PreparedOffer
from allotment.autoscaler.solver.simplex import LinearProgram

ACTIVE_OFFERS = 48  # offers that are examined in every round; all are when these have nothing more to give
COLUMNS_AT_ONCE = 8  # columns that are added together; more if there are many shapes
CLOSE_ENOUGH = 0.002  # a bound this close to the program's value is not worth more work
PATTERN_STEPS = (
    300,
    3_000,
    30_000,
    300_000,
)  # steps of the search for one pattern, if fewer do not suffice
MIX_STEPS = 200  # steps to find a mix
ALL_STEPS = 1_000_000  # for all these searches together
NUMBERS_TOUCHED = 200_000_000  # how many numbers the linear program may touch
PENALTY = 1000  # leaving out a pod costs this many of the most expensive machine


@dataclass(frozen=True, slots=True)
class PatternColumn:
    """A pattern on a machine, known to hold."""

    offer: int
    pattern: Pattern


class Relaxation:
    """The relaxation for one demand, with the useful offers. ``columns`` may come from other demands of the same problem."""

    def __init__(
        self,
        problem: CoveringProblem,
        offers: Sequence[int],
        demand: Sequence[int],
        limits: Sequence[int],
        sacks: dict[int, PreparedOffer],
    ) -> None:
        self._problem = problem
        self._offers = offers
        self._sacks = sacks
        self._demand, self._limits = demand, limits
        self._shapes = [shape for shape, count in enumerate(demand) if count]
        self._at_once = max(COLUMNS_AT_ONCE, len(self._shapes) // 3)
        self._row = {shape: row for row, shape in enumerate(self._shapes)}
        dearest = max((problem.offers[each].price for each in offers), default=1)
        self._program = LinearProgram(
            [demand[shape] for shape in self._shapes], limits, PENALTY * float(dearest + 1)
        )
        self.columns: dict[int, PatternColumn] = {}
        self._present: set[PatternColumn] = set()
        self._active: list[int] = []
        self._ceilings: dict[int, float] = {}  # for each offer, a ceiling for the value of any pattern on it
        self.fair = FairPrices((0.0,) * len(demand), (0.0,) * len(limits))
        self.bound = 0
        self._steps = ALL_STEPS

    def take(self, column: PatternColumn) -> bool:
        """Adds a column to the program, cut to the demand; False if it is already there."""
        cut = pattern_of((shape, min(count, self._demand[shape])) for shape, count in column.pattern)
        column = PatternColumn(column.offer, cut)
        if not cut or column in self._present:
            return False
        offer = self._problem.offers[column.offer]
        if any(draw > limit for draw, limit in zip(offer.draws, self._limits, strict=True)):
            return False
        rows = [(self._row[shape], float(count)) for shape, count in cut]
        rows += [(len(self._shapes) + place, float(draw)) for place, draw in enumerate(offer.draws) if draw]
        self._present.add(column)
        self.columns[self._program.add(float(offer.price), tuple(rows))] = column
        return True

    def begin(self) -> None:
        """Begins with the cheapest offers for each shape alone, and with machines that hold several."""
        for shape in self._shapes:
            alone = [
                (
                    self._problem.offers[each].price / min(most, self._demand[shape]),
                    self._problem.offers[each].price,
                    each,
                )
                for each in self._offers
                if (most := self._problem.offers[each].most[shape])
            ]
            for _, _, each in sorted(alone)[:2]:
                most = min(self._problem.offers[each].most[shape], self._demand[shape])
                self._take_held(each, ((shape, most),))
        self._take_greedily()

    def _take_greedily(self) -> None:
        """Adds a whole plan, machine by machine, always the one with the best value for its price: its patterns give the
        program sensible initial values, which saves most of the work."""
        values, left = self._ideal_values(), list(self._demand)
        heap = [(float("-inf"), each) for each in self._offers]
        while heap and any(left):
            _, each = heapq.heappop(heap)
            filling = self._sacks[each].fill(values, left, self._problem.refusals(each))
            worth = -filling.value / (self._problem.offers[each].price + 1e-9)
            if heap and filling.pattern and worth > heap[0][0]:
                heapq.heappush(
                    heap, (worth, each)
                )  # its ceiling is out of date: other offers may be better now
            elif pattern := self._problem.held(each, filling.pattern):
                self.take(PatternColumn(each, pattern))
                times = min(left[shape] // count for shape, count in pattern)
                for shape, count in pattern:
                    left[shape] -= count * times
                heapq.heappush(heap, (worth, each))

    def _ideal_values(self) -> list[float]:
        """What one pod would cost if machines were always full."""
        values = [float("inf")] * len(self._demand)
        for each in self._offers:
            offer, shares = self._problem.offers[each], self._sacks[each].shares
            for shape in self._shapes:
                if offer.most[shape] and offer.price * shares[shape] < values[shape]:
                    values[shape] = offer.price * shares[shape]
        return [value if value < float("inf") else 0.0 for value in values]

    @property
    def value(self) -> float:
        return self._program.value

    def amounts(self) -> list[tuple[PatternColumn, float]]:
        """The plan in fractions."""
        return [(self.columns[number], amount) for number, amount in self._program.amounts().items()]

    def rounds(self, patience: Sequence[int] = PATTERN_STEPS, work: int = NUMBERS_TOUCHED) -> Iterator[int]:
        """Improves the program round by round, and sometimes the bound; ends when there is nothing more to gain, or the
        effort is used up. Yields the number of added columns."""
        while True:
            self._program.solve()
            values, prices = self._values()
            taken = 0 if self._program.work > work else self._improve(values, prices, self._active)
            taken = taken or self._look_everywhere(values, prices)
            if self._program.work > work:
                return
            for steps in patience:
                if taken or self._steps < 0 or self.bound >= self.value * (1 - CLOSE_ENOUGH):
                    break
                taken = self._look_closely(values, prices, steps)
            yield taken
            if not taken:
                return

    def _values(self) -> tuple[list[float], dict[int, float]]:
        """The values of pods, and the costs of machines with their share of the limits."""
        duals, values = self._program.duals, [0.0] * len(self._demand)
        for row, shape in enumerate(self._shapes):
            values[shape] = max(0.0, duals[row])
        scarce = [max(0.0, -dual) for dual in duals[len(self._shapes) :]]
        offers = self._problem.offers
        if not any(scarce):
            return values, {each: float(offers[each].price) for each in self._offers}
        return values, {
            each: offers[each].price + sum(map(float.__mul__, scarce, map(float, offers[each].draws)))
            for each in self._offers
        }

    def _improve(self, values: list[float], prices: dict[int, float], offers: Sequence[int]) -> int:
        found = []
        for each in offers:
            filling = self._sacks[each].fill(values, self._demand, self._problem.refusals(each))
            if filling.value > prices[each] * (1 + 1e-6) + 1e-6:
                found.append((-filling.value / (prices[each] + 1e-9), each, filling.pattern))
        return self._take_best(found)

    def _look_everywhere(self, values: list[float], prices: dict[int, float]) -> int:
        fillings = {
            each: self._sacks[each].fill(values, self._demand, self._problem.refusals(each))
            for each in self._offers
        }
        self._ceilings = {each: filling.ceiling for each, filling in fillings.items()}
        order = sorted(fillings, key=lambda each: (-self._ceilings[each] / (prices[each] + 1e-9), each))
        self._active = order[:ACTIVE_OFFERS]
        self._settle(values, prices)
        return self._take_best(
            [
                (-filling.value / (prices[each] + 1e-9), each, filling.pattern)
                for each, filling in fillings.items()
                if filling.value > prices[each] * (1 + 1e-6) + 1e-6
            ]
        )

    def _look_closely(self, values: list[float], prices: dict[int, float], steps: int) -> int:
        """Searches where quick fillings leave open whether a pattern is worth more than its machine; the results for all
        offers then give a better bound."""
        found: list[tuple[float, int, Pattern]] = []
        for each in sorted(
            self._offers, key=lambda each: (-self._ceilings[each] / (prices[each] + 1e-9), each)
        ):
            fair = prices[each] * (1 + CLOSE_ENOUGH / 2)
            if self._ceilings[each] <= fair or len(found) >= self._at_once or self._steps < 0:
                break
            sack = self._sacks[each]
            mix = sack.sharpen(values, self._demand, fair)
            self._steps -= MIX_STEPS
            self._ceilings[each] = min(self._ceilings[each], mix.ceiling)
            if mix.ceiling <= fair:
                continue
            refusals = self._problem.refusals(each)
            best, spent = sack.complete(mix, values, self._demand, refusals), 0
            if best.value <= fair:
                best, spent = sack.search(mix, values, self._demand, fair, steps)
                self._ceilings[each] = best.ceiling
                if best.pattern and refusals:
                    best, more = sack.search(mix, values, self._demand, fair, steps, refusals)
                    spent += more
            self._steps -= spent
            if best.pattern:
                found.append((-best.value / (prices[each] + 1e-9), each, best.pattern))
        self._settle(values, prices)
        return self._take_best(found)

    def _settle(self, values: list[float], prices: dict[int, float]) -> None:
        """Derives a bound from the ceilings of all offers."""
        worst = max([1.0, *[ceiling / (prices[each] + 1e-9) for each, ceiling in self._ceilings.items()]])
        scarce = tuple(max(0.0, -dual) for dual in self._program.duals[len(self._shapes) :])
        fair = FairPrices(tuple(value / worst for value in values), scarce)
        bound = fair.bound(self._demand, self._limits)
        if bound > self.bound:
            self.fair, self.bound = fair, bound

    def _take_best(self, found: list[tuple[float, int, Pattern]]) -> int:
        found.sort()
        taken = 0
        for _, offer, pattern in found:
            taken += self._take_held(offer, pattern)
            if taken >= self._at_once:
                break
        return taken

    def _take_held(self, offer: int, pattern: Pattern) -> bool:
        held = self._problem.held(offer, pattern)
        return bool(held) and self.take(PatternColumn(offer, held))
