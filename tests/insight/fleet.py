"""A cluster with something of everything: what is free, held, shared, out of reach and wrong."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]
V1 = "resource.k8s.io/v1"
GPU, NIC = "gpu.example.com", "nic.example.com"
OLD = "2026-01-01T00:00:00Z"


def node(name: str, *, ready: str = "True", uid: str = "") -> Json:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": uid or f"uid-{name}"},
        "status": status,
    }


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


def claim(
    name: str,
    *held: str | Json,
    namespace: str = "team-a",
    pool: str = "node-1",
    driver: str = GPU,
    users: tuple[str, ...] = (),
    count: int = 1,
) -> Json:
    """A claim, with devices if there are any; ``users`` are pods."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    obj: Json = {
        "apiVersion": V1,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": OLD},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    if held:
        place = {"request": "gpu", "driver": driver, "pool": pool}
        results = [{**place, **({"device": each} if isinstance(each, str) else each)} for each in held]
        obj["status"] = {"allocation": {"devices": {"results": results}}}
    if users:
        obj.setdefault("status", {})["reservedFor"] = [
            {"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users
        ]
    return obj


def pod(name: str, *, namespace: str = "team-a", phase: str = "Running") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"containers": []},
        "status": {"phase": phase},
    }


def gpu_class() -> Json:
    selector = {"cel": {"expression": f'device.driver == "{GPU}"'}}
    return {
        "apiVersion": V1,
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [selector]},
    }


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
    node("node-1"),
    node("node-2"),
    slice_of("node-1", "gpu-0", "gpu-1", "gpu-2", TAINTED),
    slice_of("node-2", SHARED, "small"),
    slice_of("fabric", "port-0", "port-1", driver=NIC, node=""),
    gpu_class(),
    pod("train-0"),
    pod("serve-0", namespace="team-b"),
    claim("train", "gpu-0", "gpu-1", users=("train-0",), count=2),
    claim("serve", share("big", "20Gi", f"{ID}1"), namespace="team-b", pool="node-2", users=("serve-0",)),
    claim("waits"),
)

WRONG = (
    node("node-5", ready="False"),
    node("node-6"),
    slice_of("node-3", "gpu-0", count=2),
    slice_of("node-4", "gpu-0", "gpu-1", count=2),
    {**slice_of("node-4", "gpu-1", count=2), "metadata": {"name": "node-4-again"}},
    node("node-3"),
    node("node-4"),
    {**slice_of("node-1", "gone", generation=0), "metadata": {"name": "node-1-old"}},
    slice_of("node-5", "gpu-0"),
    slice_of("node-6", "gpu-0", owner="uid-earlier"),
    slice_of("node-7", "gpu-0"),
    pod("batch-0", phase="Succeeded"),
    claim("leak", "gpu-2"),
    claim("done", "gpu-0", pool="node-6", users=("batch-0",)),
    claim("lost", "gpu-9", users=("train-0",)),
    claim("orphan", "dev-0", driver="fpga.example.com", users=("train-0",)),
    claim("twice-a", "gpu-0", pool="node-5", users=("train-0",)),
    claim("twice-b", "gpu-0", pool="node-5", users=("train-0",)),
)


def written(*objects: Json) -> str:
    """As ``kubectl get -o json`` prints them."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
