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
    """Every device is in exactly one."""

    AVAILABLE = "Available"  # a claim without tolerations could take it
    ALLOCATED = "Allocated"  # some claim has it, and there is nothing left of it
    PARTIALLY_ALLOCATED = "PartiallyAllocated"  # a kind of allocated: claims share it, and one more could
    UNAVAILABLE = "Unavailable"  # no claim has it, and none could take it
    UNKNOWN = "Unknown"  # a claim that the caller may not see could have it


@dataclass(frozen=True, slots=True)
class Summary:
    """See the module. ``unknown`` is zero for whoever sees all claims."""

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
