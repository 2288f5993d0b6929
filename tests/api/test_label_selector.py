"""Label selectors as objects have them."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.api.fields import FieldPath
from allotment.api.label_selector import check_label_selector, matches, told, told_labels

LABELS = {"app": "web", "tier": "a"}


def where(operator: str, *values: str, key: str = "tier") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        (where("In", "a", "b"), True),
        (where("NotIn", "a"), False),
        (where("NotIn", "a", key="other"), True),
        (where("Exists"), True),
        (where("DoesNotExist"), False),
        (where("Near", "a"), False),  # no operator: no match
        (where("In"), False),
    ],
)
def test_a_selector_matches(selector: dict[str, Any] | None, expected: bool) -> None:
    assert matches(selector, LABELS) is expected


def test_a_selector_reads_as_on_a_command_line() -> None:
    selector = {"matchLabels": {"b": "1", "a": "2"}, **where("In", "y", "x", key="a")}
    assert told(selector) == "a=2,a in (x,y),b=1"
    assert told(where("DoesNotExist")) == "!tier"
    assert told(where("NotIn", "q")) == "tier notin (q)"
    assert told({}) == told(None) == told_labels({}) == "<none>"
    assert told(where("Near")) == "<error>"
    assert told_labels({"b": "1", "a": "2"}) == "a=2,b=1"


def test_everything_wrong_is_reported_with_its_path() -> None:
    selector = {
        "matchLabels": {"a b": "c d"},
        "matchExpressions": [
            {"key": "a", "operator": "Near"},
            {"key": "a", "operator": "In"},
            {"key": "", "operator": "Exists", "values": ["x y"]},
        ],
    }
    errors = check_label_selector(selector, FieldPath("spec", "selector"))
    assert [f"{error.path}: {error.kind.name}" for error in errors] == [
        "spec.selector.matchLabels: INVALID",
        "spec.selector.matchLabels: INVALID",
        "spec.selector.matchExpressions[0].operator: INVALID",
        "spec.selector.matchExpressions[1].values: REQUIRED",
        "spec.selector.matchExpressions[2].values: FORBIDDEN",
        "spec.selector.matchExpressions[2].key: INVALID",
        "spec.selector.matchExpressions[2].values[0]: INVALID",
    ]
