"""NodeName: a pod that names its node runs there or nowhere.

The queue holds no such pods, because a pod that names a node is bound to it. A simulation may ask about one, though. The plugin
is not local: what a pod asks for (``PodInfo.asks``) leaves out the node's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from allotment.api.core import Node
from allotment.scheduler.framework import SKIP, SUCCESS, Cycle, ObjectAction, Status, StatusCode, Wake

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

_OTHER = Status(StatusCode.UNRESOLVABLE, "NodeName", "are not the node that the pod names", lasting=True)


class NodeName:
    """The filter that accepts only the node that the pod names."""

    name = "NodeName"
    local = False
    wakes: Sequence[Wake] = (Wake(Node, frozenset({ObjectAction.ADD})),)

    def indifferent(self, pod: PodInfo, cluster: Cluster) -> bool:
        return not pod.pod.spec.node_name

    def pre_filter(self, cycle: Cycle) -> Status:
        wanted = cycle.pod.pod.spec.node_name
        if not wanted:
            return SKIP
        cycle.restrict(frozenset({wanted}))
        return SUCCESS

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        return SUCCESS if node.name == cycle.pod.pod.spec.node_name else _OTHER

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        return isinstance(new, Node) and new.metadata.name == pod.pod.spec.node_name
