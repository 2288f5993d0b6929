"""Devices that are part of a node's own resources or consume some: a CPU pool offered as a device, memory that a driver needs.

A device may *map* to an amount of a resource: the whole device to a fixed amount, or the consumed part of a capacity times a
factor. Its use may also have an *overhead* per pod and per container. The pod then takes that much more of the node, on top of
what its containers request. The node must have the amount free, and the pod's status records it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from allotment.api.codec import to_builtins
from allotment.api.core import (
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
)
from allotment.api.quantity import Quantity
from allotment.scheduler.resource_requests import requests_of

if TYPE_CHECKING:
    from allotment.api.core import Pod
    from allotment.api.resource import (
        AllocationResult,
        Device,
        DeviceRequestAllocationResult,
        NodeAllocatableMapping,
        NodeAllocatableOverhead,
    )
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo
    from allotment.scheduler.resource_requests import Amounts

Lookup = Callable[["DeviceRequestAllocationResult"], "Device | None"]
"""Finds the published device of an allocation result; None if it is not published."""

_UNIT = 10**9


@dataclass(frozen=True, slots=True)
class Share:
    """A claim of the pod with its devices: its name, the pod's entries for it, and the allocated devices."""

    name: str
    entries: tuple[str, ...]
    allocation: AllocationResult


@dataclass(frozen=True, slots=True)
class NodeCosts:
    """What a pod's devices take of a node's own resources."""

    statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()

    def amounts(self) -> Amounts:
        """In billionths, by resource."""
        total: Amounts = {}
        for status in self.statuses:
            for mapped in status.mapping:
                if mapped.quantity is not None:
                    total[mapped.name] = total.get(mapped.name, 0) + mapped.quantity.nanos
            for overhead in status.overhead:
                amount = overhead.per_pod.nanos if overhead.per_pod is not None else 0
                if overhead.per_container is not None:
                    amount += overhead.per_container.nanos * len(status.containers)
                total[overhead.name] = total.get(overhead.name, 0) + amount
        return total

    def status(self) -> dict[str, Any]:
        """The costs in the form of the pod's status."""
        told = [to_builtins(status) for status in self.statuses]
        return {"nodeAllocatableResourceClaimStatuses": told}


def costs(pod: Pod, shares: Iterable[Share], lookup: Lookup) -> NodeCosts:
    """What the pod's claims cost of the node on which ``lookup`` finds their devices."""
    statuses = []
    for share in sorted(shares, key=lambda share: share.name):
        status = _status(pod, share, lookup)
        if status is not None:
            statuses.append(status)
    return NodeCosts(tuple(statuses))


def beyond(pod: PodInfo, extra: Amounts) -> Amounts | str:
    """The part of the costs on top of the pod's requests. A pod-level request must cover the containers and the devices, which
    then cost nothing more. If it does not, returns the name of the resource."""
    whole = pod.pod.spec.resources
    if whole is None or not whole.requests:
        return extra
    own = requests_of(replace(pod.pod.spec, resources=None, overhead={}))
    rest: Amounts = {}
    for name, amount in extra.items():
        budget = whole.requests.get(name)
        if budget is None:
            rest[name] = amount
        elif own.get(name, 0) + amount > budget.nanos:
            return name
    return rest


def costs_told(pod: PodInfo) -> Amounts:
    """What the pod's devices take of the node beyond its requests, according to its status."""
    statuses = pod.pod.status.node_allocatable_resource_claim_statuses
    told = beyond(pod, NodeCosts(statuses).amounts()) if statuses else {}
    return told if isinstance(told, dict) else {}


def maps(allocation: AllocationResult, lookup: Lookup) -> bool:
    """Whether a device of an allocation maps to an amount of the node. Pods cannot share such a claim, because its amount would
    be counted twice."""
    for result in allocation.devices.results:
        device = lookup(result)
        if device is not None and any(
            each.mapping is not None for each in device.node_allocatable_resources.values()
        ):
            return True
    return False


def lacking(node: NodeInfo, requested: Mapping[str, int], extra: Amounts) -> list[tuple[str, bool]]:
    """The resources of which a node has too little for a pod's requests and its devices together, each with whether even the
    empty node has too little."""
    short = []
    for name, amount in sorted(extra.items()):
        wanted = requested.get(name, 0) + amount
        offered = node.offered.get(name, 0)
        if wanted > offered - node.taken.get(name, 0):
            short.append((name, wanted > offered))
    return short


def _status(pod: Pod, share: Share, lookup: Lookup) -> NodeAllocatableResourceClaimStatus | None:
    mapped: dict[str, Quantity] = {}
    overheads: dict[str, list[Quantity | None]] = {}  # per pod, per container
    for result in share.allocation.devices.results:
        device = lookup(result)
        for name, bearing in (device.node_allocatable_resources if device is not None else {}).items():
            if bearing.mapping is not None:
                _map(mapped, name, bearing.mapping, result)
            if bearing.overhead is not None:
                _burden(overheads, name, bearing.overhead)
    if not mapped and not overheads:
        return None
    return NodeAllocatableResourceClaimStatus(
        resource_claim_name=share.name,
        containers=tuple(_containers(pod, share.entries)),
        mapping=tuple(
            NodeAllocatableMappedResources(name=name, quantity=amount)
            for name, amount in sorted(mapped.items())
        ),
        overhead=tuple(
            NodeAllocatableOverheadResources(name=name, per_pod=per_pod, per_container=per_container)
            for name, (per_pod, per_container) in sorted(overheads.items())
        ),
    )


def _map(
    mapped: dict[str, Quantity],
    name: str,
    mapping: NodeAllocatableMapping,
    result: DeviceRequestAllocationResult,
) -> None:
    if mapping.capacity_key:
        amount = result.consumed_capacity.get(mapping.capacity_key)
        if amount is None:
            return
        factor = mapping.capacity_multiplier
        if factor is not None:
            amount = Quantity(-(-amount.nanos * factor.nanos // _UNIT), amount.format)
    elif mapping.device_multiplier is not None:
        amount = mapping.device_multiplier
    else:
        return
    mapped[name] = mapped[name] + amount if name in mapped else amount


def _burden(
    overheads: dict[str, list[Quantity | None]], name: str, overhead: NodeAllocatableOverhead
) -> None:
    if overhead.per_pod is None and overhead.per_container is None:
        return
    sums = overheads.setdefault(name, [None, None])
    for number, amount in enumerate((overhead.per_pod, overhead.per_container)):
        known = sums[number]
        if amount is not None:
            sums[number] = amount if known is None else known + amount


def _containers(pod: Pod, entries: Sequence[str]) -> list[str]:
    """The containers that use a claim."""
    return [
        container.name
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        if any(used.name in entries for used in container.resources.claims)
    ]
