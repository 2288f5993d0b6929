"""Bounds how many devices can be in use together if using one way to split a device locks the other ways.

Counting candidates ignores locks: a GPU that is either one whole or two halves has three devices, but never more than two
in use. Where compatibility groups form trees, as they do for partitions inside partitions, the maximum is easy to compute:
a group offers the sum over its parts, and an instance offers its best group.

Two such sums prove a demand hopeless:

* *By number*: more requests depend on certain devices than can be in use among those devices.
* *By weight*: each request weighs as much as the smallest part that suits it. Whatever the weights are, those of the
served requests add up to at most the best sum over devices, each counted with the heaviest request that it suits.
This detects that a half used as a whole GPU leaves too little for the rest.

The sums are upper bounds, so groups that do not form a tree are simply counted one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.allocator.counters import NOBODY

if TYPE_CHECKING:
    from allotment.allocator.counters import Counters, Draw

_WHOLE_LOCK = 5040
"""The weight of a whole: halves, thirds and so on up to tenths of it are whole numbers."""

_MASKS_MAX = 8
"""The most kinds of requests that are examined one by one; more than that only all together."""


@dataclass(slots=True, eq=False)
class _SplitGroup:
    """One group of a split: the devices that are its parts, and the parts that are split again."""

    bits: int
    leaves: int = 0
    splits: list[_Split] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Split:
    """A counter set whose groups exclude each other."""

    place: int
    ways: dict[int, _SplitGroup] = field(default_factory=dict)
    below: int = 0  # all devices under it


class Locks:
    """The trees of locks among the devices of a problem, and their state, which is the counters'."""

    def __init__(self, draws: Mapping[int, Draw], counters: Counters) -> None:
        self._state = counters.state
        self._splits: dict[int, _Split] = {}
        self._above: dict[int, tuple[tuple[int, int], ...]] = {}  # each set's only path from the root
        self._roots: list[_Split] = []
        self._loose = -1  # devices outside of all trees
        self._weights: dict[int, int] = {}  # of each device in a tree
        for position, draw in draws.items():
            if self._in_tree(draw):
                self._plant(position, draw)
        for root in self._roots:
            self._weigh(root)

    def __bool__(self) -> bool:
        return bool(self._roots)

    def hopeless(self, demands: Sequence[tuple[int, int, int]]) -> bool:
        """Whether these sums prove that (request, count, candidates) triples cannot all be served."""
        needs: dict[int, int] = {}
        for _, count, candidates in demands:
            needs[candidates] = needs.get(candidates, 0) + count
        everything = 0
        for mask in needs:
            everything |= mask
        masks = {everything, *needs} if len(needs) <= _MASKS_MAX else {everything}
        for mask in masks:
            needed = sum(count for other, count in needs.items() if not other & ~mask)
            if needed > mask.bit_count() or needed > self._most([(mask, 1)]):
                return True
        if len(needs) == 1:
            return False
        heavy = sorted(((mask, self._least(mask)) for mask in needs), key=lambda pair: -pair[1])
        return sum(needs[mask] * weight for mask, weight in heavy) > self._most(heavy)

    # --- sums ---

    def _most(self, values: Sequence[tuple[int, int]]) -> int:
        """The largest sum of values over devices that can be in use together with those already in use.

        A device has the value of the first mask that contains it.
        """
        wanted = 0
        for mask, _ in values:
            wanted |= mask
        total = _sum(self._loose, values)
        for root in self._roots:
            if root.below & wanted:
                total += self._best(root, values, wanted)
        return total

    def _best(self, split: _Split, values: Sequence[tuple[int, int]], wanted: int) -> int:
        state = self._state[split.place]
        best = 0
        for way in split.ways.values():
            if state == NOBODY or (state > 0 and state & way.bits):
                total = _sum(way.leaves, values) if way.leaves & wanted else 0
                for inner in way.splits:
                    if inner.below & wanted:
                        total += self._best(inner, values, wanted)
                best = max(best, total)
        return best

    def _least(self, mask: int) -> int:
        """The weight of the lightest device in a mask."""
        return min(
            (weight for position, weight in self._weights.items() if mask >> position & 1),
            default=_WHOLE_LOCK,
        )

    # --- trees ---

    def _in_tree(self, draw: Draw) -> bool:
        """Whether the device is in one group of each of its sets, and its sets lie in each other as for others."""
        path = draw.groups
        for depth, (place, bits) in enumerate(path):
            if bits == 0 or bits & (bits - 1) or self._above.get(place, path[:depth]) != path[:depth]:
                return False
        return bool(path) and len({place for place, _ in path}) == len(path)

    def _plant(self, position: int, draw: Draw) -> None:
        bit = 1 << position
        self._loose &= ~bit
        beside = self._roots
        for depth, (place, bits) in enumerate(draw.groups):
            split = self._splits.get(place)
            if split is None:
                split = self._splits[place] = _Split(place)
                self._above[place] = draw.groups[:depth]
                beside.append(split)
            split.below |= bit
            way = split.ways.setdefault(bits, _SplitGroup(bits))
            beside = way.splits
        way.leaves |= bit

    def _weigh(self, root: _Split) -> None:
        """Gives each device its part of the root, if all parts of a group were alike."""
        stack = [(root, _WHOLE_LOCK)]
        while stack:
            split, weight = stack.pop()
            for way in split.ways.values():
                each = max(weight // max(way.leaves.bit_count() + len(way.splits), 1), 1)
                leaves = way.leaves
                while leaves:
                    lowest = leaves & -leaves
                    leaves ^= lowest
                    self._weights[lowest.bit_length() - 1] = each
                stack.extend((inner, each) for inner in way.splits)


def _sum(devices: int, values: Sequence[tuple[int, int]]) -> int:
    total = 0
    for mask, value in values:
        total += (devices & mask).bit_count() * value
        devices &= ~mask
    return total
