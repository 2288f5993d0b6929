"""The Go program itself agrees with the recorded cases, so that a difference from it means something."""

import json
import math
from typing import Any

import pytest

from tests.corpus import corpus
from tests.upstream.oracle import Oracle

pytestmark = pytest.mark.upstream


def test_it_agrees_with_every_recorded_allocation(upstream: Oracle) -> None:
    wrong = [
        case["name"] for case in corpus("allocator_cases.json") if not _allocation_agrees(upstream, case)
    ]
    assert wrong == []


def _allocation_agrees(upstream: Oracle, case: dict[str, Any]) -> bool:
    answer = upstream.allocate(case)
    if case["expectError"]:
        return not answer["ok"] and case["expectError"] in answer["error"]
    if not case["claimsToAllocate"]:
        return bool(answer["ok"]) and answer["results"] == []  # the corpus cannot tell this from a "no"
    if not case["expectResults"]:
        return not answer["ok"] and answer["error"] == ""
    expected = [
        _comparable(_with_exact_quantities(result), order)
        for result, order in zip(case["expectResults"], case["expectOrder"], strict=True)
    ]
    orders = dict.fromkeys(case["expectOrder"])
    # Results are a set over claims: each answer must equal one expected result that is not taken yet.
    for result in answer["results"]:
        found = next((e for e in expected if e in [_comparable(result, order) for order in orders]), None)
        if found is None:
            return False
        expected.remove(found)
    return answer["ok"] and not expected


def _comparable(result: dict[str, Any], order: str) -> tuple[str, Any]:
    if order != "any":
        return order, result
    devices = result["devices"]
    unordered = sorted(devices.get("results", []), key=repr)
    return order, {**result, "devices": {**devices, "results": unordered}}


def _with_exact_quantities(result: dict[str, Any]) -> dict[str, Any]:
    """The corpus writes 1e21 in full; Kubernetes itself cannot write it in decimal format."""
    text: dict[str, Any] = json.loads(json.dumps(result).replace('"1000000000000000000000"', '"1e21"'))
    return text


def test_it_agrees_with_every_recorded_device_expression(upstream: Oracle) -> None:
    wrong = []
    for case in corpus("cel_cases.json"):
        for run in case["runs"]:
            question = {**case, "envType": run["envType"], "features": run["features"]}
            answer = upstream.cel(question)
            same = (
                answer["compileError"] == run["compileError"]
                and answer["maxCost"] == run["maxCost"]
                and (case["table"] == "derived-compile" or _evaluation_agrees(answer, run))
            )
            if not same:
                wrong.append((case["name"], run, answer))
    assert wrong == []


def _evaluation_agrees(answer: dict[str, Any], run: dict[str, Any]) -> bool:
    return (
        answer["match"] == run["match"]
        and answer.get("attribute") == run.get("attribute")
        and answer["matchError"] == run["matchError"]
        and answer["cost"] == run["actualCost"]
    )


# What cel-go itself does otherwise than the specification's cases say.
CEL_GO_DIFFERS = {
    "fields/qualified_identifier_resolution/map_key_float": "a double key is allowed",
    "fields/qualified_identifier_resolution/map_value_repeat_key": "a repeated key overwrites",
    "optionals/optionals/map_null_entry_no_such_key": "a field of null is absent, not an error",
    "optionals/optionals/map_present_key_invalid_field": "a field of a number is absent, not an error",
    "parse/bytes_literals/triple_double_quoted_unescaped_punctuation": "the recorded bytes keep a backslash",
}


def test_it_agrees_with_the_recorded_conformance_cases(upstream: Oracle) -> None:
    wrong = []
    for case in corpus("cel_conformance.json"):
        answer = upstream.cel(case)
        failed = bool(answer["compileError"] or answer["error"])
        expect = case["expect"]
        if failed != ("error" in expect) or (not failed and not same_value(answer["value"], expect["value"])):
            wrong.append(case["name"])
    assert wrong == list(CEL_GO_DIFFERS)


def same_value(ours: Any, theirs: Any) -> bool:
    """Typed values are equal; doubles by value, maps in any order."""
    if not isinstance(ours, list) or not isinstance(theirs, list) or ours[:1] != theirs[:1]:
        return False
    match theirs:
        case ["double", text]:
            a, b = float(ours[1]), float(text)
            return a == b or (math.isnan(a) and math.isnan(b))
        case ["list", elements]:
            return len(ours[1]) == len(elements) and all(map(same_value, ours[1], elements))
        case ["map", entries]:
            return len(ours[1]) == len(entries) and all(
                any(same_value(key, k) and same_value(value, v) for k, v in entries) for key, value in ours[1]
            )
    return ours == theirs


@pytest.mark.parametrize(
    "line", ["", "{", "[]", '{"name": "x"}', '{"name": "x", "node": 3}', "null", "\\x00"]
)
def test_a_broken_line_is_answered_with_an_error_and_the_next_is_served(upstream: Oracle, line: str) -> None:
    answer = upstream.ask_line("allocate", line or " ")
    assert answer["error"]
    assert not answer["ok"]
    fine = {"name": "next", "node": {"metadata": {"name": "n"}}, "slices": [], "classes": [], "claims": []}
    assert upstream.allocate(fine)["ok"]


def test_a_search_beyond_the_time_cap_says_so(upstream: Oracle) -> None:
    devices = [{"name": f"d{i}"} for i in range(20)]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    request = {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
    requests = [{"name": f"r{i}", "exactly": request} for i in range(21)]
    answer = upstream.allocate(
        {
            "name": "21 of 20",
            "node": {"metadata": {"name": "n"}},
            "slices": [
                {
                    "metadata": {"name": "s"},
                    "spec": {"driver": "d", "nodeName": "n", "pool": pool, "devices": devices},
                }
            ],
            "classes": [{"metadata": {"name": "c"}, "spec": {}}],
            "claims": [{"metadata": {"name": "claim"}, "spec": {"devices": {"requests": requests}}}],
        }
    )
    assert answer["timeout"]
    assert not answer["ok"]
    assert answer["error"] == ""
    assert answer["steps"] > 1000
