"""What a v1alpha2 claim holds according to its status. It is separate from ``semantic``, so that code that only counts
depends neither on the choice of devices nor on the expression language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.allocator.pool import DeviceID

if TYPE_CHECKING:
    from allotment.api import semantic


def held_ids(claim: semantic.ResourceClaim) -> list[DeviceID]:
    """The instances that an allocated claim holds, as the ledger counts them."""
    allocation = claim.status.allocation
    ids: list[DeviceID] = []
    for handle in allocation.resource_handles if allocation is not None else ():
        data = handle.semantic_data
        if data is not None and data.partitionable is not None:
            driver = handle.driver_name or claim.status.driver_name or ""
            ids += [
                DeviceID(driver, data.node_name, instance.id) for instance in data.partitionable.instances
            ]
    return ids
