"""What a claim holds: an entry for each device, or share of a device, in its allocation.

Claims of v1 and of v1alpha2 are read in the same way, including v1alpha2 claims that v1 only carries: their instances
have their true ids. Entries, and everything computed from them, contain names of claims, so code that shows them must
have read the claims with the viewer's own rights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from allotment.allocator.pool import PoolID
from allotment.allocator.semantic_carrier import carried
from allotment.allocator.semantic_holdings import held_ids
from allotment.api import semantic
from allotment.api.conversion.v1alpha2 import REQUEST
from allotment.api.resource import ResourceClaim

if TYPE_CHECKING:
    from allotment.api.quantity import Quantity

AnyClaim = ResourceClaim | semantic.ResourceClaim


class AllocationInfo(msgspec.Struct, frozen=True, gc=False):
    """One device, or a share of one, in a claim. There are many, so this is a struct, which is the fastest to create."""

    claim_namespace: str
    claim_name: str
    claim_uid: str
    request: str  # the name in the allocation: ``req`` or ``req/sub``
    capacity: Mapping[str, Quantity] = {}  # the amounts that a share takes; empty for a whole device
    share_id: str | None = None  # None: the whole device
    admin_access: bool = False  # admin access takes nothing and does not count as use

    @property
    def claim(self) -> str:
        return f"{self.claim_namespace}/{self.claim_name}"

    @property
    def order(self) -> tuple[str, str, str, str, str]:
        """The sort key for lists of allocations."""
        return self.claim_namespace, self.claim_name, self.request, self.share_id or "", self.claim_uid


Held = dict[str, tuple[AllocationInfo, ...]]
"""The entries of one claim in a pool, by device."""


def held_by(claim: AnyClaim) -> dict[PoolID, Held]:
    """What a claim holds, by pool; empty if it is not allocated."""
    if claim.status.allocation is None:
        return {}
    found: dict[PoolID, Held] = {}
    for pool, device, info in _entries(claim):
        devices = found.setdefault(pool, {})
        devices[device] = (*devices.get(device, ()), info)
    return found


def _entries(claim: AnyClaim) -> list[tuple[PoolID, str, AllocationInfo]]:
    meta = claim.metadata
    tree_claim = claim if isinstance(claim, semantic.ResourceClaim) else carried(claim)
    if tree_claim is not None:
        info = AllocationInfo(meta.namespace, meta.name, meta.uid, REQUEST)
        return [(each.of_pool, each.device, info) for each in held_ids(tree_claim)]
    assert isinstance(claim, ResourceClaim)
    assert claim.status.allocation is not None
    return [
        (
            PoolID(result.driver, result.pool),
            result.device,
            AllocationInfo(
                meta.namespace,
                meta.name,
                meta.uid,
                result.request,
                result.consumed_capacity,
                result.share_id,
                bool(result.admin_access),
            ),
        )
        for result in claim.status.allocation.devices.results
    ]
