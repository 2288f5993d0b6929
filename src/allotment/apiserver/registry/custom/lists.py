"""Lists that are sets or maps (``x-kubernetes-list-type``): no element, or key, may occur twice."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import msgspec

from allotment.api.fields import ErrorKind, FieldError, FieldPath
from allotment.apiserver.registry.custom.structural import Structural

_ordered = msgspec.json.Encoder(order="sorted").encode


def list_errors(structural: Structural | None, value: Any, path: FieldPath) -> Iterator[FieldError]:
    """An error for every repeated element of a set, and every repeated key of a map."""
    if structural is None:
        return
    if isinstance(value, dict):
        for name, item in value.items():
            if name in structural.properties:
                yield from list_errors(structural.properties[name], item, path.child(name))
            elif structural.additional is not None:
                yield from list_errors(structural.additional, item, path.key(name))
    elif isinstance(value, list):
        if structural.list_type == "set":
            yield from _repeated(value, value, path)
        elif structural.list_type == "map":
            yield from _map_errors(structural, value, path)
        if structural.items is not None:
            for index, item in enumerate(value):
                yield from list_errors(structural.items, item, path.index(index))


def _map_errors(structural: Structural, value: list[Any], path: FieldPath) -> Iterator[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            yield path.index(index).invalid("must be an object for an array of list-type map", item)
            return
    keys = [{key: item[key] for key in structural.list_keys if key in item} if item else {} for item in value]
    yield from _repeated(keys, keys, path)


def _repeated(values: list[Any], shown: list[Any], path: FieldPath) -> Iterator[FieldError]:
    times: dict[Hashable, int] = {}
    for index, value in enumerate(values):
        key = identity(value)
        times[key] = times.get(key, 0) + 1
        if times[key] == 2:  # each repeated one is reported once
            yield FieldError(path.index(index), ErrorKind.DUPLICATE, "", shown[index])


def map_key(raw: Mapping[str, Any], item: Any) -> Hashable:
    """What identifies an element of a list of the type map."""
    if not isinstance(item, dict):
        return None
    return tuple(identity(item.get(key)) for key in raw.get("x-kubernetes-list-map-keys") or ())


def identity(value: Any) -> Hashable:
    """A stand-in for a JSON value that is equal for equal values alone: ``true`` is not 1."""
    return _ordered(value) if isinstance(value, dict | list) else (value.__class__, value)
