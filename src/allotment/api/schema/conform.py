"""Brings a decoded body into the form of its schema, and reports the fields that do not belong there.

Nearly every body is correct, so a test compiled from the schema comes first (:func:`_fits`); an object that fits is
returned as it came. A second walk over any other object knows the names of all fields: it drops and reports unknown
fields, drops ``null`` where it means absent, brings times and quantities into canonical form, and refuses values of
the wrong type. Messages are those of a Kubernetes server, which mentions its Go types.

Values that the schema leaves open (type ``any``, ``preserve_unknown``) stay untouched. A schema without a name belongs
to a custom kind: there, values of the wrong type stay as well, since validation refuses them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from allotment.api.nesting import MAX_DEPTH
from allotment.api.schema.canonical import (
    Unreadable,
    canonical_quantity,
    canonical_time,
    checked_base64,
    is_base64,
    is_quantity,
    is_time,
)
from allotment.api.schema.schema import Schema
from allotment.api.status import BadRequest
from allotment.api.text import shortened
from allotment.api.trail import Trail, dotted

MAX_REPORTED: Final = 100
"""The most unknown or duplicate fields reported for one object; upstream's number."""

Obj = dict[str, Any]
Fits = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Conformed:
    """An object in the form of its schema. ``obj`` is the body itself if nothing had to change.

    Entries of ``unknown`` read ``unknown field "spec.foo"``.
    """

    obj: Obj
    unknown: list[str]


def conform(schema: Schema, obj: Obj, known: Obj | None = None) -> Conformed:
    """The object in the form of the schema. Raises BadRequest for a value of the wrong type.

    ``known`` is an object that already has that form: parts that ``obj`` shares with it (by identity) need no check.
    """
    try:
        if _fits_beside(known, obj, schema):
            return Conformed(obj, [])
        walk = _MisfitWalk(lenient=not schema.name)
        try:
            return Conformed(walk.value(schema, obj, None, ()), walk.unknown)
        except Unreadable as exc:
            raise BadRequest(_cannot_be_handled(schema, obj, str(exc))) from exc
    except RecursionError as exc:
        raise BadRequest(f"the object is nested too deeply; at most {MAX_DEPTH} levels are read") from exc


def duplicate_fields(raw: bytes, obj: Any, schema: Schema | None = None) -> list[str]:
    """``duplicate field "metadata.name"`` for each key that occurs twice in one JSON object of ``raw``.

    If there are any and a schema is given, the result includes unknown fields: upstream reports both in the order of the
    text, and looks neither into values that the schema leaves open nor into unknown ones. Without a schema, this function
    looks into everything.

    ``obj`` must be what ``raw`` decodes to, unchanged. Encoded again it has as many quotation marks as ``raw``, unless a
    key was dropped or characters were escaped; only then do we parse ``raw`` a second time.
    """
    try:
        if b"\\u" not in raw and raw.count(b'"') == msgspec.json.encode(obj).count(b'"'):
            return []
        found = _faults(json.loads(raw, object_pairs_hook=_pairs), schema)
        return found if any(each.startswith(_DUPLICATE) for each in found) else []
    except RecursionError as exc:
        raise BadRequest(f"the object is nested too deeply; at most {MAX_DEPTH} levels are read") from exc


_DUPLICATE: Final = "duplicate field "


class _Repeating:
    """A JSON object in which a key occurs twice."""

    __slots__ = ("entries",)

    def __init__(self, entries: list[tuple[str, Any]]) -> None:
        self.entries = entries


def _pairs(entries: list[tuple[str, Any]]) -> Any:
    made = dict(entries)
    return made if len(made) == len(entries) else _Repeating(entries)


def _faults(value: Any, schema: Schema | None) -> list[str]:
    told: dict[str, None] = {}  # each once, in order

    def walk(value: Any, schema: Schema | None, path: Trail) -> None:
        if len(told) >= MAX_REPORTED or (schema is not None and schema.type == "any"):
            return
        if isinstance(value, list):
            for index, item in enumerate(value):
                walk(item, schema and schema.items, (path, index))
        elif isinstance(value, dict | _Repeating):
            seen = set()
            for name, item in value.items() if isinstance(value, dict) else value.entries:
                inner = schema and (schema.properties.get(name) or schema.additional)
                if schema is not None and inner is None:
                    if not schema.preserve_unknown:
                        told[f'unknown field "{dotted((path, name))}"'] = None
                    continue
                if name in seen:
                    told[f'{_DUPLICATE}"{dotted((path, name))}"'] = None
                seen.add(name)
                walk(item, inner, (path, name))

    walk(value, schema, None)
    return list(told)[:MAX_REPORTED]


# --- does it fit as it is? ---


def _check(schema: Schema) -> Fits:
    """The compiled test of a schema, made once. Its tests never raise; the slow walk handles what they refuse."""
    if schema.fits is None:
        schema.fits = lambda value: schema.fits(value)  # type: ignore[misc]  # while it is made, for schemas that contain themselves
        schema.fits = _compiled(schema)
    return schema.fits


def _fits_beside(known: Any, value: Any, schema: Schema) -> bool:
    """Whether a value fits, given that ``known`` fits: parts that they share need no second look."""
    is_open = schema.type == "object" and schema.additional is None
    if not is_open or known.__class__ is not dict or value.__class__ is not dict:
        return _check(schema)(value)
    properties = schema.properties
    for name, item in value.items():
        before = known.get(name)
        if before is item and item is not None:
            continue
        field = properties.get(name)
        if field is None:
            if not schema.preserve_unknown:
                return False
        elif item.__class__ is str and before == item:
            continue
        elif not _fits_beside(before, item, field):
            return False
    return True


def _compiled(schema: Schema) -> Fits:
    match schema.type:
        case "object" if schema.preserve_unknown and not schema.properties:
            return lambda value: type(value) is dict
        case "object" if schema.additional is not None:
            return _map_fits(schema.additional)
        case "object":
            return _object_fits(schema)
        case "array" if schema.items is not None:
            return _array_fits(schema.items)
        case "integer":
            low, high = _INTEGERS.get(schema.format, _INTEGERS["int64"])
            return lambda value: type(value) is int and low <= value <= high
        case "number":
            return lambda value: type(value) is int or type(value) is float
        case "quantity":
            return lambda value: type(value) is str and is_quantity(value)
        case "time":
            micro = schema.name.endswith("MicroTime")
            return lambda value: type(value) is str and is_time(value, micro)
        case "int-or-string":
            return lambda value: type(value) is str or (type(value) is int and -(2**31) <= value < 2**31)
        case "string" if schema.format == "byte":
            return lambda value: type(value) is str and is_base64(value)
        case "string":
            return lambda value: type(value) is str
        case "boolean":
            return lambda value: type(value) is bool
        case _:
            return lambda value: True


_INTEGERS: Final = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_PLAIN: Final[dict[str, type]] = {"string": str, "boolean": bool}


def _leaf(schema: Schema) -> type | None:
    """The Python type of a value, if checking it is the whole test; else None."""
    return None if schema.format else _PLAIN.get(schema.type)


def _object_fits(schema: Schema) -> Fits:
    plan: dict[str, type | Fits] = {
        name: _leaf(field) or _check(field) for name, field in schema.properties.items()
    }
    find, open_ = plan.get, schema.preserve_unknown

    def fits(value: Any) -> bool:
        if value.__class__ is not dict:
            return False
        for name, item in value.items():
            wanted = find(name)
            if wanted is item.__class__:
                continue
            if wanted is None:
                if not open_:
                    return False
            elif wanted.__class__ is type or not wanted(item):
                return False
        return True

    return fits


def _map_fits(inner: Schema) -> Fits:
    leaf, check = _leaf(inner), _check(inner)

    def fits(value: Any) -> bool:
        if value.__class__ is not dict:
            return False
        for item in value.values():  # noqa: SIM110  # a generator costs half as much again
            if item.__class__ is not leaf and not check(item):
                return False
        return True

    return fits


def _array_fits(inner: Schema) -> Fits:
    leaf, check = _leaf(inner), _check(inner)

    def fits(value: Any) -> bool:
        if value.__class__ is not list:
            return False
        for item in value:  # noqa: SIM110  # a generator costs half as much again
            if item.__class__ is not leaf and not check(item):
                return False
        return True

    return fits


# --- how to make it fit ---


class _MisfitWalk:
    """One walk over an object that does not fit. ``path`` locates unknown fields, ``go`` names only the fields.

    ``lenient`` is true in the part of a custom object that its author defined, but not in its metadata.
    """

    def __init__(self, lenient: bool) -> None:
        self.unknown: list[str] = []
        self._lenient = lenient

    def value(self, schema: Schema, value: Any, path: Trail, go: tuple[str, ...]) -> Any:
        if value is None:
            return None if schema.preserve_unknown or schema.nullable or self._lenient else _zero(schema)
        kind, inner = type(value), schema.items or schema.additional
        if schema.type == "object" and kind is dict:
            if inner is not None:
                return self._map(inner, value, path, go)
            return (
                self._named(schema, value, path, go) if schema.name else self.object(schema, value, path, go)
            )
        if schema.type == "array" and kind is list and inner is not None:
            return [self.value(inner, item, (path, index), go) for index, item in enumerate(value)]
        return value if self._lenient and not schema.name else _scalar(schema, value, go)

    def object(self, schema: Schema, value: Obj, path: Trail, go: tuple[str, ...]) -> Obj:
        owner = schema.name.rpartition(".")[2]
        made = {}
        for name, item in value.items():
            field = schema.properties.get(name)
            if field is None:
                if schema.preserve_unknown:
                    made[name] = item
                elif len(self.unknown) < MAX_REPORTED:
                    self.unknown.append(f'unknown field "{dotted((path, name))}"')
            elif item is not None or field.preserve_unknown or field.nullable:
                inner = (owner, *go[1:], name)
                made[name] = self.value(field, item, (path, name), inner)
        return made

    def _named(self, schema: Schema, value: Obj, path: Trail, go: tuple[str, ...]) -> Obj:
        lenient, self._lenient = self._lenient, False
        made = self.object(schema, value, path, go)
        self._lenient = lenient
        return made

    def _map(self, inner: Schema, value: Obj, path: Trail, go: tuple[str, ...]) -> Obj:
        return {
            name: self.value(inner, item, (path, name), go)
            for name, item in value.items()
            if item is not None or not self._lenient or inner.nullable or inner.preserve_unknown
        }


def _scalar(schema: Schema, value: Any, go: tuple[str, ...]) -> Any:
    """A value without parts, or one that should have been something else."""
    if schema.type == "quantity":
        return canonical_quantity(value)
    if schema.type == "time" and type(value) is str:
        return canonical_time(value, schema.name.endswith("MicroTime"))
    if schema.format == "byte" and type(value) is str:
        return checked_base64(value)
    if not _check(schema)(value):
        raise _wrong(value, schema, go)
    return value


def _zero(schema: Schema) -> Any:
    """What null means inside a list or a map, where nothing can be absent."""
    match schema.type:
        case "array":
            return []
        case "object":
            return {}
        case "integer" | "number" | "int-or-string":
            return 0
        case "boolean":
            return False
        case "quantity":
            return "0"
        case "time":
            return None
        case _:
            return ""


# --- in upstream's words ---


def _wrong(value: Any, schema: Schema, go: tuple[str, ...]) -> Unreadable:
    kind = _JSON_NAMES.get(type(value), "object")
    if kind == "number" and schema.type in ("integer", "int-or-string"):
        kind = f"number {value}" if abs(value) < 2**64 else "number"
    wanted = _go_type(schema)
    if not go:
        return Unreadable(f"json: cannot unmarshal {kind} into Go value of type {wanted}")
    return Unreadable(f"json: cannot unmarshal {kind} into Go struct field {'.'.join(go)} of type {wanted}")


_JSON_NAMES: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    list: "array",
    type(None): "null",
}


def _go_type(schema: Schema) -> str:
    match schema.type:
        case "object" if schema.additional is not None:
            return f"map[string]{_go_type(schema.additional)}"
        case "object" | "quantity":
            return ".".join(schema.name.split(".")[-2:]) or "map[string]interface {}"
        case "array" if schema.items is not None:
            return f"[]{_go_type(schema.items)}"
        case "string" if schema.format == "byte":
            return "[]uint8"
        case "boolean":
            return "bool"
        case "integer":
            return schema.format or "int64"
        case "number":
            return "float64"
        case "int-or-string":
            return "int32"
        case _:
            return "string"


def _cannot_be_handled(schema: Schema, obj: Any, why: str) -> str:
    api_version, kind = (obj.get("apiVersion"), obj.get("kind")) if isinstance(obj, dict) else (None, None)
    wanted = schema.name.rpartition(".")[2] or str(kind)
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return f"unable to decode the body as a {wanted}: {why}"
    version = shortened(api_version.rpartition("/")[2])
    return f'{shortened(kind)} in version "{version}" cannot be handled as a {wanted}: {why}'
