"""Conversions between types: ``int("7")``, ``string(1.5)``, ``timestamp("2024-…")``.

They accept the same text as Go's parsers, since expressions are shared with Kubernetes.
"""

from __future__ import annotations

import math
import re

from allotment.cel.errors import CelRuntimeError
from allotment.cel.times import SECOND, format_duration, format_timestamp, parse_duration, parse_timestamp
from allotment.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    Value,
    checked_int,
    checked_timestamp,
    checked_uint,
    type_name,
)

_INT = re.compile(r"[+-]?[0-9]{1,400}")
_UINT = re.compile(r"[0-9]{1,400}")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEX_DOUBLE = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE)
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _refusal(source: str, target: str) -> CelRuntimeError:
    return CelRuntimeError(f"type conversion error from '{source}' to '{target}'")


def identity(value: Value) -> Value:
    return value


def type_value(value: Value) -> TypeValue:
    return TypeValue(type_name(value))


def int_from_double(value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise CelRuntimeError("integer overflow")
    return int(value)


def int_from_string(text: str) -> int:
    if _INT.fullmatch(text) is None or not INT_MIN <= int(text) <= INT_MAX:
        raise _refusal("string", "int")
    return int(text)


def int_from_uint(value: int) -> int:
    return checked_int(int(value))


def int_from_timestamp(value: Timestamp) -> int:
    return value.ns // SECOND


def int_from_duration(value: Duration) -> int:
    return value.ns


def uint_from_double(value: float) -> UInt:
    if not 0.0 <= value < 2.0**64:
        raise CelRuntimeError("unsigned integer overflow")
    return UInt(value)


def uint_from_int(value: int) -> UInt:
    return checked_uint(value)


def uint_from_string(text: str) -> UInt:
    if _UINT.fullmatch(text) is None or int(text) > UINT_MAX:
        raise _refusal("string", "uint")
    return UInt(text)


def double_from_integer(value: int) -> float:
    return float(value)


def double_from_string(text: str) -> float:
    if _DOUBLE.fullmatch(text) is not None:
        number = float(text)
    elif _SPECIAL.fullmatch(text) is not None:
        return float(text)
    elif _HEX_DOUBLE.fullmatch(text) is not None:
        try:
            number = float.fromhex(text)
        except OverflowError as exc:
            raise _refusal("string", "double") from exc
    else:
        raise _refusal("string", "double")
    if math.isinf(number):
        raise _refusal("string", "double")
    return number


def bool_from_string(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _refusal("string", "bool")


def string_from_bool(value: bool) -> str:
    return "true" if value else "false"


def string_from_integer(value: int) -> str:
    return str(int(value))


def string_from_double(value: float) -> str:
    """As few digits as identify the double; an exponent below 1e-4 and from 1e6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    digits, exponent = _shortest(abs(value))
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if -4 <= exponent < 6:
        return sign + _positional(digits, exponent)
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _shortest(value: float) -> tuple[str, int]:
    """The digits without leading or trailing zeros, and the power of ten of the first."""
    mantissa, _, power = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0", 0
    exponent = int(power or "0") + (
        len(whole) - 1 if whole != "0" else -(len(fraction) - len(fraction.lstrip("0")) + 1)
    )
    return digits.rstrip("0") or "0", exponent


def _positional(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def string_from_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as exc:
        raise CelRuntimeError("invalid UTF-8 in bytes, cannot convert to string") from exc


def string_from_timestamp(value: Timestamp) -> str:
    return format_timestamp(value)


def string_from_duration(value: Duration) -> str:
    return format_duration(value)


def bytes_from_string(text: str) -> bytes:
    return text.encode()


def timestamp_from_int(seconds: int) -> Timestamp:
    return checked_timestamp(seconds * SECOND)


def timestamp_from_string(text: str) -> Timestamp:
    parsed = parse_timestamp(text)
    if parsed is None:
        raise _refusal("string", "google.protobuf.Timestamp")
    return parsed


def duration_from_string(text: str) -> Duration:
    parsed = parse_duration(text)
    if parsed is None:
        raise _refusal("string", "google.protobuf.Duration")
    return parsed
