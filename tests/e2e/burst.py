"""Many pods at once, each with a device of its own, on a fleet with room for exactly so many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from allotment.api.resource import ResourceClaim
from tests.e2e.manifests import Obj
from tests.e2e.plane import ONE, Plane

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


def pods(count: int, schedulers: Sequence[str] = ONE) -> list[Obj]:
    """So many pods, in turn for each of the schedulers."""
    container = {"name": "main", "image": "example.com/main", "resources": {"claims": [{"name": "gpu"}]}}
    spec: Obj = {
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{number}", "namespace": NAMESPACE},
            "spec": {**spec, "schedulerName": schedulers[number % len(schedulers)]},
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


def settle(plane: Plane) -> None:
    """Waits until every bound pod has a claim of its own that is reserved for it, with a device of its node that nobody else has,
    and no other claim holds anything."""
    plane.until(lambda: not faults(plane), lambda: "; ".join(faults(plane)))


def faults(plane: Plane) -> list[str]:
    pods = {pod.metadata.uid: pod for pod in plane.pods.all() if pod.metadata.namespace == NAMESPACE}
    found: list[str] = []
    used: Counter[tuple[str, str]] = Counter()
    served: Counter[str] = Counter()
    for claim in claims(plane):
        allocation, users = claim.status.allocation, claim.status.reserved_for
        if allocation is None:
            found += [f"{claim.metadata.name} is reserved and has nothing"] if users else []
            continue
        (result,) = allocation.devices.results
        used[result.pool, result.device] += 1
        user = pods.get(users[0].uid) if len(users) == 1 else None
        if user is None or claim.metadata.owner_references[0].uid != user.metadata.uid:
            found.append(f"{claim.metadata.name} is not reserved for its owner alone")
            continue
        served[user.metadata.uid] += 1
        if user.spec.node_name != result.pool:
            found.append(f"{user.metadata.name} is on {user.spec.node_name}, and its device on {result.pool}")
    found += [f"{device} is given {times} times" for device, times in used.items() if times > 1]
    for uid, pod in pods.items():
        if served[uid] != bool(pod.spec.node_name):
            found.append(f"{pod.metadata.name} on {pod.spec.node_name} has {served[uid]} claims")
    return found
