"""The CEL specification's conformance tests, in the plain language."""

import json
from typing import Any

import pytest

from allotment.cel.errors import CelError
from allotment.cel.plain import compile_plain
from allotment.cli.ndjson.typed_value import from_typed, to_typed
from tests.corpus import corpus

MISSES = {
    "parse/bytes_literals/triple_double_quoted_unescaped_punctuation": (
        "the expected bytes hold a backslash that the expression does not have: its text was unescaped once more "
        "than its answer when the case was written down; cel-go gives what we give"
    ),
}


def cases() -> list[Any]:
    try:
        found = corpus("cel_conformance.json")
    except pytest.skip.Exception:
        return []
    return [pytest.param(case, id=case["name"]) for case in found]


def outcome(case: dict[str, Any]) -> Any:
    """The typed value, or None for any error."""
    try:
        program = compile_plain(
            case["expression"],
            declarations=case["declarations"],
            container=case["container"],
            macros=not case["disableMacros"],
            check=not case["disableCheck"],
        )
        return to_typed(
            program.evaluate({name: from_typed(typed) for name, typed in case["bindings"].items()})
        )
    except CelError:
        return None


def canonical(typed: Any) -> Any:
    """Maps have no order."""
    if typed is not None and typed[0] == "map":
        return ["map", sorted(json.dumps(entry) for entry in typed[1])]
    return typed


def agrees(case: dict[str, Any]) -> bool:
    return bool(canonical(outcome(case)) == canonical(case["expect"].get("value")))


@pytest.mark.parametrize("case", cases())
def test_case_agrees(case: dict[str, Any]) -> None:
    if case["name"] in MISSES:
        assert not agrees(case), "this case agrees now: strike it off the list"
    else:
        assert canonical(outcome(case)) == canonical(case["expect"].get("value"))


def test_misses_stay_below_one_in_a_hundred() -> None:
    found = corpus("cel_conformance.json")
    assert len(MISSES) * 100 <= len(found)
