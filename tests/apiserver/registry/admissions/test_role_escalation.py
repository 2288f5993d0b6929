"""Nobody grants what they do not have."""

from __future__ import annotations

import pytest

from allotment.api.status import Forbidden, NotFound
from allotment.apiserver.auth.authorization import Authorization
from allotment.apiserver.auth.bootstrap import bring_defaults
from allotment.apiserver.auth.identity import ADMINISTRATOR, Identity
from allotment.apiserver.auth.rbac import GROUP
from allotment.apiserver.registry.admission import Admissions
from allotment.apiserver.registry.admissions.role_escalation import RoleEscalation
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Obj
from tests.apiserver.auth.memory import MemoryStore, paths, rule

ANNA = Identity("anna", ("devs", "system:authenticated"))
NOW = "2026-01-02T03:04:05Z"


def kind(name: str, namespaced: bool) -> Resource:
    return Resource(GROUP, "v1", name, f"{name.lower()}s", namespaced)


ROLES, CLUSTER_ROLES = kind("Role", True), kind("ClusterRole", False)
ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = kind("RoleBinding", True), kind("ClusterRoleBinding", False)


class Scene:
    """Anna may read pods and list paths below /a, everywhere; the default roles are there."""

    def __init__(self, *more: dict[str, list[str]]) -> None:
        self.store = MemoryStore()
        bring_defaults(self.store, NOW)
        self.store.role("annas", rule(["get", "list"], ["pods"]), paths(["get"], "/a/*"), *more)
        self.store.bind("annas", "user:anna")
        self.check = RoleEscalation(Authorization(self.store))

    def write(self, resource: Resource, obj: Obj, old: Obj | None = None, identity: Identity = ANNA) -> None:
        operation = Operation.CREATE if old is None else Operation.UPDATE
        self.check.admit(resource, obj, old, Write(operation, identity, NOW))


def role(*rules: dict[str, list[str]], namespace: str = "", aggregates: Obj | None = None) -> Obj:
    place = {"namespace": namespace} if namespace else {}
    more = {"aggregationRule": aggregates} if aggregates is not None else {}
    return {"metadata": {"name": "new", **place}, "rules": list(rules), **more}


def binding(kind: str, name: str, namespace: str = "") -> Obj:
    place = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": "new", **place}, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name}}


def test_what_one_has_one_may_grant() -> None:
    scene = Scene()
    scene.write(CLUSTER_ROLES, role(rule(["get"], ["pods"]), paths(["get"], "/a/b", "/a/*")))
    scene.write(ROLES, role(rule(["list"], ["pods"], names=["x"]), namespace="team"))
    scene.write(CLUSTER_ROLE_BINDINGS, binding("ClusterRole", "annas"))
    scene.write(ROLE_BINDINGS, binding("ClusterRole", "system:basic-user", "team"))


def test_the_refusal_lists_what_is_missing() -> None:
    with pytest.raises(Forbidden) as caught:
        Scene().write(
            CLUSTER_ROLES,
            role(
                rule(["get", "delete", "patch"], ["pods"]), rule(["get"], ["secrets"]), paths(["get"], "/b")
            ),
        )
    assert caught.value.message == (
        'clusterroles.rbac.authorization.k8s.io "new" is forbidden: user "anna" (groups=["devs" "system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete" "patch"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}\n'
        '{NonResourceURLs:["/b"], Verbs:["get"]}'
    )


@pytest.mark.parametrize(
    "wanted",
    [
        rule(["*"], ["pods"]),
        rule(["get"], ["*"]),
        rule(["get"], ["pods"], ["*"]),
        rule(["get"], ["pods/log"]),
        rule(["get"], ["*/log"]),
        paths(["get"], "*"),
        paths(["get"], "/a*"),
        paths(["*"], "/a/b"),
    ],
)
def test_wildcards_are_more_than_what_they_contain(wanted: dict[str, list[str]]) -> None:
    with pytest.raises(Forbidden, match="not currently held"):
        Scene().write(CLUSTER_ROLES, role(wanted))


def test_a_right_to_one_name_is_not_a_right_to_all() -> None:
    scene = Scene(rule(["get"], ["secrets"], names=["x"]))
    scene.write(CLUSTER_ROLES, role(rule(["get"], ["secrets"], names=["x"])))
    for names in ([], ["y"], ["x", "y"]):
        with pytest.raises(Forbidden):
            scene.write(CLUSTER_ROLES, role(rule(["get"], ["secrets"], names=names)))


def test_rights_in_a_namespace_can_be_granted_there_only() -> None:
    scene = Scene()
    scene.store.role("local", rule(["get"], ["secrets"]))
    scene.store.bind("local", "user:anna", namespace="team")
    scene.write(ROLES, role(rule(["get"], ["secrets"]), namespace="team"))
    scene.write(ROLE_BINDINGS, binding("ClusterRole", "local", "team"))
    for resource, obj in (
        (ROLES, role(rule(["get"], ["secrets"]), namespace="other")),
        (CLUSTER_ROLES, role(rule(["get"], ["secrets"]))),
        (ROLE_BINDINGS, binding("ClusterRole", "local", "other")),
        (CLUSTER_ROLE_BINDINGS, binding("ClusterRole", "local")),
    ):
        with pytest.raises(Forbidden):
            scene.write(resource, obj)


def test_binding_a_role_with_more_than_one_has_is_refused() -> None:
    with pytest.raises(
        Forbidden, match=r'clusterrolebindings\.rbac\.authorization\.k8s\.io "new" is forbidden: user "anna"'
    ):
        Scene().write(CLUSTER_ROLE_BINDINGS, binding("ClusterRole", "cluster-admin"))
    with pytest.raises(Forbidden):
        Scene().write(ROLE_BINDINGS, binding("ClusterRole", "admin", "team"))


def test_binding_a_role_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(NotFound, match=r'clusterroles\.rbac\.authorization\.k8s\.io "ghost" not found'):
        Scene().write(CLUSTER_ROLE_BINDINGS, binding("ClusterRole", "ghost"))


def test_the_verb_escalate_allows_any_rules() -> None:
    scene = Scene(rule(["escalate"], ["clusterroles"], [GROUP]))
    scene.write(CLUSTER_ROLES, role(rule(["*"], ["*"], ["*"])))
    with pytest.raises(Forbidden):
        scene.write(ROLES, role(rule(["*"], ["*"], ["*"]), namespace="team"))


def test_the_verb_bind_allows_that_role() -> None:
    scene = Scene(rule(["bind"], ["clusterroles"], [GROUP], ["admin"]))
    scene.write(ROLE_BINDINGS, binding("ClusterRole", "admin", "team"))
    scene.write(CLUSTER_ROLE_BINDINGS, binding("ClusterRole", "admin"))
    with pytest.raises(Forbidden):
        scene.write(CLUSTER_ROLE_BINDINGS, binding("ClusterRole", "cluster-admin"))


SELECTORS = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}


def test_aggregation_takes_everything() -> None:
    with pytest.raises(Forbidden, match="must have cluster-admin privileges to use the aggregationRule"):
        Scene().write(CLUSTER_ROLES, role(aggregates=SELECTORS))
    with pytest.raises(Forbidden, match="cluster-admin privileges"):
        Scene().write(CLUSTER_ROLES, role(rule(["get"], ["pods"])), role(aggregates=SELECTORS))
    scene = Scene(rule(["*"], ["*"], ["*"]), paths(["*"], "*"))
    scene.write(CLUSTER_ROLES, role(aggregates=SELECTORS))


def test_masters_write_what_they_like() -> None:
    Scene().write(CLUSTER_ROLES, role(rule(["*"], ["*"], ["*"])), identity=ADMINISTRATOR)


def test_updates_count_as_writes_of_the_whole() -> None:
    old, new = role(rule(["get"], ["secrets"])), role(rule(["get"], ["secrets"]))
    new["metadata"]["labels"] = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    with pytest.raises(Forbidden):
        Scene().write(CLUSTER_ROLES, new, old)


def test_garbage_collection_is_never_in_the_way() -> None:
    old, new = role(rule(["get"], ["secrets"])), role(rule(["get"], ["secrets"]))
    new["metadata"].update(finalizers=["x"], ownerReferences=[{"name": "y"}])
    Scene().write(CLUSTER_ROLES, new, old)


def test_other_kinds_and_deletions_pass() -> None:
    scene = Scene()
    pods = Resource("", "v1", "Pod", "pods", True)
    Admissions([scene.check]).admit(pods, {"metadata": {}}, None, Write(Operation.CREATE, ANNA, NOW))
    obj = role(rule(["*"], ["*"], ["*"]))
    scene.check.admit(CLUSTER_ROLES, obj, None, Write(Operation.DELETE, ANNA, NOW))
