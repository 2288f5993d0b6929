"""When nodes of a pool may go."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.api.validation import validate_node_pool
from allotment.autoscaler.consolidate.disruption_policy import (
    EMPTY,
    UNDERUTILIZED,
    UNLIMITED,
    DisruptionPolicy,
)
from tests.autoscaler.build import pool

FRIDAY_AT_8 = 1_800_000_000.0
WORK = {"schedule": "0 7 * * mon-fri", "duration": "8h"}
NIGHT = {"schedule": "0 22 * * *", "duration": "6h"}


def budgets(*given: dict[str, Any]) -> DisruptionPolicy:
    return DisruptionPolicy.of(pool("p", disruption={"budgets": list(given)}))


@pytest.mark.parametrize(
    ("given", "nodes", "allowed"),
    [
        ([], 11, 2),  # a tenth, rounded up
        ([], 0, 0),
        ([{"nodes": "3"}], 100, 3),
        ([{"nodes": "0"}], 100, 0),
        ([{"nodes": "100%"}], 7, 7),
        ([{"nodes": "5"}, {"nodes": "2%"}], 100, 2),
        ([{"nodes": "0", **NIGHT}], 100, UNLIMITED),
        ([{"nodes": "4", **WORK}, {"nodes": "0", **NIGHT}], 100, 4),
        ([{"nodes": "9", "reasons": [UNDERUTILIZED]}, {"nodes": "1", "reasons": [EMPTY]}], 100, 9),
        ([{"nodes": "1", "reasons": ["Drifted"]}], 100, UNLIMITED),
        ([{"nodes": "many"}], 100, 0),
        ([{"nodes": "5", "schedule": "0 7 * * *"}], 100, 0),  # for how long?
        ([{"nodes": "5", "duration": "8h"}], 100, 0),
        ([{"nodes": "5", "schedule": "sometimes", "duration": "8h"}], 100, 0),
    ],
)
def test_how_many_nodes_may_go(given: list[dict[str, Any]], nodes: int, allowed: int) -> None:
    assert budgets(*given).allowed(UNDERUTILIZED, nodes, FRIDAY_AT_8) == allowed


def test_a_pool_that_says_nothing_lets_a_tenth_go_at_once() -> None:
    rules = DisruptionPolicy.of(pool("p"))
    assert rules.keeps(empty=False, quiet=0) == ""
    assert rules.allowed(EMPTY, 10, 0.0) == 1


def test_what_cannot_be_read_keeps_nodes() -> None:
    rules = DisruptionPolicy.of(pool("p", disruption={"consolidateAfter": "later"}))
    assert "cannot be read" in rules.keeps(empty=True, quiet=1e9)


@pytest.mark.parametrize(
    ("disruption", "path"),
    [
        ({"consolidationPolicy": "Always"}, "spec.disruption.consolidationPolicy"),
        ({"consolidateAfter": "1 hour"}, "spec.disruption.consolidateAfter"),
        ({"budgets": [{"nodes": "101%"}]}, "spec.disruption.budgets[0].nodes"),
        ({"budgets": [{"nodes": "1", "reasons": ["Empty", "Old"]}]}, "spec.disruption.budgets[0].reasons[1]"),
        ({"budgets": [{"nodes": "1", "schedule": "@daily"}]}, "spec.disruption.budgets[0]"),
        (
            {"budgets": [{"nodes": "1", "schedule": "@often", "duration": "1h"}]},
            "spec.disruption.budgets[0].schedule",
        ),
        (
            {"budgets": [{"nodes": "1", "schedule": "@daily", "duration": "long"}]},
            "spec.disruption.budgets[0].duration",
        ),
        ({"budgets": [{"nodes": "1"}] * 51}, "spec.disruption.budgets"),
    ],
)
def test_what_a_pool_must_not_say(disruption: dict[str, Any], path: str) -> None:
    [error] = validate_node_pool(pool("p", disruption=disruption))
    assert str(error.path) == path


def test_what_a_pool_may_say() -> None:
    given = {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "Never",
        "budgets": [{"nodes": "10%"}, {"nodes": "0", **WORK, "reasons": ["Drifted", "Empty"]}],
    }
    assert validate_node_pool(pool("p", disruption=given)) == []
