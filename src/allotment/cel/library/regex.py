"""Regular expressions: Kubernetes' ``find`` and ``findAll``, over RE2.

RE2 takes time in proportion to the text, whatever the pattern; memory and pattern length are bounded here. The
syntax is Go's, which is RE2's own without ``\\C``. As in Go, an empty match right behind another match is
passed over: ``"baaau".findAll("a*")`` is ``["", "aaa", ""]``. Two differences to Go remain: ``\\B`` also matches
inside a character beyond ASCII, and two groups may have one name.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import re2

from allotment.cel.declare import Library, Overload
from allotment.cel.errors import CelRuntimeError
from allotment.cel.library.pricing import priced
from allotment.cel.types import INT, STRING, list_of

LONGEST_PATTERN: Final = 10 * 1024
EXPRESSION_INSTRUCTIONS: Final = 200_000
"""The most instructions of all literal patterns of an expression: a tenth of a second to compile."""
_REGEX_BYTES: Final = 2 << 20
_LARGE: Final = 3000
"""Instructions from which a pattern counts as large: few of those are remembered, as each takes up to a megabyte."""
_FAILED_INSTRUCTIONS: Final = 20_000
"""The instructions that compile in the time which a pattern takes to prove too large."""
_LONGEST_FOR_NOTHING: Final = 10_000  # an empty pattern costs nothing upstream, and matches everywhere


class RegexError(CelRuntimeError):
    """The pattern is not a regular expression, or too large a one."""


def compile_pattern(pattern: str) -> Any:
    """The compiled pattern; the last ones are remembered."""
    if len(pattern) > LONGEST_PATTERN:
        raise RegexError(f"Illegal regex: {len(pattern)} characters exceed the limit of {LONGEST_PATTERN}")
    small = _small(pattern)
    return small if small is not None else _large(pattern)


class LiteralPatterns:
    """The literal patterns of one expression, which together may only be so large."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._left = EXPRESSION_INSTRUCTIONS

    def check(self, pattern: str) -> None:
        """Compiles a pattern, so that it is remembered. Raises RegexError."""
        if pattern in self._known:
            return
        if self._left >= 0:
            try:
                size = compile_pattern(pattern).programsize
            except RegexError:
                self._left -= _FAILED_INSTRUCTIONS
                raise
            self._known.add(pattern)
            self._left -= size
        if self._left < 0:
            raise RegexError(
                f"Illegal regex: the patterns exceed {EXPRESSION_INSTRUCTIONS} instructions together"
            )


@lru_cache(maxsize=1000)
def _small(pattern: str) -> Any:
    compiled = _compile(pattern)
    return compiled if compiled.programsize <= _LARGE else None


@lru_cache(maxsize=64)
def _large(pattern: str) -> Any:
    return _compile(pattern)


def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _REGEX_BYTES
    if _has_byte_class(pattern):
        raise RegexError("Illegal regex: invalid escape sequence: \\C")
    try:
        return re2.compile(pattern, options)
    except re2.error as exc:
        detail = exc.args[0]
        raise RegexError(
            f"Illegal regex: {detail.decode() if isinstance(detail, bytes) else detail}"
        ) from exc


def _has_byte_class(pattern: str) -> bool:
    """Whether ``\\C`` (any byte) occurs, outside ``\\Q…\\E``: it would cut characters in two."""
    at = pattern.find("\\")
    while 0 <= at < len(pattern) - 1:
        letter = pattern[at + 1]
        if letter == "C":
            return True
        behind = pattern.find("\\E", at + 2) if letter == "Q" else at
        at = pattern.find("\\", behind + 2) if behind >= 0 else -1
    return False


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern is found anywhere in the text."""
    return compile_pattern(pattern).search(text) is not None


def find(text: str, pattern: str) -> str:
    """The first match, or nothing."""
    match = compile_pattern(pattern).search(text)
    return match.group() if match else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """The first ``limit`` matches; all if it is negative."""
    if not pattern and limit != 0 and len(text) > _LONGEST_FOR_NOTHING:
        raise CelRuntimeError(f"findAll of an empty pattern in more than {_LONGEST_FOR_NOTHING} characters")
    found = _matches(compile_pattern(pattern), text)
    return list(found if limit < 0 else islice(found, limit))


def _matches(regex: Any, text: str) -> Iterator[str]:
    end = -1
    for match in regex.finditer(text):
        start, previous = match.start(), end
        end = match.end()
        if not start == end == previous:
            yield match.group()


LIBRARY = Library(
    "kubernetes.regex",
    (
        priced("find", Overload("string_find_string", (STRING, STRING), STRING, find, member=True)),
        priced(
            "findAll",
            Overload("string_find_all_string", (STRING, STRING), list_of(STRING), find_all, member=True),
            Overload(
                "string_find_all_string_int", (STRING, STRING, INT), list_of(STRING), find_all, member=True
            ),
        ),
    ),
)
