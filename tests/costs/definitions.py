"""Definitions of custom kinds that are right but large: the server compiles, serves and publishes what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from allotment.apiserver.registry.custom.columns import MOST_COLUMNS

Obj = dict[str, Any]
Grow = Callable[[Obj, int], Obj]


def large_definitions() -> Iterator[tuple[str, Grow]]:
    """Ways to make a definition of about so many bytes of a small one, by name."""
    yield "properties", _of_schema(lambda size: {f"p{n}": {"type": "string"} for n in range(size // 28)})
    yield "patterns", _of_schema(_patterns)
    yield "rules", _of_schema(_rules)
    yield (
        "enum",
        _of_schema(lambda size: {"e": {"type": "string", "enum": [f"a{n}" for n in range(size // 10)]}}),
    )
    yield "defaults", _of_schema(_defaults)
    yield "nested", _of_schema(_nested)
    yield "alternatives", _of_schema(_alternatives)
    yield "versions", _versions
    yield "columns", _columns


def _of_schema(properties: Callable[[int], Obj]) -> Grow:
    def grown(base: Obj, size: int) -> Obj:
        schema = {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": properties(size)}},
        }
        version = {**base["spec"]["versions"][0], "schema": {"openAPIV3Schema": schema}}
        return {**base, "spec": {**base["spec"], "versions": [version]}}

    return grown


def _patterns(size: int) -> Obj:
    return {f"p{n}": {"type": "string", "pattern": f"^(a|b){{{n % 50}}}[c-{n}]*$"} for n in range(size // 60)}


def _rules(size: int) -> Obj:
    one = {
        "rule": "self.all(x, x.startsWith('a') && x.matches('^[a-z]*$') && x.size() + 1 < 10)",
        "message": "no",
    }
    texts = {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 10}}
    return {f"p{n}": {**texts, "x-kubernetes-validations": [one]} for n in range(min(size // 220, 2000))}


def _defaults(size: int) -> Obj:
    parts = {
        f"p{n}": {"type": "object", "default": {"a": "b"}, "properties": {"a": {"type": "string"}}}
        for n in range(size // 90)
    }
    return {"parts": {"type": "array", "items": {"type": "object", "properties": parts}}}


def _nested(size: int) -> Obj:
    schema: Obj = {"type": "string"}
    width = size // 40 // 40
    for _ in range(40):
        more = {f"p{n}": {"type": "string"} for n in range(width)}
        schema = {"type": "object", "default": {}, "properties": {"inner": schema, **more}}
    return {"outer": schema}


def _alternatives(size: int) -> Obj:
    return {"a": {"type": "string", "anyOf": [{"pattern": f"a{n}"} for n in range(size // 22)]}}


def _versions(base: Obj, size: int) -> Obj:
    first = base["spec"]["versions"][0]
    count = size // 2500
    versions = [{**first, "name": f"v{n + 1}", "storage": n == 0} for n in range(count)]
    return {**base, "spec": {**base["spec"], "versions": versions}}


def _columns(base: Obj, size: int) -> Obj:
    count = min(size // 60, MOST_COLUMNS)
    columns = [{"name": f"c{n}", "type": "string", "jsonPath": f".spec.c{n}"} for n in range(count)]
    version = {**base["spec"]["versions"][0], "additionalPrinterColumns": columns}
    return {**base, "spec": {**base["spec"], "versions": [version]}}
