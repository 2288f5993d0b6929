"""Whether a node, and the pod, have enough for devices that are part of the node's own resources (``node_allocatable``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.allocator.errors import AllocationError
from allotment.allocator.pool import DeviceID
from allotment.scheduler.devices.node_allocatable import Share, beyond, costs, lacking, maps
from allotment.scheduler.devices.pod_wants import NAME, unresolvable
from allotment.scheduler.framework import Status, StatusCode

if TYPE_CHECKING:
    from allotment.allocator.fleet import NodePlace
    from allotment.api.resource import Device, DeviceRequestAllocationResult
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.devices.allocation_plan import AllocationPlan, DeviceGrant
    from allotment.scheduler.devices.node_allocatable import NodeCosts
    from allotment.scheduler.devices.pod_wants import ClaimWithDevices, Wants
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.resource_requests import Amounts

_SHARED = unresolvable("cannot be used by a claim that is part of a node and in use by another pod")


def bearing(cluster: Cluster, node: NodeInfo) -> NodePlace | None:
    """The devices of a node, if any of them affects the node's own resources."""
    place = cluster.fleet.places.get(node.name)
    if place is None:
        return None
    try:
        site = place.site or cluster.fleet.site(place)
    except AllocationError:
        return None  # what this node reaches is unknown
    return place if site.bearing else None


def afford(
    cycle: Cycle, wants: Wants, plan: AllocationPlan, place: NodePlace, node: NodeInfo
) -> tuple[NodeCosts, Amounts] | Status:
    """What the devices cost of the node, in the form of the pod's status and as amounts beyond its requests. Otherwise, why the
    node or the pod does not have that much."""
    lookup = _Lookup(cycle.cluster, place)
    for given in wants.given:
        if given.shared and maps(given.allocation, lookup):
            return _SHARED
    held: list[DeviceGrant | ClaimWithDevices] = [
        *(plan.grants(cycle.cluster, place.node, cycle.now) or ()),
        *wants.given,
    ]
    shares = [
        Share(each.reference.claim.metadata.name, each.reference.entries, each.allocation) for each in held
    ]
    total = costs(cycle.pod.pod, shares, lookup)
    extra = beyond(cycle.pod, total.amounts())
    if isinstance(extra, str):
        return unresolvable(f"have devices that take more {extra} than the pod requests as a whole")
    short = lacking(node, cycle.pod.requests, extra)
    if not short:
        return total, extra
    code = StatusCode.UNRESOLVABLE if any(always for _, always in short) else StatusCode.UNSCHEDULABLE
    names = " and ".join(name for name, _ in short)
    return Status(code, NAME, f"have too little {names} for the pod and what its devices take")


class _Lookup:
    """Finds the published devices of a node."""

    def __init__(self, cluster: Cluster, place: NodePlace) -> None:
        self._devices = {device.id: device.spec for device in cluster.fleet.site(place).devices}

    def __call__(self, result: DeviceRequestAllocationResult) -> Device | None:
        return self._devices.get(DeviceID(result.driver, result.pool, result.device))
