"""The order in which the search tries devices. It takes the first that leads to an answer, so the order is the policy.

*first-fit* is upstream's order. *best-fit* first uses devices of the least value to others: shares of devices that are
already shared, parts of devices that are already split, small before large, plentiful before scarce.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.allocator.held import Holdings
    from allotment.allocator.pool import Pool, PooledDevice, PoolID

FIRST_FIT = "first-fit"
BEST_FIT = "best-fit"
STRATEGIES = (FIRST_FIT, BEST_FIT)


def in_order(pools: Sequence[Pool]) -> list[PooledDevice]:
    """The devices of all usable pools in upstream's order."""
    return [device for pool in pools for device in pool.devices]


def arrange(pools: Sequence[Pool], strategy: str, held: Holdings) -> list[PooledDevice]:
    """The devices of all usable pools in the order of the strategy."""
    devices = in_order(pools)
    if strategy == FIRST_FIT:
        return devices
    if strategy != BEST_FIT:
        raise ValueError(f"unknown strategy {strategy!r}; known are {', '.join(STRATEGIES)}")
    value = _DeviceValue(pools, devices, held)
    return sorted(devices, key=value.of)  # stable: equals stay in upstream's order


class _DeviceValue:
    """The value of a device to later claims; lower values come first."""

    def __init__(self, pools: Sequence[Pool], devices: Sequence[PooledDevice], held: Holdings) -> None:
        self._held = held
        self._totals: dict[tuple[PoolID, str], Mapping[str, int]] = {}
        self._broken: set[tuple[PoolID, str]] = set()  # counter sets that devices in use draw from
        self._like = Counter(_kind(device) for device in devices)
        for pool in pools:
            for counters in pool.counter_sets:
                self._totals[pool.id, counters.name] = {
                    n: c.value.nanos for n, c in counters.counters.items()
                }
            for device in (*pool.devices, *pool.elsewhere):
                if held.exclusive(device.id) or held.shared(device.id):
                    self._broken.update((pool.id, use.counter_set) for use in device.spec.consumes_counters)

    def of(self, device: PooledDevice) -> tuple[bool, Fraction, int, int, int]:
        pool = device.id.of_pool
        sets = [(pool, use.counter_set) for use in device.spec.consumes_counters]
        size = sum(capacity.value.nanos for capacity in device.spec.capacity.values())
        return (
            not (device.spec.allow_multiple_allocations and self._held.shared(device.id)),
            self._part(device),
            self._loss(sets),
            size,
            -self._like[_kind(device)],
        )

    def _loss(self, sets: Sequence[tuple[PoolID, str]]) -> int:
        """0 for a part of something that is broken up already, 1 for what is no part, 2 for what would break it."""
        if not sets:
            return 1
        return 0 if any(each in self._broken for each in sets) else 2

    def _part(self, device: PooledDevice) -> Fraction:
        """The largest part that the device takes of any counter; a device without counters is whole, unless it
        knows better."""
        if device.part is not None:
            return device.part
        parts = [
            Fraction(counter.value.nanos, total)
            for use in device.spec.consumes_counters
            for name, counter in use.counters.items()
            if (total := self._totals.get((device.id.of_pool, use.counter_set), {}).get(name))
        ]
        return max(parts, default=Fraction(1))


def _kind(device: PooledDevice) -> object:
    capacity = device.spec.capacity
    return device.id.driver, tuple(sorted((name, offer.value.nanos) for name, offer in capacity.items()))
