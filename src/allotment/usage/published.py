"""A pool in counts, from its ResourcePool object, for a caller who may not see slices or all claims."""

from __future__ import annotations

from allotment.api.pools import COMPLETE, VALID, ResourcePool
from allotment.usage.inventory import PoolFinding
from allotment.usage.pool import PoolUsage
from allotment.usage.summary import Summary


def published(pool: ResourcePool) -> Summary:
    """The counts of a ResourcePool."""
    counts = pool.status.summary
    return Summary(
        counts.total_devices,
        counts.allocated_devices,
        counts.available_devices,
        counts.unavailable_devices or 0,
        counts.partially_allocated_devices or 0,
    )


def as_published(pool: ResourcePool) -> PoolUsage:
    """The pool without its devices. Everything that is allocated counts as hidden."""
    status, counts = pool.status, published(pool)
    return PoolUsage(
        driver=pool.spec.driver,
        pool_name=pool.spec.pool_name,
        node_name=pool.spec.node_name or "",
        generation=status.observed_generation or 0,
        devices=(),
        summary=counts,
        complete=_condition(pool, COMPLETE),
        valid=_condition(pool, VALID),
        observed_slices=status.observed_slice_count or 0,
        expected_slices=status.expected_slice_count or 0,
        validation_errors=status.validation_errors,
        truncated_error_count=status.truncated_error_count or 0,
        hidden=counts.allocated,
    )


def _condition(pool: ResourcePool, type_: str) -> PoolFinding:
    for each in pool.status.conditions:
        if each.type == type_:
            return PoolFinding(each.status == "True", each.reason, each.message)
    return PoolFinding(True, "", "not told")
