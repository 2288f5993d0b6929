"""Many pods at once, each with a device of its own, on a fleet with room for exactly so many."""

from __future__ import annotations

from collections import Counter

from allotment.api.resource import ResourceClaim
from tests.e2e.manifests import Obj
from tests.e2e.plane import Plane

CLASS = "burst.example.com"
NAMESPACE = "burst"
TEMPLATE = "one"


def fleet(nodes: int, devices: int) -> list[Obj]:
    """A namespace with a template, a class, and simulated nodes with so many devices each."""
    room = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS}}
    made: list[Obj] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": CLASS},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{CLASS}"'}}]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": TEMPLATE, "namespace": NAMESPACE},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        },
    ]
    for number in range(nodes):
        name = f"burst-{number}"
        labels = {"allotment.dev/simulated": "true", "kubernetes.io/hostname": name}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        given = [{"name": f"gpu-{device}"} for device in range(devices)]
        made += [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": status,
            },
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": name},
                "spec": {"driver": CLASS, "nodeName": name, "pool": pool, "devices": given},
            },
        ]
    return made


def pods(count: int) -> list[Obj]:
    container = {"name": "main", "image": "example.com/main", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{number}", "namespace": NAMESPACE},
            "spec": spec,
        }
        for number in range(count)
    ]


def bound(plane: Plane) -> list[str]:
    """The pods that have a node."""
    return [
        pod.metadata.name
        for pod in plane.pods.all()
        if pod.metadata.namespace == NAMESPACE and pod.spec.node_name
    ]


def claims(plane: Plane) -> list[ResourceClaim]:
    return [claim for claim in plane.claims.all() if claim.metadata.namespace == NAMESPACE]


def check(plane: Plane) -> None:
    """Every bound pod has a claim of its own that is reserved for it, with a device that nobody else has, on its node."""
    by_uid = {pod.metadata.uid: pod for pod in plane.pods.all() if pod.metadata.namespace == NAMESPACE}
    used: Counter[tuple[str, str]] = Counter()
    served: Counter[str] = Counter()
    for claim in claims(plane):
        if claim.status.allocation is None:
            assert not claim.status.reserved_for, f"{claim.metadata.name} is reserved and has nothing"
            continue
        (user,) = claim.status.reserved_for
        (result,) = claim.status.allocation.devices.results
        assert by_uid[user.uid].spec.node_name == result.pool, f"{user.name} is not where its device is"
        assert claim.metadata.owner_references[0].uid == user.uid
        used[result.pool, result.device] += 1
        served[user.uid] += 1
    assert not {device: times for device, times in used.items() if times > 1}
    bound_now = {uid for uid, pod in by_uid.items() if pod.spec.node_name}
    assert served.keys() == bound_now
    assert set(served.values()) <= {1}
