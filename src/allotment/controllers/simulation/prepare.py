"""Whether a pod's devices can be prepared on its node: the last check before containers start.

The scheduler promised the devices some time ago, and a driver may have withdrawn them since. So every claim of the pod must
exist, be created for this pod if it came from a template, be allocated, and be reserved for the pod or its group. Each device
in it must still be published in the newest generation of its pool and reach this node. v1alpha2 claims are read in their v1
form, whose results name instances of NodeResourceSlices; these are looked up there.

An obstacle is a value: a sentence, and the cause whose change may remove it. Sentences name only objects of the pod itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from allotment.allocator.errors import AllocationError
from allotment.allocator.nodeselector import node_matches
from allotment.allocator.semantic_pools import partition_pools
from allotment.api.conversion.v1alpha2 import CARRIER, device_name
from allotment.api.core import Node, Pod
from allotment.api.resource import (
    Device,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from allotment.api.semantic import NodeResourceSlice
from allotment.controllers.claims.claim_users import entries_of, group_of, is_group, is_reserved
from allotment.controllers.ownership import controller_of


class ClaimKey(NamedTuple):
    namespace: str
    name: str


class PoolKey(NamedTuple):
    driver: str
    pool: str


Cause = ClaimKey | PoolKey

_LONGEST_FAULT = 200
"""How many characters of a driver's error are reported."""


@dataclass(frozen=True, slots=True)
class StartObstacle:
    """Why a pod cannot start. ``cause`` is what must change; None: the pod itself."""

    message: str
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """What drivers publish now."""

    slices: Callable[[PoolKey], Sequence[ResourceSlice]]  # of all generations
    node_slices: Callable[[str], Sequence[NodeResourceSlice]]  # of a node


def find_obstacle(
    pod: Pod, node: Node, claim_of: Callable[[str], ResourceClaim | None], published: Published
) -> StartObstacle | None:
    """The first obstacle that keeps the pod from starting on its node, if there is one."""
    from_template = {entry.name for entry in pod.spec.resource_claims if not entry.resource_claim_name}
    for entry, name in entries_of(pod):
        if name is None:
            return StartObstacle(f"the claim for {entry} has not been created from its template yet")
        key, claim = ClaimKey(pod.metadata.namespace, name), claim_of(name)
        if claim is None:
            return StartObstacle(f"ResourceClaim {name} does not exist", key)
        if (entry in from_template and not _belongs(claim, pod)) or not is_reserved(claim, pod):
            return StartObstacle(_refusal(claim, pod, entry in from_template), key)
        if claim.status.allocation is None:
            return StartObstacle(f"ResourceClaim {name} is not allocated", key)
        if missing := _missing_device(claim, node, published):
            return missing
    return None


def _belongs(claim: ResourceClaim, pod: Pod) -> bool:
    owner = controller_of(claim)
    if owner is None or owner.uid == pod.metadata.uid:
        return owner is not None
    return is_group(owner) and owner.name == group_of(pod)  # a pod does not know its group's uid


def _refusal(claim: ResourceClaim, pod: Pod, from_template: bool) -> str:
    name = claim.metadata.name
    if from_template and not _belongs(claim, pod):
        return f"ResourceClaim {name} was not created for this pod"
    return f"ResourceClaim {name} is not reserved for this pod"


# --- devices ---


def _missing_device(claim: ResourceClaim, node: Node, published: Published) -> StartObstacle | None:
    assert claim.status.allocation is not None
    devices = claim.status.allocation.devices
    semantic = any(config.opaque and config.opaque.driver == CARRIER for config in devices.config)
    look_up = _missing_instance if semantic else _missing_from_pool
    for result in devices.results:
        if why := look_up(result, node, published):
            message = (
                f"device {result.device} of pool {result.pool} ({result.driver}), which ResourceClaim "
                f"{claim.metadata.name} was given, {why}"
            )
            return StartObstacle(message, PoolKey(result.driver, result.pool))
    return None


def _missing_from_pool(result: DeviceRequestAllocationResult, node: Node, published: Published) -> str:
    slices = published.slices(PoolKey(result.driver, result.pool))
    newest = max((slice.spec.pool.generation for slice in slices), default=0)
    for slice in slices:
        for device in slice.spec.devices if slice.spec.pool.generation == newest else ():
            if device.name == result.device:
                return "" if _reaches(slice, device, node) else f"does not reach node {node.metadata.name}"
    return "no longer exists"


def _reaches(slice: ResourceSlice, device: Device, node: Node) -> bool:
    place = device if slice.spec.per_device_node_selection else slice.spec
    try:
        return node_matches(node, place.node_name, place.all_nodes, place.node_selector)
    except AllocationError:  # an invalid selector reaches no node
        return False


def _missing_instance(result: DeviceRequestAllocationResult, node: Node, published: Published) -> str:
    name = node.metadata.name
    if result.pool != name:
        return f"does not reach node {name}"
    for pool in partition_pools(name, published.node_slices(name)):
        if pool.id.driver == result.driver:
            if pool.invalid:
                return f"cannot be looked up: {pool.invalid[:_LONGEST_FAULT]}"
            if any(device_name(device.spec.name) == result.device for device in pool.devices):
                return ""
    return "no longer exists"
