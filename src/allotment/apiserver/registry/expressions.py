"""Checks that expressions in written objects compile, and how much they may cost.

Compiling an expression takes hundreds of times as long as reading it, so it counts as work (``allowance.py``).
"""

from __future__ import annotations

from typing import Final

from allotment.api.validation import CheckedExpression, ExpressionUse
from allotment.apiserver.allowance import spend
from allotment.cel import expression_check

COMPILING: Final = 5.0
"""Microseconds for each character of an expression."""


def check_expression(expression: str, use: ExpressionUse, /) -> CheckedExpression:
    """Never raises for a broken expression, which is a verdict; TooMuchAtOnce where work is counted."""
    spend(len(expression) * COMPILING)
    return expression_check.check_expression(expression, use)
