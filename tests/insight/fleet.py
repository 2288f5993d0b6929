"""A cluster with something of everything: what is free, held, shared, out of reach and wrong."""

from __future__ import annotations

import json
from typing import Any

from tests.builders.plain import claim, device_class, node, pod

Json = dict[str, Any]
V1 = "resource.k8s.io/v1"
GPU, NIC = "gpu.example.com", "nic.example.com"
OLD = "2026-01-01T00:00:00Z"


def reporting_node(name: str, *, ready: str = "True", uid: str = "") -> Json:
    return node(name, meta={"uid": uid or f"uid-{name}"}, conditions=[{"type": "Ready", "status": ready}])


def slice_of(
    name: str,
    *devices: str | Json,
    pool: str = "",
    driver: str = GPU,
    node: str | None = None,
    generation: int = 1,
    count: int = 1,
    owner: str = "",
) -> Json:
    """A slice, by default of a pool and a node of its own name."""
    where = {"allNodes": True} if node == "" else {"nodeName": node or name}
    owners = [{"apiVersion": "v1", "kind": "Node", "name": node or name, "uid": owner}] if owner else []
    return {
        "apiVersion": V1,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-slice", "ownerReferences": owners},
        "spec": {
            "driver": driver,
            "pool": {"name": pool or name, "generation": generation, "resourceSliceCount": count},
            **where,
            "devices": [{"name": each} if isinstance(each, str) else each for each in devices],
        },
    }


def share(device: str, memory: str, id: str) -> Json:
    return {"device": device, "consumedCapacity": {"memory": memory}, "shareID": id}


def team_claim(
    name: str,
    *held: str | Json,
    namespace: str = "team-a",
    pool: str = "node-1",
    driver: str = GPU,
    users: tuple[str, ...] = (),
    count: int = 1,
) -> Json:
    """A claim, with devices if there are any; ``users`` are pods."""
    meta = {"creationTimestamp": OLD}
    obj = claim(name, "gpu", namespace=namespace, meta=meta, allocationMode="ExactCount", count=count)
    if held:
        place = {"request": "gpu", "driver": driver, "pool": pool}
        results = [{**place, **({"device": each} if isinstance(each, str) else each)} for each in held]
        obj["status"] = {"allocation": {"devices": {"results": results}}}
    if users:
        obj.setdefault("status", {})["reservedFor"] = [
            {"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users
        ]
    return obj


def running_pod(name: str, *, namespace: str = "team-a", phase: str = "Running") -> Json:
    meta = {"uid": f"uid-{name}"}
    return pod(name, namespace=namespace, meta=meta, containers=[], status={"phase": phase})


def gpu_class() -> Json:
    return device_class("gpu", f'device.driver == "{GPU}"')


def pool_counts(pool: str, total: int, allocated: int, available: int, unavailable: int = 0) -> Json:
    """A ResourcePool of the driver of GPUs."""
    summary = {
        "totalDevices": total,
        "allocatedDevices": allocated,
        "availableDevices": available,
        "unavailableDevices": unavailable,
    }
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "ResourcePool",
        "metadata": {"name": f"{GPU}.{pool}"},
        "spec": {"driver": GPU, "poolName": pool, "nodeName": pool},
        "status": {"summary": summary},
    }


TAINTED = {"name": "gpu-3", "taints": [{"key": "broken", "effect": "NoSchedule", "timeAdded": OLD}]}
SHARED = {"name": "big", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}
ID = "b1d2c3e4-0000-4000-8000-00000000000"

HEALTHY = (
    reporting_node("node-1"),
    reporting_node("node-2"),
    slice_of("node-1", "gpu-0", "gpu-1", "gpu-2", TAINTED),
    slice_of("node-2", SHARED, "small"),
    slice_of("fabric", "port-0", "port-1", driver=NIC, node=""),
    gpu_class(),
    running_pod("train-0"),
    running_pod("serve-0", namespace="team-b"),
    team_claim("train", "gpu-0", "gpu-1", users=("train-0",), count=2),
    team_claim(
        "serve", share("big", "20Gi", f"{ID}1"), namespace="team-b", pool="node-2", users=("serve-0",)
    ),
    team_claim("waits"),
)

WRONG = (
    reporting_node("node-5", ready="False"),
    reporting_node("node-6"),
    slice_of("node-3", "gpu-0", count=2),
    slice_of("node-4", "gpu-0", "gpu-1", count=2),
    {**slice_of("node-4", "gpu-1", count=2), "metadata": {"name": "node-4-again"}},
    reporting_node("node-3"),
    reporting_node("node-4"),
    {**slice_of("node-1", "gone", generation=0), "metadata": {"name": "node-1-old"}},
    slice_of("node-5", "gpu-0"),
    slice_of("node-6", "gpu-0", owner="uid-earlier"),
    slice_of("node-7", "gpu-0"),
    running_pod("batch-0", phase="Succeeded"),
    team_claim("leak", "gpu-2"),
    team_claim("done", "gpu-0", pool="node-6", users=("batch-0",)),
    team_claim("lost", "gpu-9", users=("train-0",)),
    team_claim("orphan", "dev-0", driver="fpga.example.com", users=("train-0",)),
    team_claim("twice-a", "gpu-0", pool="node-5", users=("train-0",)),
    team_claim("twice-b", "gpu-0", pool="node-5", users=("train-0",)),
)


def written(*objects: Json) -> str:
    """As ``kubectl get -o json`` prints them."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
