"""What kubectl get shows: columns and cells, decided by the server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.plain import (
    claim,
    configmap,
    deployment,
    device_class,
    lease,
    node,
    pod,
    resource_slice,
)
from tests.contract.api import Api
from tests.contract.conftest import Allocated

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}

COLUMNS = {
    "/api/v1/configmaps": "Name Data Age",
    "/api/v1/pods": "Name Ready Status Restarts Age IP* Node* Nominated-Node* Readiness-Gates*",
    "/api/v1/nodes": "Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version* Container-Runtime*",
    "/api/v1/namespaces": "Name Status Age",
    "/api/v1/secrets": "Name Type Data Age",
    "/api/v1/serviceaccounts": "Name Age",
    "/api/v1/events": "Last-Seen Type Reason Object Subobject* Source* Message First-Seen* Count* Name*",
    "/apis/events.k8s.io/v1/events": "Last-Seen Type Reason Object Subobject* Source* Message First-Seen* Count* Name*",
    "/api/v1/resourcequotas": "Name Request Limit Age",
    "/apis/apps/v1/deployments": "Name Ready Up-to-date Available Age Containers* Images* Selector*",
    "/apis/apps/v1/replicasets": "Name Desired Current Ready Age Containers* Images* Selector*",
    "/apis/batch/v1/jobs": "Name Status Completions Duration Age Containers* Images* Selector*",
    "/apis/coordination.k8s.io/v1/leases": "Name Holder Age",
    "/apis/networking.k8s.io/v1/ingresses": "Name Class Hosts Address Ports Age",
    "/apis/policy/v1/poddisruptionbudgets": "Name Min-Available Max-Unavailable Allowed-Disruptions Age",
    "/apis/scheduling.k8s.io/v1/priorityclasses": "Name Value Global-Default Age PreemptionPolicy",
    "/apis/scheduling.k8s.io/v1beta1/podgroups": "Name Policy Workload Status Age",
    "/apis/scheduling.k8s.io/v1beta1/workloads": "Name Age",
    "/apis/resource.k8s.io/v1/resourceclaims": "Name State Age",
    "/apis/resource.k8s.io/v1/resourceslices": "Name Node Driver Pool Age",
    "/apis/resource.k8s.io/v1/deviceclasses": "Name Age",
    "/apis/resource.k8s.io/v1/devicetaintrules": "Name Key Value Effect TimeAdded Age",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates": "Name Age",
    "/apis/rbac.authorization.k8s.io/v1/roles": "Name Created-At",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings": "Name Role Age Users* Groups* ServiceAccounts*",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": "Name Created-At",
}


@pytest.mark.parametrize("path", COLUMNS)
def test_columns(api: Api, path: str) -> None:
    """A star marks what only -o wide shows."""
    told = api.get(f"{path}?limit=1", headers=TABLE).must()
    assert (told["kind"], told["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    shown = [
        column["name"].replace(" ", "-") + ("*" if column["priority"] else "")
        for column in told["columnDefinitions"]
    ]
    assert " ".join(shown) == COLUMNS[path]


def cells(api: Api, path: str) -> dict[str, Any]:
    told = api.get(path, headers=TABLE).must()
    (row,) = told["rows"]
    return {
        column["name"]: cell for column, cell in zip(told["columnDefinitions"], row["cells"], strict=True)
    }


def subset(expected: dict[str, Any], found: dict[str, Any]) -> None:
    assert {key: found[key] for key in expected} == expected


def test_rows_carry_metadata_only(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, configmap("a", k="v")).must(201)
    (row,) = api.get(f"{configmaps}?fieldSelector=metadata.name=a", headers=TABLE).must()["rows"]
    assert (row["object"]["kind"], row["object"]["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert row["object"]["metadata"]["uid"] == made["metadata"]["uid"]
    assert "data" not in row["object"]


@pytest.mark.parametrize(
    ("include", "kind"), [("None", None), ("Object", "ConfigMap"), ("Metadata", "PartialObjectMetadata")]
)
def test_rows_carry_what_is_asked(api: Api, configmaps: str, include: str, kind: str | None) -> None:
    api.post(configmaps, configmap("a", k="v")).must(201)
    (row,) = api.get(f"{configmaps}/a?includeObject={include}", headers=TABLE).must()["rows"]
    assert (row.get("object") or {}).get("kind") == kind


def test_a_table_of_one_object(api: Api, configmaps: str) -> None:
    made = api.post(configmaps, configmap("a", k="v", l="w")).must(201)
    told = api.get(f"{configmaps}/a", headers=TABLE).must()
    assert told["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert told["rows"][0]["cells"][:2] == ["a", 2]


def test_pages_of_a_table(api: Api, claims: str) -> None:
    for name in ("a", "b", "c"):
        api.post(claims, claim(name)).must(201)
    told = api.get(f"{claims}?limit=2", headers=TABLE).must()
    assert len(told["rows"]) == 2
    assert told["metadata"]["continue"]
    assert told["metadata"]["remainingItemCount"] == 1


def test_cells_of_a_pod(api: Api, pods: str) -> None:
    api.post(pods, pod("a", nodeName="n1")).must(201)
    subset(
        {"Name": "a", "Ready": "0/1", "Status": "Pending", "Restarts": "0", "IP": "<none>", "Node": "n1"},
        cells(api, f"{pods}/a"),
    )
    api.delete(f"{pods}/a").must(200)
    assert cells(api, f"{pods}/a")["Status"] == "Terminating"


def test_cells_of_a_claim(api: Api, claims: str, allocated: Allocated) -> None:
    api.post(claims, claim("a")).must(201)
    assert cells(api, f"{claims}/a")["State"] == "pending"
    api.patch(f"{claims}/a/status", {"status": allocated()}).must()
    reserved = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    api.patch(f"{claims}/a/status", {"status": reserved}).must()
    assert cells(api, f"{claims}/a")["State"] == "allocated,reserved"
    api.patch(f"{claims}/a", {"metadata": {"finalizers": ["a.io/x"]}}).must()
    api.delete(f"{claims}/a").must()
    assert cells(api, f"{claims}/a")["State"] == "deleted,allocated,reserved"


def test_cells_of_a_slice(api: Api, fresh: str) -> None:
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    api.post(slices, resource_slice(fresh, "n1")).must(201)
    subset(
        {"Name": fresh, "Node": "n1", "Driver": "gpu.example.com", "Pool": fresh},
        cells(api, f"{slices}/{fresh}"),
    )


def test_cells_of_a_class(api: Api, fresh: str) -> None:
    classes = "/apis/resource.k8s.io/v1/deviceclasses"
    api.post(classes, device_class(fresh)).must(201)
    assert cells(api, f"{classes}/{fresh}")["Name"] == fresh


def test_cells_of_a_node(api: Api, fresh: str) -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    made = node(fresh, conditions=conditions, nodeInfo={"kubeletVersion": "v1.37.0"})
    made["metadata"]["labels"] = {"node-role.kubernetes.io/worker": ""}
    api.post("/api/v1/nodes", made).must(201)
    path = f"/api/v1/nodes/{fresh}"
    subset(
        {"Status": "Ready", "Roles": "worker", "Version": "v1.37.0", "Internal-IP": "<none>"},
        cells(api, path),
    )
    api.patch(path, {"spec": {"unschedulable": True}}).must()
    assert cells(api, path)["Status"] == "Ready,SchedulingDisabled"


def test_cells_of_a_deployment(api: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    api.post(path, deployment("a", 3)).must(201)
    expected = {"Ready": "0/3", "Up-to-date": 0, "Available": 0, "Containers": "main", "Selector": "app=a"}
    subset(expected, cells(api, f"{path}/a"))


def test_cells_of_a_lease(api: Api, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    api.post(path, lease("a", "someone")).must(201)
    assert cells(api, f"{path}/a")["Holder"] == "someone"


def test_only_metadata(api: Api, configmaps: str) -> None:
    api.post(configmaps, configmap("a", k="v")).must(201)
    one = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
    told = api.get(f"{configmaps}/a", headers=one).must()
    assert (told["kind"], told["apiVersion"], told["metadata"]["name"]) == (
        "PartialObjectMetadata",
        "meta.k8s.io/v1",
        "a",
    )
    assert "data" not in told
    many = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    listed = api.get(configmaps, headers=many).must()
    assert listed["kind"] == "PartialObjectMetadataList"
    assert all(item["kind"] == "PartialObjectMetadata" for item in listed["items"])


def test_what_it_cannot_be_shown_as(api: Api, configmaps: str) -> None:
    reply = api.get(configmaps, headers={"Accept": "application/json;as=Nope;v=v1;g=meta.k8s.io"})
    assert (reply.status, reply.reason) == (406, "NotAcceptable")
