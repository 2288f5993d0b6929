"""What pods ask for by extended resources, as ``allot allocate`` serves it: from what a node's device plugin offers, else by a claim
that the scheduler would make (see ``scheduler.devices.extended_resources``). So what is claimed depends on the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.insight.manifest_cluster import ManifestCluster, name_of
from allotment.scheduler.cluster import DEVICE_CLASS_RESOURCE
from allotment.scheduler.devices.extended_resources import extended_claim
from allotment.scheduler.pod import FINISHED, PodInfo
from allotment.scheduler.resource_requests import Amounts, amounts, requests_of

if TYPE_CHECKING:
    from allotment.api.core import Node, Pod
    from allotment.api.resource import ResourceClaim

_UNIT = 10**9


class ExtendedResources:
    """Who serves extended resources: classes everywhere, device plugins on the nodes that list them."""

    def __init__(self, cluster: ManifestCluster) -> None:
        self._classes: dict[str, str] = {}
        for each in sorted(cluster.classes, key=lambda each: each.metadata.name):
            self._classes[DEVICE_CLASS_RESOURCE + each.metadata.name] = each.metadata.name
            if each.spec.extended_resource_name:
                self._classes.setdefault(each.spec.extended_resource_name, each.metadata.name)
        self._free: dict[str, Amounts] = {
            node.metadata.name: amounts(node.status.allocatable) for node in cluster.nodes
        }
        for pod in cluster.pods:
            if pod.spec.node_name in self._free and pod.status.phase not in FINISHED:
                self.take(pod.spec.node_name, requests_of(pod.spec))

    def wanted(self, pod: Pod) -> Amounts:
        """What a pod without a node asks for; nothing for one that has it already."""
        if pod.spec.node_name:
            return {}
        asked = requests_of(pod.spec)
        return {name: asked[name] for name in sorted(asked) if asked[name] and self._is_extended(name)}

    def _is_extended(self, name: str) -> bool:
        domain, slash, _ = name.partition("/")
        return name in self._classes or (bool(slash) and not domain.endswith("kubernetes.io"))

    def lacking(self, node: Node, wanted: Mapping[str, int]) -> str:
        """Why a node cannot serve what no claim can; empty if it can."""
        offered, free = amounts(node.status.allocatable), self._free[node.metadata.name]
        for name, amount in wanted.items():
            if offered.get(name):
                if amount > free[name]:
                    had = f"{free[name] // _UNIT} of {offered[name] // _UNIT}"
                    return f"has {had} {name} left, and {amount // _UNIT} are needed"
            elif name not in self._classes:
                return f"offers no {name}, and no DeviceClass has it as extendedResourceName"
        return ""

    def claim(self, pod: Pod, node: Node, wanted: Mapping[str, int]) -> ResourceClaim | None:
        """The claim that serves the pod on this node, if it needs one."""
        offered = amounts(node.status.allocatable)
        claimed = [name for name in wanted if not offered.get(name) and name in self._classes]
        if not claimed:
            return None
        meta = pod.metadata
        uid = meta.uid or f"pod {'/'.join(name_of(meta))}"  # its name is made of it
        claim = extended_claim(
            PodInfo(replace(pod, metadata=replace(meta, uid=uid))), claimed, self._classes
        ).claim
        owners = claim.metadata.owner_references if meta.uid else ()
        metadata = replace(claim.metadata, namespace=name_of(meta)[0], owner_references=owners)
        return replace(claim, metadata=metadata)

    def take(self, node: str, wanted: Mapping[str, int]) -> None:
        """A pod that wants this is on the node from now on."""
        free = self._free[node]
        for name, amount in wanted.items():
            if name in free:
                free[name] -= amount
