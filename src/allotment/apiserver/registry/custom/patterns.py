"""Regular expressions of schemas, and what they cost: a pattern of ten characters can be a program of 50,000 instructions.

Matching takes a time that is linear in the text and, in the worst case, linear in the program too. Both counts are known
before a match, so the price is too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import re2

from allotment.apiserver.allowance import spend

DEFINITION_INSTRUCTIONS: Final = 1_000_000
"""The most instructions of all patterns of a definition: some 16 MB, and half a second to compile."""
_PATTERN_BYTES: Final = 1 << 20
_COMPILING: Final = 0.4
"""Microseconds for each instruction."""
_FAILED_MICROSECONDS: Final = 5_000.0
"""Microseconds until a pattern proves to be too large."""
_MATCHING: Final = 0.006
"""Microseconds for each character of a text and each instruction, where there is no faster way than trying all of them."""

_OPTIONS: Final = re2.Options()
_OPTIONS.max_mem = _PATTERN_BYTES
_OPTIONS.log_errors = False


class Pattern:
    """A compiled pattern. Raises re2.error for invalid text."""

    __slots__ = ("_compiled", "size", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._compiled = re2.compile(text, _OPTIONS)
        except re2.error:
            spend(_FAILED_MICROSECONDS)
            raise
        self.size: int = self._compiled.programsize
        spend(20 + self.size * _COMPILING)

    def price(self, text: str) -> float:
        """The most microseconds that matching a text takes."""
        return 1 + len(text) * (self.size + 3) * _MATCHING

    def matches(self, text: str) -> bool:
        return self._compiled.search(text) is not None


def too_many_instructions(patterns: Iterable[str]) -> bool:
    """Whether patterns are together more than a definition may have. Those that are none count nothing."""
    total = 0
    for text in patterns:
        try:
            total += Pattern(text).size
        except re2.error:
            total += DEFINITION_INSTRUCTIONS // 200  # the time that the failure took
        if total > DEFINITION_INSTRUCTIONS:
            return True
    return False
