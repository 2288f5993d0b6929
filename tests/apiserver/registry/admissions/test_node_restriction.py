"""A node writes only what is its own."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from allotment.api.status import Forbidden, NotFound
from allotment.apiserver.auth.identity import Identity
from allotment.apiserver.registry.admissions.node_restriction import NodeRestriction, admit_token
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Obj
from tests.apiserver.auth.memory import MemoryStore

N1 = Identity("system:node:n1", ("system:nodes", "system:authenticated"))
CREATE, UPDATE, DELETE = Operation.CREATE, Operation.UPDATE, Operation.DELETE
MIRROR = "kubernetes.io/config.mirror"


def kind(plural: str, group: str = "") -> Resource:
    return Resource(group, "v1", plural.capitalize(), plural, True)


PODS, NODES, LEASES = kind("pods"), kind("nodes"), kind("leases", "coordination.k8s.io")
SLICES, NODE_SLICES = kind("resourceslices", "resource.k8s.io"), kind("noderesourceslices", "resource.k8s.io")


def thing(name: str = "x", namespace: str = "", spec: Obj | None = None, **metadata: Any) -> Obj:
    place = {"namespace": namespace} if namespace else {}
    return {"kind": "ResourceSlice", "metadata": {"name": name, **place, **metadata}, "spec": spec or {}}


def admit(
    resource: Resource,
    obj: Obj,
    old: Obj | None = None,
    operation: Operation = CREATE,
    subresource: str = "",
    identity: Identity = N1,
) -> str | None:
    """The reason for which it is refused, or None."""
    store = MemoryStore()
    store.add("nodes", "n1")
    restriction = NodeRestriction(store)
    write = Write(operation, identity, "2026-01-02T03:04:05Z", subresource)
    try:
        restriction.admit(resource, obj, old, write)
    except Forbidden as exc:
        return exc.message
    return None


def mirror_pod() -> Obj:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-of-n1", "controller": True}
    return thing("m", "team", {"nodeName": "n1"}, annotations={MIRROR: "x"}, ownerReferences=[owner])


def test_a_mirror_pod_of_the_node_is_fine() -> None:
    assert admit(PODS, mirror_pod()) is None


MIRROR_CHANGES: list[tuple[Callable[[Obj], object], str]] = [
    (
        lambda pod: pod["metadata"].pop("annotations"),
        f'pod does not have "{MIRROR}" annotation, node "n1" can only create mirror pods',
    ),
    (
        lambda pod: pod["spec"].update(nodeName="n2"),
        'node "n1" can only create pods with spec.nodeName set to itself',
    ),
    (
        lambda pod: pod["metadata"].pop("ownerReferences"),
        'node "n1" can only create pods with an owner reference set to itself',
    ),
    (
        lambda pod: pod["metadata"]["ownerReferences"].append({}),
        'node "n1" can only create pods with a single owner reference set to itself',
    ),
    (
        lambda pod: pod["metadata"]["ownerReferences"][0].update(name="n2"),
        'node "n1" can only create pods with an owner reference set to itself',
    ),
    (
        lambda pod: pod["metadata"]["ownerReferences"][0].pop("controller"),
        'node "n1" can only create pods with a controller owner reference set to itself',
    ),
    (
        lambda pod: pod["metadata"]["ownerReferences"][0].update(blockOwnerDeletion=True),
        'node "n1" must not set blockOwnerDeletion on an owner reference',
    ),
    (
        lambda pod: pod["metadata"]["ownerReferences"][0].update(uid="z"),
        "node n1 UID mismatch: expected z got uid-of-n1",
    ),
    (
        lambda pod: pod["spec"].update(serviceAccountName="a"),
        'node "n1" can not create pods that reference serviceaccounts',
    ),
    (
        lambda pod: pod["spec"].update(resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}]),
        'node "n1" can not create pods that reference resourceclaims',
    ),
    (
        lambda pod: pod["spec"].update(volumes=[{"secret": {"secretName": "s"}}]),
        'node "n1" can not create pods that reference secrets',
    ),
    (
        lambda pod: pod["spec"].update(volumes=[{"csi": {}}]),
        'node "n1" can not create pods that reference csidrivers (via CSI volumes)',
    ),
    (
        lambda pod: pod["spec"].update(volumes=[{"projected": {"sources": [{"serviceAccountToken": {}}]}}]),
        'node "n1" can not create pods that reference serviceaccounts (via projected volumes)',
    ),
]


@pytest.mark.parametrize(("change", "why"), MIRROR_CHANGES, ids=[row[1] for row in MIRROR_CHANGES])
def test_a_mirror_pod_is_refused(change: Callable[[Obj], object], why: str) -> None:
    pod = mirror_pod()
    change(pod)
    assert admit(PODS, pod) == f'pods "m" is forbidden: {why}'


OWN, FOREIGN = {"nodeName": "n1"}, {"nodeName": "n2"}


def test_pods_are_deleted_by_their_node_only() -> None:
    assert admit(PODS, thing("p", "team", OWN), operation=DELETE) is None
    assert admit(PODS, thing("p", "team", FOREIGN), operation=DELETE) == (
        'pods "p" is forbidden: node "n1" can only delete pods with spec.nodeName set to itself'
    )
    assert admit(PODS, thing("p", "team"), operation=DELETE)


def test_pods_are_never_updated_by_a_node() -> None:
    pod = thing("p", "team", OWN)
    assert admit(PODS, pod, pod, UPDATE) == (
        'pods "p" is forbidden: unexpected operation "UPDATE", node "n1" can only create and delete mirror pods'
    )
    assert "unexpected pod subresource" in (admit(PODS, pod, pod, UPDATE, "resize") or "")


def test_the_status_of_its_pods_is_the_nodes_to_write() -> None:
    old = {**thing("p", "team", OWN, labels={"a": "b"}), "status": {"resourceClaimStatuses": [{"name": "c"}]}}
    new = deepcopy(old)
    new["status"]["phase"] = "Running"
    assert admit(PODS, new, old, UPDATE, "status") is None
    foreign = {**old, "spec": FOREIGN}
    assert admit(PODS, foreign, foreign, UPDATE, "status") == (
        'pods "p" is forbidden: node "n1" can only update pod status for pods with spec.nodeName set to itself'
    )


@pytest.mark.parametrize(
    ("part", "value", "why"),
    [
        (
            "resourceClaimStatuses",
            [{"name": "c", "resourceClaimName": "stolen"}],
            "cannot update resource claim statues",
        ),
        (
            "extendedResourceClaimStatus",
            {"resourceClaimName": "x"},
            "cannot update extended resource claim status",
        ),
        ("labels", {"a": "c"}, "cannot update labels through pod status"),
    ],
)
def test_what_would_let_a_node_read_more_it_cannot_write(part: str, value: Any, why: str) -> None:
    old = {**thing("p", "team", OWN, labels={"a": "b"}), "status": {}}
    new = deepcopy(old)
    (new["metadata"] if part == "labels" else new["status"])[part] = value
    assert admit(PODS, new, old, UPDATE, "status") == f'pods "p" is forbidden: node "n1" {why}'


NODE_WRITES: list[tuple[str, Obj, Obj | None, str | None]] = [
    ("its own", thing("n1", labels={"kubernetes.io/hostname": "n1", "example.com/rack": "3"}), None, None),
    ("another's", thing("n2"), None, 'node "n1" is not allowed to modify node "n2"'),
    (
        "a label that is not a node's",
        thing("n1", labels={"node-role.kubernetes.io/master": ""}),
        None,
        'node "n1" is not allowed to set the following labels: node-role.kubernetes.io/master',
    ),
    (
        "a label for restriction",
        thing("n1", labels={"node-restriction.kubernetes.io/x": ""}),
        None,
        'node "n1" is not allowed to set the following labels: node-restriction.kubernetes.io/x',
    ),
    ("a node's own domain", thing("n1", labels={"x.node.kubernetes.io/y": ""}), None, None),
    ("its status", thing("n1"), thing("n1"), None),
    (
        "taints",
        thing("n1", "", {"taints": []}),
        thing("n1", "", {"taints": [{"key": "a"}]}),
        'node "n1" is not allowed to modify taints',
    ),
    ("taints on create", thing("n1", "", {"taints": [{"key": "a"}]}), None, None),
    (
        "owners",
        thing("n1", ownerReferences=[{}]),
        thing("n1"),
        'node "n1" is not allowed to modify ownerReferences',
    ),
    (
        "labels",
        thing("n1"),
        thing("n1", labels={"k8s.io/x": ""}),
        "is not allowed to modify labels: k8s.io/x",
    ),
]


@pytest.mark.parametrize(("told", "obj", "old", "why"), NODE_WRITES, ids=[row[0] for row in NODE_WRITES])
def test_a_node_writes_of_its_node(told: str, obj: Obj, old: Obj | None, why: str | None) -> None:
    expected = None if why is None else f'nodes "{obj["metadata"]["name"]}" is forbidden: {why}'
    assert admit(NODES, obj, old, CREATE if old is None else UPDATE) == expected


@pytest.mark.parametrize("slices", [SLICES, NODE_SLICES], ids=lambda slices: slices.plural)
def test_slices_are_the_nodes_own(slices: Resource) -> None:
    assert admit(slices, thing(spec=OWN)) is None
    assert admit(slices, thing(spec=OWN), thing(spec=OWN), UPDATE) is None
    assert admit(slices, thing(spec=OWN), operation=DELETE) is None
    told = "can only create ResourceSlice with the same NodeName as the requesting node"
    assert (admit(slices, thing(spec=FOREIGN)) or "").endswith(told)
    assert admit(slices, thing(spec={"allNodes": True}))
    assert admit(slices, thing(spec=OWN), thing(spec=FOREIGN), UPDATE)
    assert admit(slices, thing(spec=FOREIGN), thing(spec=OWN), UPDATE)
    assert admit(slices, thing(spec=FOREIGN), operation=DELETE)


def test_the_lease_is_the_nodes_own() -> None:
    assert admit(LEASES, thing("n1", "kube-node-lease")) is None
    assert "same name as the requesting node" in (admit(LEASES, thing("n2", "kube-node-lease")) or "")
    assert '"kube-node-lease" system namespace' in (admit(LEASES, thing("n1", "kube-system")) or "")


def test_volume_claims_are_not_the_nodes_to_change() -> None:
    claims = kind("persistentvolumeclaims")
    assert admit(claims, thing(), thing(), UPDATE, "status") is None
    assert admit(claims, thing(), thing(), UPDATE)


def test_others_pass_and_nodes_without_a_name_do_not() -> None:
    assert admit(NODES, thing("n2"), identity=Identity("anna")) is None
    nameless = Identity("system:node:", ("system:nodes",))
    assert "could not determine node" in (admit(NODES, thing("n2"), identity=nameless) or "")


# --- tokens


def _ask(reference: dict[str, str], identity: Identity = N1) -> None:
    store = MemoryStore()
    store.add("pods", "p", "team", spec=OWN)
    store.add("pods", "q", "team", spec=FOREIGN)
    account = thing("bot", "team")
    admit_token(store, identity, account, {"spec": {"boundObjectRef": reference}})


def test_a_node_gets_tokens_for_its_pods() -> None:
    _ask({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-of-p"})
    _ask({}, Identity("anna"))


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ({}, "not bound to a pod"),
        ({"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u"}, "not bound to a pod"),
        ({"apiVersion": "v1", "kind": "Pod", "name": "p"}, "without a uid"),
        ({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "z"}, "does not match the UID in record"),
        (
            {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "uid-of-q"},
            "scheduled on a different node",
        ),
    ],
)
def test_a_node_gets_no_other_tokens(reference: dict[str, str], why: str) -> None:
    with pytest.raises(Forbidden, match=why):
        _ask(reference)


def test_a_token_for_a_pod_that_is_not_there() -> None:
    with pytest.raises(NotFound, match='pods "nope" not found'):
        _ask({"apiVersion": "v1", "kind": "Pod", "name": "nope", "uid": "u"})
