"""Taints keep claims off a device unless the request tolerates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.api.resource import DeviceTaint, DeviceToleration

BLOCKING = frozenset({"NoSchedule", "NoExecute"})
"""Other effects, newer ones included, keep nothing off."""


def blocking_taint(
    taints: Sequence[DeviceTaint], tolerations: Sequence[DeviceToleration]
) -> DeviceTaint | None:
    """The first taint that is not tolerated and keeps the device from being allocated."""
    for taint in taints:
        if taint.effect in BLOCKING and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """No effect tolerates every effect, no key every key, and Exists every value."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in (None, "", "Equal"):
        return (toleration.value or "") == (taint.value or "")
    return toleration.operator == "Exists"
