"""``"…%s…".format([…])``: the clauses ``%s %d %f %e %b %o %x %X``, in two dialects.

Kubernetes pins the first dialect of cel-go, which speaks American English through a locale library and shows
it: ``%f`` groups thousands (``1,234.500000``) and spells infinity ``∞``; ``%e`` always has six digits, writes
``1.234568×10⁰⁷`` and takes the precision for a minimum width; doubles, durations and timestamps inside a list
look as they would in an expression. Precisions and widths wrap around early, so no text grows large by them.

The plain language has the newest dialect: C's notation, numbers of any kind under ``%d %f %e``, nothing quoted,
and precisions up to 100.

A dialect is a table from clause to formatter, so that :func:`faults` can judge literal calls by the same reading
of the clauses before they run.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from allotment.cel.ast import Expr, FunctionCall, ListExpr, Literal, MapExpr
from allotment.cel.declare import Function, Overload
from allotment.cel.errors import CelRuntimeError
from allotment.cel.estimate import STRING_TRAVERSAL, ArgumentSizes, CallEstimate, EstimatedArgument
from allotment.cel.library.limits import DEEPEST_VALUE, LONGEST_TEXT, check_length
from allotment.cel.library.pricing import Nodes, Values, scan
from allotment.cel.library.spelling import decimal_text, text_of
from allotment.cel.types import DYN, STRING, Type, TypeKind, list_of
from allotment.cel.values import (
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    Value,
    key_value,
    type_name,
)

_DEFAULT_PRECISION = 6
_PLAIN_PRECISION = 100
_MOST_DECIMALS = 1074  # no double has more
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
}

_INTEGERS = (int, UInt)
_NUMBERS = (int, UInt, float)


class FormatError(CelRuntimeError):
    """The format string is malformed or does not suit its arguments."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One ``%…`` of a format string: its letter and the precision it names, if any."""

    letter: str
    precision: int | None


Part = str | Clause
Formatter = Callable[[Value, int | None], str]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How each clause writes a value, which static types it takes, and the largest precision."""

    formatters: dict[str, Formatter]
    accepts: dict[str, frozenset[TypeKind]]
    max_precision: int | None


def parse(text: str, dialect: Dialect) -> Iterator[Part]:
    """Plain stretches and clauses in order. Lazy, as upstream is: a fault shows only when it is reached."""
    start, end = 0, len(text)
    while (mark := text.find("%", start)) >= 0:
        if mark > start:
            yield text[start:mark]
        if text.startswith("%%", mark):
            yield "%"
            start = mark + 2
            continue
        clause, start = _parse_clause(text, mark + 1, dialect)
        yield clause
    if start < end:
        yield text[start:]


def _parse_clause(text: str, at: int, dialect: Dialect) -> tuple[Clause, int]:
    if at >= len(text):
        raise FormatError("unexpected end of string")
    precision = None
    if text[at] == ".":
        end = at + 1
        while end < len(text) and "0" <= text[end] <= "9":
            end += 1
        precision, at = _parse_precision(text[at + 1 : end], dialect), end
        if at >= len(text):
            raise FormatError("could not parse formatting clause: could not find end of precision specifier")
    if text[at] not in dialect.formatters:
        raise FormatError(f'could not parse formatting clause: unrecognized formatting clause "{text[at]}"')
    return Clause(text[at], precision), at + 1


def _parse_precision(digits: str, dialect: Dialect) -> int:
    if not digits or len(digits) > 19 or int(digits) >= 2**63:
        raise FormatError(f"could not parse formatting clause: bad precision {digits[:20]!r}")
    precision = int(digits)
    if dialect.max_precision is not None and precision > dialect.max_precision:
        raise FormatError(
            f"could not parse formatting clause: precision {precision} exceeds the maximum of {dialect.max_precision}"
        )
    return precision


def format_text(text: str, args: Sequence[Value], dialect: Dialect) -> str:
    """The text with each clause replaced by the argument of its turn. Arguments left over do not matter."""
    parts: list[str] = []
    used = length = 0
    for part in parse(text, dialect):
        if isinstance(part, Clause):
            if used >= len(args):
                raise FormatError(f"index {used} out of range")
            try:
                part = dialect.formatters[part.letter](args[used], part.precision)
            except CelRuntimeError as exc:
                raise FormatError(f"error during formatting: {exc}") from exc
            used += 1
        length += len(part)
        check_length(length)
        parts.append(part)
    return "".join(parts)


def faults(
    call: FunctionCall, type_of: Callable[[Expr], Type], dialect: Dialect
) -> Iterator[tuple[Expr, str]]:
    """What is wrong with ``"literal".format([…])``, found before it runs: the place and what to say.

    Calls of any other shape, where format or arguments come to light at run time only, have no faults.
    """
    text = call.target.value if isinstance(call.target, Literal) else None
    given = call.args[0]
    if type(text) is not str or not isinstance(given, ListExpr):
        return
    used = 0
    try:
        for part in parse(text, dialect):
            if isinstance(part, Clause):
                if used >= len(given.elements):
                    raise FormatError(f"index {used} out of range")
                misfit = _misfit(given.elements[used], part.letter, type_of, dialect)
                if misfit is not None:
                    yield (
                        misfit,
                        f"error during formatting: {_REFUSALS[part.letter]}, was given {type_of(misfit).name}",
                    )
                    return
                used += 1
    except FormatError as exc:
        yield call, str(exc)
        return
    if used < len(given.elements):
        yield (
            call,
            f"too many arguments supplied to string.format (expected {used}, got {len(given.elements)})",
        )


def _misfit(expr: Expr, letter: str, type_of: Callable[[Expr], Type], dialect: Dialect) -> Expr | None:
    """The argument, or the part of a literal argument, whose static type the clause cannot take."""
    pending = [expr]
    while pending:
        part = pending.pop()
        kind = type_of(part).kind
        if kind is not TypeKind.DYN and kind not in dialect.accepts[letter]:
            return part
        if letter == "s" and isinstance(part, ListExpr):
            pending.extend(reversed(part.elements))
        elif letter == "s" and isinstance(part, MapExpr):
            pending.extend(side for entry in reversed(part.entries) for side in (entry.value, entry.key))
    return None


_REFUSALS = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "o": "octal clause can only be used on integers",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
}


def _refused(letter: str, value: Value) -> CelRuntimeError:
    return CelRuntimeError(f"{_REFUSALS[letter]}, was given {type_name(value)}")


def _binary(value: Value, precision: int | None) -> str:
    if type(value) in _INTEGERS or type(value) is bool:
        return f"{int(value):b}"
    raise _refused("b", value)


def _octal(value: Value, precision: int | None) -> str:
    if type(value) in _INTEGERS:
        return f"{value:o}"
    raise _refused("o", value)


def _hex(value: Value, precision: int | None) -> str:
    if type(value) in _INTEGERS:
        return f"{value:x}"
    if type(value) is str:
        return value.encode().hex()
    if type(value) is bytes:
        return value.hex()
    raise _refused("x", value)


def _upper_hex(value: Value, precision: int | None) -> str:
    return _hex(value, precision).upper()


# The pinned dialect.


def _pinned_decimal(value: Value, precision: int | None) -> str:
    if type(value) in _INTEGERS:
        return str(int(value))
    raise _refused("d", value)


def _pinned_fixed(value: Value, precision: int | None) -> str:
    """Upstream keeps the most decimals in 16 bits with a sign, the least in 8 bits: large precisions wrap."""
    number = _pinned_double(value, "f") + 0.0  # minus zero becomes zero
    digits = _DEFAULT_PRECISION if precision is None else precision
    most, least = digits % 65536, digits % 256
    special = _special(number, infinity="∞")
    if special or most < 256:
        return special or f"{number:,.{most}f}"
    exact = f"{number:,.{min(most, _MOST_DECIMALS)}f}" if most < 32768 else f"{Decimal(repr(number)):,f}"
    whole, _, decimals = exact.partition(".")
    decimals = decimals.rstrip("0").ljust(least, "0")
    return f"{whole}.{decimals}" if decimals else whole


def _pinned_scientific(value: Value, precision: int | None) -> str:
    number = _pinned_double(value, "e")
    width = (_DEFAULT_PRECISION if precision is None else precision) % 65536
    text = _special(number, infinity="∞")
    if not text:
        mantissa, _, exponent = f"{number + 0.0:.6e}".partition("e")
        text = f"{mantissa}×10{exponent.removeprefix('+').translate(_SUPERSCRIPTS)}"
    return text.rjust(width)


def _pinned_double(value: Value, letter: str) -> float:
    if type(value) is float:
        return value
    if type(value) is str and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    raise _refused(letter, value)


def _pinned_string(value: Value, precision: int | None) -> str:
    if type(value) is float or isinstance(value, Duration | Timestamp):
        return text_of(value)
    return _pinned_nested(value, 0, _Budget())


def _pinned_nested(value: Value, depth: int, budget: "_Budget") -> str:
    """A value as it stands in a list or map; strings there are quoted by the container."""
    if type(value) is list:
        budget.descend(depth)
        return f"[{', '.join(_pinned_literal(item, depth, budget) for item in value)}]"
    if isinstance(value, dict):
        budget.descend(depth)
        pairs = [
            (_pinned_literal(key_value(key), depth, budget), _pinned_literal(item, depth, budget))
            for key, item in value.items()
        ]
        return "{" + ", ".join(f"{key}:{item}" for key, item in sorted(pairs, key=lambda pair: pair[0])) + "}"
    if type(value) is float:
        return _special(value, infinity="+Inf", negative="-Inf") or f"{value:.6f}"
    if isinstance(value, Timestamp):
        return f'timestamp("{text_of(value)}")'
    if isinstance(value, Duration):
        return f'duration("{text_of(value)}")'
    return _scalar(value)


def _pinned_literal(value: Value, depth: int, budget: "_Budget") -> str:
    text = _pinned_nested(value, depth + 1, budget)
    if type(value) is str:
        text = _quoted(text)
    elif type(value) is bytes:
        text = f"b{_quoted(text)}"
    elif type(value) is float and not math.isfinite(value):
        text = f'"{text}"'
    return budget.spend(text)


def _quoted(text: str) -> str:
    """As Go's ``%q``: what cannot be printed is escaped by its number."""
    return '"' + "".join(map(_quoted_char, text)) + '"'


def _quoted_char(char: str) -> str:
    if char == '"':
        return '\\"'
    if char in ESCAPES:
        return ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# The plain dialect.


def _plain_decimal(value: Value, precision: int | None) -> str:
    if type(value) in _NUMBERS:
        return _plain_scalar(value)
    raise _refused("d", value)


def _plain_fixed(value: Value, precision: int | None) -> str:
    if type(value) not in _NUMBERS:
        raise _refused("f", value)
    digits = _DEFAULT_PRECISION if precision is None else precision
    return _special(float(value), infinity="Infinity") or f"{float(value):.{digits}f}"


def _plain_scientific(value: Value, precision: int | None) -> str:
    if type(value) not in _NUMBERS:
        raise _refused("e", value)
    digits = _DEFAULT_PRECISION if precision is None else precision
    return _special(float(value), infinity="Infinity") or f"{float(value):.{digits}e}"


def _plain_string(value: Value, precision: int | None) -> str:
    return _plain_nested(value, 0, _Budget())


def _plain_nested(value: Value, depth: int, budget: "_Budget") -> str:
    if type(value) is list:
        budget.descend(depth)
        return budget.spend(f"[{', '.join(_plain_nested(item, depth + 1, budget) for item in value)}]")
    if isinstance(value, dict):
        budget.descend(depth)
        pairs = [
            (_plain_nested(key_value(key), depth + 1, budget), _plain_nested(item, depth + 1, budget))
            for key, item in value.items()
        ]
        entries = (f"{key}: {item}" for key, item in sorted(pairs, key=lambda pair: pair[0]))
        return budget.spend("{" + ", ".join(entries) + "}")
    return budget.spend(_plain_scalar(value))


def _plain_scalar(value: Value) -> str:
    if type(value) is not float:
        return _scalar(value)
    return _special(value, infinity="Infinity") or decimal_text(value)


# What both dialects share.


class _Budget:
    """Counts what one ``%s`` has written, so that a value that shares its parts cannot blow up."""

    def __init__(self) -> None:
        self.left = LONGEST_TEXT

    def spend(self, text: str) -> str:
        self.left -= len(text) + 1
        if self.left < 0:
            raise CelRuntimeError(f"value takes more than {LONGEST_TEXT} characters")
        return text

    def descend(self, depth: int) -> None:
        if depth >= DEEPEST_VALUE:
            raise CelRuntimeError(f"value is nested deeper than {DEEPEST_VALUE} levels")


def _scalar(value: Value) -> str:
    if value is None:
        return "null"
    if type(value) in (int, UInt, float, bool, str, bytes, Timestamp, Duration, TypeValue):
        return text_of(value)
    raise _refused("s", value)


def _special(number: float, *, infinity: str, negative: str = "") -> str:
    """How NaN and the infinities are spelled; nothing for a finite number."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return infinity if number > 0 else negative or f"-{infinity}"
    return ""


def _kinds(*kinds: TypeKind) -> frozenset[TypeKind]:
    return frozenset(kinds)


_ANY_TEXT = frozenset(TypeKind) - {
    TypeKind.OBJECT,
    TypeKind.OPAQUE,
    TypeKind.PARAM,
    TypeKind.ANY,
    TypeKind.ERROR,
}
_WHOLE = _kinds(TypeKind.INT, TypeKind.UINT)
_NUMERIC = _WHOLE | {TypeKind.DOUBLE}
_BITS = {
    "b": _WHOLE | {TypeKind.BOOL},
    "o": _WHOLE,
    "x": _WHOLE | {TypeKind.STRING, TypeKind.BYTES},
    "X": _WHOLE | {TypeKind.STRING, TypeKind.BYTES},
}
_BIT_FORMATTERS: dict[str, Formatter] = {"b": _binary, "o": _octal, "x": _hex, "X": _upper_hex}

PINNED = Dialect(
    {
        "s": _pinned_string,
        "d": _pinned_decimal,
        "f": _pinned_fixed,
        "e": _pinned_scientific,
        **_BIT_FORMATTERS,
    },
    {
        "s": _ANY_TEXT,
        "d": _WHOLE,
        "f": _kinds(TypeKind.DOUBLE, TypeKind.STRING),
        "e": _kinds(TypeKind.DOUBLE, TypeKind.STRING),
        **_BITS,
    },
    None,
)
NEWEST = Dialect(
    {"s": _plain_string, "d": _plain_decimal, "f": _plain_fixed, "e": _plain_scientific, **_BIT_FORMATTERS},
    {"s": _ANY_TEXT, "d": _NUMERIC, "f": _NUMERIC, "e": _NUMERIC, **_BITS},
    _PLAIN_PRECISION,
)


def _estimate_format(
    sizes: ArgumentSizes, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    return CallEstimate(sizes.of(target).times(STRING_TRAVERSAL)) if target is not None else None


def _format_cost(args: Values, result: Value) -> int:
    return scan(args[0])


def _function(dialect: Dialect) -> Function:
    def impl(text: str, args: list[Value]) -> str:
        return format_text(text, args, dialect)

    def check(call: FunctionCall, type_of: Callable[[Expr], Type]) -> Iterator[tuple[Expr, str]]:
        return faults(call, type_of, dialect)

    overload = Overload(
        "string_format",
        (STRING, list_of(DYN)),
        STRING,
        impl,
        member=True,
        estimate=_estimate_format,
        runtime_cost=_format_cost,
        check=check,
        mixed=True,
    )
    return Function("format", (overload,))


FORMAT = _function(PINNED)
PLAIN_FORMAT = _function(NEWEST)
