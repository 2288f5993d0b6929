"""The ``partitionable`` model of KEP-4381 semantic parameters (v1alpha2), read as pools: the slices of a node become devices, its partitions become locks.

A driver publishes trees. An instance is either whole, or it has alternative partition groups of further instances;
only whole ones, the leaves, can be allocated. Each leaf becomes a device:

* *Name*: its id, all instance and group names on the way joined by ``/``. Depth-first order is device order.
* *Locks*: for every instance that is split on the way, one counter set without counters, on which the leaf has the
  chosen group as its only compatibility group. That is exactly the rule of the model: while anything under one group is
  in use, its sibling groups are locked, independently at every level of the tree (see ``counters``).
* *Attributes*: its own, then those of the common groups it refers to, then its partition group's, and so on up the
  tree. The nearest wins, also where it has another type. Of several references on one level the later wins.

All slices of one driver on one node are one pool, which has the node's name: names must be unique across them.

*Shrinking*. A driver may withdraw an instance in use. Its id still determines the groups that it locks, so it stays in the
pool as a device that no claim can choose (``Pool.elsewhere``). The same applies if the shape of the tree changed: an
instance in use that has been split since locks its new parts, and the reverse.

We never guess: an unknown model, a dangling reference, an attribute without exactly one value, or a reserved or duplicate
name makes the driver's whole pool invalid, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from allotment.allocator.pool import DeviceID, Pool, PooledDevice, PoolID
from allotment.api.meta import ObjectMeta
from allotment.api.resource import CounterSet, DeviceCounterConsumption, ResourcePool, ResourceSlice
from allotment.api.resource import Device as DeviceSpec
from allotment.api.resource import ResourceSliceSpec as SliceSpec
from allotment.api.semver import Version, VersionError

if TYPE_CHECKING:
    from allotment.api.semantic import (
        Attribute,
        NodeResourceSlice,
        PartitionableResources,
        ResourceInstance,
        ResourceInstanceGroup,
    )

TypedMaps = Mapping[str, Mapping[str, Any]]
"""An instance's attributes as selectors see them: by type, then by name."""

MAPS = ("quantities", "bools", "ints", "intSlices", "strings", "stringSlices", "versions")
"""One map for each type of value."""

DEPTH_MAX = 32
"""Most levels of partitions inside each other."""

RESERVED = ".k8s.io"
"""Names with this ending are reserved for future standards."""

_WHOLE = ""
"""The group of an instance that is used unsplit; no partition group has this name."""


class WrittenVersion(Version):
    """A version that is shown as it was written but compares by its meaning. Raises VersionError."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        read = Version.parse_tolerant(text)
        super().__init__(read.major, read.minor, read.patch, read.pre, read.build)
        self._text = text

    def __str__(self) -> str:
        return self._text


class Instance(PooledDevice):
    """A leaf of the tree, with its attributes by type. The maps are shared between instances: do not change them."""

    __slots__ = ("_largest", "_share", "maps")

    def __init__(
        self,
        spec: DeviceSpec,
        slice: ResourceSlice,
        maps: TypedMaps,
        share: Fraction,
        largest: Mapping[str, int],
    ) -> None:
        super().__init__(spec, slice)
        self.maps = maps
        self._share = share
        self._largest = largest  # of each quantity in the pool, in billionths

    @property
    def part(self) -> Fraction:
        """By quantities, how much the instance is of the largest in its pool, on average; without any quantity,
        its part of the whole tree if all parts of a group are alike."""
        parts = [
            Fraction(quantity.nanos, largest)
            for name, quantity in self.maps["quantities"].items()
            if (largest := self._largest.get(name))
        ]
        return sum(parts, Fraction()) / len(parts) if parts else self._share


class PartitionLock(NamedTuple):
    """Use of an instance by way of one of its groups."""

    instance: str
    group: str


def partition_pools(
    node_name: str, slices: Iterable[NodeResourceSlice], held: Iterable[DeviceID] = ()
) -> list[Pool]:
    """The pools of a node in search order, one a driver.

    ``slices`` may include those of other nodes; ``held`` are all ids in use there, published or not, those of
    other nodes being ignored.
    """
    by_driver: dict[str, list[NodeResourceSlice]] = {}
    for slice in slices:
        if slice.spec.node_name == node_name:
            by_driver.setdefault(slice.spec.driver_name, []).append(slice)
    in_use: dict[PoolID, list[str]] = {}
    for id in dict.fromkeys(held):
        in_use.setdefault(id.of_pool, []).append(id.device)
    pools = []
    for driver, mine in sorted(by_driver.items()):
        pool_id = PoolID(driver, node_name)
        mine.sort(key=lambda slice: slice.metadata.name)
        pools.append(_pool(pool_id, mine, in_use.get(pool_id, ())))
    return pools


def _pool(id: PoolID, slices: Sequence[NodeResourceSlice], in_use: Sequence[str]) -> Pool:
    pool = Pool(id, slices=len(slices), announced=len(slices))
    tree = _InstanceTree()
    try:
        for slice in slices:
            tree.read(slice)
    except _Flaw as flaw:
        pool.invalid = str(flaw)
        return pool
    published = {leaf.id for leaf in tree.leaves}
    gone = [_gone(each) for each in in_use if each not in published]
    split = tree.split | {lock.instance for leaf in gone for lock in leaf.locks}
    pool.counter_sets = tuple(CounterSet(name=name) for name in sorted(split))
    build = _Builder(id, split, tree.leaves)
    pool.devices = tuple(build(leaf) for leaf in tree.leaves)
    pool.elsewhere = tuple(build(leaf) for leaf in gone)
    return pool


class _Leaf(NamedTuple):
    """An instance without partitions, before it becomes a device."""

    id: str
    slice: str  # its name
    locks: tuple[PartitionLock, ...]
    share: Fraction  # of the root instance, if all parts of a group are alike
    maps: TypedMaps


def _gone(id: str) -> _Leaf:
    """An instance in use that is no longer published: only its path is known."""
    names = id.split("/")
    locks = tuple(PartitionLock("/".join(names[:at]), names[at]) for at in range(1, len(names), 2))
    return _Leaf(id, "", locks, Fraction(1), _NO_ATTRIBUTES.maps)


class _Builder:
    """Makes devices from leaves, and creates shared parts once."""

    def __init__(self, pool: PoolID, split: set[str], leaves: Sequence[_Leaf]) -> None:
        self._pool = pool
        self._split = split
        self._slices: dict[str, ResourceSlice] = {}
        self._uses: dict[tuple[PartitionLock, ...], tuple[DeviceCounterConsumption, ...]] = {}
        self._largest: dict[str, int] = {}
        for leaf in leaves:
            for name, quantity in leaf.maps["quantities"].items():
                self._largest[name] = max(self._largest.get(name, 0), quantity.nanos)

    def __call__(self, leaf: _Leaf) -> Instance:
        spec = DeviceSpec(name=leaf.id, consumes_counters=self._use(leaf))
        return Instance(spec, self._slice(leaf.slice), leaf.maps, leaf.share, self._largest)

    def _use(self, leaf: _Leaf) -> tuple[DeviceCounterConsumption, ...]:
        locks = leaf.locks
        if leaf.id in self._split:  # the instance in use there has another shape than the published one
            locks = (*locks, PartitionLock(leaf.id, _WHOLE))
        use = self._uses.get(locks)
        if use is None:
            use = self._uses[locks] = tuple(
                DeviceCounterConsumption(counter_set=lock.instance, compatibility_groups=(lock.group,))
                for lock in locks
            )
        return use

    def _slice(self, name: str) -> ResourceSlice:
        slice = self._slices.get(name)
        if slice is None:
            driver, node = self._pool
            spec = SliceSpec(driver=driver, pool=ResourcePool(name=node), node_name=node)
            slice = self._slices[name] = ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)
        return slice


# --- reading the trees ---


class _Flaw(Exception):
    """A reason that makes a pool invalid."""


Values = Mapping[str, tuple[str, Any]]
"""Attributes by name: the map that each belongs in, and its value there."""


class _Attributes:
    """The own and inherited attributes of a place in the tree. Places that add nothing share one object."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def with_nearer(self, values: Values) -> _Attributes:
        return _Attributes({**self._values, **values}) if values else self

    @cached_property
    def maps(self) -> TypedMaps:
        maps: dict[str, dict[str, Any]] = {name: {} for name in MAPS}
        for name, (type, value) in self._values.items():
            maps[type][name] = value
        return maps


_NO_ATTRIBUTES = _Attributes({})


class _InheritedParts(NamedTuple):
    """An instance on the way down, and what it inherits from above."""

    instance: ResourceInstance
    path: str
    locks: tuple[PartitionLock, ...]
    share: Fraction
    inherited: _Attributes


class _InstanceTree:
    """The leaves of all slices read so far, in depth-first order, and the instances that are split."""

    def __init__(self) -> None:
        self.leaves: list[_Leaf] = []
        self.split: set[str] = set()
        self._paths: set[str] = set()
        self._slice = ""
        self._common: dict[str, Values] = {}

    def read(self, slice: NodeResourceSlice) -> None:
        """Adds a slice. Raises _Flaw."""
        self._slice = slice.metadata.name
        model = slice.spec.partitionable
        if model is None:
            raise self._flaw(
                "has no model that we know; it needs a newer version of this program, or lacks 'partitionable'"
            )
        self._read_common(model)
        stack = [
            _InheritedParts(instance, instance.name, (), Fraction(1), _NO_ATTRIBUTES)
            for instance in reversed(model.resource_instances)
        ]
        while stack:  # an explicit stack: trees from outside may be deep
            place = stack.pop()
            self._visit(place.path, place.instance.name)
            attributes = place.inherited.with_nearer(self._own(place.instance, place.path))
            if place.instance.partitions:
                stack.extend(reversed(list(self._parts(place, attributes))))
            else:
                leaf = _Leaf(place.path, self._slice, place.locks, place.share, attributes.maps)
                self.leaves.append(leaf)

    def _parts(self, place: _InheritedParts, attributes: _Attributes) -> Iterator[_InheritedParts]:
        self.split.add(place.path)
        if len(place.locks) == DEPTH_MAX:
            raise self._flaw(f"partitions are nested deeper than {DEPTH_MAX} levels")
        for group in place.instance.partitions:
            path = f"{place.path}/{group.name}"
            self._visit(path, group.name)
            inherited = attributes.with_nearer(self._own(group, path))
            locks = (*place.locks, PartitionLock(place.path, group.name))
            share = place.share / max(len(group.resource_instances), 1)
            for instance in group.resource_instances:
                yield _InheritedParts(instance, f"{path}/{instance.name}", locks, share, inherited)

    def _visit(self, path: str, name: str) -> None:
        """Checks the name of an instance or group, of which ``path`` is the whole."""
        if not name or "/" in name:
            raise self._flaw(f"'{path}': the name {name!r} must not be empty or contain '/'")
        if name.endswith(RESERVED):
            raise self._flaw(f"'{path}': names ending in {RESERVED} are reserved")
        if path in self._paths:
            raise self._flaw(f"'{path}' is defined twice")
        self._paths.add(path)

    def _read_common(self, model: PartitionableResources) -> None:
        self._common = {}
        for group in model.common_attributes:
            if group.name in self._common:
                raise self._flaw(f"common attributes '{group.name}' are defined twice")
            self._common[group.name] = self._values(group.attributes, f"common attributes '{group.name}'")

    def _own(self, where: ResourceInstance | ResourceInstanceGroup, path: str) -> Values:
        """What an instance or group says itself, by reference and directly."""
        values: dict[str, tuple[str, Any]] = {}
        for name in where.common_attributes_refs:
            if name not in self._common:
                raise self._flaw(f"'{path}' refers to common attributes '{name}', which are not defined")
            values.update(self._common[name])
        if where.attributes:
            values.update(self._values(where.attributes, f"'{path}'"))
        return values

    def _values(self, attributes: Sequence[Attribute], where: str) -> Values:
        values: dict[str, tuple[str, Any]] = {}
        for attribute in attributes:
            name = attribute.name
            if not name:
                raise self._flaw(f"{where}: an attribute has no name")
            if name.endswith(RESERVED):
                raise self._flaw(f"{where}: attribute '{name}': names ending in {RESERVED} are reserved")
            if name in values:
                raise self._flaw(f"{where}: attribute '{name}' is given twice")
            given = list(_given(attribute))
            if len(given) != 1:
                raise self._flaw(
                    f"{where}: attribute '{name}' has {len(given) or 'no'} values; it must have exactly one"
                )
            values[name] = self._typed(*given[0], f"{where}: attribute '{name}'")
        return values

    def _typed(self, type: str, value: Any, where: str) -> tuple[str, Any]:
        if type == "versions":
            try:
                return type, WrittenVersion(value)
            except VersionError as exc:
                raise self._flaw(f"{where}: {exc}") from exc
        return type, list(value) if isinstance(value, tuple) else value

    def _flaw(self, text: str) -> _Flaw:
        return _Flaw(f"slice {self._slice}: {text}")


def _given(attribute: Attribute) -> Iterator[tuple[str, Any]]:
    """The values that are set, each with the map it belongs in."""
    values = (
        attribute.quantity_value,
        attribute.bool_value,
        attribute.int_value,
        attribute.int_slice_value,
        attribute.string_value,
        attribute.string_slice_value,
        attribute.version_value,
    )
    return ((type, value) for type, value in zip(MAPS, values, strict=True) if value is not None)
