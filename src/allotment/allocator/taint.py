"""Taints keep claims off a device unless the request tolerates them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from allotment.api.resource import DeviceTaint, DeviceTaintRule, DeviceToleration, ResourceSlice

BLOCKING = frozenset({"NoSchedule", "NoExecute"})
"""Effects that block allocation. Other effects, including newer ones, do not."""


def blocking_taint(
    taints: Sequence[DeviceTaint], tolerations: Sequence[DeviceToleration]
) -> DeviceTaint | None:
    """The first taint that blocks the device and is not tolerated."""
    for taint in taints:
        if taint.effect in BLOCKING and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Whether the toleration matches: no effect matches every effect, no key every key, and Exists every value."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in (None, "", "Equal"):
        return (toleration.value or "") == (taint.value or "")
    return toleration.operator == "Exists"


def may_taint(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    """Whether a rule can select devices of a pool. One without a selector selects none."""
    selector = rule.spec.device_selector
    return selector is not None and selector.driver in (None, driver) and selector.pool in (None, pool)


def tainted(slice: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """A slice with the taints that rules add to its devices, after the devices' own."""
    spec = slice.spec
    added = [
        (rule.spec.device_selector.device, rule.spec.taint)
        for rule in rules
        if rule.spec.device_selector is not None and may_taint(rule, spec.driver, spec.pool.name)
    ]
    if not added:
        return slice
    devices = []
    for device in spec.devices:
        more = tuple([taint for name, taint in added if name in (None, device.name)])
        devices.append(replace(device, taints=device.taints + more) if more else device)
    return replace(slice, spec=replace(spec, devices=tuple(devices)))
