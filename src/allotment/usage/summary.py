"""Counts of devices by state, for a pool, a node, a driver or a whole cluster.

Invariant: ``total == available + allocated + unavailable + unknown``. ``partially_allocated`` is a part of ``allocated``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["DeviceState", "Summary"]


class DeviceState(StrEnum):
    """The state of a device; every device is in exactly one."""

    AVAILABLE = "Available"  # a claim without tolerations could get it
    ALLOCATED = "Allocated"  # a claim holds it, and nothing is left of it
    # a kind of allocated: claims share it, and another one could join
    PARTIALLY_ALLOCATED = "PartiallyAllocated"
    UNAVAILABLE = "Unavailable"  # no claim holds it, and none could get it
    UNKNOWN = "Unknown"  # a claim that the caller may not see may hold it


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of devices by state. ``unknown`` is zero for a caller who sees all claims."""

    total: int = 0
    allocated: int = 0
    available: int = 0
    unavailable: int = 0
    partially_allocated: int = 0
    unknown: int = 0

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.total + other.total,
            self.allocated + other.allocated,
            self.available + other.available,
            self.unavailable + other.unavailable,
            self.partially_allocated + other.partially_allocated,
            self.unknown + other.unknown,
        )


NOTHING = Summary()


def count(states: Iterable[DeviceState]) -> Summary:
    """The summary of devices in these states."""
    found = Counter(states)
    partially = found[DeviceState.PARTIALLY_ALLOCATED]
    return Summary(
        total=found.total(),
        allocated=found[DeviceState.ALLOCATED] + partially,
        available=found[DeviceState.AVAILABLE],
        unavailable=found[DeviceState.UNAVAILABLE],
        partially_allocated=partially,
        unknown=found[DeviceState.UNKNOWN],
    )
