"""The numeric problem that ``covering`` solves: which machines to buy for which pods. It knows nothing of Kubernetes.

*Shapes* are groups of equal pods, by number; a *pattern* says how many of each go together on one machine. An *offer* is a
machine that can be bought at a price. Two things determine what it holds:

- its *rooms* are additive: each has a size, and one pod of a shape needs a part of it. They are necessary conditions, so
  everything proven with them (lower bounds) is true;
- ``CoveringProblem.holds`` decides. It is expensive, so it is asked late, and answers are kept per *kind* of machine.

Prices are integers in a unit of the caller's choice (micro-dollars), so that equality is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Pattern = tuple[tuple[int, int], ...]
"""(shape, number), by shape; no zeroes."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A resource of a machine, of which it has ``size``, and how much of it one pod of each shape needs."""

    size: int
    needs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine that can be bought any number of times, within the limits."""

    price: int
    rooms: tuple[Dimension, ...]
    most: tuple[int, ...]  # how many of each shape it holds at most when alone; 0: none
    kind: Hashable = None  # offers of one kind hold the same patterns, within ``most``
    draws: tuple[int, ...] = ()  # what one such machine takes of each limit

    def admits(self, pattern: Pattern) -> bool:
        """Whether the additive conditions allow a pattern."""
        return all(count <= self.most[shape] for shape, count in pattern) and all(
            sum(room.needs[shape] * count for shape, count in pattern) <= room.size for room in self.rooms
        )


@dataclass(frozen=True, slots=True)
class MachineGroup:
    """A number of machines of one offer, each with the same pods."""

    offer: int
    pattern: Pattern
    count: int


@dataclass(frozen=True, slots=True)
class FairPrices:
    """Values at which no pattern is worth more than its machine costs, plus the cost of the machine's share of the limits."""

    pods: tuple[float, ...]
    limits: tuple[float, ...] = ()

    def worth(self, pattern: Pattern) -> float:
        return sum(self.pods[shape] * count for shape, count in pattern)

    def bound(self, demand: Sequence[int], limits: Sequence[int]) -> int:
        """The least cost of any plan for the demand."""
        value = sum(map(float.__mul__, self.pods, map(float, demand)))
        value -= sum(map(float.__mul__, self.limits, map(float, limits)))
        whole = int(value * (1 - 1e-9))
        return max(0, whole + (value - whole > 0.01))  # prices are integers


@dataclass(frozen=True, slots=True)
class Cover:
    """A plan. ``bound`` is proven: nothing that serves the same pods costs less; it is at most ``price``.

    ``exact``: also, nothing serves more pods, or as many for less.
    """

    machines: tuple[MachineGroup, ...]
    missing: tuple[int, ...]  # how many of each shape are left out
    price: int
    bound: int
    exact: bool = False
    fair: FairPrices = FairPrices(())  # the proof of the bound, and of bounds for other demands

    @property
    def gap(self) -> float:
        """By how much the price may be too high, as a fraction of the bound."""
        return (self.price - self.bound) / self.bound if self.bound else float(self.price > 0)


@dataclass(slots=True)
class CoveringProblem:
    """The problem. ``holds(offer, pattern)`` is only asked about patterns that the offer admits, and must be monotone: if a
    pattern holds, a smaller one does too."""

    demand: tuple[int, ...]
    offers: Sequence[Offer]
    limits: tuple[int, ...] = ()  # how much all machines together may take
    holds: Callable[[int, Pattern], bool] = lambda offer, pattern: True
    asked: int = 0
    _known: dict[Hashable, dict[Pattern, bool]] = field(default_factory=dict)
    _refused: dict[Hashable, list[Mapping[int, int]]] = field(default_factory=dict)

    def confirms(self, number: int, pattern: Pattern) -> bool:
        """Whether a machine of the offer really holds the pattern. The answer is remembered for all offers of its kind."""
        offer = self.offers[number]
        if not offer.admits(pattern):
            return False
        kind = self._kind(number)
        known = self._known.setdefault(kind, {})
        answer = known.get(pattern)
        if answer is None:
            answer = not self._includes_refused(kind, pattern)
            if answer:
                self.asked += 1
                answer = self.holds(number, pattern)
                if not answer:
                    self._refused.setdefault(kind, []).append(dict(pattern))
            known[pattern] = answer
        return answer

    def refusals(self, number: int) -> Sequence[Mapping[int, int]]:
        """Patterns that machines of the offer are known not to hold."""
        return self._refused.get(self._kind(number), ())

    def held(self, number: int, pattern: Pattern) -> Pattern:
        """As much of a pattern as the machine holds, shape by shape; all of it if possible. The obstacle is remembered as a
        small refused pattern."""
        if self.confirms(number, pattern):
            return pattern
        kept: dict[int, int] = {}
        for shape, count in pattern:
            low, high = 0, count
            while low < high:
                middle = (low + high + 1) // 2
                if self.confirms(number, pattern_of({**kept, shape: middle}.items())):
                    low = middle
                else:
                    high = middle - 1
            if low:
                kept[shape] = low
        return pattern_of(kept.items())

    def _kind(self, number: int) -> Hashable:
        kind = self.offers[number].kind
        return number if kind is None else kind

    def _includes_refused(self, kind: Hashable, pattern: Pattern) -> bool:
        refused = self._refused.get(kind)
        if not refused:
            return False
        counts = dict(pattern)
        return any(all(counts.get(s, 0) >= least for s, least in each.items()) for each in refused)


def pattern_of(counts: Iterable[tuple[int, int]]) -> Pattern:
    """A pattern from counts in any order."""
    return tuple(sorted((shape, count) for shape, count in counts if count))


def price_of(machines: Iterable[MachineGroup], offers: Sequence[Offer]) -> int:
    """The total price of machines."""
    return sum(offers[each.offer].price * each.count for each in machines)


def served_by(machines: Iterable[MachineGroup], shapes: int) -> list[int]:
    """How many pods of each shape have a place."""
    served = [0] * shapes
    for each in machines:
        for shape, count in each.pattern:
            served[shape] += count * each.count
    return served


def drawn_by(machines: Iterable[MachineGroup], offers: Sequence[Offer], limits: int) -> list[int]:
    """What machines take of each limit together."""
    drawn = [0] * limits
    for each in machines:
        for limit, amount in enumerate(offers[each.offer].draws):
            drawn[limit] += amount * each.count
    return drawn


def undominated(offers: Sequence[Offer], shapes: Sequence[int]) -> list[int]:
    """The useful offers for these shapes, cheapest first: an offer is useless if another one of the same machine costs no
    more, holds no less and takes no more of the limits."""
    kept: dict[Hashable, list[int]] = {}
    chosen: list[int] = []
    for number in sorted(range(len(offers)), key=lambda each: (offers[each].price, each)):
        offer = offers[number]
        if not any(offer.most[shape] for shape in shapes):
            continue
        rivals = kept.setdefault((number if offer.kind is None else offer.kind, offer.rooms), [])
        if any(_covers(offers[rival], offer, shapes) for rival in rivals):
            continue
        rivals.append(number)
        chosen.append(number)
    return chosen


def _covers(rival: Offer, offer: Offer, shapes: Sequence[int]) -> bool:
    return all(rival.most[shape] >= offer.most[shape] for shape in shapes) and all(
        a <= b for a, b in zip(rival.draws, offer.draws, strict=True)
    )
