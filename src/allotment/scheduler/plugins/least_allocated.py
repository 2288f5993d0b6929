"""LeastAllocated: prefers nodes that have the most resources left, which spreads pods.

The score is the fraction of each resource that stays free with the pod on the node, averaged by weight. A resource that the node
does not offer does not count, nor does an extended resource that the pod does not request. For a pod that requests none of the
resources, the plugin scores the number of pods instead, so that such pods do not all end up on one node. (Kubernetes assumes a
small request for them.)
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
"""The resources that scores read by default, and their weights."""


Counted = tuple[tuple[str, int, int], ...]
"""Resources that count for a pod: name, weight, the pod's request."""

_BY_NUMBER: Counted = ((PODS, 1, 10**9),)


def counted(resources: Mapping[str, int], requests: Amounts) -> Counted:
    """Which of the resources count; empty if the pod requests none of them."""
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
    """The scoring plugin. ``MostAllocated`` is its opposite."""

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
        """The plugin rejects no pod, so no event helps."""
        return False
