"""Expressions in objects that are written: whether they compile, and what they may cost.

To compile one takes hundreds of times as long as to read it, so that counts as work (``allowance.py``).
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
