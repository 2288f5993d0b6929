"""Devices that a driver must attach first: the conditions of a claim's devices that a binding waits for.

A device's allocation names the conditions that must all become true, and those that mean failure. The driver reports them in the
claim's status. The deadline counts from the allocation's timestamp.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from allotment.api.timestamps import seconds_of

if TYPE_CHECKING:
    from allotment.api.resource import (
        AllocatedDeviceStatus,
        AllocationResult,
        DeviceRequestAllocationResult,
        ResourceClaim,
    )


class Readiness(Enum):
    """How close the devices of a claim are to being usable."""

    READY = "ready"  # no conditions, or all are true
    WAITING = "waiting"
    FAILED = "failed"
    LATE = "late"  # the deadline has passed


def awaited(allocation: AllocationResult) -> bool:
    """Whether any device of the allocation has conditions to wait for."""
    for result in allocation.devices.results:  # noqa: SIM110  # asked twice a pod: a generator costs more than the answer
        if result.binding_conditions:
            return True
    return False


def readiness(claim: ResourceClaim, now: float, seconds: float) -> Readiness:
    """The state of the conditions of an allocated claim that have so many seconds to become true."""
    allocation = claim.status.allocation
    if allocation is None or not awaited(allocation):
        return Readiness.READY
    waiting = False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        true = _true(_status(claim, result))
        if true & set(result.binding_failure_conditions):
            return Readiness.FAILED
        waiting = waiting or not true >= set(result.binding_conditions)
    if not waiting:
        return Readiness.READY
    since = seconds_of(allocation.allocation_timestamp)
    return Readiness.LATE if since is not None and now > since + seconds else Readiness.WAITING


def _status(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    for status in claim.status.devices:
        same = (status.driver, status.pool, status.device) == (result.driver, result.pool, result.device)
        if same and status.share_id == result.share_id:
            return status
    return None


def _true(status: AllocatedDeviceStatus | None) -> set[str]:
    conditions = status.conditions if status is not None else ()
    return {condition.type for condition in conditions if condition.status == "True"}
