"""The expression language as validation asks for it."""

from __future__ import annotations

from allotment.api.validation import ExpressionChecker, ExpressionUse, Verdict


def expression_checker() -> ExpressionChecker:
    return _check


def _check(expression: str, use: ExpressionUse, /) -> Verdict:
    return Verdict()
