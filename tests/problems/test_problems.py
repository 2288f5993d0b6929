"""The random problems are what the comparisons need: repeatable, plain JSON, various, and neither easy nor hopeless."""

import json
import random
from typing import Any

from hypothesis import HealthCheck, given, settings

from tests.bruteforce import allocate
from tests.problems import FEATURES, problems, random_problem, random_question, smaller
from tests.problems.dice import ACCENTS

Json = dict[str, Any]


def batch(count: int) -> list[Json]:
    return [random_problem(random.Random(seed)) for seed in range(count)]


def test_a_seed_is_a_problem() -> None:
    assert batch(20) == batch(20)
    assert random_question(random.Random(7)) == random_question(random.Random(7))


def test_problems_are_plain_json() -> None:
    assert json.loads(json.dumps(batch(50))) == batch(50)


def test_every_feature_and_field_turns_up() -> None:
    text = json.dumps(batch(400))
    fields = (
        "nodeName allNodes nodeSelector perDeviceNodeSelection skipNodeOperations sharedCounters consumesCounters "
        "compatibilityGroups allowMultipleAllocations requestPolicy validRange validValues taints tolerations "
        "bindingConditions bindsToNode firstAvailable adminAccess matchAttribute distinctAttribute derivedAttributes "
        "consumedCapacity shareID config selectors ints strings bools versions declaredFeatures"
    )
    assert [field for field in fields.split() if f'"{field}"' not in text] == []
    assert [accent for accent in ACCENTS if accent not in text] == []
    off = {
        feature
        for p in batch(400)
        for feature in FEATURES
        if "features" in p and feature not in p["features"]
    }
    assert off == set(FEATURES)


def test_brute_force_finds_a_good_part_satisfiable_and_a_good_part_not() -> None:

    def agreeable(expression: str, driver: str, device: Json, derived: bool, features: frozenset[str]) -> Any:
        return {"bool": True} if derived else True

    answers = [allocate(problem, agreeable, most_steps=5000) for problem in batch(300)]
    satisfiable = sum(answer["ok"] for answer in answers)
    assert 75 < satisfiable < 225


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(problems())
def test_hypothesis_draws_problems_too(problem: Json) -> None:
    assert problem["slices"]
    assert problem["claims"]


def test_a_failing_problem_is_cut_down_to_what_the_failure_needs() -> None:
    problem = next(p for p in batch(100) if len(p["slices"]) > 2)

    def fails(candidate: Json) -> bool:
        return len(candidate.get("slices", [])) >= 2

    assert smaller(problem, fails) == {"slices": [{}, {}]}
