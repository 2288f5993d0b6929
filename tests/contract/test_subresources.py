"""What is posted to an object and does something: binding, eviction, token, scale, ephemeral views."""

from __future__ import annotations

from typing import Any

from tests.builders.plain import deployment, pod
from tests.contract.api import Api, Token


def binding(name: str, to: str, **meta: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **meta},
        "target": {"kind": "Node", "name": to},
    }


def test_binding_sets_the_node_and_the_condition(api: Api, pods: str) -> None:
    api.post(pods, pod("a")).must(201)
    reply = api.post(f"{pods}/a/binding", binding("a", "n1"))
    assert reply.must(201) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }
    bound = api.get(f"{pods}/a").must()
    assert bound["spec"]["nodeName"] == "n1"
    scheduled = [(each["type"], each["status"]) for each in bound["status"]["conditions"]]
    assert scheduled == [("PodScheduled", "True")]


def test_binding_twice_is_a_conflict(api: Api, pods: str) -> None:
    api.post(pods, pod("a")).must(201)
    api.post(f"{pods}/a/binding", binding("a", "n1")).must(201)
    reply = api.post(f"{pods}/a/binding", binding("a", "n2"))
    assert (reply.status, reply.reason) == (409, "Conflict")
    assert reply.message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    )
    assert reply.json["details"] == {"name": "a", "kind": "pods/binding"}


def test_binding_another_uid_is_a_conflict(api: Api, pods: str) -> None:
    api.post(pods, pod("a")).must(201)
    reply = api.post(f"{pods}/a/binding", binding("a", "n1", uid="other"))
    assert (reply.status, reply.reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: other, UID in object meta: " in reply.message


def test_binding_carries_annotations_and_labels(api: Api, pods: str) -> None:
    api.post(pods, pod("a")).must(201)
    sent = binding("a", "n1")
    sent["metadata"]["annotations"] = {"x.io/y": "z"}
    api.post(f"{pods}/a/binding", sent).must(201)
    assert api.get(f"{pods}/a").must()["metadata"]["annotations"] == {"x.io/y": "z"}


def test_binding_needs_a_node(api: Api, pods: str) -> None:
    api.post(pods, pod("a")).must(201)
    reply = api.post(f"{pods}/a/binding", binding("a", ""))
    assert (reply.status, reply.message) == (500, "target.name: Required value")


def test_binding_of_another_name(api: Api, pods: str) -> None:
    reply = api.post(f"{pods}/a/binding", binding("b", "n1"))
    assert (reply.status, reply.message) == (400, "name in URL does not match name in Binding object")


def test_binding_of_no_pod(api: Api, pods: str) -> None:
    reply = api.post(f"{pods}/a/binding", binding("a", "n1"))
    assert (reply.status, reply.reason, reply.message) == (404, "NotFound", 'pods "a" not found')


def test_a_binding_cannot_be_read(api: Api, pods: str) -> None:
    api.post(pods, pod("a")).must(201)
    reply = api.get(f"{pods}/a/binding")
    assert (reply.status, reply.reason) == (405, "MethodNotAllowed")
    assert reply.message == "the server does not allow this method on the requested resource"


EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}


def test_eviction_deletes_with_grace(api: Api, pods: str) -> None:
    api.post(pods, pod("a", nodeName="n1")).must(201)
    assert api.post(f"{pods}/a/eviction", EVICTION).must(201)["status"] == "Success"
    assert api.get(f"{pods}/a").must()["metadata"]["deletionGracePeriodSeconds"] == 30


def test_a_disruption_budget_holds_an_eviction(api: Api, namespace: str, pods: str) -> None:
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    api.post(budgets, budget).must(201)
    api.post(pods, pod("a", {"app": "x"}, nodeName="n1")).must(201)
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    api.patch(f"{pods}/a/status", ready).must(200)
    counted = {"observedGeneration": 1, "expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1}
    if api.real:  # a controller counts
        with api.watch(f"{budgets}?fieldSelector=metadata.name=b") as events:
            events.until(lambda event: counted.items() <= event["object"]["status"].items())
    else:  # nobody else does
        api.patch(f"{budgets}/b/status", {"status": {**counted, "disruptionsAllowed": 0}}).must(200)
    reply = api.post(f"{pods}/a/eviction", EVICTION)
    assert (reply.status, reply.reason) == (429, "TooManyRequests")
    assert reply.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert reply.causes == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
        }
    ]


def test_a_token_of_a_service_account_is_its_identity(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    spec = {"expirationSeconds": 600}
    made = api.post(
        path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    ).must(201)
    assert made["kind"] == "TokenRequest"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    who = Token(made["status"]["token"])
    told = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review, who=who).must(201)
    assert told["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"
    assert told["status"]["userInfo"]["groups"] == [
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    ]


def test_a_token_lasts_ten_minutes_at_least(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    reply = api.post(path, {"spec": {"expirationSeconds": 60}})
    assert (reply.status, reply.message) == (
        422,
        'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes',
    )


def test_scale_is_a_view_of_the_replicas(api: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    api.post(path, deployment("a", replicas=2)).must(201)
    scale = api.get(f"{path}/a/scale").must()
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "app=a"})
    assert api.patch(f"{path}/a/scale", {"spec": {"replicas": 4}}).must(200)["spec"] == {"replicas": 4}
    changed = {**api.get(f"{path}/a/scale").must(), "spec": {"replicas": 5}}
    assert api.put(f"{path}/a/scale", changed).must(200)["spec"] == {"replicas": 5}
    after = api.get(f"{path}/a").must()
    assert (after["spec"]["replicas"], after["metadata"]["generation"]) == (5, 3)


def test_scale_below_nothing(api: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    api.post(path, deployment("a")).must(201)
    reply = api.patch(f"{path}/a/scale", {"spec": {"replicas": -4}})
    assert (reply.status, reply.message) == (
        422,
        'Scale.autoscaling "a" is invalid: spec.replicas: Invalid value: -4: must be greater than or equal to 0',
    )
