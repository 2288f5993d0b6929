"""A pool's usage as the status of its ResourcePool: counts, conditions, errors. The status names no claim.

Times say when something changed, so a status is derived from the one before it: a condition keeps its time of transition
while its status stays, and ``lastUpdateTime`` changes only if anything else does. If nothing has changed, the new status
equals the old one, and no write is needed.
"""

from __future__ import annotations

from msgspec.structs import replace

from allotment.api.codec import to_builtins
from allotment.api.meta import Condition
from allotment.api.pools import COMPLETE, VALID, ResourcePoolStatus, ResourcePoolSummary
from allotment.client.form import Obj
from allotment.usage.inventory import PoolFinding
from allotment.usage.pool import PoolUsage

INT32 = 2**31 - 1
"""The largest number in the API's counts; a driver may announce more slices."""


def pool_status(usage: PoolUsage, before: ResourcePoolStatus, now: str) -> ResourcePoolStatus:
    """The status as it should be; equal to ``before`` if nothing changed."""
    summary = usage.summary
    status = ResourcePoolStatus(
        summary=ResourcePoolSummary(
            total_devices=summary.total,
            allocated_devices=summary.allocated,
            available_devices=summary.available,
            unavailable_devices=summary.unavailable,
            partially_allocated_devices=summary.partially_allocated,
        ),
        conditions=(
            _condition(COMPLETE, usage.complete, before, now),
            _condition(VALID, usage.valid, before, now),
        ),
        validation_errors=usage.validation_errors,
        truncated_error_count=usage.truncated_error_count or None,
        observed_slice_count=usage.observed_slices,
        expected_slice_count=min(usage.expected_slices, INT32),
        observed_generation=usage.generation,
        last_update_time=before.last_update_time,
    )
    return status if status == before else replace(status, last_update_time=now)


def status_patch(status: ResourcePoolStatus, before: ResourcePoolStatus) -> Obj:
    """The merge patch from one to the other; fields that neither has stay."""
    return {"status": {**dict.fromkeys(to_builtins(before)), **to_builtins(status)}}


def _condition(type_: str, finding: PoolFinding, before: ResourcePoolStatus, now: str) -> Condition:
    status = "True" if finding.holds else "False"
    old = next((each for each in before.conditions if each.type == type_), None)
    since = old.last_transition_time if old is not None and old.status == status else now
    return Condition(
        type=type_,
        status=status,
        last_transition_time=since,
        reason=finding.reason,
        message=finding.message,
    )
