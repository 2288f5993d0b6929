"""A bound on regular expressions that an evaluation computes.

Such a pattern is compiled anew in every turn of a loop, at a price that ignores what ``{1,1000}`` and ``\\pL`` take.
Literal patterns are compiled once, with the expression.
"""

from __future__ import annotations

import re
from math import prod
from typing import Final

from allotment.cel.errors import CelRuntimeError
from allotment.cel.values import Value

MOST_REPETITIONS: Final = 100
_CLASS: Final = 10
"""Repetitions of a character that take as much as a class of Unicode."""
_COUNTS: Final = re.compile(r"\{([0-9]{1,9})(?:,([0-9]{0,9}))?\}")


def check_computed_pattern(value: Value) -> Value:
    """The value, unless it is a pattern that counts too far. Raises :class:`CelRuntimeError`."""
    if type(value) is str and ("{" in value or "\\" in value):
        counts = [max(int(low), int(high or 0)) for low, high in _COUNTS.findall(value)]
        repetitions = prod(counts) if "){" in value else sum(counts)  # groups may repeat what repeats
        classes = value.count("\\p") + value.count("\\P")
        repetitions = repetitions * (1 + classes * _CLASS) + classes * _CLASS
        if repetitions > MOST_REPETITIONS:
            raise CelRuntimeError(
                f"a computed regular expression may count to {MOST_REPETITIONS} in all its {{m,n}}, "
                f"this one counts to {repetitions}: write it as a literal"
            )
    return value
