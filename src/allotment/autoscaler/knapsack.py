"""The most valuable pattern for one machine: how many pods of which shape, when each shape has a value.

An integer knapsack with several rooms. Rooms are folded into one by a *mix* (a weighting of them, scaled so that the machine
has 1 of it); whatever fits in all rooms fits in every mix, so filling a mix in fractions, best value for its room first, gives
a ceiling. The same order, filled for real, gives a good pattern. A search over patterns closes what is left between the two,
within a number of steps. Nothing here asks whether a pattern really holds; patterns that include one known to be refused are
passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from allotment.autoscaler.yard import Offer, Pattern, pattern_of

Refusals = Sequence[Mapping[int, int]]
"""Patterns that a machine does not hold; nor does it any that has as many of each shape."""

PAIRS_OF_ROOMS = 5  # up to so many rooms, every two are a mix as well


@dataclass(frozen=True, slots=True)
class Filling:
    """A pattern with its value, and what no pattern is worth more than."""

    value: float
    pattern: Pattern
    ceiling: float


@dataclass(frozen=True, slots=True)
class Mix:
    """What one of each item takes of the whole machine by a mix, and the ceiling that it gives."""

    weights: Sequence[float]
    ceiling: float
    start: Mapping[int, int]  # of which shape how many to begin with


@dataclass(frozen=True, slots=True)
class _Item:
    shape: int
    needs: tuple[tuple[int, int], ...]  # (room, how much)
    parts: tuple[float, ...]  # of every room, the part that one takes


class Sack:
    """One offer, prepared to be filled often with changing values."""

    def __init__(self, offer: Offer) -> None:
        rooms = [
            room for room in offer.rooms if any(n and m for n, m in zip(room.needs, offer.most, strict=True))
        ]
        self._sizes = [room.size for room in rooms]
        self._most = offer.most
        self._items = [
            _Item(
                shape,
                tuple((place, room.needs[shape]) for place, room in enumerate(rooms) if room.needs[shape]),
                tuple(room.needs[shape] / max(1, room.size) for room in rooms),
            )
            for shape, most in enumerate(offer.most)
            if most
        ]
        count = len(rooms)
        places = [*((place,) for place in range(count)), tuple(range(count))]
        if count <= PAIRS_OF_ROOMS:
            places += combinations(range(count), 2)
        self._mixes: list[Sequence[float]] = [
            [sum(item.parts[p] for p in mix) / max(1, len(mix)) for item in self._items] for mix in places
        ]
        self._mixes.append(self._mixes[count])  # the place of the one that was sharpened last
        self._sharpest = (
            count  # the mix that gave the lowest ceiling last time; the first guess: all rooms alike
        )
        self._next = 0

    def fill(self, values: Sequence[float], caps: Sequence[int], refusals: Refusals = ()) -> Filling:
        """A good pattern with at most ``caps`` of each shape, quickly."""
        self._next = (self._next + 1) % len(self._mixes)
        found = self._fill(self._mixes[self._sharpest], values, caps, refusals)
        other = self._fill(self._mixes[self._next], values, caps, refusals)
        if other.ceiling < found.ceiling:
            self._sharpest = self._next
        best = other if other.value > found.value else found
        return Filling(best.value, best.pattern, min(found.ceiling, other.ceiling))

    def _ranked(
        self, mix: Sequence[float], values: Sequence[float], caps: Sequence[int]
    ) -> list[tuple[float, int, float, int, _Item]]:
        """(value for its room, shape, room in the mix, at most, item), best first."""
        ranked = []
        for item, weight in zip(self._items, mix, strict=True):
            shape = item.shape
            value, cap = values[shape], min(caps[shape], self._most[shape])
            if value > 0 and cap > 0:
                ranked.append((-value / (weight + 1e-12), shape, weight, cap, item))
        ranked.sort()
        return ranked

    def _fill(
        self,
        mix: Sequence[float],
        values: Sequence[float],
        caps: Sequence[int],
        refusals: Refusals,
        start: Mapping[int, int] | None = None,
    ) -> Filling:
        """Fills up by a mix, at most ``start`` of each shape at first, if that is given."""
        left, room = list(self._sizes), 1.0
        value = ceiling = 0.0
        taken: dict[int, int] = {}
        ranked = self._ranked(mix, values, caps)
        first = (
            []
            if start is None
            else [(*each[:3], min(each[3], start.get(each[1], 0)), each[4]) for each in ranked]
        )
        for number, (_, shape, weight, cap, item) in enumerate((*first, *ranked)):
            if room > 0 and number >= len(first):
                part = cap if cap * weight <= room else room / weight
                ceiling += part * values[shape]
                room -= part * weight
            count = cap - taken.get(shape, 0)
            for place, need in item.needs:
                fits = left[place] // need
                if fits < count:
                    count = fits
            if count and refusals:
                count = _allowed(taken, shape, count, refusals)
            if count > 0:
                taken[shape] = taken.get(shape, 0) + count
                value += count * values[shape]
                for place, need in item.needs:
                    left[place] -= need * count
        return Filling(value, pattern_of(taken.items()), ceiling)

    def sharpen(self, values: Sequence[float], caps: Sequence[int], rounds: int = 40) -> Mix:
        """The mix with the lowest ceiling that can be found, about that of the linear relaxation: rooms that are overfull by one
        mix weigh more in the next. What the later mixes are filled with on average is a good beginning of a pattern."""
        rooms = len(self._sizes)
        weights = [1.0 / max(1, rooms)] * rooms
        ceilings = [
            (self._fill(each, values, caps, ()).ceiling, place) for place, each in enumerate(self._mixes)
        ]
        ceiling, place = min(ceilings)
        best, average = self._mixes[place], dict.fromkeys(range(len(values)), 0.0)
        for round in range(rounds if rooms > 1 else 0):
            mix = [sum(map(float.__mul__, weights, item.parts)) for item in self._items]
            worth, use, parts = self._fractions(mix, values, caps)
            if worth < ceiling:
                best, ceiling = mix, worth
            if 2 * round >= rounds:
                for shape, part in parts:
                    average[shape] += part / (rounds - rounds // 2)
            pace = 1.0 / (1.0 + 0.2 * round)
            weights = [w * max(0.1, 1.0 + pace * (u - 1.0)) for w, u in zip(weights, use, strict=True)]
            total = sum(weights)
            weights = [w / total for w in weights]
        self._mixes[-1], self._sharpest = best, len(self._mixes) - 1
        start = {shape: int(part + 1e-6) for shape, part in average.items() if part >= 1}
        return Mix(best, ceiling, start)

    def _fractions(
        self, mix: Sequence[float], values: Sequence[float], caps: Sequence[int]
    ) -> tuple[float, list[float], list[tuple[int, float]]]:
        """The worth of a mix filled in fractions, how full that makes every room, and what it is filled with."""
        use, worth, room = [0.0] * len(self._sizes), 0.0, 1.0
        parts = []
        for _, shape, weight, cap, item in self._ranked(mix, values, caps):
            if room <= 0:
                break
            part = cap if cap * weight <= room else room / weight
            worth += part * values[shape]
            room -= part * weight
            parts.append((shape, part))
            for place, taken in enumerate(item.parts):
                use[place] += part * taken
        return worth, use, parts

    def complete(
        self, mix: Mix, values: Sequence[float], caps: Sequence[int], refusals: Refusals = ()
    ) -> Filling:
        """The beginning that comes with a mix, or a part of it, filled up; then made better by taking one pod out at a time and
        filling up without its shape."""
        starts = [{s: int(n * part) for s, n in mix.start.items()} for part in (1.0, 0.9, 0.75, 0.5)]
        best = max(
            (self._fill(mix.weights, values, caps, refusals, start) for start in starts),
            key=lambda each: each.value,
        )
        better = True
        while better:
            better = False
            for shape, count in best.pattern:
                start = dict(best.pattern) | {shape: count - 1}
                fewer = [count - 1 if s == shape else cap for s, cap in enumerate(caps)]
                other = self._fill(mix.weights, values, fewer, refusals, start)
                if other.value > best.value * (1 + 1e-9):
                    best, better = other, True
                    break
        return best

    def search(
        self,
        mix: Mix,
        values: Sequence[float],
        caps: Sequence[int],
        floor: float,
        steps: int,
        refusals: Refusals = (),
    ) -> tuple[Filling, int]:
        """The best pattern worth more than ``floor``, none if there is no such, and the steps it took. If these do not suffice,
        what is found by then, and the ceiling is that of the mix."""
        search = _Search(self._ranked(mix.weights, values, caps), values, floor, steps, refusals)
        search.descend(0, 0.0, 1.0, list(self._sizes))
        ceiling = search.best if search.steps >= 0 else max(search.best, mix.ceiling)
        return Filling(search.best, pattern_of(search.found.items()), ceiling), steps - max(0, search.steps)


class _Search:
    """Depth first, most of the best shape first; a branch ends where the mix has no room for anything better."""

    def __init__(
        self,
        ranked: list[tuple[float, int, float, int, _Item]],
        values: Sequence[float],
        floor: float,
        steps: int,
        refusals: Refusals,
    ) -> None:
        self._ranked = ranked
        self._values = values
        self._refusals = refusals
        self._taken: dict[int, int] = {}
        self._rest = [0.0]  # what all that follows is worth at most
        for _, shape, _, cap, _ in reversed(ranked):
            self._rest.append(self._rest[-1] + cap * values[shape])
        self._rest.reverse()
        self.best, self.steps = floor, steps
        self.found: dict[int, int] = {}

    def descend(self, place: int, value: float, room: float, left: list[int]) -> None:
        self.steps -= 1
        if value > self.best * (1 + 1e-9) + 1e-9:
            self.best, self.found = value, dict(self._taken)
        if place == len(self._ranked) or self.steps < 0:
            return
        worth, shape, weight, cap, item = self._ranked[place]
        if value + min(self._rest[place], -worth * room) <= self.best * (1 + 1e-9) + 1e-9:
            return
        count = min([cap, *[left[each] // need for each, need in item.needs]])
        if count and self._refusals:
            self._taken.pop(shape, None)
            count = _allowed(self._taken, shape, count, self._refusals)
        for number in range(count, -1, -1):
            rest = left
            if number:
                self._taken[shape] = number
                rest = list(left)
                for each, need in item.needs:
                    rest[each] -= need * number
            else:
                self._taken.pop(shape, None)
            self.descend(place + 1, value + number * self._values[shape], room - number * weight, rest)
            if self.steps < 0:
                return


def _allowed(taken: Mapping[int, int], shape: int, count: int, refusals: Refusals) -> int:
    """How many of a shape may come to what is taken without including something refused."""
    have = taken.get(shape, 0)
    for refused in refusals:
        least = refused.get(shape, 0)
        if 0 < least <= have + count and all(taken.get(s, 0) >= n for s, n in refused.items() if s != shape):
            count = least - 1 - have
    return max(0, count)
