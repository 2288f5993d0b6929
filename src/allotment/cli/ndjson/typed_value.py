"""CEL values in JSON, with their types: ``["int", 1]``, ``["double", "1.5"]``, ``["list", [["bool", true]]]``.

JSON alone cannot tell an int from a uint or a string from bytes. A value is a pair of a kind and its content:

    ["int", 1]  ["uint", 1]  ["double", "1.5"]  ["bool", true]  ["string", "x"]  ["bytes", "hex"]  ["null"]
    ["list", [value, …]]  ["map", [[key, value], …]]  ["type", "int"]  ["duration", ns]  ["timestamp", ns]

The output, but not the input, may also contain ``["optional"]``, ``["optional", value]`` and, for values of a library's own
type such as a quantity, ``["opaque", "kubernetes.Quantity", "8Gi"]``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from allotment.cel.values import (
    Duration,
    Optional,
    Timestamp,
    TypeValue,
    UInt,
    Value,
    checked_duration,
    checked_int,
    checked_timestamp,
    checked_uint,
    key_value,
    make_map,
    type_name,
)


class TypedValueError(ValueError):
    """The JSON is not a typed value; the message quotes it."""


def to_typed(value: Value) -> list[Any]:
    """A value as a pair of its kind and content."""
    write = _WRITE.get(type(value))
    if write is not None:
        return write(value)
    if isinstance(value, dict):
        return _write_map(value)
    return ["opaque", type_name(value), str(value)]


def _write_map(value: dict[Any, Value]) -> list[Any]:
    return ["map", [[to_typed(key_value(key)), to_typed(item)] for key, item in value.items()]]


_WRITE: dict[type, Callable[[Any], list[Any]]] = {
    type(None): lambda _: ["null"],
    bool: lambda value: ["bool", value],
    int: lambda value: ["int", value],
    UInt: lambda value: ["uint", int(value)],
    float: lambda value: ["double", _double(value)],
    str: lambda value: ["string", value],
    bytes: lambda value: ["bytes", value.hex()],
    list: lambda value: ["list", [to_typed(item) for item in value]],
    dict: _write_map,
    TypeValue: lambda value: ["type", value.name],
    Duration: lambda value: ["duration", value.ns],
    Timestamp: lambda value: ["timestamp", value.ns],
    Optional: lambda value: ["optional", to_typed(value.value)] if value.present else ["optional"],
}


def _double(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def from_typed(typed: Any) -> Value:
    """The value for a pair. Raises TypedValueError, or a CelError if the value is out of range."""
    match typed:
        case ["null"] | ["null", None]:
            return None
        case ["bool", bool(content)]:
            return content
        case ["int" | "uint" | "duration" | "timestamp" as kind, int(number)] if not isinstance(number, bool):
            return _READ_NUMBER[kind](number)
        case ["string", str(text)]:
            return text
        case ["double" | "bytes" | "type" as kind, str(text)]:
            return _read_text(kind, text)
        case ["list", [*items]]:
            return [from_typed(item) for item in items]
        case ["map", [*entries]]:
            return make_map(map(_entry, entries))
    raise TypedValueError(f"{_quoted(typed)} is not a typed value such as {_quoted(['int', 1])}")


_READ_NUMBER: dict[str, Callable[[int], Value]] = {
    "int": checked_int,
    "uint": checked_uint,
    "duration": checked_duration,
    "timestamp": checked_timestamp,
}


def _read_text(kind: str, text: str) -> Value:
    try:
        if kind == "double":
            return float(text)
        return bytes.fromhex(text) if kind == "bytes" else TypeValue(text)
    except ValueError as exc:
        raise TypedValueError(f"{_quoted([kind, text])}: {exc}") from exc


def _entry(entry: Any) -> tuple[Value, Value]:
    match entry:
        case [key, value]:
            return from_typed(key), from_typed(value)
    raise TypedValueError(f"{_quoted(entry)} is not an entry of a map, a pair of key and value")


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
