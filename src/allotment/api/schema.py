"""The full schema of a kind: every field's name, type and merge behaviour.

(schema helper fills in; the class below is the agreed surface)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Schema:
    """One value's schema. Immutable once built; references are resolved, so a schema may contain itself.

    The same class describes built-in kinds (from the data files) and custom ones (from a CustomResourceDefinition).
    """

    __slots__ = (
        "additional",
        "default",
        "embedded",
        "enum",
        "format",
        "items",
        "list_keys",
        "list_type",
        "map_type",
        "name",
        "nullable",
        "patch_key",
        "patch_strategies",
        "preserve_unknown",
        "properties",
        "required",
        "type",
    )

    def __init__(self) -> None:
        self.name = ""  # of a named definition: io.k8s.api.core.v1.Pod
        self.type = (
            "any"  # object, array, string, integer, number, boolean, int-or-string, quantity, time, any
        )
        self.format = ""
        self.properties: Mapping[str, Schema] = {}
        self.required: frozenset[str] = frozenset()
        self.additional: Schema | None = None  # the values of a map
        self.items: Schema | None = None
        self.list_type = "atomic"  # atomic, set, map
        self.list_keys: tuple[str, ...] = ()
        self.map_type = "granular"  # granular, atomic: of objects and maps
        self.patch_strategies: frozenset[str] = frozenset()  # merge, replace, retainKeys
        self.patch_key = ""
        self.default: Any = None
        self.enum: tuple[str, ...] = ()
        self.nullable = False
        self.preserve_unknown = False
        self.embedded = False  # a whole object with apiVersion, kind and metadata inside another


def schema_of(api_version: str, kind: str) -> Schema:
    """The schema of a built-in kind. Raises KeyError for others."""
    raise NotImplementedError
