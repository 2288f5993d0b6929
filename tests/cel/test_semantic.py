"""Typed maps of semantic parameters."""

from typing import Any

import pytest

from allotment.api.quantity import Quantity
from allotment.api.semver import Version
from allotment.api.validation import ExpressionUse
from allotment.api.validation.expressions import EXPRESSION_COST
from allotment.cel.errors import CelCompileError, CelNoSuchKey, CelRuntimeError
from allotment.cel.expression_check import check_expression
from allotment.cel.semantic import compile_semantic

MAPS: dict[str, dict[str, Any]] = {
    "quantities": {"memory": Quantity.parse("16Gi"), "half": Quantity.parse("8Gi")},
    "versions": {"runtimeVersion": Version.parse("12.1.0")},
    "ints": {"cores": 4},
    "bools": {"ecc": True},
    "strings": {"model": "A100"},
    "stringSlices": {"modes": ["a", "b"]},
    "intSlices": {"lanes": [1, 2]},
}
HOLD = [
    'quantities["memory"] >= "8Gi"',
    'quantities.memory == "16384Mi"',
    '"8Gi" < quantities["memory"]',
    'quantities["memory"] > quantities["half"]',
    'quantities["memory"] != "1"',
    'versions["runtimeVersion"] >= "v12.0.0"',
    'versions["runtimeVersion"] == " 12.1 "',
    'versions["runtimeVersion"] < "13"',
    'ints["cores"] > 2 && bools["ecc"] && strings["model"].startsWith("A")',
    '"b" in stringSlices["modes"] && intSlices["lanes"].all(lane, lane < 3)',
    '!("gone" in ints)',
    'has(ints.cores) && !has(ints.gone)',
    'bools["gone"] || bools["ecc"]',
]  # fmt: skip


@pytest.mark.parametrize("expression", HOLD)
def test_holds(expression: str) -> None:
    assert compile_semantic(expression).matches(MAPS) is True


@pytest.mark.parametrize(
    "expression", ['quantities["memory"] >= "8Gx"', 'versions["v"] > "one"', 'ints["cores"] > "2"', "1"]
)
def test_bad_text_is_refused_with_its_place(expression: str) -> None:
    with pytest.raises(CelCompileError) as caught:
        compile_semantic(expression)
    assert caught.value.line == 1


def test_a_missing_key_is_named_with_its_map() -> None:
    with pytest.raises(CelNoSuchKey, match="no such key: gone in quantities"):
        compile_semantic('quantities["gone"] > "1"').matches(MAPS)


def test_a_computed_string_that_is_no_quantity_fails_when_it_runs() -> None:
    with pytest.raises(CelRuntimeError, match="A100"):
        compile_semantic('quantities["memory"] > strings["model"]').matches(MAPS)


def test_reads_maps_and_keys() -> None:
    selector = compile_semantic(
        'quantities["memory"] > "1" && "x" in ints && strings.exists(k, k == "model")'
    )
    assert selector.reads == {("quantities", "memory"), ("ints", "x"), ("strings", None)}


# --- what it may cost ---


@pytest.mark.parametrize(
    ("expression", "most"),
    [(each, 1_000) for each in HOLD] + [('strings.all(k, strings[k].matches("a.*b"))', 1_000_000)],
)
def test_ordinary_expressions_cost_little_at_worst(expression: str, most: int) -> None:
    assert compile_semantic(expression).max_cost <= most


@pytest.mark.parametrize(
    "expression",
    [
        "strings.all(k, strings.all(l, strings.all(m, k != l)))",
        "strings.all(k, strings.all(l, strings[k].contains(l)))",
    ],
)
def test_expressions_that_may_cost_too_much_are_refused_at_admission(expression: str) -> None:
    assert compile_semantic(expression).max_cost > EXPRESSION_COST
    assert check_expression(expression, ExpressionUse.PARTITIONABLE).cost > EXPRESSION_COST
