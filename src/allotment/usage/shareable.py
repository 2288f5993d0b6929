"""Totals over the devices of a pool that several claims can share: how many are unused, and what is left of each
capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.api.quantity import Quantity
from allotment.usage.summary import DeviceState

if TYPE_CHECKING:
    from allotment.allocator.pool import PooledDevice
    from allotment.usage.device import DeviceUsage


@dataclass(frozen=True, slots=True)
class ShareableCapacity:
    """The total of one capacity."""

    name: str
    total: Quantity
    consumed: Quantity

    @property
    def available(self) -> Quantity:
        """The amount that is left; never negative, though a driver may have shrunk a device."""
        return Quantity(max(self.total.nanos - self.consumed.nanos, 0), self.total.format)


@dataclass(frozen=True, slots=True)
class Shareable:
    """Counts of shareable devices. ``partially`` used ones have something left; those used up are in neither count."""

    fully: int
    partially: int
    capacity: tuple[ShareableCapacity, ...]


def shareable_of(devices: Sequence[PooledDevice], usages: Sequence[DeviceUsage]) -> Shareable | None:
    """The totals; None for a pool without such devices. ``usages`` belong to the devices, in the same order."""
    fully = partially = 0
    total: dict[str, Quantity] = {}
    consumed: dict[str, int] = {}
    shared = [
        usage for device, usage in zip(devices, usages, strict=True) if device.spec.allow_multiple_allocations
    ]
    for usage in shared:
        fully += not usage.in_use
        partially += usage.state is DeviceState.PARTIALLY_ALLOCATED
        for name, amount in usage.total_capacity.items():
            before = total.get(name)
            total[name] = amount if before is None else Quantity(before.nanos + amount.nanos, before.format)
            taken = usage.allocated_capacity.get(name)
            consumed[name] = consumed.get(name, 0) + (taken.nanos if taken is not None else 0)
    if not shared:
        return None
    capacity = [
        ShareableCapacity(name, total[name], Quantity(consumed[name], total[name].format))
        for name in sorted(total)
    ]
    return Shareable(fully, partially, tuple(capacity))
