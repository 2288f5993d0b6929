"""Random problems: the same feasibility as brute force, valid answers, the same devices; tens of thousands more of
them run in ``make soak``."""

import json
import random

import pytest

from allotment.allocator.strategy import BEST_FIT, FIRST_FIT
from tests.allocator.oracle import fault
from tests.problems import Size, random_problem, smaller

BATCH = 100


def check(seed: int, size: Size, strategy: str) -> None:
    """One problem; a failure names its seed and shows the problem cut down to what it needs."""
    problem = random_problem(random.Random(seed), size)
    complaint = fault(problem, strategy)
    if complaint is not None:
        small = smaller(problem, lambda each: fault(each, strategy) is not None, attempts=500)
        pytest.fail(f"seed {seed}, {size}, {strategy}: {complaint}\ncut down: {json.dumps(small)}")


@pytest.mark.parametrize("batch", range(8))
def test_first_fit_gives_what_brute_force_gives(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        check(seed, "small", FIRST_FIT)


@pytest.mark.parametrize("batch", range(3))
def test_best_fit_is_feasible_when_brute_force_is(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        check(seed, "small", BEST_FIT)


@pytest.mark.parametrize("batch", range(2))
def test_larger_problems_too(batch: int) -> None:
    """Where brute force gives up, the answer is still checked for validity."""
    for seed in range(batch * 25, (batch + 1) * 25):
        check(seed, "mid", FIRST_FIT)
