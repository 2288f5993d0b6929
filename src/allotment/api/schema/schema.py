"""The full schema of a kind: every field's name, type and merge behaviour.

Schemas of Kubernetes' kinds come from the files in ``documents/``, which ``tools/schemas.py`` writes. Schemas of our own
kinds come from the typed structs (``struct_schema.py``), those of custom kinds from their CustomResourceDefinition.

A file holds one Go package: a line with its name and apiVersion, then a block of lines for each definition. We parse a
definition on demand, together with those that it refers to::

    io.k8s.api.resource.v1 resource.k8s.io/v1

    DeviceRequest                                      a definition; `kind` behind the name if it is a whole object
    exactly ExactDeviceRequest                         a field and its type, here a definition of this package
    firstAvailable [DeviceSubRequest] list=atomic      [T] is a list, {T} a map with values T
    name string required default=""
    selector meta.v1.LabelSelector patch=replace       a definition of another package

Building a pod's schema takes a few milliseconds; later calls cost a look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec

_FOLDER = Path(__file__).with_name("documents")


class Schema:
    """The schema of a value. Immutable once built; references are resolved, so a schema may contain itself.

    The same class describes built-in kinds (from the data files) and custom ones (from a CustomResourceDefinition).
    """

    __slots__ = (
        "additional",
        "default",
        "description",
        "embedded",
        "enum",
        "fits",
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

    def __init__(self, type_: str = "any") -> None:
        self.name = ""  # the name of a named definition: io.k8s.api.core.v1.Pod
        self.type = (
            type_  # object, array, string, integer, number, boolean, int-or-string, quantity, time, any
        )
        self.description = ""  # for custom kinds: the author's description
        self.format = ""  # the OpenAPI format: int32, int64, double, byte, date-time
        self.properties: Mapping[str, Schema] = {}
        self.required: frozenset[str] = frozenset()
        self.additional: Schema | None = None  # the values of a map
        self.items: Schema | None = None
        self.list_type = "atomic"  # atomic, set, map
        self.list_keys: tuple[str, ...] = ()
        self.map_type = "granular"  # for objects and maps: granular, atomic
        self.patch_strategies: frozenset[str] = frozenset()  # merge, replace, retainKeys
        self.patch_key = ""
        self.default: Any = None
        self.enum: tuple[str, ...] = ()
        self.nullable = False
        self.preserve_unknown = False
        self.embedded = False  # a complete object with apiVersion, kind and metadata inside another one
        # belongs to conform, which compiles it on first use
        self.fits: Callable[[Any], bool] | None = None

    def __repr__(self) -> str:
        return f"Schema({self.type}{f' {self.name}' if self.name else ''})"


@lru_cache(maxsize=1024)  # the cache is bounded because both arguments may come from a request
def schema_of(api_version: str, kind: str) -> Schema:
    """The schema of a built-in kind. Raises KeyError for others.

    The kinds of meta/v1 have the apiVersions ``v1`` and ``meta.k8s.io/v1``. DeleteOptions has any apiVersion, because
    clients write it in the group of the object that they delete.
    """
    package, meta = _packages(api_version)
    if package is not None and kind in package.kinds:
        return package.definition(kind)
    if kind == "DeleteOptions" or (meta is not None and kind in meta.kinds):
        return _read("meta.v1").definition(kind)
    from allotment.api.schema.struct_schema import own_schema  # the file has the reverse order

    return own_schema(api_version, kind)


def definition(name: str) -> Schema:
    """A named definition (``io.k8s.api.core.v1.NodeSelector``). Raises KeyError if no file has it."""
    home, _, own = name.rpartition(".")
    package = _package(".".join(home.split(".")[-2:]))
    if package is None or package.name != home:
        raise KeyError(name)
    return package.definition(own)


def builtin_kinds(api_version: str) -> list[str]:
    """Kubernetes' kinds in one apiVersion for which we have schemas."""
    package = _packages(api_version)[0]
    return sorted(package.kinds) if package is not None else []


def _packages(api_version: str) -> tuple[_Package | None, _Package | None]:
    """The packages that may have kinds of an apiVersion: their names contain the first label of the group's name."""
    group, _, version = api_version.rpartition("/")
    package = _package(f"{group.partition('.')[0] or 'core'}.{version}")
    if package is not None and package.api_version != api_version:
        package = None
    return package, (_package("meta.v1") if api_version in ("v1", "meta.k8s.io/v1") else None)


def _package(short: str) -> _Package | None:
    return _read(short) if short in _shorts() else None  # not cached: ``short`` may come from a request


@cache
def _shorts() -> frozenset[str]:
    return frozenset(path.stem for path in _FOLDER.glob("*.fields"))


@cache
def _read(short: str) -> _Package:
    return _Package((_FOLDER / f"{short}.fields").read_text(encoding="utf-8"))


class _Package:
    """The definitions of one file, built one by one."""

    def __init__(self, text: str) -> None:
        head, *blocks = text.strip().split("\n\n")
        self.name, self.api_version = head.split()
        self._blocks = {block.split(maxsplit=1)[0]: block for block in blocks}
        self._built: dict[str, Schema] = {}
        self._values: dict[str, Schema] = {}  # by their text, so that equal types share one object
        self.kinds = {own for own, block in self._blocks.items() if block.startswith(f"{own} kind")}

    def definition(self, own: str) -> Schema:
        if own in self._built:
            return self._built[own]
        heading, *lines = self._blocks[own].split("\n")
        marks = heading.split()[1:]
        schema = Schema("any" if "any" in marks else "object")
        schema.name = f"{self.name}.{own}"
        schema.preserve_unknown = schema.type == "any"
        _mark(schema, [mark for mark in marks if mark not in ("kind", "any")])
        properties: dict[str, Schema] = {}
        schema.properties = properties
        self._built[own] = schema  # stored before its fields are built, which may refer to it
        required = set()
        for line in lines:
            name, written = line.split(" ", 1)
            if " required" in written:
                required.add(name)
                written = written.replace(" required", "", 1)
            properties[name] = self._value(written)
        schema.required = frozenset(required)
        return schema

    def _value(self, written: str) -> Schema:
        if written not in self._values:
            kind, *marks = written.split(" ")
            schema = self._typed(kind)
            if marks:
                schema = copy(schema)
                _mark(schema, marks)
            self._values[written] = schema
        return self._values[written]

    def _typed(self, kind: str) -> Schema:
        if kind[0] == "[":
            schema = Schema("array")
            schema.items = self._value(kind[1:-1])
            return schema
        if kind[0] == "{":
            schema = Schema("object")
            schema.additional = self._value(kind[1:-1])
            return schema
        if kind in _SCALARS:
            return _SCALARS[kind]
        home, _, own = kind.rpartition(".")
        package = _package(home) if home else self
        if package is None:
            raise KeyError(kind)
        return package.definition(own)


def _mark(schema: Schema, marks: list[str]) -> None:
    for mark in marks:
        name, _, value = mark.partition("=")
        if name == "default":
            schema.default = msgspec.json.decode(value)
            continue
        value, _, key = value.partition(":")
        if name == "list":
            schema.list_type = value
            schema.list_keys = tuple(key.split(",")) if key else ()
        elif name == "map":
            schema.map_type = value
        elif name == "patch":
            schema.patch_strategies = frozenset(value.split(","))
            schema.patch_key = key


def _scalar(type_: str, format_: str = "", name: str = "") -> Schema:
    schema = Schema(type_)
    schema.format = format_
    schema.name = name
    schema.preserve_unknown = type_ == "any"
    return schema


_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_SCALARS = {
    "string": _scalar("string"),
    "bytes": _scalar("string", "byte"),
    "boolean": _scalar("boolean"),
    "int32": _scalar("integer", "int32"),
    "int64": _scalar("integer", "int64"),
    "number": _scalar("number"),
    "double": _scalar("number", "double"),
    "any": _scalar("any"),
    "time": _scalar("time", "date-time", f"{_META}.Time"),
    "microtime": _scalar("time", "date-time", f"{_META}.MicroTime"),
    "duration": _scalar("string", "", f"{_META}.Duration"),
    "quantity": _scalar("quantity", "", "io.k8s.apimachinery.pkg.api.resource.Quantity"),
    "int-or-string": _scalar(
        "int-or-string", "int-or-string", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
    ),
    "fields": _scalar("any", "", f"{_META}.FieldsV1"),
    "raw": _scalar("any", "", "io.k8s.apimachinery.pkg.runtime.RawExtension"),
}
for _open in ("fields", "raw"):
    _SCALARS[_open].map_type = "atomic"
SCALARS: Mapping[str, Schema] = _SCALARS
"""The schemas of values without fields, by their names in the data files."""
