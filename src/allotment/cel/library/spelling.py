"""Scalars as text: what ``string(x)`` gives, and ``%s`` with it.

Doubles have the fewest digits that read back as the same number; from a million up, and below a ten
thousandth, they take an exponent of at least two digits (``1e+06``), as C's ``%g``.
"""

import math
from decimal import Decimal

from allotment.cel.conversions import string_from_bytes
from allotment.cel.errors import CelNoSuchOverload
from allotment.cel.times import format_duration, format_timestamp
from allotment.cel.values import Duration, Timestamp, TypeValue, UInt, Value, type_name


def text_of(value: Value) -> str:
    """Numbers, bools, text, UTF-8 bytes, moments, durations and types; others have no text."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | UInt():
            return int.__repr__(value)
        case float():
            return double_text(value)
        case bytes():
            return string_from_bytes(value)
        case Timestamp():
            return format_timestamp(value)
        case Duration():
            return format_duration(value)
        case TypeValue():
            return value.name
    raise CelNoSuchOverload(f"{type_name(value)} has no text")


def double_text(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    shortest = Decimal(repr(number)).normalize()
    if -4 <= shortest.adjusted() < 6:
        return decimal_text(number)
    return f"{number:.{len(shortest.as_tuple().digits) - 1}e}"


def decimal_text(number: float) -> str:
    """The fewest digits that read back as the same double, never with an exponent."""
    return f"{Decimal(repr(number)):f}".removesuffix(".0")
