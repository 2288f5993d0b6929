"""The strings extension of cel-go: looking into, cutting and joining text.

Positions count characters. There are two editions: Kubernetes pins version 2 (``LIBRARY``), the plain language
has the newest (``PLAIN``), which adds ``reverse`` and formats in another dialect (see :mod:`formatting`).

``replace`` and ``join`` can make much out of little, and upstream charges for what goes in. So no function
here makes a text longer than ``limits.LONGEST_TEXT``; that is an error.
"""

from allotment.cel.declare import Function, Library, Overload
from allotment.cel.errors import CelRuntimeError
from allotment.cel.estimate import STRING_TRAVERSAL, ArgumentSizes, CallEstimate, EstimatedArgument, Range
from allotment.cel.library.formatting import ESCAPES, FORMAT, PLAIN_FORMAT
from allotment.cel.library.limits import check_length
from allotment.cel.library.pricing import Nodes, Values, priced, scan
from allotment.cel.types import INT, STRING, list_of
from allotment.cel.values import Value

_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_QUOTED = str.maketrans({**ESCAPES, '"': '\\"'})


def char_at(text: str, index: int) -> str:
    """The character there, or nothing just behind the last one."""
    _check_index(index, len(text))
    return text[index : index + 1]


def index_of(text: str, part: str, offset: int = 0) -> int:
    """Where ``part`` first begins at or behind ``offset``; -1 if nowhere. An empty part is found at once."""
    if offset < 0:
        raise CelRuntimeError(f"index out of range: {offset}")
    return text.find(part, offset) if part else min(offset, len(text))


def last_index_of(text: str, part: str, offset: int | None = None) -> int:
    """Where ``part`` last begins at or before ``offset``; -1 if nowhere, or if the offset is behind the end."""
    if offset is None:
        return text.rfind(part)
    if offset < 0:
        raise CelRuntimeError(f"index out of range: {offset}")
    if not part:
        return min(offset, len(text))
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def lower_ascii(text: str) -> str:
    return text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    return text.translate(_UPPER)


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """An empty ``old`` stands before every character and at the end. A negative limit means all."""
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    check_length(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, count)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """At most ``limit`` parts, the last with the rest; a negative limit means all, an empty separator each character."""
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise CelRuntimeError(f"invalid substring range. start: {start}, end: {end}")
    _check_index(start, len(text))
    if end is None:
        return text[start:]
    _check_index(end, len(text))
    return text[start:end]


def trim(text: str) -> str:
    return text.strip(_SPACES)


def join(parts: list[Value], separator: str = "") -> str:
    if not all(type(part) is str for part in parts):
        raise CelRuntimeError("join: a list of strings is needed")
    check_length(sum(map(len, parts)) + len(separator) * (len(parts) - 1))
    return separator.join(parts)


def quote(text: str) -> str:
    """The text as a literal of the language."""
    return f'"{text.translate(_QUOTED)}"'


def reverse(text: str) -> str:
    return text[::-1]


def _check_index(index: int, length: int) -> None:
    if not 0 <= index <= length:
        raise CelRuntimeError(f"index out of range: {index}")


def _estimate_quote(
    sizes: ArgumentSizes, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    size = sizes.of(args[0])
    # Upstream lets this sum wrap around, so the size of something unknown comes out small.
    longest = Range((size.min + 2) % 2**64, (size.max * 2 + 2) % 2**64)
    return CallEstimate(size.times(STRING_TRAVERSAL), longest)


def _quote_cost(args: Values, result: Value) -> int:
    return scan(args[0])


_TEXTS = list_of(STRING)

_SHARED: tuple[Function, ...] = (
    priced("charAt", Overload("string_char_at_int", (STRING, INT), STRING, char_at, member=True)),
    priced(
        "indexOf",
        Overload("string_index_of_string", (STRING, STRING), INT, index_of, member=True),
        Overload("string_index_of_string_int", (STRING, STRING, INT), INT, index_of, member=True),
    ),
    priced(
        "lastIndexOf",
        Overload("string_last_index_of_string", (STRING, STRING), INT, last_index_of, member=True),
        Overload("string_last_index_of_string_int", (STRING, STRING, INT), INT, last_index_of, member=True),
    ),
    priced("lowerAscii", Overload("string_lower_ascii", (STRING,), STRING, lower_ascii, member=True)),
    priced("upperAscii", Overload("string_upper_ascii", (STRING,), STRING, upper_ascii, member=True)),
    priced(
        "replace",
        Overload("string_replace_string_string", (STRING, STRING, STRING), STRING, replace, member=True),
        Overload(
            "string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, replace, member=True
        ),
    ),
    priced(
        "split",
        Overload("string_split_string", (STRING, STRING), _TEXTS, split, member=True),
        Overload("string_split_string_int", (STRING, STRING, INT), _TEXTS, split, member=True),
    ),
    priced(
        "substring",
        Overload("string_substring_int", (STRING, INT), STRING, substring, member=True),
        Overload("string_substring_int_int", (STRING, INT, INT), STRING, substring, member=True),
    ),
    priced("trim", Overload("string_trim", (STRING,), STRING, trim, member=True)),
    priced(
        "join",
        Overload("list_join", (_TEXTS,), STRING, join, member=True),
        Overload("list_join_string", (_TEXTS, STRING), STRING, join, member=True),
    ),
    priced(
        "strings.quote",
        Overload(
            "strings_quote", (STRING,), STRING, quote, estimate=_estimate_quote, runtime_cost=_quote_cost
        ),
    ),
)

LIBRARY = Library("strings", (*_SHARED, FORMAT))
PLAIN = Library(
    "strings",
    (
        *_SHARED,
        PLAIN_FORMAT,
        priced("reverse", Overload("string_reverse", (STRING,), STRING, reverse, member=True)),
    ),
)
