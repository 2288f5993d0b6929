"""Extended resources that pods request, as ``allot allocate`` serves them: from what a node's device plugin offers, or else by a
claim that the scheduler would make (see ``scheduler.devices.extended_resources``). So the claim depends on the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.insight.manifest_cluster import name_of
from allotment.scheduler.devices.extended_resources import extended_claim
from allotment.scheduler.pod import PodInfo
from allotment.scheduler.resource_requests import Amounts, requests_of

if TYPE_CHECKING:
    from allotment.api.core import Node, Pod
    from allotment.api.resource import ResourceClaim
    from allotment.scheduler.cluster import Cluster

_UNIT = 10**9


class ExtendedResources:
    """What serves extended resources: classes on every node, and device plugins on the nodes that list them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def wanted(self, pod: Pod) -> Amounts:
        """The extended resources that a pod requests; empty for a pod that already has a node."""
        if pod.spec.node_name:
            return {}
        asked = requests_of(pod.spec)
        return {name: asked[name] for name in sorted(asked) if asked[name] and self._is_extended(name)}

    def _is_extended(self, name: str) -> bool:
        domain, slash, _ = name.partition("/")
        return name in self._cluster.extended or (bool(slash) and not domain.endswith("kubernetes.io"))

    def lacking(self, node: Node, wanted: Mapping[str, int]) -> str:
        """Why a node cannot serve the resources that no claim can serve; empty if it can."""
        info = self._cluster.nodes[node.metadata.name]
        for name, amount in wanted.items():
            if offered := info.offered.get(name):
                free = offered - info.taken.get(name, 0)
                if amount > free:
                    had = f"{free // _UNIT} of {offered // _UNIT}"
                    return f"has {had} {name} left, and {amount // _UNIT} are needed"
            elif name not in self._cluster.extended:
                return f"offers no {name}, and no DeviceClass has it as extendedResourceName"
        return ""

    def claims(self, pod: Pod, node: Node, wanted: Mapping[str, int]) -> list[ResourceClaim]:
        """The claim that serves the pod on this node; empty if the pod needs none."""
        offered = self._cluster.nodes[node.metadata.name].offered
        claimed = [name for name in wanted if not offered.get(name) and name in self._cluster.extended]
        if not claimed:
            return []
        meta = pod.metadata
        uid = meta.uid or f"pod {'/'.join(name_of(meta))}"  # the claim's name contains it
        info = PodInfo(replace(pod, metadata=replace(meta, uid=uid)))
        claim = extended_claim(info, claimed, self._cluster.extended).claim
        owners = claim.metadata.owner_references if meta.uid else ()
        metadata = replace(claim.metadata, namespace=name_of(meta)[0], owner_references=owners)
        return [replace(claim, metadata=metadata)]
