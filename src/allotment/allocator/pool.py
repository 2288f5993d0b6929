"""The pools that a node can reach, assembled from slices.

A driver publishes a pool as several slices. These steps decide what counts for a node:

1. Of the slices that reach the node, only those of the highest generation count.
2. If their number is the one that they announce, the pool is complete. Otherwise the slices for other nodes count as well:
if there is a newer generation, these slices are obsolete and the pool does not exist; if there are fewer slices than
announced, the pool is incomplete.
3. A complete pool is checked: device names are unique, counter sets too, and every counter that is consumed exists.

An incomplete or invalid pool has no devices. Pools are ordered by (driver, name), those with binding conditions
last; inside a pool devices are ordered by slice name, then as published. The search goes in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from allotment.allocator.nodeselector import node_matches

if TYPE_CHECKING:
    from fractions import Fraction

    from allotment.allocator.features import Features
    from allotment.api.core import Node
    from allotment.api.resource import CounterSet, ResourceSlice
    from allotment.api.resource import Device as DeviceSpec

__all__ = ["DeviceID", "PoolID"]


class PoolID(NamedTuple):
    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceID(NamedTuple):
    driver: str
    pool: str
    device: str

    @property
    def of_pool(self) -> PoolID:
        return PoolID(self.driver, self.pool)

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class PooledDevice:
    """A device of a pool as a node sees it: the published device, and its slice."""

    __slots__ = ("flaw", "id", "slice", "spec")

    def __init__(self, spec: DeviceSpec, slice: ResourceSlice) -> None:
        self.spec = spec
        self.slice = slice
        of = slice.spec
        self.id = DeviceID(of.driver, of.pool.name, spec.name)
        # why no expression can read it, once checked; empty if they can
        self.flaw: str | None = None

    @property
    def part(self) -> Fraction | None:
        """How large a part of a larger whole the device is, if its counters do not show that."""
        return None

    def __repr__(self) -> str:
        return f"Device({self.id})"


@dataclass(slots=True)
class Pool:
    """One pool as a node sees it.

    Invariant: ``devices`` is empty if the pool is incomplete or ``invalid``.
    """

    id: PoolID
    devices: tuple[PooledDevice, ...] = ()
    elsewhere: tuple[PooledDevice, ...] = ()  # devices for other nodes, which draw from the same counters
    counter_sets: tuple[CounterSet, ...] = ()
    incomplete: bool = False
    invalid: str = ""  # why it is invalid, or empty
    generation: int = 0
    slices: int = 0  # how many of the announced slices exist
    announced: int = 0

    @property
    def usable(self) -> bool:
        return not self.incomplete and not self.invalid


def by_pool(slices: Iterable[ResourceSlice]) -> dict[PoolID, list[ResourceSlice]]:
    """All slices of any generation, grouped by pool."""
    pools: dict[PoolID, list[ResourceSlice]] = {}
    for slice in slices:
        pools.setdefault(PoolID(slice.spec.driver, slice.spec.pool.name), []).append(slice)
    return pools


def gather_pools(
    node: Node,
    slices: Iterable[ResourceSlice],
    features: Features,
    *,
    everywhere: Mapping[PoolID, Sequence[ResourceSlice]],
) -> list[Pool]:
    """The pools of a node, in search order.

    ``slices`` are those that may reach the node. ``everywhere`` holds all slices by pool, and distinguishes an incomplete
    pool from one that spans nodes.

    Raises AllocationError if a node selector is broken.
    """
    newest: dict[PoolID, list[ResourceSlice]] = {}
    for slice in slices:
        if _hidden(slice, features) or not reaches(slice, node):
            continue
        id = PoolID(slice.spec.driver, slice.spec.pool.name)
        known = newest.setdefault(id, [])
        if known and slice.spec.pool.generation < known[0].spec.pool.generation:
            continue
        if known and slice.spec.pool.generation > known[0].spec.pool.generation:
            known.clear()
        known.append(slice)
    pools = [_build(id, mine, everywhere.get(id, ()), features) for id, mine in newest.items()]
    return sorted((pool for pool in pools if pool is not None), key=_search_order)


def whole_pool(slices: Sequence[ResourceSlice], features: Features) -> Pool:
    """A whole pool, independent of any node: all devices, whichever nodes reach them.

    ``slices`` are those of its newest generation, at least one; the first one gives the announced number.
    """
    spec = slices[0].spec
    pool = _build(PoolID(spec.driver, spec.pool.name), list(slices), slices, features)
    assert pool is not None  # no slice is newer than the newest
    return pool


def _search_order(pool: Pool) -> tuple[bool, PoolID]:
    return any(device.spec.binding_conditions for device in pool.devices), pool.id


def _hidden(slice: ResourceSlice, features: Features) -> bool:
    spec = slice.spec
    if not features.PartitionableDevices and (
        spec.per_device_node_selection is not None or spec.shared_counters
    ):
        return True
    return not features.CompatibilityGroups and _has_groups(slice)


def _has_groups(slice: ResourceSlice) -> bool:
    return any(use.compatibility_groups for device in slice.spec.devices for use in device.consumes_counters)


def reaches(slice: ResourceSlice, node: Node) -> bool:
    """Whether a node reaches any device of a slice. Raises AllocationError if a node selector is broken."""
    spec = slice.spec
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return node_matches(node, spec.node_name, spec.all_nodes, spec.node_selector)
    return bool(spec.per_device_node_selection) and any(
        node_matches(node, device.node_name, device.all_nodes, device.node_selector)
        for device in spec.devices
    )


def _build(
    id: PoolID, mine: list[ResourceSlice], everywhere: Sequence[ResourceSlice], features: Features
) -> Pool | None:
    """The pool with ``mine`` as this node's slices and ``everywhere`` as all slices; None if it is obsolete."""
    generation, announced = mine[0].spec.pool.generation, mine[0].spec.pool.resource_slice_count
    others: list[ResourceSlice] = []
    count = len(mine)
    if count != announced:
        if any(slice.spec.pool.generation > generation for slice in everywhere):
            return None
        whole = [slice for slice in everywhere if slice.spec.pool.generation == generation]
        if not features.CompatibilityGroups:
            whole = [slice for slice in whole if not _has_groups(slice)]
        count = len(whole)
        names = {slice.metadata.name for slice in mine}
        others = [slice for slice in whole if slice.metadata.name not in names]
    pool = Pool(id, generation=generation, slices=count, announced=announced)
    if count != announced:
        pool.incomplete = True
        return pool
    _fill(pool, sorted(mine, key=lambda slice: slice.metadata.name), others, features)
    return pool


def _fill(
    pool: Pool, mine: Iterable[ResourceSlice], others: Iterable[ResourceSlice], features: Features
) -> None:
    counter_sets: list[CounterSet] = []
    here: list[PooledDevice] = []
    elsewhere: list[PooledDevice] = []
    for slices, devices in ((mine, here), (others, elsewhere)):
        for slice in slices:
            if features.PartitionableDevices and slice.spec.shared_counters:
                counter_sets.extend(slice.spec.shared_counters)
            else:
                devices += [PooledDevice(spec, slice) for spec in slice.spec.devices]
    pool.invalid = _flaw(here, elsewhere, counter_sets if features.PartitionableDevices else None)
    if not pool.invalid:
        pool.devices, pool.elsewhere, pool.counter_sets = tuple(here), tuple(elsewhere), tuple(counter_sets)


def _flaw(
    here: list[PooledDevice], elsewhere: list[PooledDevice], counter_sets: list[CounterSet] | None
) -> str:
    if len({device.spec.name for device in here}) < len(here):
        return f"duplicate device name {_first_twice([device.spec.name for device in here])}"
    if counter_sets is None:
        return ""
    counters: dict[str, CounterSet] = {}
    for counter_set in counter_sets:
        if counter_set.name in counters:
            return f"duplicate counter set name {counter_set.name}"
        counters[counter_set.name] = counter_set
    for device in (*here, *elsewhere):
        for use in device.spec.consumes_counters:
            if use.counter_set not in counters:
                return f"device {device.spec.name}: counter set {use.counter_set} not found"
            for name in use.counters:
                if name not in counters[use.counter_set].counters:
                    return f"device {device.spec.name}: counter {name} not found in counter set {use.counter_set}"
    return ""


def _first_twice(names: Iterable[str]) -> str:
    """The first repeated name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""
