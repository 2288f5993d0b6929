"""The cheapest plan for a small demand, by branch and bound: exact if the steps suffice.

A node of the search is the remaining demand. One of its shapes is chosen, and every machine that takes at least one pod of
that shape is tried: so plans that differ only in order are met once. At fair values no machine is worth more than it costs;
the difference is its *loss*, and the cost of a plan is the value of the demand plus all losses. So machines are tried by
loss, and a branch ends when its losses reach those of the best plan. Leaving out a pod is also a machine, at a price beyond
any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allotment.autoscaler.solver.covering_problem import (
    CoveringProblem,
    FairPrices,
    MachineGroup,
    Pattern,
    pattern_of,
)

NO_OFFER = -1
"""The offer that stands for a pod that is left out."""


@dataclass(frozen=True, slots=True)
class BranchingResult:
    """``machines`` is None if nothing better than the ceiling was found; with ``complete``, nothing better exists."""

    machines: tuple[MachineGroup, ...] | None
    complete: bool
    steps: int = 0


class Branching:
    """One branch-and-bound search. ``without`` is the price of leaving one pod out."""

    def __init__(
        self, problem: CoveringProblem, offers: Sequence[int], fair: FairPrices, without: int
    ) -> None:
        self._problem = problem
        self._fair = FairPrices(
            tuple(min(value, float(without)) for value in fair.pods), fair.limits
        )  # fair to it too
        self._without = without
        self._numbers = offers
        self._steps = 0
        self._seen: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
        self._best: float = 0
        self._plan: list[tuple[int, Pattern]] = []
        self._found: tuple[tuple[int, Pattern], ...] | None = None

    def solve(
        self, demand: Sequence[int], limits: Sequence[int], ceiling: int, steps: int
    ) -> BranchingResult:
        """A plan that costs less than ``ceiling``, including the price of pods left out, if there is one."""
        self._steps, self._best, self._found = steps, ceiling, None
        self._seen, self._plan = {}, []
        self._descend(tuple(demand), tuple(limits), 0)
        return BranchingResult(self._told(), self._steps >= 0, steps - max(0, self._steps))

    def _told(self) -> tuple[MachineGroup, ...] | None:
        if self._found is None:
            return None
        counts: dict[tuple[int, Pattern], int] = {}
        for each in self._found:
            counts[each] = counts.get(each, 0) + 1
        return tuple(
            MachineGroup(*each, count) for each, count in sorted(counts.items()) if each[0] != NO_OFFER
        )

    def _descend(self, wanted: tuple[int, ...], left: tuple[int, ...], paid: int) -> None:
        self._steps -= 1
        if not any(wanted):
            if paid < self._best:
                self._best, self._found = paid, tuple(self._plan)
            return
        state = (wanted, left)
        if self._steps < 0 or self._seen.get(state, float("inf")) <= paid:
            return
        self._seen[state] = paid
        due = paid + sum([value * count for value, count in zip(self._fair.pods, wanted, strict=True)])
        due -= sum([value * rest for value, rest in zip(self._fair.limits, left, strict=True)])
        for loss, offer, pattern in self._choices(wanted, left, self._best - due):
            if due + loss > self._best - 1 + 1e-6:  # prices are integers: less means less by one
                break
            if self._steps < 0:
                return
            if offer != NO_OFFER and not self._problem.confirms(offer, pattern):
                continue
            self._plan.append((offer, pattern))
            self._descend(*self._after(wanted, left, offer, pattern), paid + self._price(offer))
            self._plan.pop()

    def _price(self, offer: int) -> int:
        return self._without if offer == NO_OFFER else self._problem.offers[offer].price

    def _after(
        self, wanted: tuple[int, ...], left: tuple[int, ...], offer: int, pattern: Pattern
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        rest = list(wanted)
        for shape, count in pattern:
            rest[shape] -= count
        if offer == NO_OFFER or not left:
            return tuple(rest), left
        draws = self._problem.offers[offer].draws
        return tuple(rest), tuple(a - b for a, b in zip(left, draws, strict=True))

    def _choices(
        self, wanted: tuple[int, ...], left: tuple[int, ...], gap: float
    ) -> list[tuple[float, int, Pattern]]:
        """(loss, offer, pattern) of all machines for one shape that lose less than the gap, least loss first."""
        shape = max(range(len(wanted)), key=lambda each: (wanted[each] > 0, self._fair.pods[each], -each))
        choices: list[tuple[float, int, Pattern]] = [
            (self._without - self._fair.pods[shape], NO_OFFER, ((shape, 1),))
        ]
        for number in self._numbers:
            offer = self._problem.offers[number]
            if not offer.most[shape] or any(a > b for a, b in zip(offer.draws, left, strict=True)):
                continue
            cost = offer.price + sum([a * b for a, b in zip(self._fair.limits, offer.draws, strict=True)])
            for worth, pattern in self._patterns(number, wanted, shape, cost - gap):
                choices.append((cost - worth, number, pattern))
        choices.sort(key=lambda each: (each[0], -sum([n for _, n in each[2]]), each[1:]))
        return choices

    def _patterns(
        self, number: int, wanted: tuple[int, ...], first: int, least: float
    ) -> Iterator[tuple[float, Pattern]]:
        """All patterns that contain the shape, within the demand, and are worth at least this much."""
        offer, pods = self._problem.offers[number], self._fair.pods
        shapes = [first, *(s for s, count in enumerate(wanted) if count and offer.most[s] and s != first)]
        caps = [min(wanted[s], offer.most[s]) for s in shapes]
        rest = [0.0]
        for s, cap in zip(reversed(shapes), reversed(caps), strict=True):
            rest.append(rest[-1] + pods[s] * cap)
        rest.reverse()
        stack: list[tuple[int, float, tuple[int, ...], Pattern]] = [
            (0, 0.0, tuple(room.size for room in offer.rooms), ())
        ]
        while stack:
            self._steps -= 1
            place, worth, sizes, taken = stack.pop()
            if worth + rest[place] < least - 1e-6 or self._steps < 0:
                continue
            if place == len(shapes):
                yield worth, pattern_of(taken)
                continue
            shape = shapes[place]
            for count in range(1 if place == 0 else 0, caps[place] + 1):
                after = tuple(
                    [size - room.needs[shape] * count for size, room in zip(sizes, offer.rooms, strict=True)]
                )
                if min(after, default=0) < 0:
                    break
                stack.append((place + 1, worth + pods[shape] * count, after, (*taken, (shape, count))))
