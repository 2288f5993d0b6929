"""Our answers beside those of the real Kubernetes allocator, over random problems and expressions.

    DIFFERENTIAL_PROBLEMS=2000   how many small problems; mid-sized ones are a quarter of them, expressions twice as many
    DIFFERENTIAL_SEED=1          where the seeds start

A failure names its seed, is cut down to what it needs, and is saved to a file that the message names.
"""

import json
import os
import random
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.bruteforce import allocate, check_answer
from tests.problems import Size, problems, random_plain_question, random_problem, random_question, smaller
from tests.upstream.comparison import difference, outcome
from tests.upstream.evaluate import evaluator
from tests.upstream.oracle import Oracle
from tests.upstream.test_oracle import same_value

pytestmark = pytest.mark.upstream

PROBLEMS = int(os.environ.get("DIFFERENTIAL_PROBLEMS", "2000"))
SEED = int(os.environ.get("DIFFERENTIAL_SEED", "1"))

Json = dict[str, Any]
Fault = Callable[[Json], str | None]


def our_allocation(problem: Json) -> Json:
    from allotment.cli.ndjson.problem_line import allocate_line

    answer: Json = json.loads(allocate_line(json.dumps(problem)))
    return answer


def our_evaluation(question: Json) -> Json:
    from allotment.cli.ndjson.problem_line import cel_line

    answer: Json = json.loads(cel_line(json.dumps(question)))
    return answer


@pytest.fixture(scope="module")
def allocation_fault(upstream: Oracle) -> Fault:
    """What is wrong with our answer to a problem, None if nothing is."""
    evaluate = evaluator(upstream)

    def fault(problem: Json) -> str | None:
        ours = our_allocation(problem)
        if ours["ok"]:
            complaints = check_answer(problem, ours["results"], evaluate)
            if complaints:
                return f"our answer is not valid: {complaints}"
        theirs = upstream.allocate(problem)
        if theirs.get("panic"):
            return None  # upstream has no opinion
        if theirs.get("timeout"):
            theirs = allocate(problem, evaluate, most_steps=50_000)
            if theirs.get("exhausted"):
                return (
                    None
                    if outcome(ours) != "error"
                    else f"upstream is still searching, we say {ours['error']}"
                )
        return difference(theirs, ours)

    return fault


@pytest.mark.parametrize(("size", "count"), [("small", PROBLEMS), ("mid", PROBLEMS // 4)])
def test_the_same_allocations(allocation_fault: Fault, size: Size, count: int) -> None:
    _compare(lambda rng: random_problem(rng, size), allocation_fault, count)


@settings(
    max_examples=max(10, PROBLEMS // 20),
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
@given(problem=problems())
def test_the_same_allocations_where_hypothesis_steers(allocation_fault: Fault, problem: Json) -> None:
    assert allocation_fault(problem) is None


@pytest.fixture(scope="module")
def evaluation_fault(upstream: Oracle) -> Fault:
    def fault(question: Json) -> str | None:
        theirs, ours = upstream.cel(question), our_evaluation(question)
        if theirs.get("panic") or theirs["matchError"].startswith("internal error: "):
            return None  # a crash inside of cel-go, such as an unhashable semver in a list
        if bool(theirs["compileError"]) != bool(ours["compileError"]):
            return f"compile error: upstream {theirs['compileError']!r}, we {ours['compileError']!r}"
        if theirs["compileError"]:
            return None
        for field in ("maxCost", "cost", "attribute" if question.get("derived") else "match"):
            if _plain(theirs.get(field)) != _plain(ours.get(field)):
                return f"{field}: upstream {theirs.get(field)}, we {ours.get(field)} ({theirs} {ours})"
        if bool(theirs["matchError"]) != bool(ours["matchError"]):
            return f"error: upstream {theirs['matchError']!r}, we {ours['matchError']!r}"
        return None

    return fault


def _plain(value: Any) -> Any:
    """No cost is a cost of nothing, and Kubernetes does not write empty lists."""
    return (
        {kind: content for kind, content in value.items() if content != []}
        if isinstance(value, dict)
        else value or 0
    )


def test_the_same_values_errors_and_costs_of_expressions(evaluation_fault: Fault) -> None:
    _compare(random_question, evaluation_fault, PROBLEMS * 2)


@pytest.fixture(scope="module")
def plain_fault(upstream: Oracle) -> Fault:
    def fault(question: Json) -> str | None:
        theirs, ours = upstream.cel(question), our_evaluation(question)
        if theirs.get("panic") or theirs["error"].startswith("internal error: "):
            return None
        for field in ("compileError", "error"):
            if bool(theirs[field]) != bool(ours[field]):
                return f"{field}: upstream {theirs[field]!r}, we {ours[field]!r}"
        if theirs["value"] is not None and not same_value(ours["value"], theirs["value"]):
            return f"value: upstream {theirs['value']}, we {ours['value']}"
        return None

    return fault


def test_the_same_values_and_errors_in_the_plain_language(plain_fault: Fault) -> None:
    _compare(random_plain_question, plain_fault, PROBLEMS)


def _compare(make: Callable[[random.Random], Json], fault: Fault, count: int) -> None:
    """Fails on the first seed with a fault."""
    for seed in range(SEED, SEED + count):
        case = make(random.Random(seed))
        found = fault(case)
        if found is not None:
            _report(seed, case, fault, _kind(found))


def _report(seed: int, case: Json, fault: Fault, kind: str) -> None:
    """Cuts the case down to what its fault needs, saves it and fails."""
    case = smaller(case, lambda candidate: _kind_of(fault, candidate) == kind)
    with tempfile.NamedTemporaryFile("w", prefix=f"differs-{seed}-", suffix=".json", delete=False) as file:
        json.dump(case, file)
    pytest.fail(f"seed {seed} ({file.name}): {fault(case)}\n{json.dumps(case)}")


def _kind(fault: str | None) -> str:
    """What sort of fault it is, so that cutting a case down does not wander off to another one."""
    return (fault or "").split(" (")[0].split(":")[0][:40]


def _kind_of(fault: Fault, candidate: Json) -> str:
    try:
        return _kind(fault(candidate))
    except (KeyError, TypeError, AttributeError, IndexError):
        return ""  # cut too far: no longer a problem that the oracles understand
