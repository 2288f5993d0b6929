"""Assigns the members of a gang to nodes when placing them one after another fails.

Members that ask for the same form a *class* with a count. A set of members is then a *bundle*: how many of each class. The
caller's ``fits`` says whether a bundle fits on a node; a smaller bundle fits wherever a larger one does. So the largest bundles
of a node (its *frontier*) describe it. One pass over the nodes, with the best result remembered for each remainder, gives the
largest number of members that can be placed. Neither the order of members nor that of nodes matters.

The search does not see what one node's bundle does to another node (a shared claim, a pool that both reach, spreading). The
caller tries an assignment for real and, if it fails, takes the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import prod

Bundle = tuple[int, ...]
"""How many members of each class."""


class SearchCutOff(Exception):
    """The search used up its steps before it knew whether the gang fits."""


def frontier(limit: Bundle, fits: Callable[[Bundle], bool], budget: int = 100_000) -> list[Bundle]:
    """The largest bundles within ``limit`` that fit on a node; none is part of another. Raises SearchCutOff if there are too many
    candidates."""
    most = [_most(limit, place, fits) for place in range(len(limit))]
    if prod(count + 1 for count in most[:-1]) > budget:
        raise SearchCutOff
    found: list[Bundle] = []
    for head in product(*[range(count, -1, -1) for count in most[:-1]]):
        if any(
            all(h <= o for h, o in zip(head, other, strict=False)) and other[-1] == most[-1]
            for other in found
        ):
            continue  # a larger head fits with as many of the last class as possible
        last = _largest(partial(_with_last, fits, head), most[-1])
        if last >= 0:
            found.append((*head, last))
    return [each for each in found if not any(_within(each, other) and each != other for other in found)]


def _with_last(fits: Callable[[Bundle], bool], head: Bundle, last: int) -> bool:
    return fits((*head, last))


def _most(limit: Bundle, place: int, fits: Callable[[Bundle], bool]) -> int:
    """The largest count of one class alone."""
    alone = [0] * len(limit)

    def fits_alone(count: int) -> bool:
        alone[place] = count
        return fits(tuple(alone))

    return max(0, _largest(fits_alone, limit[place]))


def _largest(fits: Callable[[int], bool], limit: int) -> int:
    """The largest count up to ``limit`` that fits, found by doubling and halving; -1 if not even 0 fits."""
    if not fits(0):
        return -1
    low, step = 0, 1
    while low + step <= limit and fits(low + step):
        low, step = low + step, step * 2
    high = min(limit, low + step - 1)  # known to be too many: high + 1, unless it is the limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _within(small: Bundle, large: Bundle) -> bool:
    return all(a <= b for a, b in zip(small, large, strict=True))


class Assignments:
    """All ways to give each node a bundle so that at least ``need`` members are placed. Larger bundles for the first node come
    first.

    Iterating raises SearchCutOff when ``budget`` steps are used up.
    """

    def __init__(self, counts: Bundle, frontiers: Sequence[Sequence[Bundle]], need: int, budget: int) -> None:
        self._counts = counts
        self._frontiers = [list(each) for each in frontiers]
        self._need = need
        self._budget = budget
        self._best: dict[tuple[int, Bundle], int] = {}

    def most(self) -> int:
        """An upper bound of the members that can be placed, judged node by node."""
        return self._reach(0, self._counts)

    def __iter__(self) -> Iterator[tuple[Bundle, ...]]:
        if self.most() >= self._need:
            yield from self._from(0, self._counts, 0)

    def _from(self, node: int, left: Bundle, placed: int) -> Iterator[tuple[Bundle, ...]]:
        if node == len(self._frontiers):
            yield ()
            return
        for bundle in self._options(node, left):
            rest = tuple(a - b for a, b in zip(left, bundle, strict=True))
            now = placed + sum(bundle)
            if now + self._reach(node + 1, rest) >= self._need:
                for following in self._from(node + 1, rest, now):
                    yield (bundle, *following)

    def _options(self, node: int, left: Bundle) -> list[Bundle]:
        """All bundles that fit on a node, large ones first."""
        found: set[Bundle] = set()
        for largest in self._frontiers[node]:
            limits = [min(a, b) for a, b in zip(largest, left, strict=True)]
            self._spend(prod(limit + 1 for limit in limits))
            found.update(product(*[range(limit + 1) for limit in limits]))
        return sorted(found, key=lambda bundle: (-sum(bundle), tuple(-count for count in bundle)))

    def _reach(self, node: int, left: Bundle) -> int:
        """How many of the remaining members can be placed on this node and the following ones."""
        if node == len(self._frontiers) or not any(left):
            return 0
        known = self._best.get((node, left))
        if known is None:
            self._spend(1)
            known = 0
            for largest in self._frontiers[node]:
                taken = tuple(min(a, b) for a, b in zip(largest, left, strict=True))
                rest = tuple(a - b for a, b in zip(left, taken, strict=True))
                known = max(known, sum(taken) + self._reach(node + 1, rest))
                if known == sum(left):
                    break
            self._best[node, left] = known
        return known

    def _spend(self, steps: int) -> None:
        self._budget -= steps
        if self._budget < 0:
            raise SearchCutOff
