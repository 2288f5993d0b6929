"""NominatedNodes: a pod of lower or equal priority does not get the room that was made for another pod.

A pod that evicted others waits for its node. Until it is there, other pods see the resources that it will take as taken. The
plugin does not count devices one by one: if both pods need claims allocated, it keeps the whole node for the pod that the node
was cleared for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from allotment.api.core import Node, Pod
from allotment.scheduler.framework import SUCCESS, ObjectAction, Sight, Status, StatusCode, Wake

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

NAME = "NominatedNodes"
_KEPT = Status(StatusCode.UNRESOLVABLE, NAME, "are kept for a pod that evicted others")


class NominatedNodes:
    """The filter that keeps nodes for the pods that they were cleared for."""

    name = NAME
    local = True
    keeps_room = True
    wakes: Sequence[Wake] = (
        Wake(Pod, frozenset((ObjectAction.UPDATE, ObjectAction.DELETE))),
        Wake(Node, frozenset((ObjectAction.ADD, ObjectAction.UPDATE))),
    )

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        nominees = cycle.cluster.nominees.get(node.name)
        if not nominees:
            return SUCCESS
        taken = dict(node.taken)
        for key in nominees:
            other = cycle.cluster.pods.get(key)
            if (
                other is None
                or other.node
                or other.priority < cycle.pod.priority
                or _partners(other, cycle.pod)
            ):
                continue
            if other.pod.spec.resource_claims and cycle.pod.pod.spec.resource_claims:
                return _KEPT
            for name, amount in other.requests.items():
                taken[name] = taken.get(name, 0) + amount
        for name, amount in cycle.pod.requests.items():
            if amount and taken.get(name, 0) + amount > node.offered.get(name, 0):
                return _KEPT
        return SUCCESS

    def sees(self, cycle: Cycle) -> Sight:
        nominees = cycle.cluster.nominees
        return lambda node: None if node.name in nominees else ()

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """A nominee that is bound elsewhere, or gone, keeps no node. Nobody was promised a new node, or what a node has more."""
        if isinstance(new, Node):
            return not isinstance(old, Node) or old.status.allocatable != new.status.allocatable
        if not isinstance(old, Pod) or not old.status.nominated_node_name:
            return False
        kept = isinstance(new, Pod) and not new.spec.node_name
        return not kept or new.status.nominated_node_name != old.status.nominated_node_name  # type: ignore[union-attr]  # kept is a pod


def _partners(one: PodInfo, other: PodInfo) -> bool:
    """Whether two pods are of one gang, whose room is for all of them."""
    group = one.group
    return bool(group) and group == other.group
