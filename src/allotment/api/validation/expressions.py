"""The interface by which validation checks that an expression compiles, without knowing the expression language.

The caller passes an ExpressionChecker; ``cel`` has one. Its result carries the static cost, because the derived
attributes of a claim share one budget.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from allotment.api.fields import FieldError, FieldPath
from allotment.api.text import byte_length

EXPRESSION_LENGTH: Final = 10 * 1024
EXPRESSION_COST: Final = 1_000_000
"""The highest static cost of one expression, and of all derived attributes of one claim together."""


class ExpressionUse(Enum):
    """The use of an expression, which determines its variables and the type of its result."""

    SELECTOR = "selector"
    """A test of one device: ``device`` in, bool out."""

    DERIVED_ATTRIBUTE = "derived attribute"
    """A value computed from one device: ``device`` in, an attribute's value out."""

    PARTITIONABLE = "partitionable selector"
    """A test of an instance of the v1alpha2 model: one map per type of value in, bool out."""


@dataclass(frozen=True, slots=True)
class CheckedExpression:
    """What a checker found: the compile error with its position, or None; and the static worst-case cost."""

    error: str | None = None
    cost: int = 0


class ExpressionChecker(Protocol):
    """Compiles an expression for a use. It must not raise for any text of at most EXPRESSION_LENGTH bytes."""

    def __call__(self, expression: str, use: ExpressionUse, /) -> CheckedExpression: ...


def check_expression(
    expression: str, use: ExpressionUse, path: FieldPath, check: ExpressionChecker
) -> Iterator[FieldError]:
    """Reports that the expression is too long, does not compile or costs too much: the first of these that applies."""
    if not expression:
        yield path.invalid("is empty: write a CEL expression", expression)
    elif byte_length(expression) > EXPRESSION_LENGTH:
        yield path.too_long(EXPRESSION_LENGTH)
    elif (verdict := check(expression, use)).error is not None:
        yield path.invalid(verdict.error, expression)
    elif verdict.cost > EXPRESSION_COST:
        yield path.forbidden(
            f"is too complex: its cost may reach {verdict.cost}, the limit is {EXPRESSION_COST}; make it shorter or bound its lists"
        )
