"""Bodies that make a server work, found by walking over the schema of a kind.

Each shape takes one part of an object and makes it as large as a request may be: every list and map that the schema has, with
elements that are all different or all alike; texts; fields that nobody knows; fields in fields; an account of who owns what.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from allotment.api.schema.schema import Schema

Obj = dict[str, Any]

DEPTH = 9
"""Steps into an object at which lists and maps are still looked for."""
TEMPLATES = "io.k8s.api.core.v1.PodTemplateSpec"
DEPTH_IN_TEMPLATES = 4
"""The same in templates of pods, which many kinds have: pods themselves are gone through to the ground."""


@dataclass(frozen=True)
class Shape:
    """A way to make a body of about so many bytes of a small object of the kind."""

    name: str
    make: Callable[[Obj, int], Obj]


def shapes(schema: Schema) -> Iterator[Shape]:
    """All of them for a kind."""
    for path, part in _collections(schema, (), (), DEPTH):
        for alike in (False, True):
            name = f"{'alike' if alike else 'many'} {'.'.join(path)}"
            yield Shape(name, _grown(schema, path, part, alike))
    yield Shape("long texts", lambda base, size: _with_texts(base, schema, size))
    yield Shape("unknown fields", lambda base, size: {**base, **{f"x{n}": n for n in range(size // 14)}})
    yield Shape("deep", lambda base, size: {**base, "x": _deep(size)})
    yield Shape("long key, many fields", _long_key)
    yield Shape("managedFields", _managed)


def _collections(
    schema: Schema, path: tuple[str, ...], seen: tuple[str, ...], depth: int
) -> Iterator[tuple[tuple[str, ...], Schema]]:
    if schema.name == TEMPLATES:
        depth = min(depth, len(path) + DEPTH_IN_TEMPLATES)
    recursive = schema.name != "" and seen.count(schema.name) > 1
    if len(path) > depth or recursive or path[-1:] == ("managedFields",):
        return
    seen = (*seen, schema.name) if schema.name else seen
    inner = schema.items or schema.additional
    if inner is not None:
        yield path, schema
        yield from _collections(inner, (*path, "0"), seen, depth)
    for name, field in schema.properties.items():
        yield from _collections(field, (*path, name), seen, depth)


def _grown(schema: Schema, path: tuple[str, ...], part: Schema, alike: bool) -> Callable[[Obj, int], Obj]:
    def make(base: Obj, size: int) -> Obj:
        inner = part.items or part.additional
        assert inner is not None
        one = len(json.dumps(sample(inner, 100_000), separators=(",", ":"))) + (2 if part.items else 12)
        count = max(size // one, 1)
        numbers = [7] * count if alike else range(count)
        value: Any = [sample(inner, number) for number in numbers]
        if part.items is None:
            value = {f"k{number}": each for number, each in enumerate(value)}
        return _put(base, schema, path, value)

    return make


def _put(base: Obj, schema: Schema, path: tuple[str, ...], value: Any) -> Obj:
    """The object with a value at a path; the lists on the way get one element."""
    root: Obj = json.loads(json.dumps(base))
    here: Any = root
    for number, step in enumerate(path):
        last = number == len(path) - 1
        if step == "0":
            inner = schema.items or schema.additional
            assert inner is not None
            if last:
                made: Any = value
            elif schema.items is not None:
                made = here[0] if here else sample(inner, 0)
            else:
                made = here.get("k0") or sample(inner, 0)
            if schema.items is not None:
                here[:] = [made, *here[1:]]
                here = here[0]
            else:
                here["k0"] = made
                here = made
            schema = inner
            continue
        field = schema.properties[step]
        if last:
            here[step] = value
        else:
            if not here.get(step):
                here[step] = [] if field.items is not None else {} if field.additional else sample(field, 0)
            here = here[step]
        schema = field
    return root


_TEXTS = {
    "operator": "Exists",
    "effect": "NoSchedule",
    "op": "In",
    "protocol": "TCP",
    "type": "T",
    "status": "True",
}
_WHOLE = {"reason": "Ok", "apiVersion": "v1", "kind": "Thing", "driver": "gpu.example.com"}


def sample(schema: Schema, number: int, depth: int = 4) -> Any:
    """A small value that fits the schema; those of different numbers differ in every text."""
    match schema.type:
        case "object" if schema.properties:
            made = {}
            for name, field in schema.properties.items():
                scalar = not (field.properties or field.items or field.additional or field.type == "any")
                if (scalar and depth == 4) or name in schema.required:
                    text = _TEXTS.get(name) or _WHOLE.get(name)
                    made[name] = (
                        text
                        if text and field.type == "string"
                        else sample(field, number, depth - 1)
                        if depth
                        else None
                    )
            return {name: value for name, value in made.items() if value is not None}
        case "object" if schema.additional is not None:
            return {}
        case "array":
            return []
        case "integer" | "number" | "int-or-string":
            return number % 30000 + 1
        case "boolean":
            return False
        case "quantity":
            return str(number + 1)
        case "time":
            return (
                "2026-01-01T00:00:00Z"
                if not schema.name.endswith("MicroTime")
                else "2026-01-01T00:00:00.000000Z"
            )
        case "string" if schema.enum:
            return schema.enum[0]
        case "string" if schema.format == "byte":
            return "YQ=="
        case "string":
            return f"a{number}"
        case _:
            return {"a": number}


def _with_texts(base: Obj, schema: Schema, size: int) -> Obj:
    """Annotations aside, every text of the object long."""
    texts = sum(1 for _ in _texts(base))

    def lengthened(value: Any, top: bool = False) -> Any:
        if isinstance(value, dict):
            return {k: v if top and k in ("kind", "apiVersion") else lengthened(v) for k, v in value.items()}
        if isinstance(value, list):
            return [lengthened(each) for each in value]
        return value + "a" * (size // max(texts, 1)) if isinstance(value, str) else value

    made: Obj = lengthened(base, True)
    made["metadata"] = {**base["metadata"], "annotations": {"a": "x" * (size // 8)}}
    return made


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _deep(size: int) -> Any:
    value: Any = {f"k{n}": n for n in range(size // 24)}
    for _ in range(150):
        value = {"x" * (size // 400): value}
    return value


def _long_key(base: Obj, size: int) -> Obj:
    key = "k" * (size // 2)
    leaves = {f"k{n}": n for n in range(size // 32)}
    return {**base, key: leaves, "metadata": {**base["metadata"], "labels": {key: leaves}}}


def _managed(base: Obj, size: int) -> Obj:
    fields: Obj = {f"f:x{n}": {} for n in range(size // 40)}
    items: Obj = {f'k:{{"name":"a{n}"}}': {".": {}, "f:name": {}} for n in range(size // 100)}
    entry = {
        "manager": "m",
        "operation": "Update",
        "apiVersion": base["apiVersion"],
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": fields}, "f:spec": {"f:containers": items}},
    }
    return {**base, "metadata": {**base["metadata"], "managedFields": [entry]}}
