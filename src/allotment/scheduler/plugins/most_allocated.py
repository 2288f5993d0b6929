"""MostAllocated: prefers the fullest nodes, which keeps others empty for large pods.

The score is the fraction of each resource that is in use with the pod on the node, averaged by weight. The same resources count
as in LeastAllocated, whose opposite this plugin is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.scheduler.framework import MAX_SCORE, Cycle
from allotment.scheduler.plugins.least_allocated import LeastAllocated

if TYPE_CHECKING:
    from allotment.scheduler.node import NodeInfo


class MostAllocated(LeastAllocated):
    """The scoring plugin that packs pods onto full nodes."""

    name = "MostAllocated"

    def score(self, cycle: Cycle, node: NodeInfo) -> int:
        total = weights = 0
        for name, weight, request in cycle.state[self.name]:
            offered = node.offered.get(name, 0)
            if offered:
                weights += weight
                total += weight * (MAX_SCORE * min(node.taken.get(name, 0) + request, offered) // offered)
        return total // weights if weights else 0
