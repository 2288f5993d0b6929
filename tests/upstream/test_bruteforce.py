"""The brute-force allocator and the checker agree with the real allocator, so that they can stand in for it."""

import json
import os
import random

import pytest

from tests.bruteforce import allocate, check_answer
from tests.problems import Size, random_problem
from tests.upstream.comparison import difference
from tests.upstream.evaluate import evaluator
from tests.upstream.oracle import Oracle

pytestmark = pytest.mark.upstream

PROBLEMS = int(os.environ.get("DIFFERENTIAL_PROBLEMS", "2000"))
SEED = int(os.environ.get("DIFFERENTIAL_SEED", "1"))


@pytest.mark.parametrize(("size", "count"), [("small", PROBLEMS), ("mid", PROBLEMS // 10)])
def test_brute_force_and_the_real_allocator_give_the_same_answers(
    upstream: Oracle, size: Size, count: int
) -> None:
    evaluate = evaluator(upstream)
    for seed in range(SEED, SEED + count):
        problem = random_problem(random.Random(seed), size)
        theirs = upstream.allocate(problem)
        ours = allocate(problem, evaluate, most_steps=20_000)
        if theirs.get("timeout") or ours.get("exhausted"):
            continue
        assert difference(theirs, ours) is None, f"seed {seed}, size {size}: {json.dumps(problem)}"


@pytest.mark.parametrize(("size", "count"), [("small", PROBLEMS), ("mid", PROBLEMS // 4)])
def test_the_checker_accepts_what_the_real_allocator_answers(
    upstream: Oracle, size: Size, count: int
) -> None:
    evaluate = evaluator(upstream)
    for seed in range(SEED, SEED + count):
        problem = random_problem(random.Random(seed), size)
        theirs = upstream.allocate(problem)
        if theirs["ok"]:
            complaints = check_answer(problem, theirs["results"], evaluate)
            assert complaints == [], f"seed {seed}, size {size}: {json.dumps(problem)}"
