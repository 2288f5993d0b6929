"""A node reads what its pods need, and nothing of other nodes."""

from __future__ import annotations

import pytest

from allotment.apiserver.auth.authorization import Authorization, refusal
from allotment.apiserver.auth.identity import Attributes, Identity
from allotment.apiserver.auth.node import NodeAuthorizer, node_name
from allotment.apiserver.store.record import Key, Obj
from tests.apiserver.auth.memory import MemoryStore

N1 = Identity("system:node:n1", ("system:nodes", "system:authenticated"))
DRA = "resource.k8s.io"


def referring_pod(node: str, prefix: str) -> Obj:
    """A pod that refers to one object in every way a pod can."""
    return {
        "spec": {
            "nodeName": node,
            "serviceAccountName": f"{prefix}-account",
            "imagePullSecrets": [{"name": f"{prefix}-pull"}],
            "resourceClaims": [{"name": "c", "resourceClaimName": f"{prefix}-claim"}, {"name": "t"}],
            "containers": [
                {
                    "envFrom": [
                        {"configMapRef": {"name": f"{prefix}-env"}},
                        {"secretRef": {"name": f"{prefix}-env"}},
                    ],
                    "env": [
                        {"name": "A", "value": "a"},
                        {"name": "B", "valueFrom": {"secretKeyRef": {"name": f"{prefix}-key"}}},
                        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": f"{prefix}-key"}}},
                    ],
                }
            ],
            "initContainers": [{"envFrom": [{"secretRef": {"name": f"{prefix}-init"}}]}],
            "volumes": [
                {"name": "a", "secret": {"secretName": f"{prefix}-volume"}},
                {"name": "b", "configMap": {"name": f"{prefix}-volume"}},
                {"name": "c", "projected": {"sources": [{"secret": {"name": f"{prefix}-projected"}}]}},
                {"name": "d", "persistentVolumeClaim": {"claimName": f"{prefix}-disk"}},
                {"name": "e", "emptyDir": {}},
            ],
        },
        "status": {"resourceClaimStatuses": [{"name": "t", "resourceClaimName": f"{prefix}-made"}]},
    }


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.add("pods", "p1", "team", **referring_pod("n1", "one"))
    store.add("pods", "p2", "team", **referring_pod("n2", "two"))
    store.add("pods", "p0", "team", spec={"containers": []})
    for node in ("n1", "n2"):
        store.add(f"resourceslices.{DRA}", f"slice-{node}", spec={"nodeName": node})
        store.add(f"noderesourceslices.{DRA}", f"slice-{node}", spec={"nodeName": node})
    store.add(f"resourceslices.{DRA}", "slice-all", spec={"allNodes": True})
    return store


def asks(
    verb: str, resource: str, name: str = "", namespace: str = "team", group: str = "", select: str = ""
) -> Attributes:
    plural, _, subresource = resource.partition("/")
    fields = (("spec.nodeName", select),) if select else ()
    return Attributes(N1, verb, group, "v1", plural, subresource, namespace, name, fields=fields)


NEEDED = [
    ("secrets", "", ("pull", "env", "key", "init", "volume", "projected")),
    ("configmaps", "", ("env", "key", "volume")),
    ("persistentvolumeclaims", "", ("disk",)),
    ("resourceclaims", DRA, ("claim", "made")),
    ("serviceaccounts", "", ("account",)),
]


@pytest.mark.parametrize(("resource", "group", "names"), NEEDED)
def test_a_node_reads_what_its_pods_refer_to_and_no_more(
    store: MemoryStore, resource: str, group: str, names: tuple[str, ...]
) -> None:
    nodes = NodeAuthorizer(store)
    for name in names:
        assert nodes.decide(asks("get", resource, f"one-{name}", group=group)).allowed, name
        assert not nodes.decide(asks("get", resource, f"two-{name}", group=group)).allowed, name
        assert not nodes.decide(asks("get", resource, f"one-{name}", "other", group=group)).allowed, name
        for verb in ("create", "update", "patch", "delete", "deletecollection"):
            assert not nodes.decide(asks(verb, resource, f"one-{name}", group=group)).allowed, verb
    for verb in ("list", "watch"):
        assert not nodes.decide(asks(verb, resource, group=group)).allowed
        assert not nodes.decide(asks(verb, resource, namespace="", group=group)).allowed


OTHERS = [
    # what is asked, whether it is granted
    (asks("list", "pods", select="n1"), True),
    (asks("watch", "pods", namespace="", select="n1"), True),
    (asks("list", "pods", select="n2"), False),
    (asks("list", "pods"), False),
    (asks("get", "pods", "p1"), True),
    (asks("get", "pods", "p2"), False),
    (asks("get", "pods", "p0"), False),
    (asks("watch", "pods", "p1"), True),
    (asks("watch", "pods", "p2"), False),
    (asks("create", "pods/eviction", "p1"), True),
    (asks("create", "pods/eviction", "p2"), False),
    (asks("update", "pods/status", "p2"), True),  # admission refuses it
    (asks("delete", "pods", "p2"), True),  # admission refuses it
    (asks("update", "pods", "p1"), False),
    (asks("create", "pods/binding", "p1"), False),
    (asks("create", "pods/exec", "p1"), False),
    (asks("deletecollection", "pods", select="n1"), False),
    (asks("get", "nodes", "n1", ""), True),
    (asks("watch", "nodes", "n1", ""), True),
    (asks("get", "nodes", "n2", ""), False),
    (asks("list", "nodes", "", ""), False),
    (asks("patch", "nodes/status", "n1", ""), True),
    (asks("delete", "nodes", "n1", ""), False),
    (asks("update", "leases", "n1", "kube-node-lease", "coordination.k8s.io"), True),
    (asks("update", "leases", "n2", "kube-node-lease", "coordination.k8s.io"), False),
    (asks("create", "leases", "", "kube-node-lease", "coordination.k8s.io"), True),
    (asks("create", "leases", "", "kube-system", "coordination.k8s.io"), False),
    (asks("list", "leases", "", "kube-node-lease", "coordination.k8s.io"), False),
    (asks("create", "serviceaccounts/token", "one-account"), True),
    (asks("create", "serviceaccounts/token", "two-account"), False),
    (asks("create", "events"), True),
    (asks("list", "events"), False),
    (asks("list", "services", namespace=""), True),
    (asks("create", "services"), False),
    (asks("get", "resourceclaims/status", "one-claim", group=DRA), False),
    (asks("update", "resourceclaims/status", "one-claim", group=DRA), False),
    (asks("create", "tokenreviews", namespace="", group="authentication.k8s.io"), True),
    (asks("create", "clusterrolebindings", namespace="", group="rbac.authorization.k8s.io"), False),
    *(
        row
        for slices in ("resourceslices", "noderesourceslices")
        for row in (
            (asks("create", slices, "", "", DRA), True),
            (asks("list", slices, "", "", DRA, "n1"), True),
            (asks("deletecollection", slices, "", "", DRA, "n1"), True),
            (asks("list", slices, "", "", DRA, "n2"), False),
            (asks("list", slices, "", "", DRA), False),
            (asks("deletecollection", slices, "", "", DRA), False),
            *(
                row
                for verb in ("get", "update", "patch", "delete")
                for row in (
                    (asks(verb, slices, "slice-n1", "", DRA), True),
                    (asks(verb, slices, "slice-n2", "", DRA), False),
                    (asks(verb, slices, "slice-all", "", DRA), False),
                    (asks(verb, slices, "no-slice", "", DRA), False),
                )
            ),
        )
    ),
]


@pytest.mark.parametrize(
    ("asked", "expected"),
    OTHERS,
    ids=lambda row: (
        f"{row.verb} {row.resource}/{row.subresource} {row.name}" if isinstance(row, Attributes) else None
    ),
)
def test_what_is_the_nodes_own(store: MemoryStore, asked: Attributes, expected: bool) -> None:
    assert NodeAuthorizer(store).decide(asked).allowed is expected


def test_pods_that_come_and_go_are_followed(store: MemoryStore) -> None:
    nodes = NodeAuthorizer(store)
    question = asks("get", "secrets", "three-pull")
    assert not nodes.decide(question).allowed
    store.add("pods", "p3", "team", **referring_pod("", "three"))
    assert not nodes.decide(question).allowed
    store.add("pods", "p3", "team", **referring_pod("n1", "three"))
    assert nodes.decide(question).allowed
    store.add("pods", "p3", "team", **referring_pod("n1", "four"))
    assert not nodes.decide(question).allowed
    assert nodes.decide(asks("get", "secrets", "four-pull")).allowed
    store.delete(Key("pods", "team", "p3"))
    assert not nodes.decide(asks("get", "secrets", "four-pull")).allowed


def test_slices_that_come_and_go_are_followed(store: MemoryStore) -> None:
    nodes = NodeAuthorizer(store)
    store.delete(Key(f"resourceslices.{DRA}", "", "slice-n1"))
    assert not nodes.decide(asks("get", "resourceslices", "slice-n1", "", DRA)).allowed


NOT_NODES = [
    Identity("system:node:n1", ("system:authenticated",)),
    Identity("n1", ("system:authenticated",)),
    Identity("anna", ("system:nodes",)),
    Identity("system:node:", ("system:nodes",)),
]


@pytest.mark.parametrize("identity", NOT_NODES)
def test_name_and_group_are_both_needed(store: MemoryStore, identity: Identity) -> None:
    assert not node_name(identity)
    asked = Attributes(identity, "get", "", "v1", "secrets", "", "team", "one-pull")
    assert not NodeAuthorizer(store).decide(asked).allowed


def test_the_refusal_says_what_a_node_may(store: MemoryStore) -> None:
    asked = asks("list", "nodes", "", "")
    decision = Authorization(store).decide(asked)
    assert refusal(asked, decision.reason).message == (
        'nodes is forbidden: User "system:node:n1" cannot list resource "nodes" in API group "" at the cluster scope: '
        "node: node 'n1' cannot read all nodes, only its own Node object"
    )
