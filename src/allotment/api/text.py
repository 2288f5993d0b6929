"""Text as Go programs treat it, and as messages show it.

Kubernetes counts bytes where Python counts characters. It trims only what Unicode calls white space, where Python also
trims some control characters.
"""

from collections.abc import Collection, Sequence
from heapq import nsmallest
from typing import Final

SHOWN: Final = 80
"""The most characters of a user's text that a message shows."""

NAMED: Final = 20
"""The most names of a collection that an error lists."""

NAMES_LISTED: Final = 5
"""The most names that a sentence lists."""

_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


def byte_length(text: str) -> int:
    """The number of bytes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def trimmed(text: str) -> str:
    """The text without white space around it."""
    return text.strip(_SPACE)


def shortened(text: str, most: int = SHOWN) -> str:
    """The text, or only its two ends if it is too long for a message."""
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def quoted(text: str) -> str:
    """The text in quotation marks, shortened."""
    return repr(shortened(text))


def some_of(names: Collection[str], most: int = NAMED) -> str:
    """Names in order for a message: each shortened, and at most ``most`` of them."""
    listed = [shortened(name) for name in nsmallest(most, names)]
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return ", ".join(listed + more)


def printable(text: str) -> str:
    """The text as one line: control characters and line breaks, which names and attributes may hold, become escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_lines(text: str) -> str:
    """Like ``printable`` for a message of several lines.

    Lines after the first begin with a space, so that the content of a name cannot look like a line of our own.
    """
    first, *others = map(printable, text.split("\n"))
    return "\n".join([first, *(line if line.startswith(" ") else f"  {line}" for line in others)])


def printable_json(text: str) -> str:
    """Equivalent JSON without characters that a terminal obeys or hides, except line breaks."""
    if all(map(str.isprintable, text.split("\n"))):
        return text
    import json

    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def plural(count: int, word: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def few(names: Sequence[str], most: int = NAMES_LISTED, separator: str = ", ") -> str:
    """The first few names, and how many more there are."""
    more = len(names) - most
    return separator.join(names[:most]) + (f" and {more} more" if more > 0 else "")
