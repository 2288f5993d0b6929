"""Which taints of nodes a toleration matches."""

from __future__ import annotations

import re

from allotment.api.core import Taint, Toleration

# Stricter than int(): no plus sign, no leading zeros, no minus zero.
_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,18}")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration matches the taint.

    An absent effect matches every effect, an absent key every key, and an absent operator means Equal. ``Lt`` and ``Gt``
    compare the taint's value as a number with the toleration's.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case None | "" | "Equal":
            return (toleration.value or "") == (taint.value or "")
        case "Exists":
            return True
        case "Lt" | "Gt":
            return _compares(toleration, taint)
    return False


def _compares(toleration: Toleration, taint: Taint) -> bool:
    bound, value = _number(toleration.value), _number(taint.value)
    if bound is None or value is None:
        return False
    return value < bound if toleration.operator == "Lt" else value > bound


def _number(text: str | None) -> int | None:
    if text is None or not _DECIMAL.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
