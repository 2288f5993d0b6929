"""Long random runs of the allocator: problems beside brute force, and whole lives of a fleet.

SOAK_PROBLEMS=16000   small problems; best-fit and tangles get a quarter of them each, mid-sized ones a twelfth
SOAK_FLEETS=300       fleets, of 25 changes each
SOAK_SEED=1           where the seeds start; a failure names its seed, and the same seed gives the same failure
"""

import os
import random

import pytest

from allotment.allocator import search
from allotment.allocator.strategy import BEST_FIT, FIRST_FIT
from tests.allocator import fleet_model
from tests.allocator.oracle import answer, asked
from tests.allocator.test_determinism import consistent, shuffled
from tests.allocator.test_random import check
from tests.problems import random_problem

pytestmark = pytest.mark.soak

PROBLEMS = int(os.environ.get("SOAK_PROBLEMS", "16000"))
FLEETS = int(os.environ.get("SOAK_FLEETS", "300"))
SEED = int(os.environ.get("SOAK_SEED", "1")) * 1_000_000
PARTS = 8  # of each run, so that all cores have something to do


def part(number: int, total: int) -> range:
    """The seeds of one part of a run."""
    return range(SEED + total * number // PARTS, SEED + total * (number + 1) // PARTS)


@pytest.mark.parametrize("number", range(PARTS))
@pytest.mark.parametrize(
    ("kind", "strategy", "count"),
    [
        ("small", FIRST_FIT, PROBLEMS),
        ("small", BEST_FIT, PROBLEMS // 4),
        ("tangle", FIRST_FIT, PROBLEMS // 4),
        ("mid", FIRST_FIT, PROBLEMS // 12),
    ],
)
def test_problems_beside_brute_force(kind: str, strategy: str, count: int, number: int) -> None:
    for seed in part(number, count):
        check(seed, kind, strategy)


@pytest.mark.parametrize("number", range(PARTS))
def test_counting_at_every_step(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_PATIENT_TURNS", -1)
    for seed in part(number, PROBLEMS // 8):
        check(seed, "small")
        check(seed, "tangle")


@pytest.mark.parametrize("number", range(PARTS))
def test_objects_in_another_order(number: int) -> None:
    for seed in part(number, PROBLEMS // 4):
        rng = random.Random(seed)
        problem = random_problem(rng)
        if consistent(problem):
            told, other = answer(asked(problem)), answer(asked(shuffled(problem, rng)))
            assert (told["ok"], told["results"]) == (other["ok"], other["results"]), f"seed {seed}"


@pytest.mark.parametrize("number", range(PARTS))
def test_lives_of_fleets(number: int) -> None:
    for seed in part(number, FLEETS):
        try:
            fleet_model.run(random.Random(seed), changes=25)
        except Exception as exc:
            exc.add_note(f"seed {seed}")
            raise
