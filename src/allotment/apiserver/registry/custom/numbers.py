"""Numbers the way a Kubernetes server compares them and writes them in messages, which is Go's way."""

from __future__ import annotations

from typing import Any, Final

INTEGERS: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_LARGEST_FLOAT32: Final = 3.4028235677973366e38


def told(number: float) -> str:
    """A number in a message: whole floats without a point, large ones with an exponent."""
    if isinstance(number, int):
        return str(number)
    if number == int(number) and abs(number) < 1e21:
        return str(int(number))
    text = repr(number)
    mantissa, mark, exponent = text.partition("e")
    if not mark:
        return _exponent(number) if abs(number) < 1e-4 else text
    sign, digits = exponent[:1], exponent.lstrip("+-")
    return f"{mantissa}e{'-' if sign == '-' else '+'}{digits.zfill(2)}"


def _exponent(number: float) -> str:
    for digits in range(17):
        text = f"{number:.{digits}e}"
        if float(text) == number:
            return text
    return repr(number)


def is_whole(number: float) -> bool:
    """Whether a float is an integer that JSON can carry, give or take what computing with floats loses."""
    if number != number or number in (float("inf"), float("-inf")):
        return False
    if not -(2.0**53) + 1 <= number <= 2.0**53 - 1:
        return False
    whole = float(int(number))
    difference = abs(number - whole)
    if number == whole:
        return True
    if number == 0 or whole == 0:
        return difference < 2.220446049250313e-16 * 2.2250738585072014e-308
    return difference / (abs(number) + abs(whole)) < 2.220446049250313e-16 * 1e7


def range_error(number: Any, type_: str, format_: str, what: str, path: str) -> str | None:
    """That a number, or a bound for numbers, is none of its type."""
    if type_ == "integer":
        low, high = INTEGERS.get(format_, INTEGERS["int64"])
        fits = number == int(number) and low <= number <= high
    else:
        fits = format_ != "float" or abs(number) <= _LARGEST_FLOAT32
    if fits:
        return None
    kind = (
        f"of type {type_ or 'number'} with format {format_}"
        if format_
        else f"of type {type_} (default format)"
    )
    return f"{what} value must be {kind} in {path}"
