"""NodeUnschedulable: a cordoned node takes only pods that tolerate the taint that stands for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from allotment.api.core import Node, Pod
from allotment.scheduler.framework import SKIP, SUCCESS, Cycle, ObjectAction, Sight, Status, StatusCode, Wake
from allotment.scheduler.node import kind_of
from allotment.scheduler.taint_tolerance import CORDON, tolerated

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

_CORDONED = Status(StatusCode.UNRESOLVABLE, "NodeUnschedulable", "are cordoned", lasting=True)


class NodeUnschedulable:
    """The filter that rejects cordoned nodes."""

    name = "NodeUnschedulable"
    local = True
    wakes: Sequence[Wake] = (
        Wake(Node, frozenset({ObjectAction.ADD, ObjectAction.UPDATE})),
        Wake(Pod, frozenset({ObjectAction.UPDATE})),
    )

    def pre_filter(self, cycle: Cycle) -> Status:
        return SKIP if tolerated(cycle.pod.pod.spec.tolerations)(CORDON) else SUCCESS

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        return _CORDONED if node.node is not None and node.node.spec.unschedulable else SUCCESS

    def sees(self, cycle: Cycle) -> Sight:
        return kind_of

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """A node that is not cordoned, or no longer, can help; so can a new toleration of the pod itself."""
        if isinstance(new, Pod):
            return new.metadata.uid == pod.uid and tolerated(new.spec.tolerations)(CORDON)
        return self.helps_anyone(old, new)

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        if isinstance(new, Node):
            return not new.spec.unschedulable and not (isinstance(old, Node) and not old.spec.unschedulable)
        return isinstance(old, Pod) and isinstance(new, Pod) and old.spec.tolerations != new.spec.tolerations
