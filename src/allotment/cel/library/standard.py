"""The functions every expression has: operators, conversions, sizes, text and time.

Operators on numbers check the ranges of their types. What the compiler evaluates itself, because not all of
its arguments may be evaluated or because an error may be an argument (``&&``, ``||``, ``?:``, indexing,
equality), is declared here for the checker and has no implementation.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from allotment.cel import conversions as convert
from allotment.cel import types
from allotment.cel.declare import Function, Library, Overload
from allotment.cel.errors import CelNoSuchOverload, CelRuntimeError
from allotment.cel.library.regex import matches
from allotment.cel.macros import STANDARD
from allotment.cel.times import SECOND, Fields
from allotment.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT, Type
from allotment.cel.values import (
    Duration,
    UInt,
    Value,
    checked_duration,
    checked_int,
    checked_timestamp,
    checked_uint,
    compare,
    equal,
    equals,
    find,
)

A = types.param("A")
B = types.param("B")
LIST = types.list_of(A)
MAP = types.map_of(A, B)


# --- arithmetic


def _quotient(dividend: int, divisor: int) -> int:
    if divisor == 0:
        raise CelRuntimeError("division by zero")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _remainder(dividend: int, divisor: int) -> int:
    if divisor == 0:
        raise CelRuntimeError("modulus by zero")
    remainder = abs(dividend) % abs(divisor)
    return -remainder if dividend < 0 else remainder


def _divide_int(dividend: int, divisor: int) -> int:
    return checked_int(_quotient(dividend, divisor))


def _modulo_int(dividend: int, divisor: int) -> int:
    if divisor == -1:
        checked_int(-dividend)
    return _remainder(dividend, divisor)


def _divide_double(dividend: float, divisor: float) -> float:
    if divisor != 0.0:
        return dividend / divisor
    if dividend == 0.0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


_SUM = (
    Overload("add_bytes", (BYTES, BYTES), BYTES, operator.add),
    Overload("add_double", (DOUBLE, DOUBLE), DOUBLE, operator.add),
    Overload(
        "add_duration_duration", (DURATION, DURATION), DURATION, lambda a, b: checked_duration(a.ns + b.ns)
    ),
    Overload(
        "add_duration_timestamp",
        (DURATION, TIMESTAMP),
        TIMESTAMP,
        lambda a, b: checked_timestamp(a.ns + b.ns, b.offset),
    ),
    Overload(
        "add_timestamp_duration",
        (TIMESTAMP, DURATION),
        TIMESTAMP,
        lambda a, b: checked_timestamp(a.ns + b.ns, a.offset),
    ),
    Overload("add_int64", (INT, INT), INT, lambda a, b: checked_int(a + b)),
    Overload("add_list", (LIST, LIST), LIST, operator.add),
    Overload("add_string", (STRING, STRING), STRING, operator.add),
    Overload("add_uint64", (UINT, UINT), UINT, lambda a, b: checked_uint(int(a) + int(b))),
)
_DIFFERENCE = (
    Overload("subtract_double", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a - b),
    Overload(
        "subtract_duration_duration",
        (DURATION, DURATION),
        DURATION,
        lambda a, b: checked_duration(a.ns - b.ns),
    ),
    Overload("subtract_int64", (INT, INT), INT, lambda a, b: checked_int(a - b)),
    Overload(
        "subtract_timestamp_duration",
        (TIMESTAMP, DURATION),
        TIMESTAMP,
        lambda a, b: checked_timestamp(a.ns - b.ns, a.offset),
    ),
    Overload(
        "subtract_timestamp_timestamp",
        (TIMESTAMP, TIMESTAMP),
        DURATION,
        lambda a, b: checked_duration(a.ns - b.ns),
    ),
    Overload("subtract_uint64", (UINT, UINT), UINT, lambda a, b: checked_uint(int(a) - int(b))),
)
_ARITHMETIC = (
    Function("_+_", _SUM),
    Function("_-_", _DIFFERENCE),
    Function(
        "_*_",
        (
            Overload("multiply_double", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a * b),
            Overload("multiply_int64", (INT, INT), INT, lambda a, b: checked_int(a * b)),
            Overload("multiply_uint64", (UINT, UINT), UINT, lambda a, b: checked_uint(int(a) * int(b))),
        ),
    ),
    Function(
        "_/_",
        (
            Overload("divide_double", (DOUBLE, DOUBLE), DOUBLE, _divide_double),
            Overload("divide_int64", (INT, INT), INT, _divide_int),
            Overload("divide_uint64", (UINT, UINT), UINT, lambda a, b: UInt(_quotient(int(a), int(b)))),
        ),
    ),
    Function(
        "_%_",
        (
            Overload("modulo_int64", (INT, INT), INT, _modulo_int),
            Overload("modulo_uint64", (UINT, UINT), UINT, lambda a, b: UInt(_remainder(int(a), int(b)))),
        ),
    ),
    Function(
        "-_",
        (
            Overload("negate_double", (DOUBLE,), DOUBLE, lambda a: -a),
            Overload("negate_int64", (INT,), INT, lambda a: checked_int(-a)),
        ),
    ),
)


# --- order

_ORDERED = (
    ("bool", BOOL, BOOL),
    ("int64", INT, INT),
    ("int64_double", INT, DOUBLE),
    ("int64_uint64", INT, UINT),
    ("uint64", UINT, UINT),
    ("uint64_double", UINT, DOUBLE),
    ("uint64_int64", UINT, INT),
    ("double", DOUBLE, DOUBLE),
    ("double_int64", DOUBLE, INT),
    ("double_uint64", DOUBLE, UINT),
    ("string", STRING, STRING),
    ("bytes", BYTES, BYTES),
    ("timestamp", TIMESTAMP, TIMESTAMP),
    ("duration", DURATION, DURATION),
)
_DIRECT = frozenset(
    {"int64", "uint64", "int64_uint64", "uint64_int64", "string", "bytes", "bool", "timestamp", "duration"}
)

CROSS_TYPE_ORDER = frozenset(
    f"{name}_{kinds}"
    for name in ("less", "less_equals", "greater", "greater_equals")
    for kinds, left, right in _ORDERED
    if left is not right
)
"""Overloads that compare numbers of different types; environments may forbid to write them."""


def _relation(
    name: str, prefix: str, direct: Callable[[Value, Value], bool], ordered: Callable[[int], bool]
) -> Function:
    """Doubles go through ``compare``, which refuses NaN; the others through Python's own operator."""
    overloads = tuple(
        Overload(
            f"{prefix}_{kinds}",
            (left, right),
            BOOL,
            direct if kinds in _DIRECT else lambda a, b: ordered(compare(a, b)),
        )
        for kinds, left, right in _ORDERED
    )
    return Function(name, overloads)


_RELATIONS = (
    _relation("_<_", "less", operator.lt, lambda order: order < 0),
    _relation("_<=_", "less_equals", operator.le, lambda order: order <= 0),
    _relation("_>_", "greater", operator.gt, lambda order: order > 0),
    _relation("_>=_", "greater_equals", operator.ge, lambda order: order >= 0),
)


# --- logic and containers


def _not(value: Value) -> bool:
    if type(value) is not bool:
        raise CelNoSuchOverload
    return not value


def _in_list(value: Value, items: list[Value]) -> bool:
    return any(equal(value, item) for item in items)


def _in_map(key: Value, mapping: dict[Value, Value]) -> bool:
    return key in mapping if type(key) is str else find(mapping, key)[1]


_LOGIC = (
    Function("_?_:_", (Overload("conditional", (BOOL, A, A), A),)),
    Function("_&&_", (Overload("logical_and", (BOOL, BOOL), BOOL),)),
    Function("_||_", (Overload("logical_or", (BOOL, BOOL), BOOL),)),
    Function("!_", (Overload("logical_not", (BOOL,), BOOL, _not),)),
    Function("@not_strictly_false", (Overload("not_strictly_false", (BOOL,), BOOL),)),
    Function("_==_", (Overload("equals", (A, A), BOOL, equals),)),
    Function("_!=_", (Overload("not_equals", (A, A), BOOL, lambda a, b: not equal(a, b)),)),
)


def _size(*names: tuple[str, Type]) -> Function:
    overloads = [Overload(f"size_{name}", (type_,), INT, len) for name, type_ in names]
    members = [Overload(f"{name}_size", (type_,), INT, len, member=True) for name, type_ in names]
    return Function("size", tuple(o for pair in zip(overloads, members, strict=True) for o in pair))


_CONTAINERS = (
    Function("_[_]", (Overload("index_list", (LIST, INT), A), Overload("index_map", (MAP, A), B))),
    Function(
        "@in", (Overload("in_list", (A, LIST), BOOL, _in_list), Overload("in_map", (A, MAP), BOOL, _in_map))
    ),
    _size(("bytes", BYTES), ("list", LIST), ("map", MAP), ("string", STRING)),
)


# --- conversions

_CONVERSIONS = (
    Function("type", (Overload("type", (A,), types.type_of(A), convert.type_value),)),
    Function("dyn", (Overload("to_dyn", (A,), DYN, convert.identity),)),
    Function(
        "bool",
        (
            Overload("bool_to_bool", (BOOL,), BOOL, convert.identity),
            Overload("string_to_bool", (STRING,), BOOL, convert.bool_from_string),
        ),
    ),
    Function(
        "bytes",
        (
            Overload("bytes_to_bytes", (BYTES,), BYTES, convert.identity),
            Overload("string_to_bytes", (STRING,), BYTES, convert.bytes_from_string),
        ),
    ),
    Function(
        "double",
        (
            Overload("double_to_double", (DOUBLE,), DOUBLE, convert.identity),
            Overload("int64_to_double", (INT,), DOUBLE, convert.double_from_integer),
            Overload("string_to_double", (STRING,), DOUBLE, convert.double_from_string),
            Overload("uint64_to_double", (UINT,), DOUBLE, convert.double_from_integer),
        ),
    ),
    Function(
        "duration",
        (
            Overload("duration_to_duration", (DURATION,), DURATION, convert.identity),
            Overload("string_to_duration", (STRING,), DURATION, convert.duration_from_string),
        ),
    ),
    Function(
        "int",
        (
            Overload("int64_to_int64", (INT,), INT, convert.identity),
            Overload("double_to_int64", (DOUBLE,), INT, convert.int_from_double),
            Overload("duration_to_int64", (DURATION,), INT, convert.int_from_duration),
            Overload("string_to_int64", (STRING,), INT, convert.int_from_string),
            Overload("timestamp_to_int64", (TIMESTAMP,), INT, convert.int_from_timestamp),
            Overload("uint64_to_int64", (UINT,), INT, convert.int_from_uint),
        ),
    ),
    Function(
        "string",
        (
            Overload("string_to_string", (STRING,), STRING, convert.identity),
            Overload("bool_to_string", (BOOL,), STRING, convert.string_from_bool),
            Overload("bytes_to_string", (BYTES,), STRING, convert.string_from_bytes),
            Overload("double_to_string", (DOUBLE,), STRING, convert.string_from_double),
            Overload("duration_to_string", (DURATION,), STRING, convert.string_from_duration),
            Overload("int64_to_string", (INT,), STRING, convert.string_from_integer),
            Overload("timestamp_to_string", (TIMESTAMP,), STRING, convert.string_from_timestamp),
            Overload("uint64_to_string", (UINT,), STRING, convert.string_from_integer),
        ),
    ),
    Function(
        "timestamp",
        (
            Overload("timestamp_to_timestamp", (TIMESTAMP,), TIMESTAMP, convert.identity),
            Overload("int64_to_timestamp", (INT,), TIMESTAMP, convert.timestamp_from_int),
            Overload("string_to_timestamp", (STRING,), TIMESTAMP, convert.timestamp_from_string),
        ),
    ),
    Function(
        "uint",
        (
            Overload("uint64_to_uint64", (UINT,), UINT, convert.identity),
            Overload("double_to_uint64", (DOUBLE,), UINT, convert.uint_from_double),
            Overload("int64_to_uint64", (INT,), UINT, convert.uint_from_int),
            Overload("string_to_uint64", (STRING,), UINT, convert.uint_from_string),
        ),
    ),
)


# --- text


_TEXT = (
    Function(
        "contains", (Overload("contains_string", (STRING, STRING), BOOL, operator.contains, member=True),)
    ),
    Function(
        "endsWith",
        (Overload("ends_with_string", (STRING, STRING), BOOL, lambda a, b: a.endswith(b), member=True),),
    ),
    Function(
        "startsWith",
        (Overload("starts_with_string", (STRING, STRING), BOOL, lambda a, b: a.startswith(b), member=True),),
    ),
    Function(
        "matches",
        (
            Overload("matches", (STRING, STRING), BOOL, matches),
            Overload("matches_string", (STRING, STRING), BOOL, matches, member=True),
        ),
    ),
)


# --- time


def _accessor(name: str, suffix: str, read: Callable[[Fields], int], *extra: Overload) -> Function:
    return Function(
        name,
        (
            Overload(f"timestamp_to_{suffix}", (TIMESTAMP,), INT, lambda t: read(Fields(t, "")), member=True),
            Overload(
                f"timestamp_to_{suffix}_with_tz",
                (TIMESTAMP, STRING),
                INT,
                lambda t, zone: read(Fields(t, zone)),
                member=True,
            ),
            *extra,
        ),
    )


def _in_units(suffix: str, unit: int) -> Overload:
    def whole(duration: Duration) -> int:
        return _quotient(duration.ns, unit)

    return Overload(f"duration_to_{suffix}", (DURATION,), INT, whole, member=True)


_TIME = (
    _accessor("getFullYear", "year", lambda f: f.year),
    _accessor("getMonth", "month", lambda f: f.month - 1),
    _accessor("getDayOfYear", "day_of_year", lambda f: f.day_of_year - 1),
    _accessor("getDayOfMonth", "day_of_month", lambda f: f.day - 1),
    _accessor("getDate", "day_of_month_1_based", lambda f: f.day),
    _accessor("getDayOfWeek", "day_of_week", lambda f: f.weekday),
    _accessor("getHours", "hours", lambda f: f.second_of_day // 3600, _in_units("hours", 3600 * SECOND)),
    _accessor(
        "getMinutes", "minutes", lambda f: f.second_of_day // 60 % 60, _in_units("minutes", 60 * SECOND)
    ),
    _accessor("getSeconds", "seconds", lambda f: f.second_of_day % 60, _in_units("seconds", SECOND)),
    _accessor(
        "getMilliseconds",
        "milliseconds",
        lambda f: f.nanos // 10**6,
        _in_units("milliseconds", SECOND // 1000),
    ),
)

LIBRARY = Library(
    "standard",
    functions=(*_LOGIC, *_ARITHMETIC, *_RELATIONS, *_CONTAINERS, *_CONVERSIONS, *_TEXT, *_TIME),
    macros=STANDARD,
    types=(
        BOOL,
        BYTES,
        DOUBLE,
        DURATION,
        INT,
        LIST,
        MAP,
        types.NULL,
        STRING,
        TIMESTAMP,
        types.type_of(A),
        UINT,
    ),
)
