"""Values at run time: Python's own types where one fits, small classes elsewhere.

| CEL | Python | | CEL | Python |
|---|---|---|---|---|
| null | None | | list | list (never changed after it is made) |
| bool | bool | | map | dict; a bool key is stored as :class:`BoolKey` (Python holds ``True == 1``) |
| int | int | | timestamp | :class:`Timestamp` |
| uint | :class:`UInt` | | duration | :class:`Duration` |
| double | float | | optional | :class:`Optional` |
| string | str | | type | :class:`TypeValue` |
| bytes | bytes | | others | the class its library declares (Quantity, Semver, …) |

Python's bool is an int and UInt is an int: tell them apart with ``type(value) is int``, never isinstance.
Numbers of different types are equal, and the same map key, when they are numerically equal; ``equal`` and
``compare`` implement that and everything else the language says about equality.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from allotment.cel.errors import CelNoSuchOverload, CelRuntimeError
from allotment.cel.types import Type

Value: TypeAlias = Any

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1
TIMESTAMP_MIN: Final = -62135596800 * 10**9
TIMESTAMP_MAX: Final = 253402300799 * 10**9 + 999_999_999


class UInt(int):
    """An unsigned 64-bit integer. Arithmetic on it gives plain ints: wrap the result again."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Nanoseconds since 1970-01-01T00:00:00Z, within the years 1 to 9999."""

    ns: int
    offset: int = field(default=0, compare=False)
    """Seconds east of UTC in the original text. Only ``string()`` shows it."""


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """Nanoseconds, within 64 bits."""

    ns: int


@dataclass(frozen=True, slots=True)
class Optional:
    """``optional.of(value)``; ``OPTIONAL_NONE`` is ``optional.none()``."""

    value: Value
    present: bool = True


OPTIONAL_NONE: Final = Optional(None, present=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """The value of ``type(x)``: only the name counts."""

    name: str


@dataclass(frozen=True, slots=True)
class BoolKey:
    """A bool as a map key, apart from the ints 0 and 1."""

    value: bool


TRUE_KEY: Final = BoolKey(True)
FALSE_KEY: Final = BoolKey(False)


def checked_int(number: int) -> int:
    if INT_MIN <= number <= INT_MAX:
        return number
    raise CelRuntimeError("integer overflow")


def checked_uint(number: int) -> UInt:
    if 0 <= number <= UINT_MAX:
        return UInt(number)
    raise CelRuntimeError("unsigned integer overflow")


def checked_timestamp(ns: int, offset: int = 0) -> Timestamp:
    if TIMESTAMP_MIN <= ns <= TIMESTAMP_MAX:
        return Timestamp(ns, offset)
    raise CelRuntimeError("timestamp overflow")


def checked_duration(ns: int) -> Duration:
    if INT_MIN <= ns <= INT_MAX:
        return Duration(ns)
    raise CelRuntimeError("duration overflow")


def map_key(value: Value) -> Any:
    """A value as it is stored in a dict; raises for what cannot be a key."""
    kind = type(value)
    if kind is str or kind is int or kind is UInt:
        return value
    if kind is bool:
        return TRUE_KEY if value else FALSE_KEY
    raise CelRuntimeError(f"unsupported key type: {type_name(value)}")


def key_value(key: Any) -> Value:
    """The value a dict key stands for."""
    return key.value if type(key) is BoolKey else key


def make_map(entries: Iterable[tuple[Value, Value]]) -> dict[Any, Value]:
    """A map of these entries; the last of equal keys wins. Literals check for repeated keys themselves."""
    return {map_key(key): value for key, value in entries}


def make_literal_map(entries: Iterable[tuple[Value, Value]], unique: bool) -> dict[Any, Value]:
    """A map of the entries of a literal; with ``unique``, two equal keys are an error."""
    result: dict[Any, Value] = {}
    for key, value in entries:
        stored = map_key(key)
        if unique and stored in result:
            raise CelRuntimeError(f"repeated key in map literal: {key}")
        result[stored] = value
    return result


def find(mapping: Mapping[Any, Value], key: Value) -> tuple[Value, bool]:
    """The value under a key and whether there is one. Numbers find keys they are equal to."""
    kind = type(key)
    if kind is bool:
        key = TRUE_KEY if key else FALSE_KEY
    elif kind is not str and kind is not int and kind is not UInt and kind is not float:
        return None, False
    value = mapping.get(key, _ABSENT)
    return (None, False) if value is _ABSENT else (value, True)


_ABSENT: Final = object()
_NUMBERS: Final = frozenset({int, UInt, float})
_SCALARS: Final = frozenset({str, int, UInt, float, bool, bytes, type(None), Timestamp, Duration, TypeValue})
MOST_EQUALITY_STEPS: Final = 250_000


def equal(left: Value, right: Value) -> bool:
    """Whether two values are the same: numbers by value, containers by element, other types never across."""
    try:
        return equals(left, right)
    except CelNoSuchOverload:
        return False


def equals(left: Value, right: Value) -> bool:
    """The operator ``==``, which raises for a value of a library's type beside one of another type."""
    kind = type(left)
    if kind is not type(right):
        if kind in _NUMBERS:
            return type(right) in _NUMBERS and _order_numbers(left, right) == 0
        if kind in _SCALARS or kind is list or kind is Optional:
            return False
        if isinstance(left, dict):
            return isinstance(right, dict) and _equal_containers(left, right)
        if right is None:
            return False
        raise CelNoSuchOverload(f"{type_name(left)} cannot be equal to {type_name(right)}")
    if kind in _SCALARS:
        return bool(left == right)
    return _equal_containers(left, right)


def _equal_containers(left: Value, right: Value) -> bool:
    """Pairs still to compare lie on a list. Values can share parts so that a small one is a huge tree;
    hence the limit on steps."""
    pending = [(left, right)]
    steps = 0
    while pending:
        steps += 1
        if steps > MOST_EQUALITY_STEPS:
            raise CelRuntimeError(f"values too large to compare: more than {MOST_EQUALITY_STEPS} parts")
        one, two = pending.pop()
        kind = type(one)
        if kind is list and type(two) is list:
            if len(one) != len(two):
                return False
            pending.extend(zip(one, two, strict=True))
        elif isinstance(one, dict) and isinstance(two, dict):
            if len(one) != len(two) or any(key not in two for key in one):
                return False
            pending.extend((value, two[key]) for key, value in one.items())
        elif kind is Optional and type(two) is Optional:
            if one.present != two.present:
                return False
            pending.append((one.value, two.value))
        elif kind is type(two):
            if one != two:
                return False
        elif kind in _NUMBERS and type(two) in _NUMBERS:
            if _order_numbers(one, two) != 0:
                return False
        elif (
            one is None
            or two is None
            or kind in _SCALARS
            or kind in (list, Optional)
            or isinstance(one, dict)
        ):
            return False
        # What is left cannot be compared. On its own that is an error; inside a container upstream overlooks it.
    return True


def _order_numbers(left: Value, right: Value) -> int | None:
    """-1, 0, 1, or None beside NaN. Integers beside doubles are compared as doubles, as upstream does."""
    if type(left) is float or type(right) is float:
        if type(left) is not float and -(2.0**63) <= right < 2.0**64:
            left = float(left)
        elif type(right) is not float and -(2.0**63) <= left < 2.0**64:
            right = float(right)
        if left != left or right != right:
            return None
    return int(left > right) - int(left < right)


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1. Raises for NaN and where the types have no common order."""
    kind = type(left)
    if kind in _NUMBERS and type(right) in _NUMBERS:
        order = _order_numbers(left, right)
        if order is None:
            raise CelRuntimeError("NaN values cannot be ordered")
        return order
    if kind is type(right) and kind in _ORDERED:
        return int(left > right) - int(left < right)
    raise CelNoSuchOverload(f"{type_name(left)} has no order with {type_name(right)}")


_ORDERED: Final = frozenset({str, bytes, bool, Timestamp, Duration})


def size_of(value: Value) -> int:
    """The size on which costs are based: characters, bytes or entries; 1 for values without a size.

    A library's class takes part by defining ``__len__``.
    """
    kind = type(value)
    if kind is str or kind is list or kind is dict or kind is bytes:
        return len(value)
    if kind is int or kind is float or kind is bool or value is None:
        return 1
    return len(value) if hasattr(kind, "__len__") else 1


CLASS_NAMES: Final[dict[type, str]] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    Optional: "optional_type",
    TypeValue: "type",
}


def type_name(value: Value) -> str:
    """The name ``type(value)`` has. A library's class carries its type as ``cel_type``."""
    kind = type(value)
    name = CLASS_NAMES.get(kind)
    if name is not None:
        return name
    declared = getattr(kind, "cel_type", None)
    if isinstance(declared, Type):
        return declared.name
    return "map" if issubclass(kind, dict) else kind.__name__
