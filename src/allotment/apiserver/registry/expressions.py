"""Checks that expressions in written objects compile, and how much they may cost.

Compiling an expression takes hundreds of times as long as reading it, so it counts as work (``allowance.py``).
"""

from __future__ import annotations

import re
from typing import Final

from allotment.api.validation import CheckedExpression, ExpressionUse
from allotment.apiserver.allowance import spend
from allotment.cel import expression_check

COMPILING: Final = 5.0
"""Microseconds for each character of an expression."""
_LARGE_PARTS: Final = ((re.compile(r"\{[0-9]"), 10_000.0), (re.compile(r"\\[pP]"), 1_000.0))
"""Parts of regular expressions that compile to far more than their length, and microseconds for each."""


def spend_on_compiling(expression: str) -> None:
    """Call it before an expression is compiled."""
    large = sum(price * len(part.findall(expression)) for part, price in _LARGE_PARTS)
    spend(len(expression) * COMPILING + large)


def check_expression(expression: str, use: ExpressionUse, /) -> CheckedExpression:
    """Never raises for a broken expression, which is a verdict; TooMuchAtOnce where work is counted."""
    spend_on_compiling(expression)
    return expression_check.check_expression(expression, use)
