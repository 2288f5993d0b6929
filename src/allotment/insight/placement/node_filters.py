"""Which nodes a pod may go to, devices aside: the scheduler's own NodeName, NodeUnschedulable and NodeAffinity say so.

A pod that names its node is there already, so a cordon does not keep it off. A filter's words are about many nodes and any pod;
here they say what this pod wants and this node does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.allocator.errors import AllocationError
from allotment.allocator.nodeselector import selects
from allotment.scheduler.framework import Cycle, StatusCode
from allotment.scheduler.plugins.node_affinity import NodeAffinity
from allotment.scheduler.plugins.node_name import NodeName
from allotment.scheduler.plugins.node_unschedulable import NodeUnschedulable
from allotment.scheduler.pod import PodInfo

if TYPE_CHECKING:
    from allotment.api.core import Node
    from allotment.scheduler.cluster import Cluster

_Filter = NodeName | NodeUnschedulable | NodeAffinity
_NAME, _CORDON, _AFFINITY = NodeName(), NodeUnschedulable(), NodeAffinity()


class NodeFilters:
    """The filters that have something to say about one pod."""

    def __init__(self, pod: PodInfo, cluster: Cluster) -> None:
        self._cycle = Cycle(pod, cluster, now=0.0)
        named = bool(pod.pod.spec.node_name)
        self._nowhere = False  # the affinity contradicts itself
        self._filters: list[_Filter] = []
        for each in (_NAME, _AFFINITY) if named else (_NAME, _CORDON, _AFFINITY):
            code = each.pre_filter(self._cycle).code
            self._nowhere |= code is StatusCode.UNRESOLVABLE
            if code is not StatusCode.SKIP:
                self._filters.append(each)

    @property
    def choosy(self) -> bool:
        """Whether the pod may not go to all nodes that are not cordoned."""
        return self._filters not in ([], [_CORDON])

    def rejection(self, node: Node) -> str:
        """Why the pod may not go to a node; empty if it may."""
        info = self._cycle.cluster.nodes[node.metadata.name]
        for each in self._filters:
            if (each is _AFFINITY and self._nowhere) or not each.filter(self._cycle, info).ok:
                if each is _NAME:
                    return f"the pod is on node {self._cycle.pod.node}"
                return "the node is cordoned" if each is _CORDON else self._unwanted(node)
        return ""

    def _unwanted(self, node: Node) -> str:
        spec = self._cycle.pod.pod.spec
        for key, value in spec.node_selector.items():
            if node.metadata.labels.get(key) != value:
                return f"the pod's nodeSelector wants {key}={value}"
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        try:
            if affinity and affinity.required:
                selects(affinity.required, node)
        except AllocationError as exc:  # the filter takes a broken term for one that matches no node
            return str(exc)
        return "the pod's node affinity leaves the node out"
