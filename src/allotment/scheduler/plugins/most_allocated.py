"""MostAllocated: prefers nodes that are fullest, which keeps others empty for large pods.

Score: the part of each resource that is taken with the pod on the node, averaged by weight; which resources count is as in
LeastAllocated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from allotment.scheduler.framework import MAX_SCORE, SUCCESS, Cycle, Status, Wake
from allotment.scheduler.plugins.least_allocated import CPU_AND_MEMORY, counted_or_number

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo


class MostAllocated:
    """See the module."""

    name = "MostAllocated"
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
                weights += weight
                total += weight * (MAX_SCORE * min(node.taken.get(name, 0) + request, offered) // offered)
        return total // weights if weights else 0

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """It turns nobody away."""
        return False
