"""Kubernetes' own test tables through the line protocol, as a program would ask."""

import json
import math
from typing import Any

import pytest

from allotment.cli.ndjson.problem_line import allocate_line, cel_line
from tests.corpus import corpus

Case = dict[str, Any]


def _cases(name: str) -> list[Any]:
    """Parameters for one test a case; a single one that skips, or fails in CI, where there is no corpus."""
    try:
        return [pytest.param(case, id=case["name"]) for case in corpus(name)]
    except pytest.skip.Exception:
        return [pytest.param(None, id="absent")]


def _ask(answer_line: Any, question: Case) -> Case:
    answer: Case = json.loads(answer_line(json.dumps(question)))
    assert "internal error" not in (answer.get("error") or "")
    return answer


@pytest.mark.parametrize("case", _cases("allocator_cases.json"))
def test_allocations_are_those_of_the_recorded_cases(case: Case | None) -> None:
    if case is None:
        corpus("allocator_cases.json")
        return
    answer = _ask(allocate_line, case)
    assert answer["name"] == case["name"]
    if case["expectError"]:
        assert not answer["ok"]
        assert case["expectError"] in answer["error"]
        return
    assert answer["error"] == ""
    if not case["expectResults"]:
        # No claims at all is a "yes" with nothing in it, which the corpus writes like a "no".
        assert answer["ok"] is (not case["claimsToAllocate"])
        assert answer["results"] == []
        assert bool(answer["reasons"]) is not answer["ok"]
        return
    assert answer["ok"]
    expected = [
        (order, _comparable(result, order))
        for result, order in zip(case["expectResults"], case["expectOrder"], strict=True)
    ]
    for result in answer["results"]:  # a set over claims: each must be one of those not yet seen
        same = [each for each in expected if each[1] == _comparable(result, each[0])]
        assert same, f"{result} is not among {expected}"
        expected.remove(same[0])
    assert expected == []


def _comparable(result: Case, order: str) -> Case:
    if order != "any":
        return result
    devices = sorted(result["devices"].get("results", []), key=repr)
    return {**result, "devices": {**result["devices"], "results": devices}}


@pytest.mark.parametrize("case", _cases("cel_cases.json"))
def test_expressions_on_devices_are_those_of_the_recorded_cases(case: Case | None) -> None:
    if case is None:
        corpus("cel_cases.json")
        return
    dear = case["runs"][0]["actualCost"] or 0
    for run in (
        case["runs"][:1] if dear > 100_000 else case["runs"]
    ):  # one evaluation up to the limit is enough
        answer = _ask(cel_line, {**case, "envType": run["envType"], "features": run["features"]})
        assert bool(answer["compileError"]) == bool(run["compileError"])
        assert answer["maxCost"] == run["maxCost"]
        if run["compileError"] or case["table"] == "derived-compile":
            continue  # what is only compiled there has no device to be asked of
        assert answer.get("match", False) == run["match"]
        assert answer.get("attribute") == run.get("attribute")
        assert bool(answer["matchError"]) == bool(run["matchError"])
        assert answer["cost"] == run["actualCost"]


def test_the_plain_language_agrees_with_the_conformance_cases() -> None:
    """The share that must agree is for tests/cel to judge, with reasons; here it is the protocol that is tested."""
    cases = corpus("cel_conformance.json")
    wrong = []
    for case in cases:
        answer = _ask(cel_line, case)
        failed = bool(answer["compileError"] or answer["error"])
        expect = case["expect"]
        if failed != ("error" in expect) or (not failed and not _same(answer["value"], expect["value"])):
            wrong.append(case["name"])
    assert len(wrong) <= len(cases) // 100, wrong


def _same(ours: Any, theirs: Any) -> bool:
    """Typed values are equal; doubles by value, maps in any order."""
    if ours[0] != theirs[0]:
        return False
    match theirs:
        case ["double", text]:
            a, b = float(ours[1]), float(text)
            return a == b or (math.isnan(a) and math.isnan(b))
        case ["list", items]:
            return len(ours[1]) == len(items) and all(map(_same, ours[1], items))
        case ["map", entries]:
            return len(ours[1]) == len(entries) and all(
                any(_same(key, k) and _same(value, v) for k, v in entries) for key, value in ours[1]
            )
    return bool(ours == theirs)
