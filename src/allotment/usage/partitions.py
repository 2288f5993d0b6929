"""A pool's partitions by kind: how many exist, and how many more of each kind could be allocated.

A partition is a device that draws on counters. Its kind is the value of an attribute. The slice names that attribute or, if
no slice of the pool does, the caller. Each kind is counted by itself, as if no other were used: free devices are taken
one after the other, as long as counters and compatibility groups allow. If each device draws on one set and all have the
same groups, the result is the most that fits, since all devices of a kind draw the same amounts. Otherwise it is a lower
bound. Partitions of one kind that draw different amounts are an error.

Kubernetes 1.37 also treats partitions on different counter sets as different, so it cannot describe a pool with two
partitioned GPUs; and it counts tainted partitions as allocatable. We do neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.allocator.counters import Counters
from allotment.allocator.held import Held as HeldDevices
from allotment.allocator.pool import DeviceID
from allotment.usage.device import taint_obstacle

if TYPE_CHECKING:
    from allotment.allocator.counters import CounterTable
    from allotment.allocator.pool import PooledDevice
    from allotment.usage.inventory import Inventory

KINDS_MAX = 32
TYPE_MISSING = "PartitionTypeMissing"
COST_MISMATCH = "PartitionCostMismatch"
TOO_MANY = "PartitionSummaryOverCap"


class PartitionError(ValueError):
    """The kinds cannot be determined. The message begins with one of Kubernetes' own reasons, listed above."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(f"{reason}: {words}")


@dataclass(frozen=True, slots=True)
class PartitionKind:
    """The partitions for which ``attribute`` has the value ``type``."""

    attribute: str
    type: str
    total: int
    allocatable: int  # more that fit now


def partition_kinds(
    inventory: Inventory, in_use: Collection[str], default: str | None = None
) -> tuple[PartitionKind, ...]:
    """All kinds of a pool, sorted; none if it has no partitions, cannot be used, or no attribute is named.

    ``in_use`` are the devices that claims hold. Raises PartitionError.
    """
    plan = inventory.plan
    declared = any(slice.spec.partition_type_attribute for slice in inventory.slices)
    if plan is None:
        if declared and inventory.pool.usable:
            raise PartitionError(TYPE_MISSING, "a slice names an attribute, but no device draws on counters")
        return ()
    found: dict[tuple[str, str], list[int]] = {}
    for position, key in _keys(inventory, plan, None if declared else default):
        found.setdefault(key, []).append(position)
    if len(found) > KINDS_MAX:
        raise PartitionError(
            TOO_MANY, f"there are {len(found)} kinds, but at most {KINDS_MAX} can be reported"
        )
    return tuple(
        PartitionKind(*key, len(found[key]), _fitting(inventory, plan, found[key], in_use))
        for key in sorted(found)
    )


def _keys(
    inventory: Inventory, plan: CounterTable, default: str | None
) -> Iterator[tuple[int, tuple[str, str]]]:
    """Position, attribute and value of each partition. Raises PartitionError."""
    costs: dict[tuple[str, str], object] = {}
    for position, draw in plan.draws.items():
        device = inventory.devices[position]
        attribute = device.slice.spec.partition_type_attribute or default
        if not attribute:
            continue
        key = attribute, _type(device, attribute)
        cost = sorted((plan.names[index][1], amount) for index, amount in draw.amounts)
        if costs.setdefault(key, cost) != cost:
            raise PartitionError(COST_MISMATCH, f'partitions of type "{key[1]}" draw different amounts')
        yield position, key


def _type(device: PooledDevice, attribute: str) -> str:
    """The device's value of the attribute; a name without a domain belongs to the driver's domain."""
    known = device.spec.attributes
    found = known.get(attribute) or known.get(attribute.removeprefix(f"{device.slice.spec.driver}/"))
    if found is None or found.string_value is None:
        words = f'device "{device.spec.name}" has no attribute "{attribute}" with a text'
        raise PartitionError(TYPE_MISSING, words)
    return found.string_value


def _fitting(inventory: Inventory, plan: CounterTable, positions: list[int], in_use: Collection[str]) -> int:
    names = [device.spec.name for device in inventory.devices]
    bits = sum(1 << position for position, name in enumerate(names) if name in in_use)
    gone = HeldDevices([DeviceID(*inventory.id, name) for name in in_use if name not in inventory.names])
    counters, count = Counters(plan, bits, gone, grouped=True), 0
    for position in positions:
        free = names[position] not in in_use and taint_obstacle(inventory.devices[position]) is None
        count += free and counters.take(plan.draws[position]) is not None
    return count
