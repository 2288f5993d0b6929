"""One device: which claims hold it, how much of it is left, and why no claim can get it, if that is so.

The state follows from the first of these that applies:

1. a claim holds it (not counting admin access): Allocated, or PartiallyAllocated if it is shared and has room for
another share;
2. its pool is invalid or incomplete: Unavailable;
3. it has a NoSchedule or NoExecute taint, its own or from a rule: Unavailable to claims without a toleration;
4. its neighbours leave too little of the pool's counters for it, or lock it out: Unavailable;
5. none of these: Available.

So a device that is both allocated and tainted is Allocated, and counts once.
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
"""Neighbours in use have another compatibility group; in semantic trees, the card is split in another way."""
HIDDEN_CLAIMS = "HiddenClaims"

Amounts = Mapping[str, Quantity]
_NONE: Amounts = {}
_ZERO = {format: Quantity(0, format) for format in Format}
_order = attrgetter("order")


@dataclass(frozen=True, slots=True)
class DeviceObstacle:
    """Why no claim can get a device that no claim holds."""

    reason: str  # one of the reasons above
    message: str


class DeviceUsage(msgspec.Struct, frozen=True, gc=False):
    """The state of one device, with its allocations and what is left.

    A device that no further claim can get has no available capacity.
    """

    name: str
    state: DeviceState
    reason: str = ""  # why the state is Unavailable or Unknown, as one word
    message: str = ""  # the same as a sentence, with amounts
    allocations: tuple[AllocationInfo, ...] = ()  # those that the caller may see, including admin access
    total_capacity: Amounts = {}
    allocated_capacity: Amounts = {}
    available_capacity: Amounts = {}
    node_name: str = ""  # the node that reaches the device; empty if there may be several

    @property
    def in_use(self) -> bool:
        return self.state in (DeviceState.ALLOCATED, DeviceState.PARTIALLY_ALLOCATED)


def device_usage(
    device: PooledDevice, allocations: Sequence[AllocationInfo], obstacle: Callable[[], DeviceObstacle | None]
) -> DeviceUsage:
    """Judges one device. ``obstacle`` is called only for devices that no claim holds."""
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
    """The first blocking taint, if there is one."""
    taint = blocking_taint(device.spec.taints, ()) if device.spec.taints else None
    return DeviceObstacle(TAINTED, f"has the taint {written(taint)}") if taint is not None else None


# --- capacity ---


def _nothing_of(total: Amounts) -> Amounts:
    return {name: _ZERO[amount.format] for name, amount in total.items()} if total else _NONE


def _added_up(shares: Sequence[AllocationInfo], total: Amounts) -> Amounts:
    """The total that shares take, including capacities that the device no longer has."""
    taken = dict(_nothing_of(total))
    for each in shares:
        for name, amount in each.capacity.items():
            before = taken.get(name)
            taken[name] = amount if before is None else Quantity(before.nanos + amount.nanos, before.format)
    return taken


def _left(total: Quantity, taken: Quantity) -> Quantity:
    return Quantity(max(0, total.nanos - taken.nanos), total.format)


def _one_more_fits(capacity: Mapping[str, DeviceCapacity], left: Amounts) -> bool:
    """Whether every capacity has room for the smallest possible share. Without capacities, any number of shares fits."""
    return all(_least(offer) <= left[name].nanos for name, offer in capacity.items())


def _least(offer: DeviceCapacity) -> int:
    """The smallest share that the device's policy allows, in billionths; if it allows any amount, the least above zero."""
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
