"""Semantic claims as the scheduler sees them: v1 objects that carry a v1alpha2 claim. ``allocator.semantic_carrier`` reads them.
This module turns an allocation into the v1 status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allotment.allocator.semantic_carrier import carried, carried_holdings, is_carrier
from allotment.api.codec import to_builtins
from allotment.api.conversion.v1alpha2 import to_v1

if TYPE_CHECKING:
    from allotment.api import semantic

__all__ = ["IMMEDIATE", "carried", "carried_holdings", "carried_status", "is_carrier"]

IMMEDIATE = "Immediate"


def carried_status(
    claim: semantic.ResourceClaim, allocation: semantic.AllocationResult, driver: str
) -> dict[str, Any]:
    """The ``allocation`` of a v1 status with the same meaning."""
    document = to_builtins(claim)
    document["status"] = {"driverName": driver, "allocation": to_builtins(allocation)}
    return {"allocation": to_v1(document)["status"]["allocation"]}
