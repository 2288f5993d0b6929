"""Random problems: the same feasibility as brute force, valid answers, the same devices; tens of thousands more of
them run in ``make soak``."""

import json
import random
from typing import Any

import pytest

from allotment.allocator import search
from allotment.allocator.strategy import BEST_FIT, FIRST_FIT
from tests.allocator.oracle import fault, tangle
from tests.problems import random_problem, smaller

BATCH = 100


def check(seed: int, kind: str, strategy: str = FIRST_FIT) -> None:
    """One problem, ``small``, ``mid``, ``whole`` or ``tangle``; a failure names its seed and shows the problem cut down to what it
    needs."""
    rng = random.Random(seed)
    problem = tangle(rng) if kind == "tangle" else random_problem(rng, "mid" if kind == "mid" else "small")
    if kind == "whole":
        want_all(problem, rng)
    complaint = fault(problem, strategy)
    if complaint is not None:
        small = smaller(problem, lambda each: fault(each, strategy) is not None, attempts=500)
        pytest.fail(f"seed {seed}, {kind}, {strategy}: {complaint}\ncut down: {json.dumps(small)}")


def want_all(problem: dict[str, Any], rng: random.Random) -> None:
    """Makes requests of a problem ask for all devices, the last ones more often: choices come before them."""
    for claim in problem["claims"]:
        requests = claim["spec"]["devices"]["requests"]
        for place, request in enumerate(requests):
            for wish in [request["exactly"]] if "exactly" in request else request.get("firstAvailable", []):
                if rng.random() < (place + 1) / (len(requests) + 1):
                    wish.pop("count", None)
                    wish["allocationMode"] = "All"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small problems are solved before the search loses patience and counts at every step; here it has none."""
    monkeypatch.setattr(search, "_PATIENT_TURNS", -1)


@pytest.mark.parametrize("batch", range(8))
def test_first_fit_gives_what_brute_force_gives(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        check(seed, "small")


@pytest.mark.parametrize("batch", range(3))
def test_best_fit_is_feasible_when_brute_force_is(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        check(seed, "small", BEST_FIT)


@pytest.mark.parametrize("batch", range(2))
def test_larger_problems_too(batch: int) -> None:
    """Where brute force gives up, the answer is still checked for validity."""
    for seed in range(batch * 25, (batch + 1) * 25):
        check(seed, "mid")


@pytest.mark.parametrize("batch", range(3))
def test_requests_that_are_in_each_others_way(batch: int) -> None:
    for seed in range(batch * 60, (batch + 1) * 60):
        check(seed, "tangle")


@pytest.mark.parametrize("batch", range(4))
def test_requests_for_all_devices_behind_others(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        check(seed, "whole")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["small", "tangle"])
def test_counting_at_every_step_changes_no_answer(kind: str) -> None:
    for seed in range(1000, 1150):
        check(seed, kind)
