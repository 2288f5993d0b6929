"""Whether a schema is *structural*: every value has one type, told apart from what restricts it.

Pruning and defaulting need that: what a value is must follow from its place alone, not from which of several alternatives
it satisfies. So types, defaults and extensions stand on the spine, and under ``allOf``, ``anyOf``, ``oneOf`` and ``not``
there is nothing but restrictions of fields that the spine has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

import re2

from allotment.api.fields import FieldError, FieldPath
from allotment.api.status import told_as_cause
from allotment.apiserver.registry.custom.patterns import Pattern

Raw = Mapping[str, Any]

UNSUPPORTED: Final = (
    "id",
    "$schema",
    "$ref",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
)
"""What OpenAPI has and structural schemas never do."""
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_EMPTY: Final = "must be empty to be structural"
_FALSE: Final = "must be false to be structural"
_UNDEFINED: Final = "must be undefined to be structural"
_NOT_NESTED: Final = {
    "type": _EMPTY,
    "additionalProperties": _UNDEFINED,
    "default": _UNDEFINED,
    "title": _EMPTY,
    "description": _EMPTY,
    "nullable": _FALSE,
    "x-kubernetes-preserve-unknown-fields": _FALSE,
    "x-kubernetes-embedded-resource": _FALSE,
    "x-kubernetes-int-or-string": _FALSE,
    "x-kubernetes-list-map-keys": _EMPTY,
    "x-kubernetes-list-type": _UNDEFINED,
    "x-kubernetes-map-type": _UNDEFINED,
    "x-kubernetes-validations": _EMPTY,
}


class _Level(Enum):
    """Where on the spine a schema stands, in the words of the complaint about its missing type."""

    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"


def structure_errors(raw: Raw, path: FieldPath) -> list[FieldError]:
    """Everything that keeps a schema from being structural, in upstream's order."""
    errors = [*_spine(raw, _Level.ROOT, path), *_restrictions_complete(raw, raw, path, path)]
    return sorted(errors, key=lambda error: f"{error.path}: {told_as_cause(error)}")


def _spine(raw: Raw, level: _Level, path: FieldPath) -> Iterator[FieldError]:
    kind, items, additional = raw.get("type") or "", raw.get("items"), raw.get("additionalProperties")
    if kind == "array" and items is None:
        yield path.child("items").required("must be specified")
    if isinstance(items, dict):
        yield from _spine(items, _Level.ITEM, path.child("items"))
    for name, field in (raw.get("properties") or {}).items():
        yield from _spine(field, _Level.FIELD, path.child("properties").key(name))
    if additional is not None:
        if level is _Level.ROOT:
            yield path.child("additionalProperties").forbidden("must not be used at the root")
        if isinstance(additional, dict):
            yield from _spine(additional, _Level.FIELD, path.child("additionalProperties"))
    yield from _extensions(raw, path)
    either = raw.get("anyOf") == _INT_OR_STRING
    first = (raw.get("allOf") or [{}])[0].get("anyOf") == _INT_OR_STRING
    yield from _restrictions(raw, path, either, first)
    yield from _types(raw, kind, level, path)
    yield from _heads(raw, level, path)


def _extensions(raw: Raw, path: FieldPath) -> Iterator[FieldError]:
    if raw.get("x-kubernetes-int-or-string"):
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if raw.get(name):
                yield path.child(name).invalid("must be false if x-kubernetes-int-or-string is true", True)


def _types(raw: Raw, kind: str, level: _Level, path: FieldPath) -> Iterator[FieldError]:
    embedded, preserve = (
        raw.get("x-kubernetes-embedded-resource"),
        raw.get("x-kubernetes-preserve-unknown-fields"),
    )
    if embedded and kind != "object":
        message = "must be object if x-kubernetes-embedded-resource is true"
        at = path.child("type")
        yield at.invalid(message, kind) if kind else at.required(message)
    elif not kind and not raw.get("x-kubernetes-int-or-string") and not preserve:
        yield path.child("type").required(level.value)
    if embedded and raw.get("additionalProperties") is not None:
        yield path.child("additionalProperties").forbidden(
            "must not be used if x-kubernetes-embedded-resource is set"
        )
    if level is _Level.ROOT and kind and kind != "object":
        yield path.child("type").invalid("must be object at the root", kind)
    if embedded and not preserve and not raw.get("properties"):
        yield path.child("properties").required(
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )


def _heads(raw: Raw, level: _Level, path: FieldPath) -> Iterator[FieldError]:
    """What a schema may say about apiVersion, kind and metadata of whole objects."""
    properties, at = raw.get("properties") or {}, path.child("properties")
    whole = level is _Level.ROOT or raw.get("x-kubernetes-embedded-resource")
    for name in ("kind", "apiVersion"):
        if whole and name in properties and properties[name].get("type") != "string":
            yield at.key(name).child("type").invalid("must be string", properties[name].get("type") or "")
    if "metadata" not in properties:
        return
    metadata = properties["metadata"]
    if whole and metadata.get("type") != "object":
        yield at.key("metadata").child("type").invalid("must be object", metadata.get("type") or "")
    if level is _Level.ROOT:
        said = {name for name, value in metadata.items() if value not in (None, False, "", [], {})}
        if said - {"type", "properties", "default"} or (metadata.get("properties") or {}).keys() - {
            "name",
            "generateName",
        }:
            yield at.key("metadata").forbidden(
                "must not specify anything other than name and generateName, but metadata is implicitly specified"
            )


def _restrictions(raw: Raw, path: FieldPath, skip_any: bool, skip_first: bool) -> Iterator[FieldError]:
    for name in ("anyOf", "allOf", "oneOf"):
        for index, nested in enumerate(raw.get(name) or ()):
            if name == "anyOf" and skip_any:
                continue
            either = name == "allOf" and index == 0 and skip_first
            yield from _nested(nested, path.child(name).index(index), either)
    if raw.get("not") is not None:
        yield from _nested(raw["not"], path.child("not"), False)
    if pattern := raw.get("pattern"):
        try:
            Pattern(pattern)
        except re2.error as exc:
            why = exc.args[0].decode() if exc.args and isinstance(exc.args[0], bytes) else str(exc)
            yield path.child("pattern").invalid(
                f"must be a valid regular expression, but isn't: error parsing regexp: {why}", pattern
            )


def _nested(raw: Raw, path: FieldPath, skip_any: bool) -> Iterator[FieldError]:
    yield from _restrictions(raw, path, skip_any, False)
    if isinstance(raw.get("items"), dict):
        yield from _nested(raw["items"], path.child("items"), False)
    for name, field in (raw.get("properties") or {}).items():
        yield from _nested(field, path.child("properties").key(name), False)
    for name, message in _NOT_NESTED.items():
        value = raw.get(name)
        if value or (name in ("additionalProperties", "default") and value is not None):
            yield path.child(name).forbidden(message)
    if "metadata" in (raw.get("properties") or {}):
        yield path.child("properties").key("metadata").forbidden("must not be specified in a nested context")


def _restrictions_complete(raw: Raw, spine: Raw, at: FieldPath, path: FieldPath) -> Iterator[FieldError]:
    """That the spine has every field that is restricted."""
    if raw.get("not") is not None:
        yield from _nested_complete(raw["not"], spine, at, path.child("not"))
    for name in ("allOf", "anyOf", "oneOf"):
        for index, nested in enumerate(raw.get(name) or ()):
            yield from _nested_complete(nested, spine, at, path.child(name).index(index))


def _nested_complete(raw: Raw, spine: Raw | None, at: FieldPath, path: FieldPath) -> Iterator[FieldError]:
    if spine is None:
        yield at.required(f"because it is defined in {path}")
        return
    yield from _restrictions_complete(raw, spine, at, path)
    if isinstance(raw.get("items"), dict):
        inner = spine.get("items")
        yield from _nested_complete(raw["items"], inner, at.child("items"), path.child("items"))
    for name, field in (raw.get("properties") or {}).items():
        there, known = path.child("properties").key(name), (spine.get("properties") or {}).get(name)
        yield from _nested_complete(field, known, at.child("properties").key(name), there)
