"""Random allocation problems, in the form of ``allot allocate --ndjson``.

``random_problem`` makes one from a seeded generator: the same seed, the same problem. ``problems()`` is the same for
hypothesis, whose shrinking works on the dice. ``smaller`` cuts a problem that fails down to what the failure needs.

    inventory.py   slices, devices, what is in use      demand.py     classes, claims
    dice.py        which features a problem dwells on   smaller.py    cutting failures down
    expressions.py random CEL over random devices
"""

import random
from typing import Any, Literal

from hypothesis import strategies as st

from tests.problems import demand, inventory
from tests.problems.dice import Dice
from tests.problems.expressions import random_plain_question, random_question
from tests.problems.smaller import smaller

__all__ = [
    "FEATURES",
    "Size",
    "problems",
    "random_plain_question",
    "random_problem",
    "random_question",
    "smaller",
]

Size = Literal["small", "mid"]

FEATURES = (
    "AdminAccess",
    "CompatibilityGroups",
    "ConsumableCapacity",
    "DerivedAttributes",
    "DeviceBindingAndStatus",
    "DeviceTaints",
    "FractionalCapacityRange",
    "ListTypeAttributes",
    "OptionalNodeOperations",
    "PartitionableDevices",
    "PrioritizedList",
)


def random_problem(rng: random.Random, size: Size = "small", all_features: bool = False) -> dict[str, Any]:
    """One problem. Small ones are for brute force; on mid ones the real allocator mostly ends within a second."""
    dice = Dice(rng)
    if "limits" in dice.accents and size == "mid":
        pools, devices, requests = 1, dice.between(20, 40), 2
    elif size == "small":
        pools, devices, requests = dice.between(1, 3), dice.between(4, 8), 3
    else:
        pools, devices, requests = dice.between(1, 4), dice.between(5, 12), 5
    slices = inventory.slices(dice, pools, devices)
    problem: dict[str, Any] = {
        "name": "+".join(sorted(dice.accents)),
        "node": inventory.node(dice),
        "slices": slices,
        "classes": demand.classes(dice),
        "claims": demand.claims(dice, 3, requests, devices),
        **inventory.in_use(dice, slices),
    }
    if not all_features and dice.chance(0.4):
        off = dice.rng.sample(FEATURES, dice.pick([0, 1, 1, 1, 1, 2, 2, 3, 6, len(FEATURES)]))
        problem["features"] = {feature: True for feature in FEATURES if feature not in off}
    return problem


def problems(size: Size = "small", all_features: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    """Problems for hypothesis. It draws every roll of the dice, so a failure shrinks towards few, plain objects."""
    return st.randoms(use_true_random=False).map(lambda rng: random_problem(rng, size, all_features))
