"""Volumes that do not exist, for simulated nodes: the provisioner ``simulated.allotment.dev`` creates whatever a claim of its
class requests. The volume is reachable from the zone of the node for which it was created, or from that node alone if it has
no zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allotment.api.storage import PROVISIONED_BY, STORAGE
from allotment.scheduler.volumes.storage import HOSTNAME

if TYPE_CHECKING:
    from allotment.api.core import Node
    from allotment.api.storage import PersistentVolumeClaim, StorageClass

PROVISIONER = "simulated.allotment.dev"
_ZONE = "topology.kubernetes.io/zone"


def volume_for(claim: PersistentVolumeClaim, kind: StorageClass, node: Node | None) -> dict[str, Any]:
    """The volume to create. Without a node, it is reachable from wherever the class allows."""
    spec, name = claim.spec, f"pvc-{claim.metadata.uid}"
    size = spec.resources.requests.get(STORAGE)
    terms = _terms(kind, node)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {STORAGE: str(size) if size is not None else "1Gi"},
            "accessModes": list(spec.access_modes),
            "persistentVolumeReclaimPolicy": kind.reclaim_policy or "Delete",
            "storageClassName": kind.metadata.name,
            "volumeMode": spec.volume_mode or "Filesystem",
            "claimRef": reference_to(claim),
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
            **({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}),
            **(
                {"volumeAttributesClassName": spec.volume_attributes_class_name}
                if spec.volume_attributes_class_name
                else {}
            ),
        },
    }


def reference_to(claim: PersistentVolumeClaim) -> dict[str, Any]:
    """The reference to the claim in a volume."""
    meta = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }


def _terms(kind: StorageClass, node: Node | None) -> list[dict[str, Any]]:
    if node is not None:
        labels = node.metadata.labels
        key = _ZONE if _ZONE in labels else HOSTNAME
        return [{"matchExpressions": [_in(key, [labels.get(key, node.metadata.name)])]}]
    return [
        {"matchExpressions": [_in(test.key, list(test.values)) for test in term.match_label_expressions]}
        for term in kind.allowed_topologies
        if term.match_label_expressions
    ]


def _in(key: str, values: list[str]) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": values}
