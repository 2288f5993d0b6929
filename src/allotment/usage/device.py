"""One device: who has it, what is left of it, and if nobody can have it, why.

The state follows from the first of these that applies:

1. a claim has it (admin access aside): Allocated, or PartiallyAllocated if it is shared and one more share fits;
2. its pool is invalid or incomplete: Unavailable;
3. it has a taint NoSchedule or NoExecute, its own or a rule's: Unavailable to claims without a toleration;
4. what its neighbours have of the pool's counters leaves too little for it, or locks it out: Unavailable;
5. nothing: Available.

So what is both allocated and tainted is Allocated, and counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from allotment.allocator.phrases import taint as written
from allotment.allocator.taint import blocking_taint
from allotment.api.quantity import Format, Quantity
from allotment.usage.summary import DeviceState

if TYPE_CHECKING:
    from allotment.allocator.pool import PooledDevice
    from allotment.api.resource import DeviceCapacity
    from allotment.usage.allocation import AllocationInfo

POOL_INVALID = "PoolInvalid"
POOL_INCOMPLETE = "PoolIncomplete"
TAINTED = "Tainted"
COUNTERS_EXHAUSTED = "CountersExhausted"
LOCKED_OUT = "LockedOut"
"""Neighbours in use are of another compatibility group; in semantic trees, the card is split in another way."""
HIDDEN_CLAIMS = "HiddenClaims"

Amounts = Mapping[str, Quantity]
_NONE: Amounts = {}
_ZERO = {format: Quantity(0, format) for format in Format}
_order = attrgetter("order")


@dataclass(frozen=True, slots=True)
class DeviceObstacle:
    """Why nobody can have a device that nobody has."""

    reason: str  # one of the words above
    message: str


class DeviceUsage(msgspec.Struct, frozen=True, gc=False):
    """See the module. What nobody can have has no available capacity, whether somebody else has it or not."""

    name: str
    state: DeviceState
    reason: str = ""  # of Unavailable and Unknown, as one word
    message: str = ""  # the same in words, with amounts
    allocations: tuple[AllocationInfo, ...] = ()  # that the caller may see, admin access included
    total_capacity: Amounts = {}
    allocated_capacity: Amounts = {}
    available_capacity: Amounts = {}
    node_name: str = ""  # the one node that reaches the device; empty if there may be several

    @property
    def in_use(self) -> bool:
        return self.state in (DeviceState.ALLOCATED, DeviceState.PARTIALLY_ALLOCATED)


def device_usage(
    device: PooledDevice, allocations: Sequence[AllocationInfo], obstacle: Callable[[], DeviceObstacle | None]
) -> DeviceUsage:
    """Judges one device. ``obstacle`` is asked only about devices that nobody has."""
    spec = device.spec
    total = {name: offer.value for name, offer in spec.capacity.items()} if spec.capacity else _NONE
    nothing = _nothing_of(total)
    state, found, taken, left = DeviceState.AVAILABLE, None, nothing, total
    holders = [each for each in allocations if not each.admin_access] if allocations else None
    if not holders:
        found = obstacle()
        if found is not None:
            state, left = DeviceState.UNAVAILABLE, nothing
    elif any(each.share_id is None for each in holders):
        state, taken, left = DeviceState.ALLOCATED, total, nothing
    else:
        state, taken, left = DeviceState.ALLOCATED, _added_up(holders, total), nothing
        if spec.allow_multiple_allocations:
            left = {name: _left(amount, taken[name]) for name, amount in total.items()}
            if _one_more_fits(spec.capacity, left):
                state = DeviceState.PARTIALLY_ALLOCATED
    mine = tuple(sorted(allocations, key=_order)) if len(allocations) > 1 else tuple(allocations)
    reason, message = (found.reason, found.message) if found is not None else ("", "")
    bound = spec if device.slice.spec.per_device_node_selection else device.slice.spec
    return DeviceUsage(spec.name, state, reason, message, mine, total, taken, left, bound.node_name or "")


def taint_obstacle(device: PooledDevice) -> DeviceObstacle | None:
    """The first taint that keeps claims off, if there is any."""
    taint = blocking_taint(device.spec.taints, ()) if device.spec.taints else None
    return DeviceObstacle(TAINTED, f"has the taint {written(taint)}") if taint is not None else None


# --- capacity ---


def _nothing_of(total: Amounts) -> Amounts:
    return {name: _ZERO[amount.format] for name, amount in total.items()} if total else _NONE


def _added_up(shares: Sequence[AllocationInfo], total: Amounts) -> Amounts:
    """What shares take together, also of capacities that the device no longer has."""
    taken = dict(_nothing_of(total))
    for each in shares:
        for name, amount in each.capacity.items():
            before = taken.get(name)
            taken[name] = amount if before is None else Quantity(before.nanos + amount.nanos, before.format)
    return taken


def _left(total: Quantity, taken: Quantity) -> Quantity:
    return Quantity(max(0, total.nanos - taken.nanos), total.format)


def _one_more_fits(capacity: Mapping[str, DeviceCapacity], left: Amounts) -> bool:
    """Whether the least that a claim can ask for is left of every capacity. Without capacities any number fits."""
    return all(_least(offer) <= left[name].nanos for name, offer in capacity.items())


def _least(offer: DeviceCapacity) -> int:
    """The smallest share that the device's policy allows, in billionths. Where any amount goes, some must be left."""
    policy = offer.request_policy
    amounts = [min(1, offer.value.nanos)]
    if policy is not None:
        if policy.valid_values:
            amounts = [value.nanos for value in policy.valid_values]
        elif policy.valid_range is not None and policy.valid_range.min is not None:
            amounts = [policy.valid_range.min.nanos]
        if policy.default is not None:
            amounts.append(policy.default.nanos)
    return min(amounts)
