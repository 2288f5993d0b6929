"""NodeResourcesFit: the requests of the pods on a node may not exceed what the node offers, for each resource.

The plugin leaves extended resources to DynamicResources if a device class serves them and the node does not offer them itself. It
looks up which ones these are for each verdict, so remembered verdicts become void when the classes change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.api.core import Node, Pod
from allotment.api.quantity import Format, Quantity
from allotment.api.resource import DeviceClass
from allotment.scheduler.cluster import DEVICE_CLASS_RESOURCE
from allotment.scheduler.framework import SUCCESS, Cycle, ObjectAction, Sight, Status, StatusCode, Wake
from allotment.scheduler.node import PODS, load_of
from allotment.scheduler.resource_requests import amounts, requests_of

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo
    from allotment.scheduler.resource_requests import Amounts

_UNIT = 10**9
_ONE_POD = (PODS, _UNIT)
_IN_BYTES = ("memory", "ephemeral-storage", "hugepages-")


@dataclass(frozen=True, slots=True)
class _Need:
    """How much of one resource a shape needs, and the statuses for nodes that lack it."""

    resource: str
    amount: int
    short: Status  # other pods use too much
    small: Status  # even the empty node has too little


class NodeResourcesFit:
    """The filter that compares a pod's requests with what is free on a node."""

    name = "NodeResourcesFit"
    local = True
    wakes: Sequence[Wake] = (
        Wake(Pod, frozenset({ObjectAction.DELETE, ObjectAction.UPDATE})),
        Wake(Node, frozenset({ObjectAction.ADD, ObjectAction.UPDATE})),
        Wake(DeviceClass, frozenset({ObjectAction.ADD, ObjectAction.UPDATE})),
    )

    def pre_filter(self, cycle: Cycle) -> Status:
        wanted = [_ONE_POD, *((name, amount) for name, amount in cycle.pod.requests.items() if amount > 0)]
        cycle.state[self.name] = tuple(_need(self.name, resource, amount) for resource, amount in wanted)
        return SUCCESS

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        taken, offered = node.taken, node.offered
        for need in cycle.state[self.name]:
            resource = need.resource
            if need.amount + taken.get(resource, 0) > offered.get(resource, 0):
                return self._refusal(cycle, node)
        return SUCCESS

    def _refusal(self, cycle: Cycle, node: NodeInfo) -> Status:
        """The reason to reject: that the node is too small comes before that it is too full."""
        short = None
        for need in cycle.state[self.name]:
            offered = node.offered.get(need.resource, 0)
            if need.amount + node.taken.get(need.resource, 0) <= offered:
                continue
            if not offered and need.resource in cycle.cluster.extended:
                continue
            if need.amount > offered:
                return need.small  # type: ignore[no-any-return]  # the state is of many types
            short = short or need.short
        return short or SUCCESS

    def sees(self, cycle: Cycle) -> Sight:
        return load_of

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """A pod that leaves its node or requests less, a node that offers more, and a class that serves a resource can help.
        So can the pod itself, when its requests change."""
        if isinstance(new, DeviceClass):
            return _serves(new, old if isinstance(old, DeviceClass) else None, pod.requests)
        if isinstance(old, Pod):
            return new is None or old.metadata.uid == pod.uid or _frees(pod.requests, old, new)
        if not isinstance(new, Node):
            return False
        offered = amounts(new.status.allocatable)
        if not _would_fit(pod.requests, offered, cluster):
            return False
        before = amounts(old.status.allocatable) if isinstance(old, Node) else {}
        return any(
            offered.get(each, 0) > before.get(each, 0)
            for each in (PODS, *(name for name, amount in pod.requests.items() if amount > 0))
        )

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        if isinstance(old, Pod):
            if isinstance(new, Pod):
                return old.spec.containers != new.spec.containers
            return bool(old.spec.node_name)
        if isinstance(old, Node) and isinstance(new, Node):
            before = old.status.allocatable
            return any(
                name not in before or amount > before[name] for name, amount in new.status.allocatable.items()
            )
        return True


def _need(plugin: str, resource: str, amount: int) -> _Need:
    if resource == PODS:
        short = Status(StatusCode.UNSCHEDULABLE, plugin, "run as many pods as they may")
        none = Status(StatusCode.UNRESOLVABLE, plugin, "may not run any pods", lasting=True)
        return _Need(resource, amount, short, none)
    needed = _written(resource, amount)
    return _Need(
        resource,
        amount,
        Status(StatusCode.UNSCHEDULABLE, plugin, f"have too little {resource} left, need {needed}"),
        Status(StatusCode.UNRESOLVABLE, plugin, f"have less {resource} than {needed} in all", lasting=True),
    )


def _written(resource: str, amount: int) -> str:
    if resource.startswith(_IN_BYTES) and amount % _UNIT == 0:
        return str(Quantity.of(amount // _UNIT, Format.BINARY_SI))
    return str(Quantity.parse(f"{amount}n"))


def _would_fit(requests: Amounts, offered: Amounts, cluster: Cluster) -> bool:
    """Whether the pod would fit on the node if it were empty."""
    return offered.get(PODS, 0) >= _UNIT and all(
        amount <= offered.get(name, 0) or (name in cluster.extended and not offered.get(name))
        for name, amount in requests.items()
        if amount > 0
    )


def _frees(requests: Amounts, old: Pod, new: ApiStruct) -> bool:
    """Whether a pod on a node was scaled down in something that is requested."""
    if not isinstance(new, Pod) or not old.spec.node_name:
        return False
    before, after = requests_of(old.spec), requests_of(new.spec)
    return any(after.get(name, 0) < before.get(name, 0) for name in requests)


def _serves(new: DeviceClass, old: DeviceClass | None, requests: Amounts) -> bool:
    resource = new.spec.extended_resource_name
    if old is None and DEVICE_CLASS_RESOURCE + new.metadata.name in requests:
        return True
    return (
        bool(resource)
        and resource in requests
        and (old is None or old.spec.extended_resource_name != resource)
    )
