"""Objects as clients write them, JSON with no more than their kind asks for or a test says."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]


def configmap(name: str, /, labels: dict[str, str] | None = None, **data: Any) -> Obj:
    meta: Obj = {"name": name}
    if labels:
        meta["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def pod(name: str, /, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    containers = [{"name": "main", "image": "example.com/main:1"}]
    meta: Obj = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers, **spec}}


def node(name: str, /, **status: Any) -> Obj:
    made: Obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    return {**made, "status": status} if status else made


def claim(name: str, /, device_class: str = "gpu.example.com", **request: Any) -> Obj:
    exactly = {"deviceClassName": device_class, **request}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def allocated(pool: str, device: str) -> Obj:
    """A claim's status that holds one device."""
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": pool, "device": device}
    return {"allocation": {"devices": {"results": [result]}}}


def device_class(name: str, /, expression: str = 'device.driver == "gpu.example.com"') -> Obj:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def resource_slice(name: str, /, node_name: str = "", devices: int = 1, **spec: Any) -> Obj:
    where: Obj = {"nodeName": node_name} if node_name else {"allNodes": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{number}"} for number in range(devices)],
            **where,
            **spec,
        },
    }


def deployment(name: str, /, replicas: int = 1) -> Obj:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod("x")["spec"]},
        },
    }


def lease(name: str, /, holder: str = "me") -> Obj:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    }


def owned(obj: Obj, owner: Obj, **more: Any) -> Obj:
    """The object with an owner, as the server gave it."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}


def role(name: str, /, *rules: Obj) -> Obj:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def rule(verbs: str, resources: str, group: str = "", **more: Any) -> Obj:
    return {"verbs": verbs.split(","), "apiGroups": [group], "resources": resources.split(","), **more}


def binding(name: str, /, role_name: str, user: str, kind: str = "Role") -> Obj:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": kind, "name": role_name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
