"""What a pool consists of, independently of its use: its devices, and faults in how they are published.

Only slices of the highest generation count; older ones are reported and do no harm. The allocator decides about pools,
their completeness and their flaws, but it stops at the first flaw and then knows no devices. This module lists them:

* *Incomplete*: the number of slices differs from what any of them announces. Its devices exist, but no claim gets one.
* *Invalid*: two devices of one name, or inconsistent counters. A name stands for one device, so duplicates count once.

A semantic pool consists of all trees of one driver on one node. It has no generations and announces nothing, so it is
always complete. If its trees cannot be read, it has no known devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from allotment.allocator.counters import CounterTable
from allotment.allocator.features import ALL
from allotment.allocator.pool import DeviceID, Pool, PooledDevice, PoolID, reaches, whole_pool
from allotment.allocator.semantic_pools import partition_pools
from allotment.allocator.taint import may_taint, tainted
from allotment.api.text import plural

if TYPE_CHECKING:
    from allotment.api.core import Node
    from allotment.api.resource import DeviceTaintRule, ResourceSlice
    from allotment.api.semantic import NodeResourceSlice

ALL_SLICES_PRESENT = "AllSlicesPresent"
SLICES_MISSING = "SlicesMissing"
TOO_MANY_SLICES = "TooManySlices"
VALIDATION_PASSED = "ValidationPassed"
DUPLICATE_DEVICES = "DuplicateDevices"
INVALID_SLICES = "InvalidSlices"


@dataclass(frozen=True, slots=True)
class PoolFinding:
    """Whether a condition holds, with the reason and message of a Kubernetes condition."""

    holds: bool
    reason: str
    message: str


@dataclass
class Inventory:
    """The devices of one pool, and how they are published. ``flaws`` are the validation messages, errors first."""

    pool: Pool  # the pool in the allocator's form
    devices: Sequence[PooledDevice]  # one device for each name, even if the pool cannot be used
    complete: PoolFinding
    valid: PoolFinding
    flaws: list[str] = field(default_factory=list)
    slices: Sequence[ResourceSlice] = ()  # the slices that count; none for a semantic pool

    @property
    def id(self) -> PoolID:
        return self.pool.id

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset([device.spec.name for device in self.devices])

    @cached_property
    def node_name(self) -> str:
        """The node that all slices are for; empty if there may be several."""
        if not self.slices:
            return self.id.pool
        names = {slice.spec.node_name or "" for slice in self.slices}
        return names.pop() if len(names) == 1 else ""

    @cached_property
    def plan(self) -> CounterTable | None:
        """The counters that devices share; None if they share nothing, or the pool cannot be used."""
        drawing = self.pool.usable and any(device.spec.consumes_counters for device in self.devices)
        return CounterTable([self.pool], self.devices) if drawing else None

    def reached_by(self, node: Node) -> bool:
        """Whether a node reaches any device. Raises AllocationError if a node selector is broken."""
        if self.slices:
            return any(reaches(slice, node) for slice in self.slices)
        return self.id.pool == node.metadata.name


def slice_inventory(
    slices: Iterable[ResourceSlice], rules: Iterable[DeviceTaintRule] = (), trees: int = 0
) -> Inventory:
    """A pool of ``resource.k8s.io/v1`` from all its slices, of which there is at least one.

    Semantic ``trees`` with the same driver and pool are only reported.
    """
    known = sorted(slices, key=lambda slice: slice.metadata.name)
    newest = max(slice.spec.pool.generation for slice in known)
    current = [slice for slice in known if slice.spec.pool.generation == newest]
    spec = current[0].spec
    mine = [rule for rule in rules if may_taint(rule, spec.driver, spec.pool.name)]
    if mine:
        mine.sort(key=lambda rule: rule.metadata.name)
        current = [tainted(slice, mine) for slice in current]
    count = len(current)
    # One slice with a different number makes the pool incomplete, whichever slice the allocator reads first.
    pool = whole_pool(
        sorted(current, key=lambda s: (s.spec.pool.resource_slice_count == count, -_announced(s))), ALL
    )
    devices: Sequence[PooledDevice] = pool.devices
    duplicates: list[str] = []
    if not pool.usable:
        devices, duplicates = _listed(current)
    flaws = [*duplicates]
    if pool.invalid and not duplicates:
        flaws.append(pool.invalid)
    flaws += _odd_announcements(current)
    flaws += _older(known, newest)
    if trees:
        flaws.append(f"{plural(trees, 'slice')} of v1alpha2 for the same driver and pool ignored")
    return Inventory(pool, devices, _completeness(pool), _validity(pool, duplicates), flaws, current)


def tree_inventory(id: PoolID, trees: Iterable[NodeResourceSlice], held: Collection[str] = ()) -> Inventory:
    """A semantic pool. ``held`` are the ids of its instances that claims hold, published or not.

    Instances that are held but gone still lock their neighbours, as in the allocator.
    """
    ids = [DeviceID(*id, name) for name in sorted(held)]
    pool = next(pool for pool in partition_pools(id.pool, trees, ids) if pool.id == id)
    flaws = [pool.invalid] if pool.invalid else []
    return Inventory(pool, pool.devices, _completeness(pool), _validity(pool, ()), flaws)


def _announced(slice: ResourceSlice) -> int:
    return slice.spec.pool.resource_slice_count


def _completeness(pool: Pool) -> PoolFinding:
    if not pool.incomplete:
        return PoolFinding(
            True, ALL_SLICES_PRESENT, f"{pool.slices} of {plural(pool.announced, 'slice')} found"
        )
    reason = SLICES_MISSING if pool.slices < pool.announced else TOO_MANY_SLICES
    generation = f"generation {pool.generation}"
    return PoolFinding(
        False,
        reason,
        f"{pool.slices} of {plural(pool.announced, 'slice')} of {generation} found; nothing is given out",
    )


def _validity(pool: Pool, duplicates: Collection[str]) -> PoolFinding:
    if duplicates:
        names = "1 device name is" if len(duplicates) == 1 else f"{len(duplicates)} device names are"
        message = f"{names} published more than once; nothing is given out"
        return PoolFinding(False, DUPLICATE_DEVICES, message)
    if pool.invalid:
        return PoolFinding(False, INVALID_SLICES, f"{pool.invalid}; nothing is given out")
    return PoolFinding(True, VALIDATION_PASSED, "no errors that keep devices from being given out")


def _listed(slices: Sequence[ResourceSlice]) -> tuple[list[PooledDevice], list[str]]:
    """The first device of each name, and an error for each repeated name.

    As in the allocator, devices in a slice that has shared counters do not count.
    """
    first: dict[str, PooledDevice] = {}
    again: dict[str, dict[str, None]] = {}
    for slice in slices:
        for spec in () if slice.spec.shared_counters else slice.spec.devices:
            if spec.name in first:
                again.setdefault(spec.name, {first[spec.name].slice.metadata.name: None})
                again[spec.name][slice.metadata.name] = None
            else:
                first[spec.name] = PooledDevice(spec, slice)
    duplicates = [
        f'device "{name}" is published more than once, in {" and ".join(list(names)[:2])}'
        for name, names in sorted(again.items())
    ]
    return list(first.values()), duplicates


def _odd_announcements(current: Sequence[ResourceSlice]) -> list[str]:
    announced = sorted({_announced(slice) for slice in current})
    if len(announced) == 1:
        return []
    return [
        f"slices of one generation announce different numbers of slices: {', '.join(map(str, announced))}"
    ]


def _older(known: Sequence[ResourceSlice], newest: int) -> list[str]:
    older = Counter([slice.spec.pool.generation for slice in known if slice.spec.pool.generation < newest])
    return [
        f"{plural(count, 'slice')} of the older generation {generation} ignored, the newest is {newest}"
        for generation, count in sorted(older.items(), reverse=True)
    ]
