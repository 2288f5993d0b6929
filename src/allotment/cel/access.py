"""One step into a value: ``map.key``, ``list[index]``, with the errors the language gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from allotment.cel.errors import CelNoSuchKey, CelRuntimeError, CelUnknown
from allotment.cel.values import BoolKey, Duration, Optional, Timestamp, UInt, Value, find, type_name

# Upstream's messages name the Go types of values, and tests compare them.
_GO_NAMES: dict[type, str] = {
    type(None): "types.Null",
    bool: "types.Bool",
    int: "types.Int",
    UInt: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    Timestamp: "types.Timestamp",
    Duration: "types.Duration",
    Optional: "*types.Optional",
}


class DefaultMap(dict[Any, Value]):
    """A map in which an absent key has an empty map as its value, though the key is not ``in`` it."""

    __slots__ = ()

    def __missing__(self, key: Any) -> Value:
        return {}


class PartlyKnown(dict[Any, Value]):
    """A map in which some entries have values that are not known yet: reading one raises CelUnknown.

    Such an entry's value is the message.
    """

    __slots__ = ("unknown",)

    def __init__(self, known: dict[Any, Value]) -> None:
        super().__init__(known)
        self.unknown: dict[Any, str] = {}

    def foretell(self, key: Any, message: str) -> None:
        """Records that there will be a value under the key."""
        self[key] = None
        self.unknown[key] = message

    def __getitem__(self, key: Any) -> Value:
        if key in self.unknown:
            raise CelUnknown(self.unknown[key])
        return super().__getitem__(key)

    def get(self, key: Any, default: Value = None) -> Value:
        if key not in self:
            return default
        return self[key]

    def items(self) -> Any:
        for message in self.unknown.values():
            raise CelUnknown(message)
        return super().items()

    def values(self) -> Any:
        return dict(self.items()).values()


def has(value: Value, key: Value, strict: bool) -> bool:
    """Whether there is an entry, known or not."""
    try:
        return seek(value, key, strict)[1]
    except CelUnknown:
        return True


def look(value: Value, key: Value) -> tuple[Value, bool]:
    """The entry under a key or index, and whether there is one. A value without entries has none under any key.

    Raises where the key cannot be an index.
    """
    if isinstance(value, dict):
        found, present = find(value, key)
        if not present and type(value) is DefaultMap and type(key) is str:
            return {}, True
        return found, present
    if type(value) is list:
        index = _index(key)
        if 0 <= index < len(value):
            return value[index], True
    return None, False


def seek(value: Value, key: Value, strict: bool) -> tuple[Value, bool]:
    """Like ``look``; with ``strict``, raises for values that cannot have entries. Keys do not reach into an optional."""
    found = look(value, key)
    if strict and not found[1] and not isinstance(value, list | dict | Optional):
        raise CelNoSuchKey(_shown(key))
    return found


def enter(value: Value, key: Value) -> Value:
    """The entry under a key or index. Raises where there is none."""
    found, present = look(value, key)
    if present:
        return found
    if type(value) is list:
        raise CelRuntimeError(f"index out of bounds: {key}")
    raise CelNoSuchKey(_shown(key))


def _shown(key: Value) -> object:
    return ("true" if key else "false") if type(key) is bool else key


def _index(key: Value) -> int:
    kind = type(key)
    if kind is int or kind is UInt:
        return int(key)
    if kind is float:
        if key == key and abs(key) < 2.0**63 and key == int(key):
            return int(key)
        raise CelRuntimeError(f"unsupported index value {key} in list")
    raise CelRuntimeError(f"unsupported index type '{type_name(key)}' in list")


def elements(value: Value) -> Iterable[Value]:
    """What a comprehension with one variable runs over: elements, or keys."""
    if type(value) is list:
        return value
    if isinstance(value, dict):
        return [key.value if type(key) is BoolKey else key for key in value]
    raise CelRuntimeError(f"got '{_go_name(value)}', expected iterable type")


def entries(value: Value) -> Iterable[tuple[Value, Value]]:
    """What a comprehension with two variables runs over: index and element, or key and value."""
    if type(value) is list:
        return enumerate(value)
    if isinstance(value, dict):
        return [(key.value if type(key) is BoolKey else key, entry) for key, entry in value.items()]
    raise CelRuntimeError(f"unsupported comprehension range type: {_go_name(value)}")


def _go_name(value: Value) -> str:
    known = _GO_NAMES.get(type(value))
    return known if known is not None else f"cel.{type_name(value).rpartition('.')[2]}"
