"""Small clusters to consolidate, from a seed, and the dumbest way to find out how much can be saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from random import Random

Size = tuple[int, int]
"""CPUs and GPUs."""


@dataclass(frozen=True)
class Kind:
    """A type of machine."""

    size: Size
    price: int


@dataclass(frozen=True)
class Crowd:
    """Nodes by their kinds, and pods on them; ``sold``: kinds that can still be had."""

    kinds: tuple[Kind, ...]
    sold: tuple[int, ...]
    nodes: tuple[int, ...]  # kind of each
    pods: tuple[tuple[Size, ...], ...]  # of each node

    @property
    def free(self) -> list[Size]:
        found = []
        for kind, pods in zip(self.nodes, self.pods, strict=True):
            cpus, cards = self.kinds[kind].size
            found.append((cpus - sum(each[0] for each in pods), cards - sum(each[1] for each in pods)))
        return found


def crowd(seed: int, nodes: int = 6) -> Crowd:
    random = Random(seed)
    kinds = tuple(
        Kind((cpus, random.choice((0, 0, 1, 2, 4))), random.choice((cpus, cpus, random.randint(1, 12))))
        for cpus in sorted(random.sample(range(2, 13), random.randint(2, 4)))
    )
    sold = tuple(number for number in range(len(kinds)) if random.random() < 0.7)
    chosen, pods = [], []
    for _ in range(random.randint(1, nodes)):
        kind = random.randrange(len(kinds))
        left, mine = list(kinds[kind].size), list[Size]()
        for _ in range(random.choice((0, 1, 1, 2, 3))):
            size = random.randint(1, 4), random.choice((0, 0, 1, 1, 2))
            if size[0] <= left[0] and size[1] <= left[1]:
                left[0], left[1] = left[0] - size[0], left[1] - size[1]
                mine.append(size)
        chosen.append(kind)
        pods.append(tuple(mine))
    return Crowd(kinds, sold, tuple(chosen), tuple(pods))


def most_saved(crowd: Crowd) -> int:
    """By all sets of nodes and all ways to place their pods."""
    everything, best = range(len(crowd.nodes)), 0
    for size in range(1, len(crowd.nodes) + 1):
        for gone in combinations(everything, size):
            cost = sum(crowd.kinds[crowd.nodes[each]].price for each in gone)
            if cost > best:
                free = [room for each, room in enumerate(crowd.free) if each not in gone]
                pods = sorted((pod for each in gone for pod in crowd.pods[each]), reverse=True)
                best = max(best, cost - _cheapest(crowd, tuple(pods), tuple(sorted(free)), cost - best))
    return best


def _cheapest(crowd: Crowd, pods: Sequence[Size], free: tuple[Size, ...], limit: int) -> int:
    """What new machines for the pods cost, or at least ``limit``."""

    @cache
    def best(first: int, free: tuple[Size, ...]) -> int:
        if first == len(pods):
            return 0
        pod, found = pods[first], 10**6
        for room in set(free):
            if pod[0] <= room[0] and pod[1] <= room[1]:
                found = min(found, best(first + 1, _less(free, room, pod)))
        for number in crowd.sold:
            kind = crowd.kinds[number]
            if pod[0] <= kind.size[0] and pod[1] <= kind.size[1] and kind.price < min(limit, found):
                found = min(found, kind.price + best(first + 1, _less((*free, kind.size), kind.size, pod)))
        return found

    return min(best(0, free), limit)


def _less(free: tuple[Size, ...], room: Size, pod: Size) -> tuple[Size, ...]:
    rest = list(free)
    rest.remove(room)
    return tuple(sorted([*rest, (room[0] - pod[0], room[1] - pod[1])]))
