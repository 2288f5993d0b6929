"""Limits a node's writes to its own objects, where the node authorizer cannot decide without the object's content.

Its Node and that Node's status, without taints, owners or labels that would draw workloads to it; mirror pods bound to
it and owned by its Node, that need nothing else of the API; the status of pods bound to it; their deletion; its Lease; its
slices; tokens for the service accounts of its pods, bound to those pods. The words are those of upstream's NodeRestriction.

Users that are not nodes are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from allotment.api.status import Forbidden, forbidden, not_found
from allotment.apiserver.auth.follow import Heads
from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.auth.node import LEASES, NODE_SLICES, SLICES, node_name
from allotment.apiserver.auth.pod_references import references
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Key, Obj

_MIRROR = "kubernetes.io/config.mirror"
_OWN_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
_OWN_LABEL_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_CLAIM_STATUSES = {
    "resourceClaimStatuses": "resource claim statues",  # the misspelling is upstream's
    "extendedResourceClaimStatus": "extended resource claim status",
    "nodeAllocatableResourceClaimStatuses": "node allocatable resource claim statuses",
}
_REMOTE_VOLUMES = {
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_REMOTE_SOURCES = {
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}

Refusal = str | None


class NodeRestriction:
    """The admission check. It reads the Node of a mirror pod from ``store``."""

    judged = None

    def __init__(self, store: Heads) -> None:
        self._store = store

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        node = node_name(write.identity)
        if node is None:
            return
        name = (obj.get("metadata") or {}).get("name", "")
        if not node:
            why: Refusal = f'could not determine node from user "{write.identity.name}"'
        else:
            check = _CHECKS.get(resource.id)
            why = check(self, node, obj, old, write) if check is not None else None
        if why is not None:
            raise forbidden(resource.plural, name, resource.group, why)

    def _pod(self, node: str, pod: Obj, old: Obj | None, write: Write) -> Refusal:
        if write.subresource == "status":
            return _pod_status(node, pod, old or {})
        if write.subresource:
            told = f'unexpected pod subresource "{write.subresource}"'
            return f"{told}, only 'status' and 'eviction' are allowed"
        if write.operation is Operation.DELETE:
            if _bound_to(pod) == node:
                return None
            return f'node "{node}" can only delete pods with spec.nodeName set to itself'
        if write.operation is Operation.CREATE:
            return self._mirror_pod(node, pod)
        told = f'unexpected operation "{write.operation.value}"'
        return f'{told}, node "{node}" can only create and delete mirror pods'

    def _mirror_pod(self, node: str, pod: Obj) -> Refusal:
        if _MIRROR not in (pod["metadata"].get("annotations") or {}):
            return f'pod does not have "{_MIRROR}" annotation, node "{node}" can only create mirror pods'
        if _bound_to(pod) != node:
            return f'node "{node}" can only create pods with spec.nodeName set to itself'
        owners = pod["metadata"].get("ownerReferences") or []
        if len(owners) > 1:
            return f'node "{node}" can only create pods with a single owner reference set to itself'
        if not owners or [owners[0].get(part) for part in ("apiVersion", "kind", "name")] != [
            "v1",
            "Node",
            node,
        ]:
            return f'node "{node}" can only create pods with an owner reference set to itself'
        owner = owners[0]
        if not owner.get("controller"):
            return f'node "{node}" can only create pods with a controller owner reference set to itself'
        if owner.get("blockOwnerDeletion"):
            return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
        record = self._store.head(Key("nodes", "", node))
        if record is None:
            raise not_found("nodes", node)
        uid = record.load()["metadata"]["uid"]
        if owner.get("uid") != uid:
            return f"node {node} UID mismatch: expected {owner.get('uid')} got {uid}"
        needed = _needed(pod)
        return f'node "{node}" can not create pods that reference {needed}' if needed else None

    def _node(self, node: str, obj: Obj, old: Obj | None, write: Write) -> Refusal:
        name = obj["metadata"].get("name", "")
        if name != node:
            return f'node "{node}" is not allowed to modify node "{name}"'
        spec, metadata = obj.get("spec") or {}, obj["metadata"]
        if write.operation is Operation.CREATE:
            if spec.get("configSource") is not None:
                return f'node "{node}" is not allowed to create pods with a non-nil configSource'
            labels = _foreign_labels(metadata, {})
            return f'node "{node}" is not allowed to set the following labels: {labels}' if labels else None
        if write.operation is Operation.DELETE or old is None:
            return None
        before = old.get("spec") or {}
        if spec.get("configSource") not in (None, before.get("configSource")):
            return f'node "{node}" is not allowed to update configSource to a new non-nil configSource'
        if (spec.get("taints") or []) != (before.get("taints") or []):
            return f'node "{node}" is not allowed to modify taints'
        if (metadata.get("ownerReferences") or []) != (old["metadata"].get("ownerReferences") or []):
            return f'node "{node}" is not allowed to modify ownerReferences'
        labels = _foreign_labels(metadata, old["metadata"])
        return f"is not allowed to modify labels: {labels}" if labels else None

    def _volume_claim(self, node: str, obj: Obj, old: Obj | None, write: Write) -> Refusal:
        return None if write.subresource == "status" else "may only update PVC status"

    def _lease(self, node: str, obj: Obj, old: Obj | None, write: Write) -> Refusal:
        if obj["metadata"].get("namespace") != LEASES:
            return f'can only access leases in the "{LEASES}" system namespace'
        if obj["metadata"].get("name") != node:
            return "can only access node lease with the same name as the requesting node"
        return None

    def _slice(self, node: str, obj: Obj, old: Obj | None, write: Write) -> Refusal:
        if _bound_to(obj) == node and (old is None or _bound_to(old) == node):
            return None
        kind = obj.get("kind", "ResourceSlice")
        return (
            f"can only {write.operation.value.lower()} {kind} with the same NodeName as the requesting node"
        )


_CHECKS: Mapping[str, Callable[[NodeRestriction, str, Obj, Obj | None, Write], Refusal]] = {
    "pods": NodeRestriction._pod,
    "nodes": NodeRestriction._node,
    "persistentvolumeclaims": NodeRestriction._volume_claim,
    "leases.coordination.k8s.io": NodeRestriction._lease,
    SLICES: NodeRestriction._slice,
    NODE_SLICES: NodeRestriction._slice,
}


def admit_token(store: Heads, identity: Identity, account: Obj, request: Obj) -> None:
    """Refuses a node's TokenRequest for anything but pods bound to it."""
    node = node_name(identity)
    if node is None:
        return
    metadata, reference = account["metadata"], (request.get("spec") or {}).get("boundObjectRef") or {}
    why: Refusal = None
    if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not reference.get("name"):
        why = "node requested token not bound to a pod"
    elif not reference.get("uid"):
        why = "node requested token with a pod binding without a uid"
    else:
        record = store.head(Key("pods", metadata["namespace"], reference["name"]))
        if record is None:
            raise not_found("pods", reference["name"])
        pod = record.load()
        if pod["metadata"]["uid"] != reference["uid"]:
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
        elif _bound_to(pod) != node:
            why = "node requested token bound to a pod scheduled on a different node"
    if why is not None:
        raise _token_refusal(metadata["name"], why)


def _token_refusal(name: str, why: str) -> Forbidden:
    return forbidden("serviceaccounts", name, why=why)


def _pod_status(node: str, pod: Obj, old: Obj) -> Refusal:
    if _bound_to(old) != node:
        return f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'
    if (pod["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
        return f'node "{node}" cannot update labels through pod status'
    status, before = pod.get("status") or {}, old.get("status") or {}
    for field, told in _CLAIM_STATUSES.items():
        if (status.get(field) or None) != (before.get(field) or None):
            return f'node "{node}" cannot update {told}'
    return None


def _needed(pod: Obj) -> str:
    """The API objects that a pod needs, in words; empty if none."""
    spec = pod.get("spec") or {}
    for resource, _ in references(pod):
        return resource.partition(".")[0]
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        for field, told in _REMOTE_VOLUMES.items():
            if volume.get(field) is not None:
                return told
        for source in (volume.get("projected") or {}).get("sources") or ():
            for field, told in _REMOTE_SOURCES.items():
                if source.get(field) is not None:
                    return told
    return ""


def _foreign_labels(metadata: Obj, old: Obj) -> str:
    """Labels that differ and are not a node's to set, joined; empty if there are none."""
    labels, before = metadata.get("labels") or {}, old.get("labels") or {}
    changed = {key for key in {*labels, *before} if labels.get(key) != before.get(key)}
    return ", ".join(sorted(key for key in changed if _is_foreign(key)))


def _is_foreign(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    if not slash:
        return False
    if _within(domain, "node-restriction.kubernetes.io"):
        return True
    if not (_within(domain, "kubernetes.io") or _within(domain, "k8s.io")):
        return False
    return label not in _OWN_LABELS and not any(_within(domain, own) for own in _OWN_LABEL_DOMAINS)


def _within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _bound_to(obj: Obj) -> Any:
    return (obj.get("spec") or {}).get("nodeName")
