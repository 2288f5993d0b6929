"""Objects in the form in which the server would show them after a binding, and after an eviction.

The steps of a binding (``scheduler.binding.step``) are data for patches; here they are applied to typed objects at once.
Binding conditions count as met: a simulation asks where a pod can run, not when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from allotment.api.codec import decode
from allotment.api.core import ObjectReference, PodStatus
from allotment.api.resource import AllocationResult, ResourceClaim
from allotment.api.storage import BIND_COMPLETED, SELECTED_NODE
from allotment.scheduler.binding.step import MakeClaim, PatchStatus, WriteClaim

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from allotment.api.core import Pod
    from allotment.api.storage import PersistentVolume, PersistentVolumeClaim
    from allotment.scheduler.binding.step import Step

_PATCHED = {
    "extendedResourceClaimStatus": "extended_resource_claim_status",
    "nodeAllocatableResourceClaimStatuses": "node_allocatable_resource_claim_statuses",
}
"""The parts of a PatchStatus, as fields of a pod's status."""


def made(step: MakeClaim) -> ResourceClaim:
    """The claim that serves a pod's extended resources, allocated and reserved."""
    return written(decode(ResourceClaim, step.manifest), step.write)


def written(claim: ResourceClaim, step: WriteClaim) -> ResourceClaim:
    """A claim with its finalizer, allocation and reservation."""
    meta, status = claim.metadata, claim.status
    if step.finalizer not in meta.finalizers:
        meta = replace(meta, finalizers=(*meta.finalizers, step.finalizer))
    allocation, users = status.allocation, status.reserved_for
    if allocation is None:
        allocation = _allocation(step)
    if all(user.uid != step.consumer.uid for user in users):
        users = (*users, step.consumer)
    return replace(claim, metadata=meta, status=replace(status, allocation=allocation, reserved_for=users))


def _allocation(step: WriteClaim) -> AllocationResult | None:
    if step.document is None:
        return step.allocation
    return decode(AllocationResult, step.document["allocation"])


def bound(pod: Pod, node: str, steps: Sequence[Step]) -> Pod:
    """A pod on its node, with the part of its status about devices."""
    status = pod.status
    for step in steps:
        if isinstance(step, PatchStatus):
            patch: dict[str, Any] = step.patch["status"]
            told = decode(PodStatus, patch)
            status = replace(status, **{_PATCHED[name]: getattr(told, _PATCHED[name]) for name in patch})
    return replace(pod, spec=replace(pod.spec, node_name=node), status=status)


def given(
    volume: PersistentVolume, claim: PersistentVolumeClaim
) -> tuple[PersistentVolume, PersistentVolumeClaim]:
    """A volume and a claim that are bound to each other."""
    meta = claim.metadata
    ref = ObjectReference(
        kind="PersistentVolumeClaim", api_version="v1", namespace=meta.namespace, name=meta.name, uid=meta.uid
    )
    bound_volume = replace(
        volume,
        spec=replace(volume.spec, claim_ref=ref),
        status=replace(volume.status, phase="Bound"),
    )
    bound_claim = replace(
        claim,
        metadata=replace(meta, annotations={**meta.annotations, BIND_COMPLETED: "yes"}),
        spec=replace(claim.spec, volume_name=volume.metadata.name),
        status=replace(claim.status, phase="Bound"),
    )
    return bound_volume, bound_claim


def placed_volume(claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
    """A claim whose volume must be created for a node. Only the provisioner knows which other nodes will reach it."""
    meta = claim.metadata
    return replace(claim, metadata=replace(meta, annotations={**meta.annotations, SELECTED_NODE: node}))


def evicted(pod: Pod) -> Pod:
    """The same pod, waiting for a node again."""
    status = replace(
        pod.status,
        phase="Pending",
        nominated_node_name=None,
        extended_resource_claim_status=None,
        node_allocatable_resource_claim_statuses=(),
    )
    return replace(pod, spec=replace(pod.spec, node_name=None), status=status)


def left(claim: ResourceClaim, gone: Collection[str], *, keep: bool) -> ResourceClaim:
    """A claim without these users, given by uid. With the last user, the allocation is removed too, unless the claim keeps
    it."""
    users = tuple([user for user in claim.status.reserved_for if user.uid not in gone])
    if users or keep:
        return replace(claim, status=replace(claim.status, reserved_for=users))
    return replace(claim, status=replace(claim.status, allocation=None, reserved_for=(), devices=()))
