"""Whole objects inside others (``x-kubernetes-embedded-resource``), which need apiVersion, kind and valid metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.api.fields import FieldError, FieldPath
from allotment.apiserver.registry.custom.labels import dns_1035_problems
from allotment.apiserver.registry.custom.structural import Structural
from allotment.apiserver.registry.metadata import metadata_errors
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.store.record import Obj

_ANY = Resource(
    "", "v1", "Any", "any", namespaced=False, name_problem=lambda name: None, finalizers_qualified=False
)
_ANY_NAMESPACED = Resource(
    "", "v1", "Any", "any", namespaced=True, name_problem=lambda name: None, finalizers_qualified=False
)


def embedded_errors(structural: Structural | None, value: Any, path: FieldPath) -> Iterator[FieldError]:
    """What is wrong with the objects inside a value."""
    if structural is None:
        return
    if isinstance(value, dict):
        if structural.embedded:
            yield from whole_errors(value, path)
        for name, item in value.items():
            if name in structural.properties:
                yield from embedded_errors(structural.properties[name], item, path.child(name))
            elif structural.additional is not None:
                yield from embedded_errors(structural.additional, item, path.key(name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from embedded_errors(structural.items, item, path.index(index))


def whole_errors(obj: Obj, path: FieldPath) -> Iterator[FieldError]:
    """What is wrong with the head of an object that is not stored by itself."""
    for name in ("apiVersion", "kind"):
        if name not in obj:
            yield path.child(name).required()
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if isinstance(version, str):
        if not version:
            yield path.child("apiVersion").invalid("must not be empty", version)
        elif version.count("/") > 1:
            yield path.child("apiVersion").invalid(f"unexpected GroupVersion string: {version}", version)
    if isinstance(kind, str):
        if not kind:
            yield path.child("kind").invalid("must not be empty", kind)
        elif problems := dns_1035_problems(kind.lower()):
            yield path.child("kind").invalid(
                f"may have mixed case, but should otherwise match: {','.join(problems)}", kind
            )
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        named = {"name": "fakename", **metadata}
        kind_of = _ANY_NAMESPACED if named.get("namespace") else _ANY
        for error in metadata_errors(kind_of, named):
            yield FieldError(path.child(str(error.path)), error.kind, error.message, error.value)
