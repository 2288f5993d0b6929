"""Which taints of nodes a pod puts up with."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.api.core import Taint, Toleration

BLOCKING = frozenset({"NoSchedule", "NoExecute"})
"""Effects that keep a pod off a node; PreferNoSchedule only makes it less welcome."""

# Stricter than int(): no plus sign, no leading zeros, no minus zero.
_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,18}")


def tolerated(tolerations: Sequence[Toleration]) -> Callable[[Taint], bool]:
    """Whether any of these tolerations is for a taint."""
    if any(not (each.key or each.effect) and each.operator == "Exists" for each in tolerations):
        return lambda taint: True
    return lambda taint: any(tolerates(each, taint) for each in tolerations)


def keeps_off(taints: Sequence[Taint], accepts: Callable[[Taint], bool]) -> Taint | None:
    """The first taint that keeps a pod off a node, if it accepts only some."""
    for taint in taints:
        if taint.effect in BLOCKING and not accepts(taint):
            return taint
    return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """No effect stands for every effect, no key for every key, no operator for Equal."""
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
