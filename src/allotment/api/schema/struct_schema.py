"""Schemas of the kinds that Kubernetes does not have, made from their typed structs.

A struct that corresponds to a definition of Kubernetes (metadata, a node selector) gets that definition's schema, which
may have more fields than the struct reads.
"""

from __future__ import annotations

import types
from typing import Any, Union, get_args, get_origin

import msgspec

from allotment.api import kinds
from allotment.api.meta import ApiStruct, Int32, Time
from allotment.api.quantity import Quantity
from allotment.api.schema.schema import SCALARS, Schema, definition

_UPSTREAM = {
    "allotment.api.meta": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "allotment.api.core": "io.k8s.api.core.v1",
    "allotment.api.resource": "io.k8s.api.resource.v1",
}
_MERGED_BY = {
    ("ResourceClaimStatus", "reservedFor"): "uid",
    **{
        (f"{kind}Status", "conditions"): "type"
        for kind in ("ResourcePool", "NodeOverlay", "NodePool", "NodeClaim", "NodeGroup")
    },
}
"""Lists with several writers, and the field that identifies their entries. All other lists are atomic."""

_VALUES: dict[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "int64",
    Int32: "int32",
    Time: "time",
    Quantity: "quantity",
    Any: "any",
}


def own_schema(api_version: str, kind: str) -> Schema:
    """The schema of a kind that has a struct in exactly this version. Raises KeyError for others."""
    known = kinds.find(api_version, kind)
    if known is None or known.to_type is not None:
        raise KeyError(f"{kind} in {api_version}")
    return _struct(known.type, {})


def package_of(struct: type[ApiStruct]) -> str:
    """The package name in the definitions that a module of ``api`` corresponds to."""
    return _UPSTREAM.get(struct.__module__, f"dev.{struct.__module__}")


def _struct(struct: type[ApiStruct], seen: dict[type, Schema]) -> Schema:
    if struct.__module__ in _UPSTREAM:
        return definition(f"{package_of(struct)}.{struct.__name__}")
    if struct.SHORT_FORM is not None:
        return SCALARS["any"]  # a bare string or an object: the typed view accepts both
    if struct in seen:
        return seen[struct]
    seen[struct] = schema = Schema("object")
    schema.name = f"{package_of(struct)}.{struct.__name__}"
    properties: dict[str, Schema] = {}
    schema.properties = properties
    required = set()
    for info in msgspec.structs.fields(struct):
        name = info.encode_name
        properties[name] = value = _value(info.type, seen)
        if key := _MERGED_BY.get((struct.__name__, name)):
            value.list_type, value.list_keys = "map", (key,)
            value.patch_strategies, value.patch_key = frozenset({"merge"}), key
        if info.default_factory is not msgspec.NODEFAULT and value.type in ("string", "integer", "quantity"):
            required.add(name)
    schema.required = frozenset(required - {"apiVersion", "kind"})
    return schema


def _value(hint: Any, seen: dict[type, Schema]) -> Schema:
    if hint in _VALUES:
        return SCALARS[_VALUES[hint]]
    if isinstance(hint, type) and issubclass(hint, ApiStruct):
        return _struct(hint, seen)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _value(next(arg for arg in args if arg is not type(None)), seen)
    if origin is tuple:
        schema = Schema("array")
        schema.items = _value(args[0], seen)
        return schema
    if origin is dict:
        schema = Schema("object")
        schema.additional = _value(args[1], seen)
        return schema
    if hasattr(hint, "__metadata__"):
        return _value(args[0], seen)
    raise TypeError(f"no schema for {hint!r}")
