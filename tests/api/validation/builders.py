"""Sound objects to break, one field at a time, and a checker of expressions that knows a few words."""

from typing import Any

from allotment.api import resource, semantic
from allotment.api.codec import decode
from allotment.api.fields import FieldError
from allotment.api.validation import CheckedExpression, ExpressionUse

Json = dict[str, Any]


def check(expression: str, use: ExpressionUse, /) -> CheckedExpression:
    """Stands in for CEL: the word in the expression decides."""
    if "broken" in expression:
        return CheckedExpression(error=f"1:1: syntax error in {use.value}")
    return CheckedExpression(cost={"costly": 1_000_001, "dear": 600_000}.get(expression, 1))


def shown(errors: list[FieldError]) -> list[str]:
    """Path and kind of each error, as the tables write them."""
    for error in errors:
        assert error.message
        assert str(error) == f"{error.path}: {error.message}"
        assert len(str(error)) < 600
    return [f"{error.path}: {error.kind.name.lower()}" for error in errors]


def without_none(value: Json) -> Json:
    return {key: entry for key, entry in value.items() if entry is not None}


def device(name: str = "gpu-0", **fields: Any) -> Json:
    return {"name": name, **fields}


def slice_(**spec: Any) -> resource.ResourceSlice:
    """A slice with one plain device; None takes a field out."""
    sound = {
        "driver": "gpu.example.com",
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "node-1",
        "devices": [device()],
    }
    data = {"metadata": {"name": "slice"}, "spec": without_none(sound | spec)}
    return decode(resource.ResourceSlice, data)


def with_device(**fields: Any) -> resource.ResourceSlice:
    return slice_(devices=[device(**fields)])


def request(name: str = "r0", **exactly: Any) -> Json:
    return {"name": name, "exactly": without_none({"deviceClassName": "gpu"} | exactly)}


def alternatives(*subs: Json, name: str = "r0") -> Json:
    return {"name": name, "firstAvailable": list(subs)}


def sub(name: str = "s0", **fields: Any) -> Json:
    return without_none({"name": name, "deviceClassName": "gpu"} | fields)


def claim(*requests: Json, **devices: Any) -> resource.ResourceClaim:
    """A claim of these requests (one plain one if there is none)."""
    status = devices.pop("status", {})
    metadata = {"name": "claim", "namespace": "default"} | devices.pop("metadata", {})
    spec = {"devices": {"requests": list(requests) or [request()], **devices}}
    return decode(resource.ResourceClaim, {"metadata": metadata, "spec": spec, "status": status})


def result(**fields: Any) -> Json:
    sound = {"request": "r0", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    return without_none(sound | fields)


def allocation(*results: Json, **fields: Any) -> Json:
    config = fields.pop("config", [])
    return {"devices": {"results": list(results) or [result()], "config": config}, **fields}


def opaque(**fields: Any) -> Json:
    return {"opaque": without_none({"driver": "gpu.example.com", "parameters": {"a": 1}} | fields)}


def node_slice(**spec: Any) -> semantic.NodeResourceSlice:
    sound: Json = {"nodeName": "node-1", "driverName": "cards.example.com", "partitionable": {}}
    return decode(semantic.NodeResourceSlice, {"metadata": {"name": "n"}, "spec": without_none(sound | spec)})


def with_instances(*instances: Json, **partitionable: Any) -> semantic.NodeResourceSlice:
    return node_slice(partitionable={"resourceInstances": list(instances), **partitionable})
