"""Ranges of sizes and costs, and the information with which a function estimates a call.

Both ranges are pairs of unsigned 64-bit numbers whose arithmetic sticks at the maximum, so that "unknown"
(0 to the maximum) stays unknown however it is combined. Factors are floats and round up, as upstream does:
the estimates have to agree with it to the unit, because they decide what the API server admits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from allotment.cel.ast import Expr
    from allotment.cel.types import Type

MAX_COST = 2**64 - 1
STRING_TRAVERSAL = 0.1
"""Cost of looking at one character."""
REGEX_LENGTH = 0.25
"""Cost of one character of a regular expression."""
LIST_CREATE = 10
MAP_CREATE = 30
OBJECT_CREATE = 40


def scaled(size: int, factor: float) -> int:
    """``size × factor`` rounded up, stuck at the maximum."""
    product = float(size) * factor
    if product >= 1.8446744073709552e19:
        return MAX_COST
    return math.ceil(product)


@dataclass(frozen=True, slots=True)
class Range:
    """From least to most, of a size (characters, bytes, entries) or of a cost."""

    min: int
    max: int

    def __add__(self, other: Range) -> Range:
        return Range(min(self.min + other.min, MAX_COST), min(self.max + other.max, MAX_COST))

    def __mul__(self, other: Range) -> Range:
        return Range(min(self.min * other.min, MAX_COST), min(self.max * other.max, MAX_COST))

    def times(self, factor: float) -> Range:
        return Range(scaled(self.min, factor), scaled(self.max, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.min, other.min), max(self.max, other.max))


UNKNOWN = Range(0, MAX_COST)
ZERO = Range(0, 0)
ONE = Range(1, 1)


def exactly(number: int) -> Range:
    return Range(number, number)


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """Cost of one call, arguments not included, and the size of its result where known."""

    cost: Range
    size: Range | None = None


@dataclass(frozen=True, slots=True)
class EstimatedArgument:
    """An argument as an estimator sees it."""

    type: Type
    path: tuple[str, ...] = ()
    """Way from a variable through fields, ``@items``, ``@keys``, ``@values``; empty where unknown."""
    expr: Expr | None = None
    computed: Range | None = None
    """The size, where the expression itself shows it (a literal, a concatenation of known sizes)."""


class ArgumentSizes(Protocol):
    """The information that an estimator can get about its arguments."""

    def of(self, node: EstimatedArgument) -> Range:
        """The computed size, else the declared limit, else unknown."""

    def element(self, node: EstimatedArgument) -> EstimatedArgument | None:
        """The element of a list-typed (the key of a map-typed) node; None if its type has no parameters."""
