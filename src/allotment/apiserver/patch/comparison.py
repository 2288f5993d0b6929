"""The fields of an object, and those in which it differs from another, by the schema of its kind.

The schema decides what a field is. Maps and objects split into their fields, keyed lists and sets into their elements;
scalars, and everything that the schema calls atomic, are one field. Of values without a schema, maps split and lists are
atomic.

As in Kubernetes, two similar questions have different answers. :func:`fields_of` gives the fields that an applied
configuration mentions: an object's named fields count only through their content. :func:`compare` gives the fields that a
write added: there a new object itself counts too, so that the creator of ``labels`` owns it as well as each label.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from allotment.api.remembered import remembered
from allotment.api.schema.schema import Schema
from allotment.apiserver.patch.element import of_item
from allotment.apiserver.patch.fieldset import LEAF, SELF, FieldSet, Node
from allotment.apiserver.store.record import Obj

_UNTYPED: Final = Schema()
_ABSENT: Final = object()


class Comparison(NamedTuple):
    """The fields that a new object no longer has, and those that it added or changed."""

    removed: FieldSet
    gained: FieldSet

    def __bool__(self) -> bool:
        return bool(self.removed or self.gained)

    @property
    def all(self) -> FieldSet:
        return self.removed | self.gained

    def without(self, fields: FieldSet) -> Comparison:
        """The comparison without these fields and all below them."""
        removed, gained = self.removed.without(fields), self.gained.without(fields)
        return self if removed is self.removed and gained is self.gained else Comparison(removed, gained)


def part(schema: Schema, name: str) -> Schema:
    """The schema of what a map or object has under a name."""
    return schema.properties.get(name) or schema.additional or _UNTYPED


def items(schema: Schema) -> Schema:
    """The schema of a list's elements."""
    return schema.items or _UNTYPED


def opens(value: Any, schema: Schema) -> bool:
    """Whether a value splits into several fields; if not, it is one field."""
    if isinstance(value, dict):
        return schema.map_type != "atomic"
    return isinstance(value, list) and schema.list_type != "atomic"


# --- all fields of one value ---


def fields_of(obj: Obj, schema: Schema) -> FieldSet:
    """The fields that ``obj`` mentions. Raises BadElement for an element of a list that has no key."""
    return FieldSet(_mentioned(obj, schema))


def _mentioned(value: Any, schema: Schema) -> Node | None:
    """The fields that a non-null value mentions; None if there are none."""
    if value.__class__ is list:
        return LEAF if schema.list_type == "atomic" else _mentioned_items(value, schema)
    if value.__class__ is not dict or schema.map_type == "atomic":
        return LEAF
    parts: Node = {}
    properties, other = schema.properties, schema.additional or _UNTYPED
    for name, inner in value.items():
        node: Node | None = LEAF
        kind = inner.__class__
        if kind is list or (kind is dict and inner):
            node = _mentioned(inner, properties.get(name, other))
            if name not in properties:
                node = {SELF: LEAF, **node} if node else LEAF
        if node is not None:
            parts["f:" + name] = node
    return parts or None


def _mentioned_items(value: list[Any], schema: Schema) -> Node | None:
    steps = [of_item(item, schema) for item in value]
    inside = items(schema)
    parts: Node = {}
    for step, item in zip(steps, value, strict=True):
        if step in parts:  # for duplicate elements, only their place is owned
            parts[step] = LEAF
            continue
        node = _mentioned(item, inside)
        parts[step] = {SELF: LEAF, **node} if node else LEAF
    return parts or None


def _whole(value: Any, schema: Schema) -> Node:
    """A field with everything in it, as one that was added or removed."""
    if not value or value.__class__ is not dict:
        is_open = value and value.__class__ is list and schema.list_type != "atomic"
        return _whole_list(value, schema) if is_open else LEAF
    if schema.map_type == "atomic":
        return LEAF
    node: Node = {SELF: LEAF}
    properties, other = schema.properties, schema.additional or _UNTYPED
    for name, inner in value.items():
        kind = inner.__class__
        node["f:" + name] = (
            _whole(inner, properties.get(name, other)) if kind is dict or kind is list else LEAF
        )
    return node


def _whole_list(value: list[Any], schema: Schema) -> Node:
    node: Node = {SELF: LEAF}
    inside = items(schema)
    for item in value:
        step = of_item(item, schema)
        node[step] = LEAF if step in node else _whole(item, inside)
    return node


def _by_step(value: list[Any], schema: Schema) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in value:
        found.setdefault(of_item(item, schema), []).append(item)
    return found


# --- the differences of two ---


def compare(old: Obj, new: Obj, schema: Schema) -> Comparison:
    """How ``new`` differs from ``old``. Raises BadElement for an element of a list that has no key."""
    removed: Node = {}
    gained: Node = {}
    _compare_maps(old, new, schema, removed, gained)
    return Comparison(FieldSet(removed), FieldSet(gained))


def brought(new: Obj, schema: Schema) -> FieldSet:
    """The fields of a new object that differ from a blank one; ``metadata`` itself is always included.

    Raises BadElement for an element of a list that has no key.
    """
    nothing, fields = blank(schema), {}
    for name, value in new.items():
        before = nothing.get(name, _NOTHING if name == "metadata" else _ABSENT)
        if name == "spec":  # many objects have one spec
            node = _brought_spec(value, schema)
        else:
            node = _brought(before, value, part(schema, name))
        if node is not None:
            fields["f:" + name] = node
    return FieldSet(fields)


@remembered
def _brought_spec(spec: Any, schema: Schema) -> Node | None:
    return _brought(blank(schema).get("spec", _ABSENT), spec, part(schema, "spec"))


def _brought(before: Any, value: Any, schema: Schema) -> Node | None:
    """What is new in one field; None if nothing is."""
    if before is _ABSENT:
        return _whole(value, schema)
    if before == value:
        return None
    gained: Node = {}
    _differ("", before, value, schema, {}, gained)
    return gained.get("")


def _compare_maps(old: Obj, new: Obj, schema: Schema, removed: Node, gained: Node) -> None:
    properties, other = schema.properties, schema.additional or _UNTYPED
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        if before is _ABSENT:
            kind = value.__class__
            is_leaf = kind is not dict and kind is not list
            gained["f:" + name] = LEAF if is_leaf else _whole(value, properties.get(name, other))
        elif before is not value and before != value:
            _differ("f:" + name, before, value, properties.get(name, other), removed, gained)
    for name, value in old.items():
        if name not in new:
            removed["f:" + name] = _whole(value, properties.get(name, other))


def _differ(step: str, old: Any, new: Any, schema: Schema, removed: Node, gained: Node) -> None:
    """Compares two unequal values of one field. If only one of them splits into fields, all of its parts differ."""
    opened, opens_now = opens(old, schema), opens(new, schema)
    if not opened and not opens_now:
        gained[step] = LEAF
        return
    before, after = (old if opened else None), (new if opens_now else None)
    gone: Node = {}
    come: Node = {}
    if isinstance(before, dict) or isinstance(after, dict):
        _compare_maps(_map(before), _map(after), schema, gone, come)
    if isinstance(before, list) or isinstance(after, list):
        _compare_lists(_list(before), _list(after), schema, gone, come)
    is_one = (old is not None and not opened) or (new is not None and not opens_now)
    if is_one or not (before or after):
        gained[step] = {SELF: LEAF, **come} if come else LEAF
    elif come:
        gained[step] = come
    if gone:
        removed[step] = gone


def _map(value: Any) -> Obj:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _compare_lists(old: list[Any], new: list[Any], schema: Schema, removed: Node, gained: Node) -> None:
    """Element by element. Elements with the same key are one field together, though each may be unlike the others."""
    before, after = _by_step(old, schema), _by_step(new, schema)
    inside = items(schema)
    for step in before | after:
        ours, theirs = before.get(step, []), after.get(step, [])
        if ours == theirs:
            continue
        if len(ours) > 1 and len(theirs) > 1:
            gained[step] = LEAF
        elif len(ours) > 1:
            removed[step] = LEAF
            if theirs:
                gained[step] = _whole(theirs[0], inside)
        elif len(theirs) > 1:
            gained[step] = LEAF
            if ours:
                removed[step] = _whole(ours[0], inside)
        elif not ours:
            gained[step] = _whole(theirs[0], inside)
        elif not theirs:
            removed[step] = _whole(ours[0], inside)
        else:
            _differ(step, ours[0], theirs[0], inside, removed, gained)


# --- what every object of a kind has ---

_ZEROS: Mapping[str, Any] = {
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "quantity": "0",
    "int-or-string": 0,
}


_NOTHING: Final[Obj] = {}


def blank(schema: Schema) -> Obj:
    """An object of a kind before anybody wrote to it. It is not empty, but has the fields of an encoded Go struct.

    Nobody comes to own these by creating an object, so they matter: ``spec`` and ``spec.containers`` of a pod, for
    example. Custom kinds have no such fields. The result is shared and must not be changed.
    """
    return _blank(schema) if schema.name else _NOTHING


@lru_cache(maxsize=512)
def _blank(schema: Schema) -> Obj:
    fields: Obj = {}
    for name, inner in schema.properties.items():
        if inner.properties and inner.default == {}:
            fields[name] = _blank(inner)
        elif name in schema.required:
            fields[name] = _ZEROS.get(inner.type)
    return fields


def with_named_fields(fields: FieldSet, schema: Schema) -> FieldSet:
    """``fields`` and the named fields that contain them, which count only through their content."""
    return FieldSet(_named(fields.fields, schema))


def _named(parts: Node, schema: Schema) -> Node:
    named: Node = {}
    for step, node in parts.items():
        if not node:
            named[step] = node
        elif step[:2] == "f:":
            name = step[2:]
            below = _named(node, part(schema, name))
            named[step] = {SELF: LEAF, **below} if name in schema.properties else below
        else:
            named[step] = _named(node, items(schema))
    return named


def reconciled(fields: FieldSet, schema: Schema) -> FieldSet:
    """``fields`` after a schema change: the owner of a part of something that has become atomic owns the whole."""
    return FieldSet(_reconciled(fields.fields, schema))


def _reconciled(parts: Node, schema: Schema) -> Node:
    result, properties = parts, schema.properties
    for step, node in parts.items():
        if not node:
            continue
        if step[0] == "f":
            inside = properties.get(step[2:]) or schema.additional or _UNTYPED
        else:
            inside = schema.items or _UNTYPED
        below = LEAF if _closed(inside) else _reconciled(node, inside)
        if below is not node:
            if result is parts:
                result = parts.copy()
            result[step] = below
    return result


def _closed(schema: Schema) -> bool:
    if schema.type == "array":
        return schema.list_type == "atomic"
    return schema.type == "object" and schema.map_type == "atomic"
