"""LeastAllocated: prefers nodes that have the most left, which spreads pods.

Score: the part of each resource that is left with the pod on the node, averaged by weight. A resource that the node does not
offer does not count, nor does an extended one that the pod does not ask for. A pod that asks for none of them is placed by the
number of pods instead, so that such pods do not all end up on one node. (Kubernetes pretends that they ask for a little.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from allotment.scheduler.framework import MAX_SCORE, SUCCESS, Cycle, Sight, Status, Wake
from allotment.scheduler.node import PODS, load_of

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo
    from allotment.scheduler.resource_requests import Amounts

CPU_AND_MEMORY: Mapping[str, int] = {"cpu": 1, "memory": 1}
"""What scores look at unless told otherwise, and its weights."""


Counted = tuple[tuple[str, int, int], ...]
"""Resources that count for a pod: name, weight, the pod's request."""

_BY_NUMBER: Counted = ((PODS, 1, 10**9),)


def counted(resources: Mapping[str, int], requests: Amounts) -> Counted:
    """Which of the resources count; empty, if the pod asks for none of them."""
    if not any(weight and requests.get(name) for name, weight in resources.items()):
        return ()
    return tuple(
        (name, weight, requests.get(name, 0))
        for name, weight in resources.items()
        if weight and (requests.get(name) or "/" not in name)
    )


def counted_or_number(resources: Mapping[str, int], requests: Amounts) -> Counted:
    """Which of the resources count, or else the number of pods."""
    return counted(resources, requests) or _BY_NUMBER


class LeastAllocated:
    """See the module."""

    name = "LeastAllocated"
    local = True
    wakes: Sequence[Wake] = ()

    def __init__(self, resources: Mapping[str, int] = CPU_AND_MEMORY) -> None:
        self._resources = resources

    def pre_filter(self, cycle: Cycle) -> Status:
        cycle.state[self.name] = counted_or_number(self._resources, cycle.pod.requests)
        return SUCCESS

    def score(self, cycle: Cycle, node: NodeInfo) -> int:
        total = weights = 0
        for name, weight, request in cycle.state[self.name]:
            offered = node.offered.get(name, 0)
            if offered:
                left = offered - node.taken.get(name, 0) - request
                weights += weight
                if left > 0:
                    total += weight * (MAX_SCORE * left // offered)
        return total // weights if weights else 0

    def sees(self, cycle: Cycle) -> Sight:
        return load_of

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """It turns nobody away."""
        return False
