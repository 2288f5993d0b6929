"""Which nodes a pod may run on, apart from devices, by the scheduler's own NodeName, NodeUnschedulable and NodeAffinity filters.

A pod that names its node is there already, so a cordon does not keep it off. The words of a filter describe many nodes and any
pod; here the words say what this pod requires and this node lacks.
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
    """The filters that apply to one pod."""

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
        """Whether the pod may run on only some of the nodes that are not cordoned."""
        return self._filters not in ([], [_CORDON])

    def rejection(self, node: Node) -> str:
        """Why the pod may not run on a node; empty if it may."""
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
        except AllocationError as exc:  # to the filter, a broken term only matches no node
            return str(exc)
        return "the pod's node affinity leaves the node out"
