"""What a node may do. A node is a kubelet, or a driver on it, with the identity ``system:node:NAME`` in ``system:nodes``.

The authorizer restricts the rules that all nodes have (``NODE_RULES``) to what concerns the requesting node:

* it reads secrets, config maps, claims and service accounts only if a pod bound to it names them;
* it lists and watches pods and slices only with a selector for its own name, and Nodes only itself;
* it changes slices only if they are its own; Leases only its own, in ``kube-node-lease``;
* it evicts only pods bound to it: admission would come after the eviction has used up a disruption budget.

Admission checks what depends on the body of a write (the status of which pod, a slice for which node):
``registry/admissions/node_restriction.py``.

The authorizer follows the store to know which pod is on which node. It decodes only the node name of a pod; what the pod
refers to is computed when its node asks, and then kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import msgspec

from allotment.apiserver.auth.follow import Follows
from allotment.apiserver.auth.identity import AccessDecision, Attributes, Identity
from allotment.apiserver.auth.pod_references import references
from allotment.apiserver.auth.roles import NODE_RULES, rule
from allotment.apiserver.store.record import Key, Record

PREFIX, NODES = "system:node:", "system:nodes"
LEASES = "kube-node-lease"
SLICES, NODE_SLICES = "resourceslices.resource.k8s.io", "noderesourceslices.resource.k8s.io"

_YES, _NO = AccessDecision(True), AccessDecision(False)
_RULES = tuple(rule(line) for line in NODE_RULES)


@lru_cache(4096)
def _ever(verb: str, group: str, resource: str, subresource: str) -> bool:
    """Whether nodes may ever do this. Their rules have no names and no paths."""
    return any(one.holds_for_resource(verb, group, resource, subresource) for one in _RULES)


def node_name(identity: Identity) -> str | None:
    """The name of the node that a user is, possibly empty; None for users that are not nodes."""
    if NODES not in identity.groups or not identity.name.startswith(PREFIX):
        return None
    return identity.name.removeprefix(PREFIX)


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""


class _Bound(msgspec.Struct, gc=False):
    """The part of a pod or slice that names its node."""

    spec: _Spec | None = None


_BOUND = msgspec.json.Decoder(_Bound)


@dataclass(slots=True)
class _Pod:
    record: Record
    references: frozenset[tuple[str, str]] | None = None  # resource and name, in the pod's namespace


class NodeAuthorizer:
    """Grants a node access to its own objects, and has no opinion on other users."""

    def __init__(self, store: Follows) -> None:
        self._pods: dict[str, dict[Key, _Pod]] = {}  # by node
        self._bound: dict[Key, str] = {}  # pods to their nodes
        self._slices: dict[Key, str] = {}  # to its node
        store.follow("pods", self._pod_changed)
        store.follow(SLICES, self._slice_changed)
        store.follow(NODE_SLICES, self._slice_changed)

    def decide(self, attributes: Attributes) -> AccessDecision:
        node = node_name(attributes.identity)
        if node is None:
            return _NO
        if not node:
            return AccessDecision(False, f'unknown node for user "{attributes.identity.name}"')
        if not _ever(attributes.verb, attributes.group, attributes.resource, attributes.subresource):
            return _NO
        narrowed = _NARROWED.get((attributes.group, attributes.resource))
        return _YES if narrowed is None else narrowed(self, node, attributes)

    # --- restrictions; the general rules have already allowed the request

    def _in_namespace(self, node: str, asked: Attributes) -> AccessDecision:
        if asked.subresource and asked.subresource != "token":
            return AccessDecision(False, "cannot read subresource")
        if not asked.name:
            return AccessDecision(False, "No Object name found")
        if not asked.namespace:
            return AccessDecision(False, "can only read namespaced object of this type")
        return self._related(node, asked)

    def _related(self, node: str, asked: Attributes) -> AccessDecision:
        resource = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
        wanted = (resource, asked.name)
        for key, pod in self._pods.get(node, {}).items():
            if key.namespace == asked.namespace and wanted in _references(pod):
                return _YES
        return AccessDecision(False, f"no relationship found between node '{node}' and this object")

    def _pod(self, node: str, asked: Attributes) -> AccessDecision:
        if asked.verb in ("list", "watch") and ("spec.nodeName", node) in asked.fields:
            return _YES
        if asked.verb in ("get", "list", "watch") or asked.subresource == "eviction":
            if not asked.name:
                return AccessDecision(False, "can only list/watch pods with spec.nodeName field selector")
            if Key("pods", asked.namespace, asked.name) not in self._pods.get(node, {}):
                return AccessDecision(False, f"no relationship found between node '{node}' and this object")
        return _YES  # for other writes, admission checks whose pod it is

    def _node(self, node: str, asked: Attributes) -> AccessDecision:
        if asked.verb not in ("get", "list", "watch") or asked.name == node:
            return _YES  # for writes, admission checks which Node it is
        if not asked.name:
            return AccessDecision(False, f"node '{node}' cannot read all nodes, only its own Node object")
        return AccessDecision(False, f"node '{node}' cannot read '{asked.name}', only its own Node object")

    def _lease(self, node: str, asked: Attributes) -> AccessDecision:
        if asked.namespace != LEASES:
            return AccessDecision(False, f'can only access leases in the "{LEASES}" system namespace')
        if asked.verb != "create" and asked.name != node:
            return AccessDecision(
                False, "can only access node lease with the same name as the requesting node"
            )
        return _YES

    def _slice(self, node: str, asked: Attributes) -> AccessDecision:
        if asked.verb == "create":
            return _YES  # admission checks for which node
        if asked.verb in ("list", "watch", "deletecollection"):
            if ("spec.nodeName", node) in asked.fields:
                return _YES
            return AccessDecision(
                False, f"can only list/watch/deletecollection {asked.resource} with nodeName field selector"
            )
        if self._slices.get(Key(f"{asked.resource}.{asked.group}", "", asked.name)) == node:
            return _YES
        return AccessDecision(False, f"no relationship found between node '{node}' and this object")

    # --- following the store

    def _pod_changed(self, previous: Record | None, current: Record | None) -> None:
        if previous is not None and (node := self._bound.pop(previous.key, "")):
            pods = self._pods[node]
            del pods[previous.key]
            if not pods:
                del self._pods[node]
        if current is not None and (node := _node_of(current)):
            self._pods.setdefault(node, {})[current.key] = _Pod(current)
            self._bound[current.key] = node

    def _slice_changed(self, previous: Record | None, current: Record | None) -> None:
        if previous is not None:
            self._slices.pop(previous.key, None)
        if current is not None and (node := _node_of(current)):
            self._slices[current.key] = node


_NARROWED = {
    ("", "secrets"): NodeAuthorizer._in_namespace,
    ("", "configmaps"): NodeAuthorizer._in_namespace,
    ("", "serviceaccounts"): NodeAuthorizer._in_namespace,
    ("", "persistentvolumeclaims"): NodeAuthorizer._related,
    ("", "persistentvolumes"): NodeAuthorizer._related,
    ("resource.k8s.io", "resourceclaims"): NodeAuthorizer._related,
    ("", "pods"): NodeAuthorizer._pod,
    ("", "nodes"): NodeAuthorizer._node,
    ("coordination.k8s.io", "leases"): NodeAuthorizer._lease,
    ("resource.k8s.io", "resourceslices"): NodeAuthorizer._slice,
    ("resource.k8s.io", "noderesourceslices"): NodeAuthorizer._slice,
}


def _node_of(record: Record) -> str:
    if b'"nodeName":' not in record.data:
        return ""
    try:
        bound = _BOUND.decode(record.data)
    except msgspec.ValidationError:
        return ""
    return bound.spec.node_name if bound.spec is not None else ""


def _references(pod: _Pod) -> frozenset[tuple[str, str]]:
    if pod.references is None:
        pod.references = frozenset(references(pod.record.load()))
    return pod.references
