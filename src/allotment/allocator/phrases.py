"""The phrases that more than one reason is made of, so that allocator, scheduler and usage say one thing in the same words.

A reason is written for several nodes or devices and starts with a plural verb ("have every gpu in use", "fail `…`");
``counted`` puts the number before it. Names and amounts come from the caller; lists of names and plain plurals are in ``api.text``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.api.resource import DeviceTaint

SHOWN_EXPRESSION_LENGTH = 80
"""Characters of an expression that a reason shows."""
DETAILS_SHOWN = 3
"""Different values that a reason shows; of the rest it says how many there are."""
GAVE_UP = "gave up"
"""How words begin where the search ended before an answer was known."""
HAVE_TAINT = "have taint "
"""How words begin for devices that only a taint keeps from a request."""
_SINGULAR = {
    "are": "is",
    "consume": "consumes",
    "do": "does",
    "exceed": "exceeds",
    "fail": "fails",
    "have": "has",
    "lack": "lacks",
    "need": "needs",
    "share": "shares",
    "skip": "skips",
    "were": "was",
}


def counted(count: int, words: str) -> str:
    """``3 fail …``, but ``1 fails …``."""
    return f"{count} {of_one(words) if count == 1 else words}"


def of_one(words: str) -> str:
    """The words, said of one node or device."""
    verb, space, rest = words.partition(" ")
    return f"{_SINGULAR.get(verb, verb)}{space}{rest}"


def several(values: Sequence[str], most: int = DETAILS_SHOWN) -> str:
    """``a; b; c; 2 more``."""
    more = [f"{len(values) - most} more"] if len(values) > most else []
    return "; ".join([*values[:most], *more])


def on_one_line(expression: str) -> str:
    """An expression without its line breaks and indentation."""
    return " ".join(expression.split())


def cut(expression: str, most: int = SHOWN_EXPRESSION_LENGTH) -> str:
    """The beginning of an expression that is too long to be shown whole."""
    return expression if len(expression) <= most else f"{expression[: most - 3]}..."


def taint(each: DeviceTaint) -> str:
    """``key=value:effect``, as kubectl writes taints."""
    value = f"={each.value}" if each.value else ""
    return f"{each.key}{value}:{each.effect}"


def values_wanted(*, distinct: bool) -> str:
    """What a constraint wants of an attribute."""
    return "different values" if distinct else "one value"


def gave_up(steps: int) -> str:
    """The search was cut off after so many steps."""
    return f"{GAVE_UP} after {steps} steps"


def if_released(claim: str) -> str:
    """Completes "fits …"."""
    return f"if claim {claim} is released"
