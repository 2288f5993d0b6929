"""A pool: the state of each device, the claims that hold them, and what is wrong.

``pool_usage`` joins what slices publish (``inventory``) with what claims hold (``allocation``) and judges device by device
(``device``). It takes time in proportion to the devices and allocations. ``compute_pool_usage`` does it from plain lists.

Devices that claims hold but no slice publishes do not count: they are in ``vanished``, and validation errors give their
number. Validation errors contain names of devices and slices but never of claims, because everybody may read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.allocator.counters import Counters
from allotment.allocator.held import Held as HeldDevices
from allotment.allocator.pool import DeviceID, PoolID, by_pool
from allotment.api.resource import ResourceSlice
from allotment.api.text import plural
from allotment.usage.allocation import AllocationInfo, AnyClaim, held_by
from allotment.usage.device import (
    COUNTERS_EXHAUSTED,
    LOCKED_OUT,
    POOL_INCOMPLETE,
    POOL_INVALID,
    DeviceObstacle,
    DeviceUsage,
    device_usage,
    taint_obstacle,
)
from allotment.usage.inventory import Inventory, PoolFinding, slice_inventory, tree_inventory
from allotment.usage.summary import Summary, count

if TYPE_CHECKING:
    from allotment.allocator.pool import PooledDevice
    from allotment.api.resource import DeviceTaintRule
    from allotment.api.semantic import NodeResourceSlice

__all__ = ["PoolUsage", "compute_pool_usage"]

ERRORS_MAX = 10
ERROR_LENGTH = 256
_COUNTERS_NAMED = 3  # the most counters that a message names

Holdings = Mapping[str, Sequence[AllocationInfo]]
"""The allocations of each device of a pool, by the device's name."""


@dataclass(frozen=True, slots=True)
class VanishedDevice:
    """A device that claims hold and no slice publishes."""

    name: str
    allocations: tuple[AllocationInfo, ...]


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """The usage of one pool.

    Invariant: ``summary`` counts ``devices`` by state, unless ``hidden`` is above zero: then it is the published summary
    (see ``hidden``).
    """

    driver: str
    pool_name: str
    node_name: str  # the node that reaches the pool; empty if there may be several
    generation: int
    devices: tuple[DeviceUsage, ...]  # in the order in which the allocator tries them
    summary: Summary
    complete: PoolFinding
    valid: PoolFinding
    observed_slices: int  # slices of this generation
    expected_slices: int
    validation_errors: tuple[str, ...] = ()  # at most ERRORS_MAX
    truncated_error_count: int = 0  # the number of errors, if not all are listed
    vanished: tuple[VanishedDevice, ...] = ()
    # the number of devices held by claims that the caller may not see; None if unknown
    hidden: int | None = 0

    @property
    def id(self) -> PoolID:
        return PoolID(self.driver, self.pool_name)

    @property
    def broken(self) -> bool:
        """Whether none of the pool's devices can be allocated."""
        return not (self.complete.holds and self.valid.holds)

    @property
    def unseen(self) -> int:
        """The number of devices that no visible claim holds; the ``hidden`` ones are among them."""
        return sum(not any(not each.admin_access for each in device.allocations) for device in self.devices)


def compute_pool_usage(
    slices: Iterable[ResourceSlice] | Iterable[NodeResourceSlice],
    claims: Iterable[AnyClaim],
    rules: Iterable[DeviceTaintRule] = (),
) -> PoolUsage:
    """The usage of the pool that all slices belong to, given all claims; claims on other pools do no harm.

    A caller who cannot list all claims needs ``hidden.with_hidden_claims`` as well. For many pools, or to follow changes,
    use ``usage.Usage``. Raises ValueError unless the slices belong to exactly one pool.
    """
    known, trees = [], []
    for slice in slices:
        if isinstance(slice, ResourceSlice):
            known.append(slice)
        else:
            trees.append(slice)
    pools = {*by_pool(known), *[PoolID(tree.spec.driver_name, tree.spec.node_name) for tree in trees]}
    if len(pools) != 1:
        raise ValueError(f"the slices of one pool are needed; these are of {len(pools)}")
    id = pools.pop()
    held: dict[str, list[AllocationInfo]] = {}
    for claim in {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims}.values():
        for device, infos in held_by(claim).get(id, {}).items():
            held.setdefault(device, []).extend(infos)
    if known:
        return pool_usage(slice_inventory(known, rules, len(trees)), held)
    return pool_usage(tree_inventory(id, trees, in_use(held)), held)


def in_use(held: Holdings) -> list[str]:
    """The devices that claims hold; admin access does not count."""
    return [name for name, infos in held.items() if any(not info.admin_access for info in infos)]


def pool_usage(inventory: Inventory, held: Holdings) -> PoolUsage:
    """Joins the inventory with what claims hold."""
    judge = _DeviceJudge(inventory, held)
    devices = tuple([judge.usage(position, device) for position, device in enumerate(inventory.devices)])
    vanished = tuple(
        [
            VanishedDevice(name, tuple(sorted(held[name], key=lambda each: each.order)))
            for name in sorted(held)
            if name not in inventory.names
        ]
    )
    errors = [
        *inventory.flaws,
        *_vanished_errors(vanished),
        *_overuse(inventory.devices, devices),
        *judge.errors(),
    ]
    return PoolUsage(
        driver=inventory.id.driver,
        pool_name=inventory.id.pool,
        node_name=inventory.node_name,
        generation=inventory.pool.generation,
        devices=devices,
        summary=count([device.state for device in devices]),
        complete=inventory.complete,
        valid=inventory.valid,
        observed_slices=inventory.pool.slices,
        expected_slices=inventory.pool.announced,
        validation_errors=tuple([_cut(error) for error in errors[:ERRORS_MAX]]),
        truncated_error_count=len(errors) if len(errors) > ERRORS_MAX else 0,
        vanished=vanished,
    )


class _DeviceJudge:
    """Judges the devices of one pool in its present state."""

    def __init__(self, inventory: Inventory, held: Holdings) -> None:
        self._held = held
        self._trouble: DeviceObstacle | None = None
        if not inventory.valid.holds:
            self._trouble = DeviceObstacle(POOL_INVALID, inventory.valid.message)
        elif not inventory.complete.holds:
            self._trouble = DeviceObstacle(POOL_INCOMPLETE, inventory.complete.message)
        self._plan = inventory.plan
        self._counters: Counters | None = None
        if self._plan is not None:
            used, bits = frozenset(in_use(held)), 0
            for position, device in enumerate(inventory.devices):
                if device.spec.name in used:
                    bits |= 1 << position
            gone = HeldDevices([DeviceID(*inventory.id, name) for name in used - inventory.names])
            self._counters = Counters(self._plan, bits, gone, grouped=True)

    def usage(self, position: int, device: PooledDevice) -> DeviceUsage:
        allocations = self._held.get(device.spec.name, ())
        return device_usage(device, allocations, lambda: self._obstacle(position, device))

    def _obstacle(self, position: int, device: PooledDevice) -> DeviceObstacle | None:
        return self._trouble or taint_obstacle(device) or self._neighbours(position)

    def _neighbours(self, position: int) -> DeviceObstacle | None:
        """Why devices in use prevent the allocation of this one; None if they do not."""
        plan, counters = self._plan, self._counters
        draw = plan.draws.get(position) if plan is not None else None
        if draw is None or counters is None:
            return None
        before = counters.take(draw)
        if before is not None:
            counters.give(draw, before)
            return None
        short = counters.short_of(draw)
        if short:
            told = [
                f"{missing} of {name} in {counter_set}"
                for counter_set, name, missing in short[:_COUNTERS_NAMED]
            ]
            if len(short) > _COUNTERS_NAMED:
                told.append(f"and of {len(short) - _COUNTERS_NAMED} more counters")
            return DeviceObstacle(COUNTERS_EXHAUSTED, f"lacks {', '.join(told)}, in use by its neighbours")
        if counters.overdrawn:
            return DeviceObstacle(COUNTERS_EXHAUSTED, _OVERDRAWN)
        return DeviceObstacle(LOCKED_OUT, "cannot be used together with its neighbours in use")

    def errors(self) -> list[str]:
        return [_OVERDRAWN] if self._counters is not None and self._counters.overdrawn else []


_OVERDRAWN = "more of the pool's shared counters is in use than there is"


def _vanished_errors(vanished: Sequence[VanishedDevice]) -> list[str]:
    return [
        f'device "{device.name}" is in {plural(len(device.allocations), "allocation")} but is not published'
        for device in vanished
    ]


def _overuse(devices: Sequence[PooledDevice], usages: Sequence[DeviceUsage]) -> list[str]:
    """Overcommitted devices: two schedulers may have allocated one, or a driver may have shrunk it."""
    errors = []
    for device, usage in zip(devices, usages, strict=True):
        if not usage.allocations:
            continue
        holders = [each for each in usage.allocations if not each.admin_access]
        if len(holders) > 1 and not (
            device.spec.allow_multiple_allocations and all(each.share_id is not None for each in holders)
        ):
            errors.append(
                f'device "{usage.name}" is in {plural(len(holders), "allocation")} and can only be in one'
            )
        if usage.allocated_capacity is usage.total_capacity:
            continue
        for name, taken in usage.allocated_capacity.items():
            total = usage.total_capacity.get(name)
            if total is None or taken > total:
                errors.append(
                    f'device "{usage.name}": {taken} of {name} are allocated, it has {total if total is not None else "none"}'
                )
    return errors


def _cut(text: str) -> str:
    return text if len(text) <= ERROR_LENGTH else text[: ERROR_LENGTH - 1] + "…"
