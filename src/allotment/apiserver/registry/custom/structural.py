"""A version's schema as a tree of values, along which pruning, defaulting, validation and rules walk.

Built from ``openAPIV3Schema`` as it is stored. Only the *spine* becomes a tree: properties, items and
additionalProperties. Schemas under ``allOf``, ``anyOf``, ``oneOf`` and ``not`` can only restrict values of the spine;
validation reads them from ``raw``. Depth is bounded by that of request bodies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from allotment.api.schema.schema import SCALARS, Schema, definition

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


class Structural:
    """The schema of one value. Immutable once built."""

    __slots__ = (
        "additional",
        "default",
        "default_size",
        "embedded",
        "int_or_string",
        "items",
        "list_keys",
        "list_type",
        "map_type",
        "nullable",
        "open",
        "preserve",
        "properties",
        "raw",
        "type",
    )

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.type: str = raw.get("type") or ""
        self.nullable = bool(raw.get("nullable"))
        self.default: Any = raw.get("default")
        self.default_size = 0 if self.default is None else len(msgspec.json.encode(self.default))
        self.int_or_string = bool(raw.get("x-kubernetes-int-or-string"))
        self.preserve = bool(raw.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(raw.get("x-kubernetes-embedded-resource"))
        self.list_type: str = raw.get("x-kubernetes-list-type") or "atomic"
        self.list_keys: tuple[str, ...] = tuple(raw.get("x-kubernetes-list-map-keys") or ())
        self.map_type: str = raw.get("x-kubernetes-map-type") or "granular"
        self.properties = {name: Structural(field) for name, field in (raw.get("properties") or {}).items()}
        items, additional = raw.get("items"), raw.get("additionalProperties")
        self.items = Structural(items) if isinstance(items, dict) else None
        self.additional = Structural(additional) if isinstance(additional, dict) else None
        self.open = additional is not None  # names that are no properties may stand here

    def field(self, name: str) -> Structural | None:
        """The schema of the value under a name."""
        return self.properties.get(name) or self.additional


def published(structural: Structural) -> Schema:
    """The schema of a custom kind as patches, managed fields and OpenAPI read it."""
    schema = _schema(structural)
    schema.type = "object"
    schema.properties = {
        "apiVersion": SCALARS["string"],
        "kind": SCALARS["string"],
        "metadata": definition(_META),
        **{name: field for name, field in schema.properties.items() if name not in META_FIELDS},
    }
    return schema


def _schema(structural: Structural) -> Schema:
    raw = structural.raw
    kind = "int-or-string" if structural.int_or_string else structural.type or "any"
    schema = Schema(kind)
    schema.description = raw.get("description") or ""
    schema.format = raw.get("format") or ""
    schema.properties = {name: _schema(field) for name, field in structural.properties.items()}
    schema.required = frozenset(raw.get("required") or ())
    schema.additional = _schema(structural.additional) if structural.additional else None
    schema.items = _schema(structural.items) if structural.items else None
    schema.list_type, schema.list_keys = structural.list_type, structural.list_keys
    schema.map_type = structural.map_type
    schema.default = structural.default
    schema.enum = tuple(each for each in raw.get("enum") or () if isinstance(each, str))
    schema.nullable = structural.nullable
    schema.preserve_unknown = structural.preserve or kind == "any"
    schema.embedded = structural.embedded
    if structural.embedded:
        schema.properties = {
            "apiVersion": SCALARS["string"],
            "kind": SCALARS["string"],
            "metadata": definition(_META),
            **schema.properties,
        }
    return schema
