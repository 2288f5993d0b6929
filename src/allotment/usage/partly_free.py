"""What is left of partially used devices: a network card with 60 of 100G left is neither available nor used up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.api.quantity import Quantity
from allotment.usage.summary import DeviceState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allotment.usage.device import DeviceUsage


@dataclass(frozen=True, slots=True)
class PartlyFree:
    """How many shared devices have something left, and the total and the remainder of each of their capacities."""

    devices: int = 0
    total: Mapping[str, Quantity] = field(default_factory=dict)
    left: Mapping[str, Quantity] = field(default_factory=dict)

    def __str__(self) -> str:
        """``1 (bandwidth 60G of 100G left)``."""
        amounts = ", ".join(
            f"{name} {self.left[name]} of {self.total[name]} left" for name in sorted(self.total)
        )
        return f"{self.devices} ({amounts})" if amounts else str(self.devices)


def partly_free(devices: Iterable[DeviceUsage]) -> PartlyFree:
    """Adds up the partially allocated devices."""
    count, total, left = 0, dict[str, Quantity](), dict[str, Quantity]()
    for device in devices:
        if device.state is DeviceState.PARTIALLY_ALLOCATED:
            count += 1
            for name, amount in device.total_capacity.items():
                total[name] = _sum(total.get(name), amount)
                left[name] = _sum(
                    left.get(name), device.available_capacity.get(name, Quantity(0, amount.format))
                )
    return PartlyFree(count, total, left)


def _sum(one: Quantity | None, other: Quantity) -> Quantity:
    return other if one is None else Quantity(one.nanos + other.nanos, one.format)
