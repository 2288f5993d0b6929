"""Checks expressions for validation: whether a text compiles for its use, and how much it may cost."""

from __future__ import annotations

from allotment.api.validation import CheckedExpression, ExpressionUse
from allotment.cel.caching import cached_by_length
from allotment.cel.device import CelCompileError, compile_derived, compile_selector
from allotment.cel.semantic import compile_semantic


@cached_by_length
def check_expression(expression: str, use: ExpressionUse, /) -> CheckedExpression:
    """Never raises; for a broken expression, the result has an error that shows the place with a caret."""
    try:
        match use:
            case ExpressionUse.SELECTOR:
                return CheckedExpression(cost=compile_selector(expression).max_cost)
            case ExpressionUse.DERIVED_ATTRIBUTE:
                return CheckedExpression(cost=compile_derived(expression).max_cost)
            case ExpressionUse.PARTITIONABLE:
                return CheckedExpression(cost=compile_semantic(expression).max_cost)
    except CelCompileError as exc:
        return CheckedExpression(error=f"does not compile: {told(exc)}")


def told(error: CelCompileError) -> str:
    """All faults of an expression, each with its line, column and caret."""
    return "\n".join(
        f"line {issue.line}, column {issue.column}: {issue.message}\n{issue.snippet}"
        for issue in error.issues
    )
