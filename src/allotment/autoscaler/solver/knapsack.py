"""The most valuable pattern for one machine: how many pods of which shape, when each shape has a value.

This is an integer knapsack with several rooms. Rooms are folded into one by a *mix* (a weighted sum, scaled so that the
machine has 1 of it). Whatever fits in all rooms fits in every mix, so filling a mix in fractions, the best value for its room
first, gives a ceiling. The same order, filled with whole pods, gives a good pattern. A search over patterns closes the gap
between the two, within a number of steps. Nothing here checks whether a pattern really holds; patterns that include a known
refused one are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from allotment.autoscaler.solver.covering_problem import Dimension, Offer, Pattern, pattern_of

Refusals = Sequence[Mapping[int, int]]
"""Patterns that a machine does not hold; nor does it hold any pattern that includes one of them."""

PAIRS_OF_ROOMS = 5  # up to this number of rooms, every two form a mix as well


@dataclass(frozen=True, slots=True)
class BestPattern:
    """A pattern with its value, and a ceiling for the value of any pattern."""

    value: float
    pattern: Pattern
    ceiling: float


@dataclass(frozen=True, slots=True)
class Mix:
    """What one pod of each shape takes of the whole machine by a mix, and the resulting ceiling."""

    weights: Sequence[float]
    ceiling: float
    start: Mapping[int, int]  # the initial numbers by shape


class SharedRooms:
    """What machines with the same rooms have in common: what each shape needs of them, and mixes to try.

    Shapes are ranked once for all of these machines, as long as ``values`` is the same list; it must not change in between.
    """

    def __init__(self, rooms: Sequence[Dimension], shapes: int) -> None:
        rooms = [room for room in rooms if any(room.needs)]
        self.sizes = [room.size for room in rooms]
        self.needs = [
            tuple((place, room.needs[shape]) for place, room in enumerate(rooms) if room.needs[shape])
            for shape in range(shapes)
        ]
        self.least = [(place, min(room.needs)) for place, room in enumerate(rooms) if min(room.needs)]
        self.parts = [[need / max(1, room.size) for need in room.needs] for room in rooms]
        self.shares = [max(parts, default=1.0) for parts in zip(*self.parts, strict=True)] or [1.0] * shapes
        count = len(rooms)
        places = [*((place,) for place in range(count)), tuple(range(count))]
        if count <= PAIRS_OF_ROOMS:
            places += combinations(range(count), 2)
        self.mixes = [
            self.mixed([float(place in mix) / max(1, len(mix)) for place in range(count)]) for mix in places
        ]
        self.mixes.append(self.mixes[count])  # the place of the mix that was sharpened last
        self.sharpest = (
            count  # the mix with the lowest ceiling last time; the first guess weighs all rooms equally
        )
        self._values: Sequence[float] = ()
        self._ranked: dict[int, list[int]] = {}

    def mixed(self, weights: Sequence[float]) -> list[float]:
        """What each shape takes of all rooms together, with these weights."""
        found = [0.0] * len(self.needs)
        for weight, parts in zip(weights, self.parts, strict=True):
            if weight:
                found = [each + weight * part for each, part in zip(found, parts, strict=True)]
        return found

    def keep_sharp(self, mix: Sequence[float]) -> None:
        self.mixes[-1], self.sharpest = list(mix), len(self.mixes) - 1
        self._ranked.pop(len(self.mixes) - 1, None)

    def ranked(self, number: int, values: Sequence[float]) -> list[int]:
        """Shapes, by their value relative to what they take of a mix, best first."""
        if values is not self._values:
            self._values, self._ranked = values, {}
        if number not in self._ranked:
            self._ranked[number] = by_worth(self.mixes[number], values)
        return self._ranked[number]


def by_worth(mix: Sequence[float], values: Sequence[float]) -> list[int]:
    worth = [value / (weight + 1e-12) for value, weight in zip(values, mix, strict=True)]
    shapes = [shape for shape, value in enumerate(values) if value > 0]
    shapes.sort(key=worth.__getitem__, reverse=True)
    return shapes


class PreparedOffer:
    """One offer, prepared to be filled often with changing values."""

    def __init__(self, offer: Offer, interior: SharedRooms) -> None:
        self._most = offer.most
        self._inside = interior
        self._next = 0

    @property
    def shares(self) -> Sequence[float]:
        """The part of the machine that one pod of each shape takes."""
        return self._inside.shares

    def fill(self, values: Sequence[float], caps: Sequence[int], refusals: Refusals = ()) -> BestPattern:
        """Quickly finds a good pattern with at most ``caps`` of each shape."""
        inside = self._inside
        self._next = (self._next + 1) % len(inside.mixes)
        found = self._fill_by(inside.sharpest, values, caps, refusals)
        other = self._fill_by(self._next, values, caps, refusals)
        if other.ceiling < found.ceiling:
            inside.sharpest = self._next
        best = other if other.value > found.value else found
        return BestPattern(best.value, best.pattern, min(found.ceiling, other.ceiling))

    def _fill_by(
        self, number: int, values: Sequence[float], caps: Sequence[int], refusals: Refusals
    ) -> BestPattern:
        inside = self._inside
        return self._fill(inside.mixes[number], inside.ranked(number, values), values, caps, refusals)

    def _fill(
        self,
        mix: Sequence[float],
        ranked: Sequence[int],
        values: Sequence[float],
        caps: Sequence[int],
        refusals: Refusals,
        start: Mapping[int, int] | None = None,
    ) -> BestPattern:
        """Fills up by a mix; if ``start`` is given, with its content first."""
        most, needs, least = self._most, self._inside.needs, self._inside.least
        left, room = list(self._inside.sizes), 1.0
        value = ceiling = 0.0
        taken: dict[int, int] = {}
        for shape in ranked if start else ():
            assert start is not None
            count = self._room_for(shape, min(start.get(shape, 0), caps[shape]), left, taken, refusals)
            value += count * values[shape]
        for shape in ranked:
            cap = most[shape]
            if caps[shape] < cap:
                cap = caps[shape]
            if not cap:
                continue
            if room > 0:
                weight = mix[shape]
                part = cap if cap * weight <= room else room / weight
                ceiling += part * values[shape]
                room -= part * weight
            elif any(left[place] < need for place, need in least):
                break
            for place, need in needs[shape]:
                if left[place] < need:
                    break
            else:
                count = self._room_for(shape, cap - taken.get(shape, 0), left, taken, refusals)
                value += count * values[shape]
        return BestPattern(value, pattern_of(taken.items()), ceiling)

    def _room_for(
        self, shape: int, count: int, left: list[int], taken: dict[int, int], refusals: Refusals
    ) -> int:
        """Adds up to ``count`` of a shape; returns how many."""
        count = min(count, self._most[shape])
        for place, need in self._inside.needs[shape]:
            fits = left[place] // need
            if fits < count:
                count = fits
        if count > 0 and refusals:
            count = _allowed(taken, shape, count, refusals)
        if count <= 0:
            return 0
        taken[shape] = taken.get(shape, 0) + count
        for place, need in self._inside.needs[shape]:
            left[place] -= need * count
        return count

    def sharpen(
        self, values: Sequence[float], caps: Sequence[int], enough: float = 0.0, rounds: int = 40
    ) -> Mix:
        """Searches the mix with the lowest ceiling, close to that of the linear relaxation: rooms that are overfull by one
        mix weigh more in the next. The average content of the later mixes is a good beginning of a pattern. A ceiling below
        ``enough`` ends the search."""
        inside, rooms = self._inside, len(self._inside.sizes)
        weights = [1.0 / max(1, rooms)] * rooms
        ceilings = [
            (self._fractions(mix, inside.ranked(place, values), values, caps)[0], place)
            for place, mix in enumerate(inside.mixes)
        ]
        ceiling, place = min(ceilings)
        best: Sequence[float] = inside.mixes[place]
        average = dict.fromkeys(range(len(values)), 0.0)
        for round in range(rounds if rooms > 1 else 0):
            if ceiling <= enough:
                break
            mix = inside.mixed(weights)
            worth, parts = self._fractions(mix, by_worth(mix, values), values, caps)
            if worth < ceiling:
                best, ceiling = mix, worth
            if 2 * round >= rounds:
                for shape, part in parts:
                    average[shape] += part / (rounds - rounds // 2)
            pace = 1.0 / (1.0 + 0.2 * round)
            use = [sum([part * every[shape] for shape, part in parts]) for every in inside.parts]
            weights = [w * max(0.1, 1.0 + pace * (u - 1.0)) for w, u in zip(weights, use, strict=True)]
            total = sum(weights)
            weights = [w / total for w in weights]
        inside.keep_sharp(best)
        start = {shape: int(part + 1e-6) for shape, part in average.items() if part >= 1}
        return Mix(best, ceiling, start)

    def _fractions(
        self, mix: Sequence[float], ranked: Sequence[int], values: Sequence[float], caps: Sequence[int]
    ) -> tuple[float, list[tuple[int, float]]]:
        """The value of a mix filled in fractions, and its content."""
        worth, room, most = 0.0, 1.0, self._most
        parts: list[tuple[int, float]] = []
        for shape in ranked:
            cap = min(caps[shape], most[shape])
            if not cap:
                continue
            weight = mix[shape]
            part = cap if cap * weight <= room else room / weight
            worth += part * values[shape]
            room -= part * weight
            parts.append((shape, part))
            if room <= 0:
                break
        return worth, parts

    def complete(
        self, mix: Mix, values: Sequence[float], caps: Sequence[int], refusals: Refusals = ()
    ) -> BestPattern:
        """Fills up the beginning that comes with a mix, or a part of it; then improves it by removing one pod at a time and
        filling up without its shape."""
        starts = [{s: int(n * part) for s, n in mix.start.items()} for part in (1.0, 0.9, 0.75, 0.5)]
        ranked = by_worth(mix.weights, values)
        best = max(
            (self._fill(mix.weights, ranked, values, caps, refusals, start) for start in starts),
            key=lambda each: each.value,
        )
        better = True
        while better:
            better = False
            for shape, count in best.pattern:
                start = dict(best.pattern) | {shape: count - 1}
                fewer = [count - 1 if s == shape else cap for s, cap in enumerate(caps)]
                other = self._fill(mix.weights, ranked, values, fewer, refusals, start)
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
    ) -> tuple[BestPattern, int]:
        """The best pattern worth more than ``floor``, if there is one, and the steps that the search took. If these do not
        suffice, the best pattern so far, with the ceiling of the mix."""
        inside = self._inside
        ranked = [
            _Item(shape, mix.weights[shape], cap, inside.needs[shape])
            for shape in by_worth(mix.weights, values)
            if (cap := min(caps[shape], self._most[shape]))
        ]
        search = _PatternSearch(ranked, values, floor, steps, refusals)
        search.descend(0, 0.0, 1.0, list(inside.sizes))
        ceiling = search.best if search.steps >= 0 else max(search.best, mix.ceiling)
        return BestPattern(search.best, pattern_of(search.found.items()), ceiling), steps - max(
            0, search.steps
        )


def sacks_of(offers: Sequence[Offer], numbers: Iterable[int], shapes: int) -> dict[int, PreparedOffer]:
    """A sack for each of these offers; those with the same rooms share an interior."""
    interiors: dict[tuple[Dimension, ...], SharedRooms] = {}
    found: dict[int, PreparedOffer] = {}
    for number in numbers:
        rooms = offers[number].rooms
        if rooms not in interiors:
            interiors[rooms] = SharedRooms(rooms, shapes)
        found[number] = PreparedOffer(offers[number], interiors[rooms])
    return found


@dataclass(frozen=True, slots=True)
class _Item:
    shape: int
    weight: float  # in the mix
    cap: int
    needs: tuple[tuple[int, int], ...]  # (room, how much)


class _PatternSearch:
    """Depth first, with the most of the best shape first; a branch ends when the mix has no room for anything better."""

    def __init__(
        self,
        ranked: list[_Item],
        values: Sequence[float],
        floor: float,
        steps: int,
        refusals: Refusals,
    ) -> None:
        self._ranked = ranked
        self._values = values
        self._refusals = refusals
        self._taken: dict[int, int] = {}
        self._rest = [0.0]  # the largest value of everything that follows
        for item in reversed(ranked):
            self._rest.append(self._rest[-1] + item.cap * values[item.shape])
        self._rest.reverse()
        self.best, self.steps = floor, steps
        self.found: dict[int, int] = {}

    def descend(self, place: int, value: float, room: float, left: list[int]) -> None:
        self.steps -= 1
        if value > self.best * (1 + 1e-9) + 1e-9:
            self.best, self.found = value, dict(self._taken)
        if place == len(self._ranked) or self.steps < 0:
            return
        item = self._ranked[place]
        shape = item.shape
        worth = self._values[shape] / (item.weight + 1e-12)
        if value + min(self._rest[place], worth * room) <= self.best * (1 + 1e-9) + 1e-9:
            return
        count = min([item.cap, *[left[each] // need for each, need in item.needs]])
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
            self.descend(place + 1, value + number * self._values[shape], room - number * item.weight, rest)
            if self.steps < 0:
                return


def _allowed(taken: Mapping[int, int], shape: int, count: int, refusals: Refusals) -> int:
    """How many of a shape may be added without including a refused pattern."""
    have = taken.get(shape, 0)
    for refused in refusals:
        least = refused.get(shape, 0)
        if 0 < least <= have + count and all(taken.get(s, 0) >= n for s, n in refused.items() if s != shape):
            count = least - 1 - have
    return max(0, count)
