"""Usage for programs: the same facts as for people, in the terms of the Kubernetes API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from allotment.usage.partly_free import partly_free
from allotment.usage.summary import Summary

if TYPE_CHECKING:
    from allotment.api.quantity import Quantity
    from allotment.usage.allocation import AllocationInfo
    from allotment.usage.device import DeviceUsage
    from allotment.usage.pool import PoolUsage
    from allotment.usage.rollup import PoolOnNode

if TYPE_CHECKING:
    from allotment.allocator.pool import PoolID
    from allotment.api.quantity import Quantity
    from allotment.usage.allocation import AllocationInfo
    from allotment.usage.device import DeviceUsage
    from allotment.usage.inventory import PoolFinding
    from allotment.usage.pool import PoolUsage
    from allotment.usage.rollup import PoolOnNode
    from allotment.usage.summary import Summary

Document = dict[str, Any]


def pool_document(pool: PoolUsage, *, devices: bool) -> Document:
    """``hidden`` is how many devices are held by claims that the caller may not see; null: unknown."""
    document: Document = {
        "driver": pool.driver,
        "pool": pool.pool_name,
        "node": pool.node_name or None,
        "generation": pool.generation,
        "summary": summary_document(pool.summary, pool.hidden),
        "partlyFree": partly_free_document(pool),
        "hidden": pool.hidden,
        "complete": _finding(pool.complete),
        "valid": _finding(pool.valid),
        "slices": {"observed": pool.observed_slices, "expected": pool.expected_slices},
        "validationErrors": list(pool.validation_errors),
    }
    if pool.truncated_error_count:
        document["truncatedErrorCount"] = pool.truncated_error_count
    if devices:
        document["devices"] = [device_document(device) for device in pool.devices]
        document["vanished"] = [
            {"name": gone.name, "heldBy": list(map(_holder, gone.allocations))} for gone in pool.vanished
        ]
    return document


def node_pool_document(pool: PoolOnNode) -> Document:
    return {
        **pool_id_document(pool.id),
        "summary": summary_document(pool.summary, pool.hidden),
        "partlyFree": partly_free_document(pool),
        "hidden": pool.hidden,
        "devices": [device_document(device) for device in pool.devices],
    }


def partly_free_document(pool: PoolUsage | PoolOnNode) -> Document:
    """``capacity`` is that of devices which claims share; it is unknown if the caller does not see devices."""
    if pool.summary.partially_allocated and not pool.devices:
        return {"devices": pool.summary.partially_allocated, "capacity": None}
    found = partly_free(pool.devices)
    capacity = {
        name: {"total": str(amount), "available": str(found.left[name])}
        for name, amount in sorted(found.total.items())
    }
    return {"devices": found.devices, "capacity": capacity}


def pool_id_document(id: PoolID) -> Document:
    return {"driver": id.driver, "pool": id.pool}


def summary_document(summary: Summary, hidden: int | None) -> Document:
    """What is unknown is null. ``allocated`` then counts the known allocations."""
    known = hidden is not None
    return {
        "total": summary.total,
        "allocated": summary.allocated,
        "partiallyAllocated": summary.partially_allocated,
        "available": summary.available if known else None,
        "unavailable": summary.unavailable if known else None,
    }


def device_document(device: DeviceUsage) -> Document:
    document: Document = {"name": device.name, "state": str(device.state)}
    if device.reason:
        document |= {"reason": device.reason, "message": device.message}
    if device.node_name:
        document["node"] = device.node_name
    if device.allocations:
        document["heldBy"] = list(map(_holder, device.allocations))
    if device.total_capacity:
        document["capacity"] = {
            "total": _amounts(device.total_capacity),
            "allocated": _amounts(device.allocated_capacity),
            "available": _amounts(device.available_capacity),
        }
    return document


def _holder(info: AllocationInfo) -> Document:
    document: Document = {
        "namespace": info.claim_namespace,
        "name": info.claim_name,
        "request": info.request,
    }
    if info.share_id is not None:
        document |= {"shareID": info.share_id, "capacity": _amounts(info.capacity)}
    if info.admin_access:
        document["adminAccess"] = True
    return document


def _finding(finding: PoolFinding) -> Document:
    return {"status": finding.holds, "reason": finding.reason, "message": finding.message}


def _amounts(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}


UNKNOWN = "unknown"
