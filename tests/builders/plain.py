"""Objects as clients write them: JSON with no more than their kind asks for or a test says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Obj = dict[str, Any]
RESOURCE = "resource.k8s.io/v1"


def configmap(name: str, /, labels: dict[str, str] | None = None, **data: Any) -> Obj:
    meta: Obj = {"name": name}
    if labels:
        meta["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def made(api_version: str, kind: str, name: str, /, namespace: str = "", meta: Obj | None = None) -> Obj:
    """The head of an object. ``meta`` has further fields of its metadata."""
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **where, **(meta or {})}}


def pod(
    name: str,
    /,
    labels: dict[str, str] | None = None,
    *,
    namespace: str = "",
    image: str = "example.com/main:1",
    claims: Iterable[str] = (),
    templates: Iterable[str] = (),
    status: Obj | None = None,
    meta: Obj | None = None,
    **spec: Any,
) -> Obj:
    """A pod of one container. It has an entry of the same name for each of its claims and templates of claims."""
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    entries += [{"name": each, "resourceClaimTemplateName": each} for each in templates]
    body: Obj = {"containers": [{"name": "main", "image": image}]}
    if entries:
        body["resourceClaims"] = entries
    found = made("v1", "Pod", name, namespace, _with_labels(labels, meta)) | {"spec": {**body, **spec}}
    return found if status is None else {**found, "status": status}


def _with_labels(labels: dict[str, str] | None, meta: Obj | None) -> Obj:
    return {**({} if labels is None else {"labels": labels}), **(meta or {})}


def node(
    name: str,
    /,
    labels: dict[str, str] | None = None,
    *,
    spec: Obj | None = None,
    meta: Obj | None = None,
    **status: Any,
) -> Obj:
    found = made("v1", "Node", name, meta=_with_labels(labels, meta))
    if spec is not None:
        found["spec"] = spec
    return {**found, "status": status} if status else found


def claim(
    name: str,
    /,
    device_class: str = "gpu.example.com",
    *,
    request: str = "gpu",
    namespace: str = "",
    meta: Obj | None = None,
    status: Obj | None = None,
    **exactly: Any,
) -> Obj:
    """A claim of one request. Anything else is a field of what it asks for exactly."""
    spec = claim_spec(device_class, request=request, **exactly)
    found = made(RESOURCE, "ResourceClaim", name, namespace, meta) | {"spec": spec}
    return found if status is None else {**found, "status": status}


def claim_template(
    name: str,
    /,
    device_class: str = "gpu.example.com",
    *,
    request: str = "gpu",
    namespace: str = "",
    **exactly: Any,
) -> Obj:
    """A template of such claims."""
    spec = {"spec": claim_spec(device_class, request=request, **exactly)}
    return made(RESOURCE, "ResourceClaimTemplate", name, namespace) | {"spec": spec}


def claim_spec(device_class: str = "gpu.example.com", /, *, request: str = "gpu", **exactly: Any) -> Obj:
    """The spec of a claim of one request."""
    wanted = {"deviceClassName": device_class, **exactly}
    return {"devices": {"requests": [{"name": request, "exactly": wanted}]}}


def allocated(pool: str, device: str) -> Obj:
    """A claim's status that holds one device."""
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": pool, "device": device}
    return {"allocation": {"devices": {"results": [result]}}}


def device_class(name: str, /, expression: str = 'device.driver == "gpu.example.com"') -> Obj:
    return made(RESOURCE, "DeviceClass", name) | {
        "spec": {"selectors": [{"cel": {"expression": expression}}]}
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
