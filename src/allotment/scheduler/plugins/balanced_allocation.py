"""BalancedAllocation: prefers nodes whose resources the pod makes more evenly used, so that none runs out alone.

Imbalance is the standard deviation of the used fractions. The score is 75 where the pod changes nothing. It approaches 100 the
more the pod evens out the use, and 50 the more the pod tilts it. Pods that request none of the resources get no score: otherwise
they would all pile up on the one best node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING

from allotment.scheduler.framework import MAX_SCORE, SKIP, SUCCESS, Cycle, Sight, Status, Wake
from allotment.scheduler.node import load_of
from allotment.scheduler.plugins.least_allocated import CPU_AND_MEMORY, counted

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo


class BalancedAllocation:
    """The scoring plugin. It reads which resources are configured and ignores their weights."""

    name = "BalancedAllocation"
    local = True
    wakes: Sequence[Wake] = ()

    def __init__(self, resources: Mapping[str, int] = CPU_AND_MEMORY) -> None:
        self._resources = resources

    def pre_filter(self, cycle: Cycle) -> Status:
        cycle.state[self.name] = counted(self._resources, cycle.pod.requests)
        return SUCCESS if cycle.state[self.name] else SKIP

    def score(self, cycle: Cycle, node: NodeInfo) -> int:
        before, after = [], []
        for name, _, request in cycle.state[self.name]:
            offered = node.offered.get(name, 0)
            if offered:
                taken = node.taken.get(name, 0)
                before.append(min(taken / offered, 1.0))
                after.append(min((taken + request) / offered, 1.0))
        half = MAX_SCORE // 2
        return half + (half + _evenness(after) - _evenness(before)) // 2

    def sees(self, cycle: Cycle) -> Sight:
        return load_of

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """The plugin rejects no pod, so no event helps."""
        return False


def _evenness(parts: list[float]) -> int:
    if len(parts) == 2:
        deviation = abs(parts[0] - parts[1]) / 2
    elif parts:
        mean = sum(parts) / len(parts)
        deviation = sqrt(sum((part - mean) ** 2 for part in parts) / len(parts))
    else:
        deviation = 0.0
    return int((1 - deviation) * MAX_SCORE)
