"""LeastAllocated: prefers nodes that have the most left, which spreads pods.

Score: the part of each resource that is left with the pod on the node, averaged by weight. A resource that the node does not
offer does not count, nor does an extended one that the pod does not ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from allotment.scheduler.framework import MAX_SCORE, SKIP, SUCCESS, Cycle, Status, Wake

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

CPU_AND_MEMORY: Mapping[str, int] = {"cpu": 1, "memory": 1}
"""What scores look at unless told otherwise, and its weights."""


def counted(resources: Mapping[str, int], cycle: Cycle) -> tuple[tuple[str, int, int], ...]:
    """The resources that count for a pod: name, weight, the pod's request."""
    return tuple(
        (name, weight, cycle.pod.requests.get(name, 0))
        for name, weight in resources.items()
        if weight > 0 and (cycle.pod.requests.get(name, 0) or "/" not in name)
    )


class LeastAllocated:
    """See the module."""

    name = "LeastAllocated"
    local = True
    wakes: Sequence[Wake] = ()

    def __init__(self, resources: Mapping[str, int] = CPU_AND_MEMORY) -> None:
        self._resources = resources

    def pre_filter(self, cycle: Cycle) -> Status:
        state = cycle.state[self.name] = counted(self._resources, cycle)
        return SUCCESS if state else SKIP

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

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """It turns nobody away."""
        return False
