"""Merges an applied configuration into an object by the schema, and removes fields from an object.

Merging never removes anything: the configuration wins for the fields that it has, field by field in maps and objects,
element by element in keyed lists and sets. Atomic values are taken as a whole. A merged list has the configuration's order
for the configuration's elements; elements that only the object has keep their place among the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from allotment.api.schema.schema import Schema
from allotment.api.text import shortened
from allotment.api.trail import LONGEST_TRAIL, Trail, dotted
from allotment.apiserver.patch.comparison import items, opens, part
from allotment.apiserver.patch.element import BadElement, of_item, spoken
from allotment.apiserver.patch.fieldset import FieldSet, Node, owned
from allotment.apiserver.patch.value import shown
from allotment.apiserver.store.record import Obj

MAX_FAULTS: Final = 20
"""The most faults of a configuration that we report."""


def merged(live: Obj, config: Obj, schema: Schema) -> Obj:
    """``config`` merged into ``live``, as a new object that shares what did not change. Raises BadElement."""
    return _merged_maps(live, config, schema)


def _merged(live: Any, config: Any, schema: Schema) -> Any:
    if isinstance(config, dict | None) and isinstance(live, dict) and live and opens(live, schema):
        return _merged_maps(live, config or {}, schema)
    if isinstance(config, list | None) and isinstance(live, list) and live and opens(live, schema):
        return _merged_lists(live, config or [], schema)
    return config


def _merged_maps(live: Obj, config: Obj, schema: Schema) -> Obj:
    result = dict(live)
    for name, value in config.items():
        result[name] = _merged(live[name], value, part(schema, name)) if name in live else value
    return result


def _merged_lists(live: list[Any], config: list[Any], schema: Schema) -> list[Any]:
    theirs = {of_item(item, schema): item for item in config}
    steps = [of_item(item, schema) for item in live]
    ours: dict[str, Any] = {}
    for step, item in zip(steps, live, strict=True):
        ours[step] = None if step in ours else item  # duplicates are not merged
    inside = items(schema)

    def taken(step: str) -> Any:
        there = ours.get(step)
        return theirs[step] if there is None else _merged(there, theirs[step], inside)

    result = []
    done: set[str] = set()
    shared = deque(step for step in theirs if step in ours)
    coming = deque(theirs)
    place = 0
    while place < len(steps) or coming:
        if place < len(steps):
            step = steps[place]
            if step not in theirs:
                result.append(live[place])
                place += 1
                continue
            if step in done or (coming and step != coming[0] and shared and shared[0] != step):
                place += 1  # it is placed among the configuration's elements
                continue
        if coming:
            step = coming.popleft()
            done.add(step)
            result.append(taken(step))
            if shared and shared[0] == step:
                shared.popleft()
    return result


_SCALARS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
}


def faults(config: Any, schema: Schema) -> list[str]:
    """What is wrong with a configuration: unknown fields, wrong types, elements of lists without a key of their own.

    It stops after ``MAX_FAULTS``.
    """
    return list(islice(_faults(config, schema, None), MAX_FAULTS))


def _faults(config: Any, schema: Schema, trail: Trail) -> Iterator[str]:
    if config is None:
        return
    types = _SCALARS.get(schema.type)
    if schema.type == "object" and not isinstance(config, dict):
        yield f"{_path(trail)}: expected map, got {shown(config)}"
    elif schema.type == "array" and not isinstance(config, list):
        yield f"{_path(trail)}: expected list, got {shown(config)}"
    elif types is not None:
        if not isinstance(config, types) or isinstance(config, bool) != (types == (bool,)):
            yield f"{_path(trail)}: expected {schema.type}, got {shown(config)}"
    elif isinstance(config, dict):
        yield from _faults_of_map(config, schema, trail)
    elif isinstance(config, list):
        yield from _faults_of_list(config, schema, trail)


def _path(trail: Trail) -> str:
    """A path for messages about configurations, with a dot before the first name."""
    path = dotted(trail)
    return path if path[:1] in ("[", "") else f".{path}"


def _faults_of_map(config: Obj, schema: Schema, trail: Trail) -> Iterator[str]:
    closed = bool(schema.properties) and schema.additional is None and not schema.preserve_unknown
    for name, value in config.items():
        if closed and name not in schema.properties:
            yield f"{_path((trail, name))}: field not declared in schema"
        else:
            yield from _faults(value, part(schema, name), (trail, name))


def _faults_of_list(config: list[Any], schema: Schema, trail: Trail) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(config):
        here: Trail = (trail, index)
        if schema.list_type != "atomic":
            try:
                step = of_item(item, schema)
            except BadElement as exc:
                yield f"{_path(trail)}: element {index}: {exc}"
                return
            if step in seen:
                yield f"{_path(trail)}: duplicate entries for key {shortened(spoken(step), LONGEST_TRAIL)}"
            seen.add(step)
            here = (trail, spoken(step))
        yield from _faults(item, items(schema), here)


def without(obj: Obj, fields: FieldSet, schema: Schema) -> Obj:
    """``obj`` without the members of ``fields``, as a new object.

    A map or list that becomes empty but is not itself a member is null in the result. It still exists for a comparison,
    so that its owner keeps it. :func:`settled` removes it.
    """
    return _without(obj, fields.fields, schema) or {}


def settled(obj: Obj, before: Obj, config: Obj, schema: Schema) -> Obj:
    """``obj`` without the nulls that :func:`without` left for content of ``before``; in built-in kinds, without any nulls.

    Values that ``config`` wants empty are then empty; the others are gone.
    """
    return _settled_map(obj, before, config, schema, bool(schema.name))


def _settled(value: Any, before: Any, config: Any, schema: Schema, builtin: bool) -> Any:
    if isinstance(value, dict):
        return _settled_map(value, before, config, schema, builtin)
    if not isinstance(value, list) or not (builtin or opens(value, schema)):
        return value
    inside = items(schema)
    if not opens(value, schema):
        return [_settled(item, None, None, inside, builtin) for item in value]
    then = {of_item(item, schema): item for item in before or ()}
    wanted = {of_item(item, schema): item for item in config or ()}
    steps = [of_item(item, schema) for item in value]
    return [
        _settled(item, then.get(step), wanted.get(step), inside, builtin)
        for step, item in zip(steps, value, strict=True)
    ]


def _settled_map(obj: Obj, before: Any, config: Any, schema: Schema, builtin: bool) -> Obj:
    then, wanted = (each if isinstance(each, dict) else {} for each in (before, config))
    result: Obj = {}
    for name, value in obj.items():
        if value is not None:
            result[name] = _settled(value, then.get(name), wanted.get(name), part(schema, name), builtin)
        elif wanted.get(name) in ({}, []):
            result[name] = wanted[name]
        elif not builtin and then.get(name) is None:
            result[name] = value
    return result


def _without(value: Any, gone: Node, schema: Schema) -> Any:
    """None if nothing is left."""
    if not opens(value, schema):
        return value if not isinstance(value, dict | list) else None
    if isinstance(value, dict):
        kept = {}
        for name, inner in value.items():
            node = gone.get("f:" + name)
            if node is None:
                kept[name] = inner
            elif not owned(node):
                kept[name] = _without(inner, node, part(schema, name))
        return kept or None
    left = []
    for item in value:
        node = gone.get(of_item(item, schema))
        if node is None:
            left.append(item)
        elif not owned(node) and (rest := _without(item, node, items(schema))) is not None:
            left.append(rest)
    return left or None
