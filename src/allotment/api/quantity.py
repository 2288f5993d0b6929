"""Amounts such as ``8Gi``, ``100m`` or ``5e3``, which behave exactly as in Kubernetes.

A quantity is an exact number of billionths (``nanos``, a Python int), so comparison, sums and hashing are plain
integer arithmetic without floats. It carries three more things, because they are visible in Kubernetes:

* the *format* it was written in (``5Ki``, ``5k`` or ``5e3``), which decides how a sum is written;
* the *text* it was parsed from, which stays its canonical form if it needed no tidying (``+5``, ``1.500``, ``80E+6``);
* the *storage* that Kubernetes would hold it in: a 64-bit integer with a decimal exponent while that is enough, else a
  ``wide`` decimal. The two round and overflow differently in ``value`` and ``milli_value``; within the range of an
  int64 and for positive amounts they agree.

Equality and hash go by the number alone: ``1Ki == 1024`` and ``1000m == 1``, whatever the format, text or storage.

Parsing rounds up to whole billionths, and caps amounts with a binary suffix at 2**63 - 1, as Kubernetes does. Text
that would cost Kubernetes minutes and gigabytes (``1e999999999``) is an error here: see MAX_TEXT and MAX_DIGITS.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from allotment.api.text import quoted, trimmed

__all__ = ["Quantity", "QuantityError"]

MAX_TEXT: Final = 1024
"""Length of the longest text that we parse. Real quantities have some twenty characters."""

MAX_DIGITS: Final = 4096
"""Most digits of an amount in billionths. Python itself refuses to print more than 4300 digits."""


class QuantityError(ValueError):
    """The text is not a quantity, or the amount is too large to hold."""


class Format(Enum):
    """How an amount is written: the family of its suffix."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_NANO_EXPONENT: Final = -9
_UNIT: Final = 10**9  # billionths in one
_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)

_DECIMAL_SUFFIXES: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX_OF: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIX_OF: Final = {exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}

# Every part may be empty and is possessive: text that is not a quantity fails in linear time.
_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<zeros>0*+)(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?"
    r"(?P<suffix>[eEinumkKMGTP]*+[+-]?[0-9]*+)"
)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")


class Quantity:
    """An exact amount that never changes. Make one with ``parse``, ``from_json`` or ``of``.

    Ordered, equal and hashed by its number. ``a + b`` and ``a - b`` are written in the format of ``a``, or in that
    of ``b`` if ``a`` is zero.
    """

    __slots__ = ("_exponent", "_format", "_nanos", "_text", "_wide")

    def __init__(
        self,
        nanos: int,
        format: Format = Format.DECIMAL_SI,
        exponent: int = _NANO_EXPONENT,
        wide: bool = False,
        text: str | None = None,
    ) -> None:
        """For use in this module; ``nanos`` must be a multiple of the power of ten that ``exponent`` names."""
        self._nanos = nanos
        self._format = format
        self._exponent = exponent
        self._wide = wide
        self._text = text

    @staticmethod
    def parse(text: str | int) -> Quantity:
        """The quantity that a text (or a whole number) stands for; surrounding space is not allowed.

        Raises QuantityError, whose message quotes the text and says what a quantity looks like.
        """
        if isinstance(text, str):
            return _parse(text)
        if isinstance(text, bool) or not isinstance(text, int):
            raise QuantityError(f"a quantity is a string or a whole number, not {type(text).__name__}")
        if text.bit_length() > 3 * MAX_TEXT:  # for sure no longer than MAX_TEXT when written out
            raise QuantityError("a quantity given as a number must not have thousands of digits")
        return _parse(str(text))

    @staticmethod
    def from_json(value: object) -> Quantity:
        """Like ``parse``, for a value from JSON or YAML: space around it and fractional numbers are allowed."""
        if isinstance(value, str):
            return _parse(trimmed(value))
        if isinstance(value, float):
            return _parse(repr(value))  # the shortest decimal form of a float is what the author wrote
        return Quantity.parse(value)  # type: ignore[arg-type]  # parse refuses other types by name

    @staticmethod
    def of(value: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        """The quantity of a whole number of units."""
        return Quantity(value * _UNIT, format, 0, not _INT64_MIN <= value <= _INT64_MAX)

    @property
    def nanos(self) -> int:
        """The exact amount, in billionths."""
        return self._nanos

    @property
    def format(self) -> Format:
        """How the amount is written."""
        return self._format

    @property
    def wide(self) -> bool:
        """Whether Kubernetes would hold it in a wide decimal."""
        return self._wide

    @property
    def is_zero(self) -> bool:
        return self._nanos == 0

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self._nanos > 0) - (self._nanos < 0)

    def value(self) -> int:
        """The amount in whole units, rounded up, as an int64. Out of range, the result is that of Kubernetes' overflow."""
        return self._scaled(0)

    def milli_value(self) -> int:
        """Like ``value``, in thousandths."""
        return self._scaled(-3)

    def as_int64(self) -> int | None:
        """The amount if Kubernetes holds it as a whole int64; None where it would not convert, as for ``1000m``."""
        if self._wide or self._exponent < 0:
            return None
        whole = self._nanos // _UNIT
        return whole if _INT64_MIN <= whole <= _INT64_MAX else None

    def approximate_float(self) -> float:
        """The nearest float or close to it; infinite beyond the range of floats."""
        if not self._nanos:
            return 0.0
        try:
            return float(self._unscaled()) * _power_of_ten(self._exponent)
        except OverflowError:
            return float("inf") * self.sign

    def __add__(self, other: Quantity) -> Quantity:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self._plus(other, other._nanos)

    def __sub__(self, other: Quantity) -> Quantity:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self._plus(other, -other._nanos)

    def __neg__(self) -> Quantity:
        return Quantity(-self._nanos, self._format, self._exponent, self._wide)

    def __eq__(self, other: object) -> bool:
        return self._nanos == other._nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self._nanos < other._nanos if isinstance(other, Quantity) else NotImplemented

    def __le__(self, other: Quantity) -> bool:
        return self._nanos <= other._nanos if isinstance(other, Quantity) else NotImplemented

    def __gt__(self, other: Quantity) -> bool:
        return self._nanos > other._nanos if isinstance(other, Quantity) else NotImplemented

    def __ge__(self, other: Quantity) -> bool:
        return self._nanos >= other._nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._nanos)

    def __str__(self) -> str:
        text = self._text
        if text is None:
            text = self._text = _written(self._nanos, self._format)
        return text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Quantity, (self._nanos, self._format, self._exponent, self._wide, self._text)

    def __copy__(self) -> Quantity:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Quantity:
        return self

    def _plus(self, other: Quantity, addend: int) -> Quantity:
        """The sum of self and ``addend``, which is other's amount or its negation."""
        nanos = self._nanos
        format = self._format if nanos else other._format
        exponent = self._exponent
        if self._wide or other._wide:
            return Quantity(nanos + addend, format, min(exponent, other._exponent), True)
        if not addend:
            return Quantity(nanos, format, exponent)
        if not nanos:
            return Quantity(addend, format, other._exponent)
        if other._exponent < exponent:
            exponent = other._exponent
        total = nanos + addend
        low, high = _int64_range(exponent)
        narrow = low <= nanos <= high and low <= addend <= high and low <= total <= high
        return Quantity(total, format, exponent, not narrow)

    def _unscaled(self) -> int:
        """The integer that Kubernetes stores beside the exponent."""
        shift = self._exponent - _NANO_EXPONENT
        return self._nanos // _pow10(shift) if shift >= 0 else self._nanos * _pow10(-shift)

    def _scaled(self, exponent: int) -> int:
        """The amount in units of ``10**exponent``, rounded and overflowing as Kubernetes' storage does."""
        if not self._nanos:
            return 0
        shift = self._exponent - exponent
        if self._wide:
            return _scale_wide(self._unscaled(), shift)
        if shift < 0:
            magnitude = -(-abs(self._unscaled()) // _pow10(-shift))
            return magnitude if self._nanos > 0 else -magnitude
        scaled = self._unscaled() * _pow10(shift)
        if _INT64_MIN <= scaled <= _INT64_MAX:
            return scaled
        # Overflow: Kubernetes returns the wrapped product where it multiplies in one step, and 0 where it loops.
        return _wrap(scaled, 64) if shift in (1, 2, 3, 6, 9) and self._unscaled() != _INT64_MIN else 0


def _scale_wide(unscaled: int, shift: int) -> int:
    """``unscaled * 10**shift`` as an int64, in the steps in which Kubernetes takes it from a wide decimal."""
    if shift >= 0:
        # the int64 that Go makes of a float that is too large
        factor = 10**shift if shift <= 18 else _INT64_MIN
        return _wrap(_wrap(unscaled, 64) * (factor if shift else 1), 64)
    divisor = _pow10(-shift)
    if unscaled < _INT64_MAX and -shift < 19:
        dividend = _wrap(unscaled, 64)
        quotient, rest = divmod(abs(dividend), divisor)  # towards zero, also for negative amounts
        return (quotient if dividend >= 0 else -quotient) + (rest != 0)
    quotient, rest = divmod(unscaled, divisor)
    return _wrap(_wrap(quotient, 64) + (rest != 0), 64)


@lru_cache(maxsize=8192)
def _parse(text: str) -> Quantity:
    match = _QUANTITY.fullmatch(text) if 0 < len(text) <= MAX_TEXT else None
    if match is None:
        raise _refusal(text)
    whole, fraction, suffix = match["whole"] or "0", match["fraction"] or "", match["suffix"]
    format, exponent = _suffix(text, suffix)
    digits = whole + fraction
    if len(digits) + max(exponent, 0) + 9 > MAX_DIGITS and digits.strip("0"):
        raise QuantityError(
            f"quantity {quoted(text)} is too large; write a number below 1e{MAX_DIGITS - 1024}"
        )
    negative = match["sign"] == "-"
    if _is_narrow(format, exponent, whole, fraction):
        return _parse_narrow(text, negative, digits, len(fraction), format, exponent)
    if not (match["zeros"] or match["whole"] or fraction):
        raise _refusal(text)
    return _parse_wide(negative, int(digits), len(fraction), format, exponent)


def _is_narrow(format: Format, exponent: int, whole: str, fraction: str) -> bool:
    """Whether Kubernetes knows, before it reads the digits, that an int64 can hold them."""
    if format is Format.BINARY_SI:
        return not fraction and len(whole) + exponent * 3 // 10 <= 14
    return len(whole) + len(fraction) <= 18 and exponent - len(fraction) >= _NANO_EXPONENT


def _parse_narrow(
    text: str, negative: bool, digits: str, decimals: int, format: Format, exponent: int
) -> Quantity:
    number = int(digits)
    signed = -number if negative else number
    if format is Format.BINARY_SI:
        tidy = number & 7 != 0
        return Quantity((signed << exponent) * _UNIT, format, 0, False, text if tidy else None)
    exponent -= decimals
    tidy = exponent % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    nanos = signed * _pow10(exponent - _NANO_EXPONENT) if number else 0
    return Quantity(nanos, format, exponent, False, text if tidy else None)


def _parse_wide(negative: bool, number: int, decimals: int, format: Format, exponent: int) -> Quantity:
    binary = format is Format.BINARY_SI
    if binary:
        number <<= exponent
        exponent = 0
    exponent -= decimals
    if not number:
        return Quantity(0, format, max(exponent, -MAX_TEXT), True)  # so that sums with it have a bounded size
    nanos = _round_up(number, exponent - _NANO_EXPONENT)
    exponent = _NANO_EXPONENT
    if binary and nanos > _INT64_MAX * _UNIT:
        nanos, exponent = _INT64_MAX * _UNIT, 0
    if binary and nanos < _UNIT:
        format = Format.DECIMAL_SI
    return Quantity(-nanos if negative else nanos, format, exponent, True)


def _suffix(text: str, suffix: str) -> tuple[Format, int]:
    """The format and the exponent, of ten or of two, that a suffix stands for."""
    if (decimal := _DECIMAL_SUFFIXES.get(suffix)) is not None:
        return Format.DECIMAL_SI, decimal
    if (binary := _BINARY_SUFFIXES.get(suffix)) is not None:
        return Format.BINARY_SI, binary
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise _refusal(text)
    exponent = int(match[1])
    if not _INT64_MIN <= exponent <= _INT64_MAX:
        raise QuantityError(f"quantity {quoted(text)} has an exponent beyond 64 bits")
    return Format.DECIMAL_EXPONENT, _wrap(exponent, 32)  # Kubernetes keeps 32 bits of it


def _round_up(number: int, shift: int) -> int:
    """The positive ``number * 10**shift``, rounded up to an integer."""
    if shift >= 0:
        return number * _pow10(shift)
    if -shift > MAX_TEXT:  # more places than a parsed number can have digits
        return 1
    return -(-number // _pow10(-shift))


def _written(nanos: int, format: Format) -> str:
    """The canonical text: the largest suffix that needs no fraction."""
    if not nanos:
        return "0"
    if format is Format.BINARY_SI and abs(nanos) >= 1024 * _UNIT and nanos % _UNIT == 0:
        number, exponent = nanos // _UNIT, 0
        while number % 1024 == 0:
            number //= 1024
            exponent += 10
        return f"{number}{_BINARY_SUFFIX_OF.get(exponent, '')}"
    try:
        digits = str(nanos)
    except ValueError as exc:
        raise QuantityError(f"the amount has more than {MAX_DIGITS} digits and is not written out") from exc
    zeros = len(digits) - len(digits.rstrip("0"))
    zeros -= zeros % 3
    number_text, exponent = digits[: len(digits) - zeros], _NANO_EXPONENT + zeros
    if format is Format.DECIMAL_EXPONENT:
        return f"{number_text}e{exponent}" if exponent else number_text
    # Kubernetes, too, drops the suffix beyond E: 1000E is written 1.
    return f"{number_text}{_DECIMAL_SUFFIX_OF.get(exponent, '')}"


def _refusal(text: str) -> QuantityError:
    if len(text) > MAX_TEXT:
        return QuantityError(f"quantity {quoted(text)} is longer than {MAX_TEXT} characters")
    return QuantityError(
        f"{quoted(text)} is not a quantity; write a number with an optional suffix, as in 500m, 1.5, 8Gi, 20k or 1e3"
    )


def _wrap(number: int, bits: int) -> int:
    """The number that an int64 in two's complement keeps of it."""
    half = 1 << (bits - 1)
    return ((number + half) & ((1 << bits) - 1)) - half


_POWERS: Final = [10**n for n in range(64)]


def _pow10(n: int) -> int:
    power: int = _POWERS[n] if n < 64 else 10**n
    return power


def _power_of_ten(n: int) -> float:
    """10**n as Go computes it: two table entries, so that the last bit agrees."""
    if n < 0:
        return float(f"1e-{-n // 32 * 32}") / float(f"1e{-n % 32}") if n >= -323 else 0.0
    return float(f"1e{n // 32 * 32}") * float(f"1e{n % 32}") if n <= 308 else float("inf")


def _int64_range(exponent: int) -> tuple[int, int]:
    """Least and greatest amount, in billionths, that an int64 can hold with this exponent."""
    shift = exponent - _NANO_EXPONENT
    return _INT64_RANGES[shift] if shift < 64 else (_INT64_MIN * 10**shift, _INT64_MAX * 10**shift)


_INT64_RANGES: Final = [(_INT64_MIN * unit, _INT64_MAX * unit) for unit in _POWERS]
