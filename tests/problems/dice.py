"""Dice with a mood: which features a random problem dwells on.

If everything were equally likely everywhere, problems would be noise: nearly all unsatisfiable for five reasons at
once. So each problem picks a few accents; what belongs to an accent is frequent, everything else stays rare but
possible, and interactions of any two features turn up.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

ACCENTS = (
    "generations",  # stale, newer, incomplete and invalid pools
    "nodes",  # allNodes, node selectors, selection per device, other nodes
    "selectors",
    "errors",  # run-time and compile errors of expressions, unsupported values
    "all",  # allocation mode All
    "alternatives",  # firstAvailable
    "admin",
    "match",
    "distinct",
    "lists",  # list-typed attributes
    "counters",
    "groups",  # compatibility groups on counters
    "capacity",  # consumable capacity and its policies
    "taints",
    "binding",  # binding conditions, bindsToNode
    "node-operations",
    "derived",
    "configs",
    "in-use",
    "limits",  # results close to 32
    "puzzle",  # requests that take each other's devices, so that first choices must be taken back
)


class Dice:
    """The randomness of one problem; ``rng`` decides everything, so a seed is a problem."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.devices = 0  # made so far, each with its number as attribute `slot`
        self.accents = frozenset(rng.sample(ACCENTS, rng.choice([1, 2, 2, 3, 3, 4, 5])))

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def accent(self, name: str, often: float, rarely: float) -> bool:
        """True with the probability ``often`` where the problem dwells on this feature, else ``rarely``."""
        assert name in ACCENTS
        return self.chance(often if name in self.accents else rarely)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.rng.randrange(len(choices))]

    def some(self, choices: Sequence[T], least: int = 0) -> list[T]:
        """A random sub-list, in order."""
        count = self.rng.randint(least, len(choices))
        chosen = sorted(self.rng.sample(range(len(choices)), count))
        return [choices[index] for index in chosen]

    def between(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        order = list(items)
        self.rng.shuffle(order)
        return order
