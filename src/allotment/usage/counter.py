"""Judges by the counter's heartbeat whether ResourcePools are still being counted.

``lastUpdateTime`` stands still while nothing changes, so it cannot distinguish a quiet pool from one that nobody counts.
Instead the counting controller renews one Lease for all pools. Everybody who may read pools may read that Lease.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from allotment.api.timestamps import moment

NAME, NAMESPACE = "allotment-pools", "kube-system"
API_VERSION, PLURAL = "coordination.k8s.io/v1", "leases"
RENEW_SECONDS = 10.0
LEASE_SECONDS = 40
_GRACE_SECONDS = 20.0
"""Allows for different clocks and slow writes."""
_AHEAD_SECONDS = 600.0
"""How far the counter's clock may be ahead. A heartbeat could outlive its counter by this time."""


def standstill(lease: dict[str, Any] | None, now: datetime) -> str:
    """A warning that counts may be old, and since when, judged by their counter's lease; empty if they are fresh."""
    spec = (lease or {}).get("spec") or {}
    renewed = moment(spec.get("renewTime"))
    if renewed is None:
        return (
            "the counter of ResourcePools is not running, or older than its heartbeat: the counts may be out of date "
            f"(there is no lease {NAMESPACE}/{NAME})"
        )
    lasts = spec.get("leaseDurationSeconds")
    seconds = float(lasts) if isinstance(lasts, int) and 0 < lasts <= 3600 else LEASE_SECONDS
    at, ago = renewed.strftime("%Y-%m-%d %H:%M:%S UTC"), (now - renewed).total_seconds()
    if ago < -_AHEAD_SECONDS:
        return (
            f"ResourcePools may not be counted any more, so their counts may be out of date: the lease {NAMESPACE}/{NAME} "
            f"was renewed at {at}, which is in the future; compare the clocks"
        )
    if ago <= seconds + _GRACE_SECONDS:
        return ""
    return f"counts of ResourcePools are as of {at}: the counter is not running, or cannot write them (allot controllers)"
