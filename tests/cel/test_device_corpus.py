"""Every run of Kubernetes' own device expression tests: outcome, static cost and actual cost, to the unit."""

from typing import Any

import msgspec
import pytest

from allotment.cel.device import (
    CelCompileError,
    CelRuntimeError,
    DerivedAttribute,
    DeviceFeatures,
    compile_derived,
    compile_selector,
)
from tests.cel.devices import attributes, capacity
from tests.corpus import corpus

MAX_COST_OF_FAULTS = 2**64 - 1


def runs() -> list[Any]:
    try:
        cases = corpus("cel_cases.json")
    except pytest.skip.Exception:
        return []
    return [
        pytest.param(case, run, id=f"{case['table']}-{case['name']}-{number}")
        for case in cases
        for number, run in enumerate(case["runs"])
    ]


def answer(case: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """What we say to a run, in the corpus's words."""
    flags = run["features"]
    features = DeviceFeatures(flags["EnableConsumableCapacity"], flags["EnableListTypeAttributes"])
    compile_ = compile_derived if case["derived"] else compile_selector
    try:
        program = compile_(case["expression"], features, run["envType"])
    except CelCompileError as exc:
        return {"compileError": f"compilation failed: {exc}", "maxCost": MAX_COST_OF_FAULTS}
    said: dict[str, Any] = {"compileError": "", "maxCost": program.max_cost, "match": False, "matchError": ""}
    if run["actualCost"] is None:
        return said
    device = (
        case["driver"],
        attributes(case["attributes"]),
        capacity(case["capacity"]),
        bool(case["allowMultipleAllocations"]),
    )
    try:
        value, said["actualCost"] = program.evaluate(*device)
    except CelRuntimeError as exc:
        return {**said, "matchError": str(exc), "actualCost": exc.cost}
    key = "attribute" if isinstance(program, DerivedAttribute) else "match"
    return {**said, key: msgspec.json.decode(msgspec.json.encode(value))}


@pytest.mark.parametrize(("case", "run"), runs())
def test_run_agrees(case: dict[str, Any], run: dict[str, Any]) -> None:
    said = answer(case, run)
    assert bool(said["compileError"]) == bool(run["compileError"]), said
    assert case["expectCompileError"] in said["compileError"]
    assert said["maxCost"] == run["maxCost"]
    if run["compileError"] or run["actualCost"] is None:
        return
    assert bool(said["matchError"]) == bool(run["matchError"]), said
    assert case["expectMatchError"] in said["matchError"]
    assert said["actualCost"] == run["actualCost"]
    assert said["match"] == run["match"]
    assert said.get("attribute") == run.get("attribute")


def test_the_corpus_is_there() -> None:
    assert len(corpus("cel_cases.json")) >= 72
