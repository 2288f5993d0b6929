"""The cheapest machines for a demand, with a proof of how close to the minimum their price is.

The solver works in stages, each of which leaves a usable plan and bound:

1. the relaxation (``relaxation``) gives the bound and the useful patterns;
2. a dive (``rounding``) makes whole machines of it;
3. improvement: every machine is replaced by the cheapest one that holds its pods; then the machines that lose most by fair
   values are sold, a few at a time, and machines for their pods are bought again;
4. branch and bound (``branch_and_bound``) if the demand is small: a completed search is exact.

All effort is counted in steps, never in time, and nothing is random: the same problem gives the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allotment.autoscaler.solver.branch_and_bound import Branching
from allotment.autoscaler.solver.covering_problem import (
    Cover,
    CoveringProblem,
    FairPrices,
    MachineGroup,
    Pattern,
    drawn_by,
    price_of,
    served_by,
    undominated,
)
from allotment.autoscaler.solver.knapsack import sacks_of
from allotment.autoscaler.solver.relaxation import PatternColumn, Relaxation
from allotment.autoscaler.solver.rounding import RoundingDescent


@dataclass(frozen=True, slots=True)
class SolverEffort:
    """How much work the solver may do."""

    rounds: int = 400  # of column generation
    resales: int = 12  # how often some machines are sold and bought again
    steps: int = 60_000  # of branch and bound
    tries: int = 6_000  # for whole sets of machines, and the pods bound on them
    good: float = 0.005  # the search stops when the gap is this small


USUAL_EFFORT = SolverEffort()


def cover(problem: CoveringProblem, effort: SolverEffort = USUAL_EFFORT) -> Cover:
    """The last of ``covers``."""
    *_, last = covers(problem, effort)  # there is always one, even if it leaves all pods out
    return last


def relaxed(problem: CoveringProblem, effort: SolverEffort = USUAL_EFFORT) -> FairPrices:
    """Values that prove a bound, without a plan."""
    covering = _Covering(problem, effort)
    covering.relax()
    return covering.fair


def covers(problem: CoveringProblem, effort: SolverEffort = USUAL_EFFORT) -> Iterator[Cover]:
    """Plans, each better than the one before or closer to a proof; the caller may stop at any of them."""
    return _Covering(problem, effort).stages()


class _Covering:
    def __init__(self, problem: CoveringProblem, effort: SolverEffort) -> None:
        self._problem = problem
        self._effort = effort
        able = [any(offer.most[shape] for offer in problem.offers) for shape in range(len(problem.demand))]
        self._demand = tuple(count if can else 0 for count, can in zip(problem.demand, able, strict=True))
        self._offers = undominated(
            problem.offers, [shape for shape, count in enumerate(self._demand) if count]
        )
        self._sacks = sacks_of(problem.offers, self._offers, len(problem.demand))
        self._columns: dict[PatternColumn, None] = {}
        self.fair = FairPrices((0.0,) * len(problem.demand), (0.0,) * len(problem.limits))
        dearest = max((problem.offers[each].price for each in self._offers), default=0)
        self._without = dearest * (1 + sum(self._demand)) + 1  # no saving justifies leaving a pod out
        self._machines: tuple[MachineGroup, ...] = ()
        self._exact = False

    def stages(self) -> Iterator[Cover]:
        if not any(self._demand):
            self._exact = True
            yield self._cover()
            return
        self.relax()
        self._machines = self._bought(self._demand, self._problem.limits)
        yield self._cover()
        self._exchange()
        yield self._cover()
        if sum(self._demand) <= EXACT_PODS:
            self._branch()
            yield self._cover()
        if self._exact or self._good():
            return
        for _ in self._resell():
            yield self._cover()
            if self._good():
                return

    def _good(self) -> bool:
        cover = self._cover()
        return not any(self._missing()) and cover.gap <= self._effort.good

    # --- the bound ---

    def relax(self) -> None:
        relaxation = Relaxation(self._problem, self._offers, self._demand, self._problem.limits, self._sacks)
        relaxation.begin()
        for number, _ in enumerate(relaxation.rounds()):
            if number == self._effort.rounds:
                break
        self.fair = relaxation.fair
        used = dict(relaxation.amounts())
        columns = sorted(
            relaxation.columns.values(), key=lambda each: (each not in used, each.offer, each.pattern)
        )
        self._columns = dict.fromkeys(columns[: 6 * len(self._demand) + 40])

    def _cover(self) -> Cover:
        price = price_of(self._machines, self._problem.offers)
        served = served_by(self._machines, len(self._demand))
        bound = min(price, self.fair.bound(served, self._problem.limits))
        return Cover(
            self._machines, self._missing(), price, price if self._exact else bound, self._exact, self.fair
        )

    def _missing(self) -> tuple[int, ...]:
        served = served_by(self._machines, len(self._demand))
        return tuple(wanted - got for wanted, got in zip(self._problem.demand, served, strict=True))

    # --- whole machines ---

    def _bought(self, demand: Sequence[int], limits: Sequence[int]) -> tuple[MachineGroup, ...]:
        dive = RoundingDescent(
            self._problem, self._offers, self._sacks, self._columns, self.fair, self._without
        )
        return dive.plan(demand, limits)

    def _total(self, machines: Sequence[MachineGroup], demand: Sequence[int]) -> int:
        """The price, with the price of pods left out."""
        served = sum(served_by(machines, len(demand)))
        return price_of(machines, self._problem.offers) + self._without * (sum(demand) - served)

    def _exchange(self) -> None:
        """Replaces every machine by the cheapest one that holds its pods and takes no more of the limits."""
        offers, changed = self._problem.offers, []
        for each in self._machines:
            present = offers[each.offer]
            for number in self._offers:  # cheapest first
                offer = offers[number]
                if offer.price >= present.price:
                    number = each.offer
                    break
                modest = all(a <= b for a, b in zip(offer.draws, present.draws, strict=True))
                if modest and self._problem.confirms(number, each.pattern):
                    break
            changed.append(MachineGroup(number, each.pattern, each.count))
        self._machines = _joined(changed)

    def _resell(self) -> Iterator[None]:
        """Sells the machines that lose most, a few at a time, and keeps the machines bought for their pods if these are
        cheaper."""
        tried: set[tuple[MachineGroup, ...]] = set()
        for resale in range(self._effort.resales):
            size = (2, 4, 7, 12)[resale % 4]
            sold = self._losers(size, skip=resale // 4)
            if not sold or sold in tried:
                continue
            tried.add(sold)
            kept = _without(self._machines, sold)
            missing = self._missing()
            demand = [a + b for a, b in zip(served_by(sold, len(self._demand)), missing, strict=True)]
            demand = [min(a, b) for a, b in zip(demand, self._demand, strict=True)]
            drawn = drawn_by(kept, self._problem.offers, len(self._problem.limits))
            limits = [a - b for a, b in zip(self._problem.limits, drawn, strict=True)]
            bought = self._bought(demand, limits)
            if self._total(bought, demand) < self._total(sold, demand):
                self._machines = _joined((*kept, *bought))
                self._exchange()
                yield

    def _losers(self, size: int, skip: int) -> tuple[MachineGroup, ...]:
        offers = self._problem.offers
        single = [
            MachineGroup(each.offer, each.pattern, 1)
            for each in self._machines
            for _ in range(min(each.count, size))
        ]
        loss = {each: offers[each.offer].price - self.fair.worth(each.pattern) for each in single}
        single.sort(key=lambda each: (-loss[each], each.offer, each.pattern))
        return tuple(single[skip : skip + size])

    def _branch(self) -> None:
        branching = Branching(self._problem, self._offers, self.fair, self._without)
        ceiling = self._total(self._machines, self._demand)
        found = branching.solve(self._demand, self._problem.limits, ceiling, self._effort.steps)
        if found.machines is not None:
            self._machines = found.machines
        self._exact = found.complete


EXACT_PODS = 40  # pods that branch and bound tries to place exactly


def _joined(machines: Sequence[MachineGroup]) -> tuple[MachineGroup, ...]:
    counts: dict[tuple[int, Pattern], int] = {}
    for each in machines:
        counts[each.offer, each.pattern] = counts.get((each.offer, each.pattern), 0) + each.count
    return tuple(MachineGroup(*what, count) for what, count in sorted(counts.items()) if count)


def _without(machines: Sequence[MachineGroup], sold: Sequence[MachineGroup]) -> tuple[MachineGroup, ...]:
    return _joined((*machines, *(MachineGroup(each.offer, each.pattern, -each.count) for each in sold)))
