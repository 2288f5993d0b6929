"""Who may do what: roles and bindings, impersonation, anonymous, nodes, and the reviews that tell."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.plain import binding, claim, configmap, node, resource_slice, role, rule
from tests.contract.api import ANONYMOUS, MERGE, Api, Token, User
from tests.contract.conftest import Allocated

ALICE = User("alice", ("dev",))
ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def rbac(namespace: str) -> str:
    return f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"


def grant(api: Api, namespace: str, user: str, *rules: dict[str, Any]) -> None:
    """Lets a user do something in a namespace, and waits until the server knows: its authorizer may be a moment behind."""
    path = rbac(namespace)
    name = f"r-{user}"
    api.post(f"{path}/roles", role(name, *rules)).must(201)
    api.post(f"{path}/rolebindings", binding(name, name, user)).must(201)
    asked = {
        "verb": rules[-1]["verbs"][0],
        "group": rules[-1]["apiGroups"][0],
        "resource": rules[-1]["resources"][0],
        "namespace": namespace,
    }
    attributes = {"spec": {"resourceAttributes": asked}}
    api.eventually(
        lambda: api.post(ACCESS, attributes, who=User(user)).must(201)["status"]["allowed"] or None,
        "the grant",
    )


REFUSED = {
    "list": ("GET", "/api/v1/namespaces/{}/configmaps", 'configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" in the namespace "{}"'),
    "get": ("GET", "/api/v1/namespaces/{}/configmaps/x", 'configmaps "x" is forbidden: User "alice" cannot get resource "configmaps" in API group "" in the namespace "{}"'),
    "watch": ("GET", "/api/v1/namespaces/{}/configmaps?watch=true", 'configmaps is forbidden: User "alice" cannot watch resource "configmaps" in API group "" in the namespace "{}"'),
    "create": ("POST", "/api/v1/namespaces/{}/configmaps", 'configmaps is forbidden: User "alice" cannot create resource "configmaps" in API group "" in the namespace "{}"'),
    "update": ("PUT", "/api/v1/namespaces/{}/configmaps/x", 'configmaps "x" is forbidden: User "alice" cannot update resource "configmaps" in API group "" in the namespace "{}"'),
    "patch": ("PATCH", "/api/v1/namespaces/{}/configmaps/x", 'configmaps "x" is forbidden: User "alice" cannot patch resource "configmaps" in API group "" in the namespace "{}"'),
    "delete": ("DELETE", "/api/v1/namespaces/{}/configmaps/x", 'configmaps "x" is forbidden: User "alice" cannot delete resource "configmaps" in API group "" in the namespace "{}"'),
    "delete a collection": ("DELETE", "/api/v1/namespaces/{}/configmaps", 'configmaps is forbidden: User "alice" cannot deletecollection resource "configmaps" in API group "" in the namespace "{}"'),
    "of the cluster": ("GET", "/api/v1/nodes", 'nodes is forbidden: User "alice" cannot list resource "nodes" in API group "" at the cluster scope'),
    "in a group": ("GET", "/apis/resource.k8s.io/v1/resourceclaims", 'resourceclaims.resource.k8s.io is forbidden: User "alice" cannot list resource "resourceclaims" in API group "resource.k8s.io" at the cluster scope'),
    "a subresource": ("PATCH", "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/x/status", 'resourceclaims.resource.k8s.io "x" is forbidden: User "alice" cannot patch resource "resourceclaims/status" in API group "resource.k8s.io" in the namespace "{}"'),
    "a namespace": ("GET", "/api/v1/namespaces/{}", 'namespaces "{}" is forbidden: User "alice" cannot get resource "namespaces" in API group "" in the namespace "{}"'),
    "a path": ("GET", "/metrics", 'forbidden: User "alice" cannot get path "/metrics"'),
    "a path that is not": ("GET", "/nope", 'forbidden: User "alice" cannot get path "/nope"'),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_granted_is_refused(api: Api, namespace: str, case: str) -> None:
    method, path, message = REFUSED[case]
    headers = {"Content-Type": MERGE} if method == "PATCH" else {}
    body: Any = {} if method in ("POST", "PUT", "PATCH") else None
    reply = api.request(method, path.replace("{}", namespace), body, headers=headers, who=ALICE)
    assert (reply.status, reply.reason, reply.message) == (403, "Forbidden", message.replace("{}", namespace))


def test_refused_before_it_is_looked_at(api: Api, namespace: str) -> None:
    """Whoever may not read learns neither whether it exists nor whether the body was good."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert api.request("POST", path, b"{", who=ALICE).status == 403
    assert api.get("/api/v1/namespaces/absent/configmaps/x", who=ALICE).status == 403


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
def test_anonymous_may_see_whether_the_server_lives(api: Api, path: str) -> None:
    assert api.get(path, who=ANONYMOUS).status == 200


@pytest.mark.parametrize("path", ["/api", "/apis", "/openapi/v3", "/metrics"])
def test_anonymous_may_see_no_more(api: Api, path: str) -> None:
    reply = api.get(path, who=ANONYMOUS)
    assert (reply.status, reply.message) == (
        403,
        f'forbidden: User "system:anonymous" cannot get path "{path}"',
    )


def test_anonymous_may_list_nothing(api: Api, configmaps: str) -> None:
    reply = api.get(configmaps, who=ANONYMOUS)
    assert reply.status == 403
    assert reply.message.startswith('configmaps is forbidden: User "system:anonymous" cannot list')


@pytest.mark.parametrize("path", ["/api", "/apis", "/openapi/v3", "/version", "/apis/resource.k8s.io/v1"])
def test_everyone_who_is_known_may_discover(api: Api, path: str) -> None:
    assert api.get(path, who=ALICE).status == 200


def test_a_wrong_token_is_nobody(api: Api, configmaps: str) -> None:
    reply = api.get(configmaps, who=Token("wrong"))
    assert (reply.status, reply.reason, reply.message) == (401, "Unauthorized", "Unauthorized")


def test_a_role_grants_its_verbs_in_its_namespace(api: Api, namespace: str, configmaps: str) -> None:
    grant(api, namespace, "bob", rule("get,list", "configmaps"))
    assert api.get(configmaps, who=User("bob")).status == 200
    assert api.post(configmaps, configmap("a"), who=User("bob")).status == 403
    assert api.get("/api/v1/namespaces/default/configmaps", who=User("bob")).status == 403
    assert api.get("/api/v1/configmaps", who=User("bob")).status == 403


def test_a_role_can_name_objects(api: Api, namespace: str, configmaps: str) -> None:
    grant(
        api,
        namespace,
        "nora",
        rule("get,list", "configmaps", resourceNames=["mine"]),
        rule("get", "secrets"),
    )
    for name in ("mine", "other"):
        api.post(configmaps, configmap(name)).must(201)
    nora = User("nora")
    assert api.get(f"{configmaps}/mine", who=nora).status == 200
    assert api.get(f"{configmaps}/other", who=nora).status == 403
    assert api.get(configmaps, who=nora).status == 403
    assert api.get(f"{configmaps}?fieldSelector=metadata.name=mine", who=nora).status == 200


def test_nobody_grants_more_than_they_have(api: Api, namespace: str) -> None:
    path = rbac(namespace)
    grant(api, namespace, "eve", rule("create", "roles,rolebindings", "rbac.authorization.k8s.io"))
    reply = api.post(f"{path}/roles", role("more", rule("delete", "secrets")), who=User("eve"))
    assert (reply.status, reply.reason) == (403, "Forbidden")
    assert reply.message == (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "eve" (groups=["system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["secrets"], Verbs:["delete"]}'
    )
    bound = api.post(f"{path}/rolebindings", binding("more", "edit", "eve", "ClusterRole"), who=User("eve"))
    assert bound.status == 403
    assert "is attempting to grant RBAC permissions not currently held:\n" in bound.message


def test_a_bindings_role_stays(api: Api, namespace: str) -> None:
    path = f"{rbac(namespace)}/rolebindings"
    api.post(path, binding("b", "one", "alice")).must(201)
    reply = api.patch(f"{path}/b", {"roleRef": {"name": "two"}})
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.message.startswith(
        'RoleBinding.rbac.authorization.k8s.io "b" is invalid: roleRef: Invalid value: '
    )
    assert reply.message.endswith(": field is immutable")


def test_a_role_without_rules_that_say_something(api: Api, namespace: str) -> None:
    reply = api.post(f"{rbac(namespace)}/roles", role("bad", {"verbs": []}))
    assert (reply.status, reply.message) == (
        422,
        'Role.rbac.authorization.k8s.io "bad" is invalid: [rules[0].apiGroups: Required value: resource rules must supply at least one api group, rules[0].resources: Required value: resource rules must supply at least one resource, rules[0].verbs: Required value]',
    )


def test_who_am_i(api: Api) -> None:
    told = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, who=ALICE).must(201)
    assert told["status"] == {"userInfo": {"username": "alice", "groups": ["dev", "system:authenticated"]}}


@pytest.mark.parametrize(("who", "allowed"), [(None, True), (ALICE, False)])
def test_can_i(api: Api, namespace: str, who: User | None, allowed: bool) -> None:
    asked = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": namespace}}
    told = api.post(ACCESS, {"spec": asked}, who=who).must(201)
    assert told["kind"] == "SelfSubjectAccessReview"
    assert told["status"]["allowed"] is allowed
    assert told["spec"] == asked


def test_can_someone(api: Api, namespace: str) -> None:
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    asked = {"user": "carl", "resourceAttributes": {"verb": "get", "resource": "nodes"}}
    assert api.post(path, {"spec": asked}).must(201)["status"]["allowed"] is False
    assert (
        api.post(path, {"spec": {**asked, "groups": ["system:masters"]}}).must(201)["status"]["allowed"]
        is True
    )
    local = f"/apis/authorization.k8s.io/v1/namespaces/{namespace}/localsubjectaccessreviews"
    asked = {
        "user": "carl",
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": namespace},
    }
    body = {"metadata": {"namespace": namespace}, "spec": asked}
    assert api.post(local, body).must(201)["status"]["allowed"] is False


def test_a_question_about_nothing(api: Api) -> None:
    reply = api.post(ACCESS, {"spec": {}})
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.causes[0]["message"] == (
        "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
    )


def test_what_may_i(api: Api, namespace: str) -> None:
    grant(api, namespace, "rita", rule("get", "pods"))
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    told = api.post(path, {"spec": {"namespace": namespace}}, who=User("rita")).must(201)["status"]
    assert told["incomplete"] is False
    assert {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]} in told["resourceRules"]
    assert any("/healthz" in each["nonResourceURLs"] for each in told["nonResourceRules"])


def test_impersonation_is_granted(api: Api, namespace: str, configmaps: str) -> None:
    token = api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token", {"spec": {}}).must(201)
    who = Token(token["status"]["token"])
    reply = api.request("GET", configmaps, headers={"Impersonate-User": "root"}, who=who)
    assert (reply.status, reply.reason) == (403, "Forbidden")
    account = f"system:serviceaccount:{namespace}:default"
    assert reply.message == (
        f'configmaps is forbidden: User "{account}" cannot impersonate-on:user-info:list resource "configmaps" '
        f'in API group "" in the namespace "{namespace}"'
    )


def test_impersonating_a_group_needs_a_user(api: Api, configmaps: str) -> None:
    reply = api.request("GET", configmaps, headers={"Impersonate-Group": "g"})
    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert reply.message.endswith("without impersonating a user name")


def test_allocations_need_a_permission_of_their_own(
    api: Api, namespace: str, claims: str, allocated: Allocated
) -> None:
    grant(
        api, namespace, "carol", rule("get,patch", "resourceclaims,resourceclaims/status", "resource.k8s.io")
    )
    api.post(claims, claim("a")).must(201)
    reply = api.patch(f"{claims}/a/status", {"status": allocated()}, who=User("carol"))
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert [(cause["reason"], cause["field"]) for cause in reply.causes] == [
        ("FieldValueForbidden", "status.allocation")
    ]
    assert reply.causes[0]["message"] == (
        'Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
        'verb="patch" permission: resourceclaims.resource.k8s.io is forbidden: User "carol" cannot patch resource '
        '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
    )


def test_allocations_with_that_permission(api: Api, claims: str, fresh: str, allocated: Allocated) -> None:
    """Asked for at the cluster scope, whatever the claim's namespace: a scheduler serves them all."""
    path = "/apis/rbac.authorization.k8s.io/v1"
    resources = "resourceclaims,resourceclaims/status,resourceclaims/binding"
    granted = role(fresh, rule("get,patch", resources, "resource.k8s.io"))
    api.post(f"{path}/clusterroles", {**granted, "kind": "ClusterRole"}).must(201)
    bound = binding(fresh, fresh, fresh, "ClusterRole")
    api.post(f"{path}/clusterrolebindings", {**bound, "kind": "ClusterRoleBinding"}).must(201)
    api.post(claims, claim("a")).must(201)
    write = {"status": allocated()}
    api.eventually(
        lambda: api.patch(f"{claims}/a/status", write, who=User(fresh)).status == 200 or None, "the grant"
    )


def test_admin_access_only_where_the_namespace_allows_it(api: Api, namespace: str, claims: str) -> None:
    sent = claim("a", adminAccess=True)
    reply = api.post(claims, sent)
    assert (reply.status, reply.message) == (
        422,
        'ResourceClaim.resource.k8s.io "a" is invalid: spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace',
    )
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    api.patch(f"/api/v1/namespaces/{namespace}", label).must(200)
    assert api.eventually(lambda: api.post(claims, sent).status == 201 or None, "the label counts")


# --- nodes ---


def kubelet(name: str) -> User:
    return User(f"system:node:{name}", ("system:nodes",))


def test_a_node_registers_itself_only(api: Api, fresh: str) -> None:
    api.post("/api/v1/nodes", node(fresh), who=kubelet(fresh)).must(201)
    reply = api.post("/api/v1/nodes", node("other"), who=kubelet(fresh))
    assert (reply.status, reply.message) == (
        403,
        f'nodes "other" is forbidden: node "{fresh}" is not allowed to modify node "other"',
    )


def test_a_node_publishes_its_own_slices_only(api: Api, fresh: str) -> None:
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    api.post("/api/v1/nodes", node(fresh)).must(201)
    api.post(slices, resource_slice(fresh, fresh), who=kubelet(fresh)).must(201)
    reply = api.post(slices, resource_slice("x" + fresh, "other"), who=kubelet(fresh))
    assert (reply.status, reply.message) == (
        403,
        f'resourceslices.resource.k8s.io "x{fresh}" is forbidden: can only create ResourceSlice with the same NodeName as the requesting node',
    )
    assert api.get(f"{slices}?fieldSelector=spec.nodeName={fresh}", who=kubelet(fresh)).status == 200
    reply = api.get(slices, who=kubelet(fresh))
    assert (reply.status, reply.message) == (
        403,
        f'resourceslices.resource.k8s.io is forbidden: User "system:node:{fresh}" cannot list resource "resourceslices" in API group "resource.k8s.io" at the cluster scope: node: can only list/watch/deletecollection resourceslices with nodeName field selector',
    )


def test_a_node_sees_its_own_pods_only(api: Api, fresh: str) -> None:
    assert api.get(f"/api/v1/pods?fieldSelector=spec.nodeName={fresh}", who=kubelet(fresh)).status == 200
    reply = api.get("/api/v1/pods", who=kubelet(fresh))
    assert (reply.status, reply.message) == (
        403,
        f'pods is forbidden: User "system:node:{fresh}" cannot list resource "pods" in API group "" at the cluster scope: node: can only list/watch pods with spec.nodeName field selector',
    )


def test_a_node_does_not_delete_itself(api: Api, fresh: str) -> None:
    api.post("/api/v1/nodes", node(fresh)).must(201)
    reply = api.delete(f"/api/v1/nodes/{fresh}", who=kubelet(fresh))
    assert (reply.status, reply.message) == (
        403,
        f'nodes "{fresh}" is forbidden: User "system:node:{fresh}" cannot delete resource "nodes" in API group "" at the cluster scope',
    )
