"""The real kube-scheduler and kube-controller-manager do their work on our server, and find nothing to complain about.

There is no kubelet: what it would do for a pod (delete it at last) the test does in its place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.plain import claim_template, deployment, device_class, node, pod, resource_slice
from tests.contract.api import Api
from tests.contract.embedded import Embedded
from tests.corpus import unavailable
from tests.kubernetes.components import complaints, components
from tests.kubernetes.control_plane import Absent

pytestmark = pytest.mark.kubernetes

Obj = dict[str, Any]
PATIENCE = 60.0
CLASS = "gpu.example.com"
_numbers = itertools.count(1)
ROOM = {"cpu": "8", "memory": "32Gi", "pods": "110"}


class Cluster:
    """Our server with the real components on it, and one namespace per test."""

    def __init__(self, api: Api, logs: dict[str, Path]) -> None:
        self.api, self.logs = api, logs

    def until(self, path: str, wanted: Callable[[Obj], Any]) -> Obj:
        """The collection at a path, as soon as it is as wanted: it is read anew after each change."""
        while True:
            listed: Obj = self.api.get(path).must(200)
            if wanted(listed):
                return listed
            since = listed["metadata"]["resourceVersion"]
            with self.api.watch(f"{path}?resourceVersion={since}", patience=PATIENCE) as events:
                try:
                    next(events)
                except TimeoutError:
                    logs = "\n".join(f"{name}: {log.read_text()[-3000:]}" for name, log in self.logs.items())
                    pytest.fail(f"{path}: nothing changed any more: {listed}\n{logs}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("scheduler")
    try:
        with (
            Embedded(folder) as ours,
            components(lambda user: ours.server.kubeconfig(user, ()), folder) as logs,
        ):
            transport = ours.over_tls()
            api = Api("ours", transport, ours.forget)
            api.post("/apis/resource.k8s.io/v1/deviceclasses", device_class(CLASS)).must(201)
            yield Cluster(api, logs)
            transport.close()
    except Absent as absent:
        unavailable(str(absent))


@pytest.fixture
def place(cluster: Cluster) -> Iterator[str]:
    """A namespace, with a node of the same name that has one device and room for pods; all three go with the test."""
    name = f"place-{next(_numbers)}"
    api = cluster.api
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    machine = node(name, capacity=ROOM, allocatable=ROOM, conditions=[ready])
    machine["metadata"]["labels"] = {"kubernetes.io/hostname": name}
    api.post("/api/v1/nodes", machine).must(201)
    api.post("/apis/resource.k8s.io/v1/resourceslices", resource_slice(name, node_name=name)).must(201)
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).must(201)
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    cluster.until(accounts, lambda found: found["items"])
    yield name
    api.delete(f"/api/v1/nodes/{name}")
    api.delete(f"/apis/resource.k8s.io/v1/resourceslices/{name}")
    api.delete(f"/api/v1/namespaces/{name}")


def user_of_a_device(name: str, place: str) -> Obj:
    wanted: Obj = {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        "nodeSelector": {"kubernetes.io/hostname": place},
    }
    made = pod(name, **wanted)
    made["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return made


def bound(found: Obj) -> list[Obj]:
    return [each for each in found["items"] if each["spec"].get("nodeName")]


def test_a_deployment_becomes_pods_on_nodes(cluster: Cluster, place: str) -> None:
    made = deployment("web", replicas=3)
    made["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": place}
    cluster.api.post(f"/apis/apps/v1/namespaces/{place}/deployments", made).must(201)
    pods = cluster.until(f"/api/v1/namespaces/{place}/pods", lambda found: len(bound(found)) == 3)
    assert {each["spec"]["nodeName"] for each in pods["items"]} == {place}
    cluster.until(
        f"/apis/apps/v1/namespaces/{place}/deployments",
        lambda found: found["items"][0].get("status", {}).get("updatedReplicas") == 3,
    )


def test_a_pod_gets_its_claim_its_device_and_its_node(cluster: Cluster, place: str) -> None:
    api = cluster.api
    claims = f"/apis/resource.k8s.io/v1/namespaces/{place}/resourceclaims"
    api.post(
        f"/apis/resource.k8s.io/v1/namespaces/{place}/resourceclaimtemplates", claim_template("one")
    ).must(201)
    api.post(f"/api/v1/namespaces/{place}/pods", user_of_a_device("first", place)).must(201)
    first = cluster.until(f"/api/v1/namespaces/{place}/pods", bound)["items"][0]
    claim = api.get(claims).must(200)["items"][0]
    assert first["status"]["resourceClaimStatuses"][0]["resourceClaimName"] == claim["metadata"]["name"]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["driver"], result["pool"], result["device"]) == (CLASS, place, "gpu-0")
    assert claim["status"]["reservedFor"][0]["uid"] == first["metadata"]["uid"]
    assert "resource.kubernetes.io/delete-protection" in claim["metadata"]["finalizers"]


def test_a_second_pod_waits_for_the_device_until_the_first_is_deleted(cluster: Cluster, place: str) -> None:
    api = cluster.api
    pods = f"/api/v1/namespaces/{place}/pods"
    api.post(
        f"/apis/resource.k8s.io/v1/namespaces/{place}/resourceclaimtemplates", claim_template("one")
    ).must(201)
    api.post(pods, user_of_a_device("first", place)).must(201)
    cluster.until(pods, bound)
    api.post(pods, user_of_a_device("second", place)).must(201)
    events = cluster.until(
        f"/api/v1/namespaces/{place}/events",
        lambda found: any(each["reason"] == "FailedScheduling" for each in found["items"]),
    )
    told = next(each for each in events["items"] if each["reason"] == "FailedScheduling")
    assert told["involvedObject"]["name"] == "second"
    assert "cannot allocate all claims" in told["message"]
    assert [each["metadata"]["name"] for each in bound(api.get(pods).must(200))] == ["first"]

    api.delete(f"{pods}/first", {"gracePeriodSeconds": 0}).must(200)
    cluster.until(pods, bound)
    assert [each["metadata"]["name"] for each in bound(api.get(pods).must(200))] == ["second"]


def test_a_job_and_its_namespace_end(cluster: Cluster, place: str) -> None:
    api = cluster.api
    spec = pod("x", restartPolicy="Never", nodeSelector={"kubernetes.io/hostname": place})["spec"]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {"template": {"spec": spec}},
    }
    api.post(f"/apis/batch/v1/namespaces/{place}/jobs", job).must(201)
    one = cluster.until(f"/api/v1/namespaces/{place}/pods", bound)["items"][0]
    path = f"/api/v1/namespaces/{place}/pods/{one['metadata']['name']}"
    api.patch(f"{path}/status", {"status": {"phase": "Succeeded"}}).must(200)
    jobs = cluster.until(
        f"/apis/batch/v1/namespaces/{place}/jobs",
        lambda found: found["items"][0].get("status", {}).get("succeeded") == 1,
    )
    cluster.until(
        f"/apis/batch/v1/namespaces/{place}/jobs",
        lambda found: any(
            each["type"] == "Complete" and each["status"] == "True"
            for each in found["items"][0]["status"].get("conditions", ())
        ),
    )
    assert jobs["items"][0]["status"].get("failed") is None
    api.delete(f"/api/v1/namespaces/{place}").must(200)
    api.gone(f"/api/v1/namespaces/{place}")


def test_they_take_the_lead_by_leases_of_their_own(cluster: Cluster) -> None:
    found = cluster.until(
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        lambda listed: (
            {"kube-scheduler", "kube-controller-manager"}
            <= {each["metadata"]["name"] for each in listed["items"]}
        ),
    )
    assert all(each["spec"]["holderIdentity"] for each in found["items"])


def test_they_have_nothing_to_complain_about(cluster: Cluster) -> None:
    """Last, when their logs tell of all the tests above."""
    for log in cluster.logs.values():
        assert complaints(log) == []
