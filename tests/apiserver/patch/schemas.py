"""Schemas for tests, small and built by hand: ``struct(replicas=scalar(), labels=mapping())``."""

from __future__ import annotations

from typing import Any

from allotment.api.schema.schema import Schema


def scalar(type_: str = "string", default: Any = None) -> Schema:
    schema = Schema()
    schema.type = type_
    schema.default = default
    return schema


def struct(*, default: Any = None, required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    schema = Schema()
    schema.type = "object"
    schema.properties = properties
    schema.required = frozenset(required)
    schema.default = default
    return schema


def atomic_struct(**properties: Schema) -> Schema:
    schema = struct()
    schema.properties = properties
    schema.map_type = "atomic"
    return schema


def mapping(values: Schema | None = None) -> Schema:
    schema = Schema()
    schema.type = "object"
    schema.additional = values or scalar()
    return schema


def listing(items: Schema | None = None, *, replace: bool = False) -> Schema:
    """An atomic list; with ``replace`` also for strategic merge patches."""
    schema = Schema()
    schema.type = "array"
    schema.items = items or scalar()
    schema.patch_strategies = frozenset({"replace"} if replace else ())
    return schema


def keyed(items: Schema, *keys: str) -> Schema:
    """A list whose elements are known by ``keys``; strategic merge patches go by the first one."""
    schema = listing(items)
    schema.list_type, schema.list_keys = "map", keys
    schema.patch_strategies, schema.patch_key = frozenset({"merge"}), keys[0]
    return schema


def uniques(items: Schema | None = None) -> Schema:
    schema = listing(items)
    schema.list_type = "set"
    schema.patch_strategies = frozenset({"merge"})
    return schema


PORT = struct(
    containerPort=scalar("integer"), protocol=scalar(default="TCP"), name=scalar(), hostPort=scalar("integer")
)
CONTAINER = struct(
    name=scalar(),
    image=scalar(),
    args=listing(),
    env=keyed(struct(name=scalar(), value=scalar()), "name"),
    ports=keyed(PORT, "containerPort", "protocol"),
    resources=struct(default={}, limits=mapping(), requests=mapping()),
)
POD = struct(
    apiVersion=scalar(),
    kind=scalar(),
    metadata=struct(
        default={},
        name=scalar(),
        namespace=scalar(),
        uid=scalar(),
        resourceVersion=scalar(),
        labels=mapping(),
        annotations=mapping(),
        finalizers=uniques(),
    ),
    spec=struct(
        default={},
        required=("containers",),
        containers=keyed(CONTAINER, "name"),
        nodeName=scalar(),
        nodeSelector=mapping(),
        selector=atomic_struct(matchLabels=mapping()),
        tolerations=listing(struct(key=scalar(), operator=scalar())),
        opaque=Schema(),
    ),
    status=struct(
        default={}, phase=scalar(), conditions=keyed(struct(type=scalar(), status=scalar()), "type")
    ),
)
