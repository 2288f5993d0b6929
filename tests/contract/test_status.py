"""/status changes the status only, the main resource everything else."""

from __future__ import annotations

from tests.builders.plain import claim, configmap, deployment, node, pod
from tests.contract.api import Api
from tests.contract.conftest import Allocated


def test_a_claim_drops_the_status_it_is_created_with(api: Api, claims: str, allocated: Allocated) -> None:
    made = api.post(claims, {**claim("a"), "status": allocated()}).must(201)
    assert made["status"] == {}


def test_a_node_keeps_it(api: Api, fresh: str) -> None:
    made = api.post("/api/v1/nodes", node(fresh, capacity={"cpu": "4"})).must(201)
    assert made["status"]["capacity"] == {"cpu": "4"}


def test_a_pod_starts_pending(api: Api, pods: str) -> None:
    made = api.post(pods, {**pod("a"), "status": {"phase": "Running"}}).must(201)
    assert (made["status"]["phase"], made["status"]["qosClass"]) == ("Pending", "BestEffort")


def test_a_deployment_drops_it(api: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    assert api.post(path, {**deployment("a"), "status": {"replicas": 3}}).must(201)["status"] == {}


def test_the_main_resource_leaves_it(api: Api, claims: str, allocated: Allocated) -> None:
    api.post(claims, claim("a")).must(201)
    held = api.patch(f"{claims}/a/status", {"status": allocated()}).must()
    changed = api.put(
        f"{claims}/a", {**held, "status": {}, "metadata": {**held["metadata"], "labels": {"x": "y"}}}
    )
    assert changed.must()["status"] == allocated()
    assert changed.must()["metadata"]["labels"] == {"x": "y"}


def test_status_leaves_everything_else(api: Api, claims: str, allocated: Allocated) -> None:
    made = api.post(claims, claim("a")).must(201)
    spec = claim("a", "other.example.com")["spec"]
    meta = {**made["metadata"], "labels": {"x": "y"}, "annotations": {"x": "y"}, "finalizers": ["a.io/x"]}
    changed = api.put(
        f"{claims}/a/status", {**made, "metadata": meta, "spec": spec, "status": allocated()}
    ).must()
    assert changed["spec"] == made["spec"]
    assert changed["status"] == allocated()
    assert not {"labels", "annotations", "finalizers"} & set(changed["metadata"])


def test_status_of_a_pod_leaves_the_spec(api: Api, pods: str) -> None:
    made = api.post(pods, pod("a")).must(201)
    patch = {"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    changed = api.patch(f"{pods}/a/status", patch).must()
    assert changed["spec"] == made["spec"]
    assert changed["status"]["phase"] == "Running"


def test_status_can_be_read(api: Api, claims: str) -> None:
    made = api.post(claims, claim("a")).must(201)
    assert api.get(f"{claims}/a/status").must() == made


def test_kinds_without_one_have_no_such_path(api: Api, configmaps: str) -> None:
    api.post(configmaps, configmap("a")).must(201)
    reply = api.get(f"{configmaps}/a/status")
    assert (reply.status, reply.message) == (404, "the server could not find the requested resource")


def test_a_stale_status_is_a_conflict(api: Api, claims: str, allocated: Allocated) -> None:
    made = api.post(claims, claim("a")).must(201)
    api.patch(f"{claims}/a/status", {"status": allocated()}).must()
    reply = api.put(f"{claims}/a/status", {**made, "status": allocated("gpu-1")})
    assert (reply.status, reply.reason) == (409, "Conflict")


def test_a_claims_spec_is_immutable(api: Api, claims: str) -> None:
    made = api.post(claims, claim("a")).must(201)
    reply = api.put(f"{claims}/a", {**made, "spec": claim("a", "other.example.com")["spec"]})
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.message == (
        'ResourceClaim.resource.k8s.io "a" is invalid: spec: Invalid value: null: field is immutable'
    )
    assert reply.causes == [
        {"reason": "FieldValueInvalid", "message": "Invalid value: null: field is immutable", "field": "spec"}
    ]


def test_an_allocation_is_immutable_while_it_is_there(api: Api, claims: str, allocated: Allocated) -> None:
    api.post(claims, claim("a")).must(201)
    api.patch(f"{claims}/a/status", {"status": allocated("gpu-0")}).must()
    reply = api.patch(f"{claims}/a/status", {"status": allocated("gpu-1")})
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.message == (
        'ResourceClaim.resource.k8s.io "a" is invalid: status.allocation: Invalid value: null: field cannot be modified once set'
    )


def test_a_reservation_needs_an_allocation(api: Api, claims: str) -> None:
    api.post(claims, claim("a")).must(201)
    reserved = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    reply = api.patch(f"{claims}/a/status", {"status": reserved})
    assert (reply.status, reply.message) == (
        422,
        'ResourceClaim.resource.k8s.io "a" is invalid: status.reservedFor: Forbidden: may not be specified when `allocated` is not set',
    )


def test_an_allocation_names_requests_of_the_claim(api: Api, claims: str, allocated: Allocated) -> None:
    api.post(claims, claim("a")).must(201)
    status = allocated()
    status["allocation"]["devices"]["results"][0]["request"] = "absent"
    reply = api.patch(f"{claims}/a/status", {"status": status})
    assert (reply.status, reply.message) == (
        422,
        'ResourceClaim.resource.k8s.io "a" is invalid: status.allocation.devices.results[0].request: Invalid value: "absent": must be the name of a request in the claim or the name of a request and a subrequest separated by \'/\''
        + api.unlike(kubernetes="", ours="; there is gpu"),
    )


def test_an_allocated_claim_cannot_be_unallocated_while_reserved(
    api: Api, claims: str, allocated: Allocated
) -> None:
    api.post(claims, claim("a")).must(201)
    reserved = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    api.patch(f"{claims}/a/status", {"status": {**allocated(), **reserved}}).must()
    reply = api.patch(f"{claims}/a/status", {"status": {"allocation": None}})
    assert (reply.status, reply.reason) == (422, "Invalid")
    freed = api.patch(f"{claims}/a/status", {"status": {"allocation": None, "reservedFor": None}}).must()
    assert freed["status"] == {}


def test_a_claim_is_reserved_once_for_each_consumer(api: Api, claims: str, allocated: Allocated) -> None:
    api.post(claims, claim("a")).must(201)
    twice = [{"resource": "pods", "name": name, "uid": "u"} for name in ("p", "q")]
    reply = api.patch(f"{claims}/a/status", {"status": {**allocated(), "reservedFor": twice}})
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert [cause["field"] for cause in reply.causes] == ["status.reservedFor[1]"]
    assert reply.causes[0]["reason"] == "FieldValueDuplicate"


def test_a_device_is_promised_once(api: Api, claims: str, allocated: Allocated) -> None:
    for name in ("a", "b"):
        api.post(claims, claim(name)).must(201)
    api.patch(f"{claims}/a/status", {"status": allocated("gpu-0")}).must(200)
    reply = api.patch(f"{claims}/b/status", {"status": allocated("gpu-0")})
    assert reply.status == api.unlike(kubernetes=200, ours=409)  # upstream leaves this to its one scheduler
