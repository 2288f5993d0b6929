"""One growing integer for the whole server: every write takes the next, nothing else does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.plain import claim, configmap, deployment, lease, node, pod
from tests.contract.api import JSON, MERGE, STRATEGIC, Api


def version(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


def test_every_write_takes_a_greater_one(api: Api, configmaps: str) -> None:
    first = api.post(configmaps, configmap("a")).must(201)
    second = api.post(configmaps, configmap("b")).must(201)
    third = api.patch(f"{configmaps}/a", {"data": {"k": "v"}}).must()
    assert version(first) < version(second) < version(third)


def test_all_kinds_share_it(api: Api, namespace: str, configmaps: str, fresh: str) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    seen = [
        version(api.post(configmaps, configmap("a")).must(201)),
        version(api.post(leases, lease("a")).must(201)),
        version(api.post("/api/v1/nodes", node(fresh)).must(201)),
        version(api.patch(f"{configmaps}/a", {"data": {"k": "v"}}).must()),
    ]
    assert seen == sorted(set(seen))


def test_an_update_that_changes_nothing_keeps_it(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, configmap("a", k="v")).must(201)
    again = api.put(f"{configmaps}/a", made).must(200)
    assert again == made


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        pytest.param(MERGE, {"data": {"k": "v"}}, id="merge"),
        pytest.param(STRATEGIC, {"data": {"k": "v"}}, id="strategic"),
        pytest.param(JSON, [{"op": "replace", "path": "/data/k", "value": "v"}], id="json"),
        pytest.param(MERGE, {}, id="empty"),
    ],
)
def test_a_patch_that_changes_nothing_keeps_it(api: Api, configmaps: str, kind: str, patch: Any) -> None:
    made = api.post(configmaps, configmap("a", k="v")).must(201)
    assert api.patch(f"{configmaps}/a", patch, kind).must(200) == made


def test_a_list_carries_its_snapshots(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, configmap("a")).must(201)
    listed = api.get(configmaps).must()
    assert int(listed["metadata"]["resourceVersion"]) >= version(made)
    assert [
        item["metadata"]["resourceVersion"] for item in listed["items"] if item["metadata"]["name"] == "a"
    ] == [made["metadata"]["resourceVersion"]]


def test_an_empty_list_carries_one_too(api: Api, configmaps: str) -> None:
    listed = api.get(f"{configmaps}?labelSelector=no=such").must()
    assert listed["items"] == []
    assert int(listed["metadata"]["resourceVersion"]) > 0


def test_a_delete_event_carries_the_deletions(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, configmap("a", k="v")).must(201)
    api.delete(f"{configmaps}/a").must()
    with api.watch(f"{configmaps}?resourceVersion={made['metadata']['resourceVersion']}") as events:
        event = next(events)
    assert event["type"] == "DELETED"
    assert version(event["object"]) > version(made)
    assert event["object"]["data"] == {"k": "v"}


def test_a_status_write_takes_one(api: Api, claims: str) -> None:
    made = api.post(claims, claim("a")).must(201)
    status = {"status": {"devices": []}, "metadata": {"labels": {"x": "y"}}}
    unchanged = api.patch(f"{claims}/a/status", status).must()
    assert version(unchanged) >= version(made)


def test_a_dry_run_takes_none(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, configmap("a")).must(201)
    api.patch(f"{configmaps}/a?dryRun=All", {"data": {"k": "v"}}).must()
    assert api.get(f"{configmaps}/a").must() == made


def test_a_get_of_what_is_yet_to_come_says_so(api: Api, configmaps: str) -> None:
    reply = api.get(f"{configmaps}?resourceVersion=999999999&resourceVersionMatch=NotOlderThan")
    assert (reply.status, reply.reason) == (504, "Timeout")
    assert reply.message.startswith("Timeout: Too large resource version: 999999999, current: ")
    assert reply.causes == [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    assert reply.json["details"]["retryAfterSeconds"] == 1


def test_what_is_no_number_is_refused(api: Api, configmaps: str) -> None:
    reply = api.get(f"{configmaps}?resourceVersion=abc")
    assert reply.status == 400
    assert (
        reply.message
        == 'invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'
    )


def workload(name: str) -> Any:
    group = {"name": "g", "schedulingPolicy": {"basic": {}}}
    return {"metadata": {"name": name}, "spec": {"podGroupTemplates": [group]}}


def budget(name: str) -> Any:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "minAvailable": 1}}


def csi_node(name: str) -> Any:
    return {"metadata": {"name": name}, "spec": {"drivers": []}}


def csi_driver(name: str) -> Any:
    return {"metadata": {"name": name}, "spec": {"attachRequired": False}}


def capacity(name: str) -> Any:
    return {"metadata": {"name": name}, "storageClassName": "s"}


def attachment(name: str) -> Any:
    spec = {"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("version", ["0", "", "00", None])
@pytest.mark.parametrize(
    ("path", "made", "status"),
    [
        pytest.param("/api/v1/namespaces/{}/configmaps", configmap, 200, id="configmaps"),
        pytest.param("/api/v1/namespaces/{}/pods", pod, 200, id="pods"),
        pytest.param("/apis/apps/v1/namespaces/{}/deployments", deployment, 200, id="deployments"),
        pytest.param("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims", claim, 200, id="resourceclaims"),
        pytest.param("/apis/coordination.k8s.io/v1/namespaces/{}/leases", lease, 422, id="leases"),
        pytest.param("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", budget, 422, id="budgets"),
        pytest.param("/apis/storage.k8s.io/v1/csinodes", csi_node, 422, id="csinodes"),
        pytest.param("/apis/storage.k8s.io/v1/csidrivers", csi_driver, 422, id="csidrivers"),
        pytest.param("/apis/storage.k8s.io/v1/namespaces/{}/csistoragecapacities", capacity, 422, id="capacities"),
        pytest.param("/apis/storage.k8s.io/v1/volumeattachments", attachment, 422, id="attachments"),
    ],
)  # fmt: skip
def test_a_write_may_leave_it_open_where_the_kind_allows(
    api: Api, namespace: str, path: str, made: Any, status: int, version: str | None
) -> None:
    """Zero and nothing are the same: whatever there is, is replaced. Some kinds insist on a version."""
    path = path.format(namespace)
    name = namespace  # of what is in no namespace, too
    sent = api.post(path, made(name)).must(201)
    wanted = {**sent, "metadata": {**sent["metadata"], "labels": {"x": "y"}, "resourceVersion": version}}
    if version is None:
        del wanted["metadata"]["resourceVersion"]
    reply = api.put(f"{path}/{name}", wanted)
    api.delete(f"{path}/{name}").must(200)
    assert reply.status == status
    if status == 422:
        assert "metadata.resourceVersion: Invalid value" in reply.message
        assert "must be specified for an update" in reply.message


@pytest.mark.parametrize("version", ["0", "", None])
@pytest.mark.parametrize(("kind", "status"), [("configmaps", 200), ("leases", 422)])
def test_a_patch_may_leave_it_open_too(
    api: Api, namespace: str, kind: str, status: int, version: str | None
) -> None:
    if kind == "configmaps":
        path, made = f"/api/v1/namespaces/{namespace}/configmaps", configmap("a")
    else:
        path, made = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease("a")
    api.post(path, made).must(201)
    reply = api.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}, "resourceVersion": version}})
    assert reply.status == status


def test_what_is_created_may_say_zero(api: Api, configmaps: str) -> None:
    zero = configmap("a")
    zero["metadata"]["resourceVersion"] = "0"
    api.post(configmaps, zero).must(201)
