"""The roles that every server has: for each, everything that it does not grant is refused."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from allotment.apiserver.auth.authorization import Authorization
from allotment.apiserver.auth.bootstrap import bring_defaults, defaults
from allotment.apiserver.auth.identity import ADMINISTRATOR, ANONYMOUS, Attributes, Identity
from allotment.apiserver.auth.rbac import CLUSTER_ROLES, Rbac
from allotment.apiserver.auth.roles import ROLES, DefaultRole, rule
from allotment.apiserver.store.record import Key
from tests.apiserver.auth.memory import MemoryStore, subject
from tests.apiserver.auth.slow_rbac import Judge

NOW = "2026-01-02T03:04:05Z"
VERBS = (
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "impersonate",
    "escalate",
)
PATHS = (
    "/",
    "/healthz",
    "/livez/x",
    "/version",
    "/metrics",
    "/api/v1",
    "/openapi/v3",
    "/openid/v1/jwks",
    "/logs",
)


def started() -> MemoryStore:
    store = MemoryStore()
    bring_defaults(store, NOW)
    return store


@cache
def _resources() -> list[tuple[str, str, str]]:
    """Every group, resource and subresource that some role names, and one that none does."""
    rules = [rule(line) for role in ROLES for line in role.rules]
    found = {(group, *_split(name)) for one in rules for group in one.groups for name in one.resources}
    return sorted(found | {("x.example.com", "widgets", ""), ("", "pods", "widgets")})


def _split(name: str) -> tuple[str, str]:
    resource, _, subresource = name.partition("/")
    return resource, subresource


def _everything(identity: Identity, namespace: str) -> list[Attributes]:
    asked = [
        Attributes(identity, verb, group, "v1", resource, subresource, namespace, name)
        for verb, (group, resource, subresource) in itertools.product(VERBS, _resources())
        for name in ("", "kube-scheduler")
    ]
    return asked + [Attributes(identity, verb, path=path) for verb in ("get", "post") for path in PATHS]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_role_grants_what_its_rules_say_and_nothing_else(role: DefaultRole) -> None:
    name, namespace = role.name, role.namespace
    store = started()
    store.bind(name, "user:somebody", namespace=namespace or "", cluster_role=not namespace, name="test")
    rbac = Rbac(store)
    who = Identity("somebody")
    judge = Judge(store)
    wrong = [
        asked
        for asked in _everything(who, namespace) + _everything(who, "elsewhere")
        if rbac.decide(asked).allowed is not judge.allows(asked)
    ]
    assert not wrong


SUBJECTS = {
    "anonymous": ANONYMOUS,
    "anybody who logged in": Identity("anna", ("system:authenticated",)),
    "a service account": Identity(
        "system:serviceaccount:n:x", ("system:serviceaccounts", "system:authenticated")
    ),
    "kube-scheduler": Identity("system:kube-scheduler", ("system:authenticated",)),
    "kube-controller-manager": Identity("system:kube-controller-manager", ("system:authenticated",)),
    "our scheduler": Identity("allotment:scheduler", ("system:authenticated",)),
    "a node without a name": Identity("system:node:", ("system:nodes", "system:authenticated")),
}


@pytest.mark.parametrize("who", SUBJECTS)
def test_those_whom_the_defaults_know_have_what_is_bound_to_them_and_nothing_else(who: str) -> None:
    store = started()
    authorization = Authorization(store)
    questions = _everything(SUBJECTS[who], "") + _everything(SUBJECTS[who], "kube-system")
    judge = Judge(store)
    wrong = [asked for asked in questions if authorization.decide(asked).allowed is not judge.allows(asked)]
    assert not wrong


def test_nobody_reads_anything_but_health_and_version() -> None:
    authorization = Authorization(started())
    granted = [asked for asked in _everything(ANONYMOUS, "default") if authorization.decide(asked).allowed]
    assert {asked.path for asked in granted} == {"/healthz", "/version"}
    assert {asked.verb for asked in granted} == {"get"}
    for path in ("/livez", "/readyz"):
        assert authorization.decide(Attributes(ANONYMOUS, "get", path=path)).allowed


def test_masters_may_do_everything_even_without_roles() -> None:
    authorization = Authorization(MemoryStore())
    assert all(authorization.decide(asked).allowed for asked in _everything(ADMINISTRATOR, "n"))


FACTS = [
    # role, verb, group, resource, whether it is granted
    ("view", "get", "", "pods", True),
    ("view", "list", "resource.k8s.io", "resourceclaims", True),
    ("view", "get", "", "secrets", False),  # a secret may hold a token, and with it somebody else's rights
    ("view", "create", "", "pods", False),
    ("view", "get", "rbac.authorization.k8s.io", "roles", False),
    ("edit", "get", "", "pods", True),
    ("edit", "get", "", "secrets", True),
    ("edit", "create", "resource.k8s.io", "resourceclaims", True),
    ("edit", "update", "resource.k8s.io", "resourceclaims/status", False),
    ("edit", "update", "", "resourcequotas", False),
    ("edit", "create", "rbac.authorization.k8s.io", "rolebindings", False),
    ("admin", "create", "rbac.authorization.k8s.io", "rolebindings", True),
    ("admin", "create", "", "pods", True),
    ("admin", "update", "", "resourcequotas", False),
    ("admin", "update", "", "namespaces", False),
    ("admin", "create", "resource.k8s.io", "deviceclasses", False),
    ("cluster-admin", "delete", "anything.io", "whatever", True),
    ("system:kube-scheduler", "update", "resource.k8s.io", "resourceclaims/binding", True),
    ("system:kube-scheduler", "create", "", "pods/binding", True),
    ("system:kube-scheduler", "create", "", "pods", False),
    ("system:kube-scheduler", "get", "", "secrets", False),
    ("system:kube-controller-manager", "list", "example.com", "widgets", True),
    ("system:kube-controller-manager", "update", "resource.k8s.io", "resourceclaims/status", True),
    ("allotment:scheduler", "patch", "resource.k8s.io", "resourceclaims/binding", True),
    ("allotment:scheduler", "update", "resource.k8s.io", "resourceclaims/status", False),  # it patches
    ("allotment:scheduler", "get", "", "secrets", False),
    ("allotment:scheduler", "watch", "apiextensions.k8s.io", "customresourcedefinitions", True),
    ("allotment:scheduler", "list", "scheduling.volcano.sh", "queues", True),
    ("allotment:controllers", "create", "resource.k8s.io", "resourceclaims", True),
    ("allotment:controllers", "patch", "resource.k8s.io", "resourcepools/status", True),
    ("allotment:controllers", "update", "resource.k8s.io", "resourcepools/status", False),  # they patch
    ("allotment:controllers", "delete", "resource.k8s.io", "resourcepoolstatusrequests", True),
    ("allotment:controllers", "create", "resource.k8s.io", "resourcepoolstatusrequests", False),
    ("allotment:pool-reader", "watch", "resource.k8s.io", "resourcepools", True),
    ("allotment:pool-reader", "create", "resource.k8s.io", "resourcepools", False),
    (
        "allotment:controllers",
        "list",
        "scheduling.volcano.sh",
        "queues",
        True,
    ),  # for the scheduler in `allot up`
    ("allotment:controllers", "update", "scheduling.volcano.sh", "podgroups/status", False),
    ("allotment:autoscaler", "create", "", "nodes", True),
    ("allotment:autoscaler", "update", "resource.k8s.io", "resourceclaims/status", False),
    ("allotment:dashboard", "watch", "resource.k8s.io", "resourcepools", True),
    ("allotment:dashboard", "list", "resource.k8s.io", "resourceclaims", False),
    ("allotment:dashboard", "get", "", "secrets", False),
    ("allotment:viewer", "list", "resource.k8s.io", "resourceslices", True),
    ("allotment:viewer", "list", "resource.k8s.io", "resourceclaims", False),  # names of others' claims
]


@pytest.mark.parametrize(("role", "verb", "group", "plural", "expected"), FACTS)
def test_what_the_roles_are_for(role: str, verb: str, group: str, plural: str, expected: bool) -> None:
    store = started()
    store.bind(role, "user:somebody", name="test")
    resource, subresource = _split(plural)
    asked = Attributes(Identity("somebody"), verb, group, "v1", resource, subresource, "team")
    assert Rbac(store).decide(asked).allowed is expected


# --- bringing them to the store


def test_a_second_start_changes_nothing() -> None:
    store = started()
    assert bring_defaults(store, NOW) == []


def test_what_was_taken_is_restored_and_what_was_added_is_kept() -> None:
    store = started()
    key = Key(CLUSTER_ROLES, "", "system:basic-user")
    role = store.head(key).load()  # type: ignore[union-attr]  # it is there
    own = {"verbs": ["get"], "apiGroups": [""], "resources": ["widgets"]}
    store.put(key, {**role, "rules": [role["rules"][0], own], "metadata": {"name": key.name, "uid": "u"}})
    bring_defaults(store, NOW)
    restored = store.head(key).load()  # type: ignore[union-attr]  # it is there
    assert own in restored["rules"]
    assert restored["metadata"]["uid"] == "u"
    assert restored["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults"}
    asked = Attributes(
        Identity("x", ("system:authenticated",)),
        "create",
        "authentication.k8s.io",
        "v1",
        "selfsubjectreviews",
    )
    assert Rbac(store).decide(asked).allowed


def test_subjects_taken_from_a_binding_are_restored_and_added_ones_kept() -> None:
    store = started()
    binding = store.bind("cluster-admin", "user:anna", name="cluster-admin")
    bring_defaults(store, NOW)
    subjects = store.head(binding.key).load()["subjects"]  # type: ignore[union-attr]  # it is there
    assert subjects == [subject("user:anna"), subject("group:system:masters")]


def test_a_binding_to_another_role_is_made_anew() -> None:
    store = started()
    binding = store.bind("edit", "user:anna", name="system:discovery")
    bring_defaults(store, NOW)
    made = store.head(binding.key).load()  # type: ignore[union-attr]  # it is there
    assert made["roleRef"]["name"] == "system:discovery"
    assert made["subjects"] == [subject("group:system:authenticated")]


def test_who_does_not_want_to_be_brought_back_is_left_alone() -> None:
    store = MemoryStore()
    key = Key(CLUSTER_ROLES, "", "view")
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
    own = {"metadata": {"name": "view", "annotations": annotations}, "rules": []}
    store.put(key, dict(own))
    bring_defaults(store, NOW)
    assert store.head(key).load()["rules"] == []  # type: ignore[union-attr]  # it is there


def test_every_default_is_a_whole_object() -> None:
    for key, obj in defaults():
        assert obj["metadata"]["name"] == key.name
        assert obj["metadata"].get("namespace", "") == key.namespace
        assert obj["apiVersion"] == "rbac.authorization.k8s.io/v1"
        for one in obj.get("rules", ()):
            assert one["verbs"]
            assert ("resources" in one and "apiGroups" in one) != ("nonResourceURLs" in one)


def test_the_stored_rules_of_an_aggregated_role_are_those_it_has() -> None:
    store = started()
    rbac = Rbac(store)
    for name in ("admin", "edit", "view"):
        stored = store.head(Key(CLUSTER_ROLES, "", name)).load()["rules"]  # type: ignore[union-attr]  # it is there
        effective = [one.to_json() for one in rbac.role_rules("ClusterRole", name, "") or ()]
        assert sorted(map(str, stored)) == sorted(map(str, effective))


def test_the_authority_of_client_certificates_is_published() -> None:
    store, key = MemoryStore(), Key("configmaps", "kube-system", "extension-apiserver-authentication")
    bring_defaults(store, NOW, b"PEM")
    assert store.head(key).load()["data"] == {"client-ca-file": "PEM"}  # type: ignore[union-attr]  # it is there
    assert bring_defaults(store, NOW, b"PEM") == []
    assert len(bring_defaults(store, NOW, b"another")) == 1
