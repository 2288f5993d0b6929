"""Which kinds count the changes of their spec, and what counts as one."""

from __future__ import annotations

from collections.abc import Callable
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
    role,
    rule,
)
from tests.contract.api import Api

Build = Callable[[str], dict[str, Any]]

NAMESPACED: dict[str, tuple[str, Build, int | None]] = {
    "ConfigMap": ("api/v1/configmaps", configmap, None),
    "Pod": ("api/v1/pods", pod, 1),
    "Lease": ("apis/coordination.k8s.io/v1/leases", lease, None),
    "Role": ("apis/rbac.authorization.k8s.io/v1/roles", lambda name: role(name, rule("get", "pods")), None),
    "Deployment": ("apis/apps/v1/deployments", deployment, 1),
    "ResourceClaim": ("apis/resource.k8s.io/v1/resourceclaims", claim, None),
    "ResourceClaimTemplate": (
        "apis/resource.k8s.io/v1/resourceclaimtemplates",
        lambda name: {"metadata": {"name": name}, "spec": {"spec": claim(name)["spec"]}},
        None,
    ),
    "Ingress": (
        "apis/networking.k8s.io/v1/ingresses",
        lambda name: {
            "metadata": {"name": name},
            "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}},
        },
        1,
    ),
    "PodDisruptionBudget": (
        "apis/policy/v1/poddisruptionbudgets",
        lambda name: {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {}}},
        1,
    ),
    "ResourceQuota": ("api/v1/resourcequotas", lambda name: {"metadata": {"name": name}, "spec": {}}, None),
    "ServiceAccount": ("api/v1/serviceaccounts", lambda name: {"metadata": {"name": name}}, None),
    "Job": (
        "apis/batch/v1/jobs",
        lambda name: {
            "metadata": {"name": name},
            "spec": {"template": {"spec": {**pod(name)["spec"], "restartPolicy": "Never"}}},
        },
        1,
    ),
    "ReplicaSet": (
        "apis/apps/v1/replicasets",
        lambda name: {
            "metadata": {"name": name},
            "spec": {key: deployment(name)["spec"][key] for key in ("replicas", "selector", "template")},
        },
        1,
    ),
}
CLUSTER: dict[str, tuple[str, Build, int | None]] = {
    "Node": ("/api/v1/nodes", node, None),
    "Namespace": ("/api/v1/namespaces", lambda name: {"metadata": {"name": name}}, None),
    "DeviceClass": ("/apis/resource.k8s.io/v1/deviceclasses", device_class, 1),
    "ResourceSlice": ("/apis/resource.k8s.io/v1/resourceslices", resource_slice, 1),
    "DeviceTaintRule": (
        "/apis/resource.k8s.io/v1/devicetaintrules",
        lambda name: {
            "metadata": {"name": name},
            "spec": {
                "deviceSelector": {"driver": "d.example.com"},
                "taint": {"key": "x", "effect": "NoSchedule"},
            },
        },
        1,
    ),
    "PriorityClass": (
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        lambda name: {"metadata": {"name": name}, "value": 5},
        1,
    ),
}


@pytest.mark.parametrize("kind", NAMESPACED)
def test_of_a_new_object(api: Api, namespace: str, kind: str) -> None:
    path, build, expected = NAMESPACED[kind]
    prefix, _, plural = path.rpartition("/")
    made = api.post(f"/{prefix}/namespaces/{namespace}/{plural}", build("a")).must(201)
    assert made["metadata"].get("generation") == expected


@pytest.mark.parametrize("kind", CLUSTER)
def test_of_a_new_object_of_the_cluster(api: Api, fresh: str, kind: str) -> None:
    path, build, expected = CLUSTER[kind]
    made = api.post(path, build(fresh)).must(201)
    assert made["metadata"].get("generation") == expected


def test_a_slice_counts_changes_of_its_spec_only(api: Api, fresh: str) -> None:
    path = f"/apis/resource.k8s.io/v1/resourceslices/{fresh}"
    api.post("/apis/resource.k8s.io/v1/resourceslices", resource_slice(fresh)).must(201)
    labelled = api.patch(path, {"metadata": {"labels": {"x": "y"}}}).must()
    assert labelled["metadata"]["generation"] == 1
    changed = api.patch(path, {"spec": {"pool": {"generation": 2}}}).must()
    assert changed["metadata"]["generation"] == 2


def test_a_deployment_counts_changes_of_its_spec_only(api: Api, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    api.post(path, deployment("a")).must(201)
    assert api.patch(f"{path}/a/status", {"status": {"replicas": 1}}).must()["metadata"]["generation"] == 1
    assert api.patch(f"{path}/a", {"spec": {"replicas": 3}}).must()["metadata"]["generation"] == 2


def test_the_client_does_not_decide_it(api: Api, fresh: str) -> None:
    path = "/apis/resource.k8s.io/v1/resourceslices"
    sent = resource_slice(fresh)
    sent["metadata"]["generation"] = 9
    assert api.post(path, sent).must(201)["metadata"]["generation"] == 1
    assert api.patch(f"{path}/{fresh}", {"metadata": {"generation": 9}}).must()["metadata"]["generation"] == 1
