"""Whether counts are fresh follows from the counter's lease alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from allotment.usage.counter import standstill

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def lease(ago: float, **spec: Any) -> dict[str, Any]:
    renewed = (NOW - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"spec": {"renewTime": renewed, "leaseDurationSeconds": 40, **spec}}


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (lease(0), ""),
        (lease(59), ""),
        (lease(-300), ""),  # a clock that is ahead
        (lease(-86400), "may not be counted any more"),  # or was: its counter may be long gone
        (lease(61), "counts of ResourcePools are as of 2026-11-18 11:58:59 UTC: the counter is not running"),
        (lease(30, leaseDurationSeconds=5), "the counter is not running"),
        (lease(3600, leaseDurationSeconds=10**9), "the counter is not running"),
        (lease(0, renewTime="yesterday"), "there is no lease kube-system/allotment-pools"),
        (lease(0, renewTime=7), "there is no lease"),
        ({}, "there is no lease"),
        (None, "the counter of ResourcePools is not running, or older than its heartbeat"),
    ],
)
def test_what_is_said_of_the_counts(there: dict[str, Any] | None, told: str) -> None:
    said = standstill(there, NOW)
    assert told in said
    assert bool(said) is bool(told)
