"""The usage of all pools of a cluster, kept up as slices, claims, taint rules and nodes change.

>>> usage = Usage([*slices, *claims, *rules])
>>> usage.pools()
>>> usage.change(old_claim, new_claim)  # as an informer reports it
>>> for id in usage.drain():            # the pools that this affects
...     usage.pool(id)

A change only marks the pools that it affects; they are judged again on the next query. A claim affects the pools of the
devices that it holds before or after; changes unrelated to devices (a reservation, a label) affect nothing. The inventory
of a pool is built once and serves until the pool's slices or rules change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from allotment.allocator.errors import AllocationError
from allotment.allocator.pool import PoolID
from allotment.allocator.taint import may_taint
from allotment.api import semantic
from allotment.api.core import Node
from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.usage.allocation import AllocationInfo, Held, held_by
from allotment.usage.hidden import with_hidden_claims
from allotment.usage.inventory import Inventory, slice_inventory, tree_inventory
from allotment.usage.partitions import PartitionKind, partition_kinds
from allotment.usage.pool import PoolUsage, VanishedDevice, in_use, pool_usage
from allotment.usage.rollup import (
    ClusterUsage,
    NamespaceUsage,
    NodeUsage,
    by_namespace,
    by_node,
    in_cluster,
)
from allotment.usage.shareable import Shareable, shareable_of
from allotment.usage.summary import Summary

__all__ = ["Usage", "compute_usage"]


@dataclass(slots=True)
class _Record:
    """Everything that is known about one pool."""

    slices: dict[str, ResourceSlice] = field(default_factory=dict)
    trees: dict[str, semantic.NodeResourceSlice] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)  # holdings by claim
    # inventory from slices; that of trees is rebuilt each time, as it depends on use
    inventory: Inventory | None = None
    usage: PoolUsage | None = None

    @property
    def published(self) -> bool:
        return bool(self.slices or self.trees)

    def holdings(self) -> dict[str, list[AllocationInfo]]:
        found: dict[str, list[AllocationInfo]] = {}
        for devices in self.held.values():
            for device, infos in devices.items():
                found.setdefault(device, []).extend(infos)
        return found


class Usage:
    """The usage of all pools of a cluster, updated change by change.

    ``all_claims`` says whether the caller sees every claim of the cluster. If not, pools report what is hidden, by the
    counts of ResourcePool objects, which ``set_counts`` takes.
    """

    def __init__(self, objects: Iterable[ApiStruct] = (), *, all_claims: bool = True) -> None:
        self._records: dict[PoolID, _Record] = {}
        self._home: dict[tuple[type, str], PoolID] = {}  # of slices and trees
        self._claims: dict[str, dict[PoolID, Held]] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._nodes: dict[str, Node] = {}
        self._all_claims = all_claims
        self._counts: dict[PoolID, Summary] = {}
        self._touched: set[PoolID] = set()
        for each in objects:
            self.change(None, each)

    # --- changes ---

    def change(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
        """Takes in an object that appeared, changed or, without ``new``, disappeared. Repeated calls do no harm.

        Raises TypeError for kinds that do not affect usage; the cases below are those that do.
        """
        shown = new if new is not None else old
        match shown:
            case ResourceSlice() | semantic.NodeResourceSlice():
                self._slice(shown, gone=new is None)
            case ResourceClaim() | semantic.ResourceClaim():
                self._claim(shown.metadata.key, held_by(shown) if new is not None else {})
            case DeviceTaintRule():
                self._rule(shown, gone=new is None)
            case Node():
                if new is None:
                    self._nodes.pop(shown.metadata.name, None)
                else:
                    self._nodes[shown.metadata.name] = shown
            case _:
                raise TypeError(f"usage does not follow from {type(shown).__name__}")

    def set_counts(self, id: PoolID, published: Summary | None) -> None:
        """Takes in the counts of the pool's ResourcePool object, None if there is none. Only needed without ``all_claims``."""
        if self._counts.get(id) == published:
            return
        if published is None:
            del self._counts[id]
        else:
            self._counts[id] = published
        if id in self._records:
            self._touch(id)

    def _slice(self, slice: ResourceSlice | semantic.NodeResourceSlice, *, gone: bool) -> None:
        key = (type(slice), slice.metadata.name)
        id, before = _pool_of(slice), self._home.get(key)
        if before is not None:
            mine = _shelf(self._records[before], slice)
            if not gone and before == id and mine[slice.metadata.name].spec == slice.spec:
                return
            del mine[slice.metadata.name], self._home[key]
            self._touch(before, published=True)
        if not gone:
            self._home[key] = id
            _shelf(self._record(id), slice)[slice.metadata.name] = slice
            self._touch(id, published=True)

    def _claim(self, key: str, now: dict[PoolID, Held]) -> None:
        before = self._claims.get(key, {})
        for id in {**before, **now}:
            old, new = before.get(id, {}), now.get(id, {})
            if old == new:
                continue
            held = self._record(id).held
            if new:
                held[key] = new
            else:
                del held[key]
            self._touch(id)
        if now:
            self._claims[key] = now
        else:
            self._claims.pop(key, None)

    def _rule(self, rule: DeviceTaintRule, *, gone: bool) -> None:
        name = rule.metadata.name
        before = self._rules.pop(name, None)
        if not gone:
            self._rules[name] = rule
        if before is not None and not gone and before.spec == rule.spec:
            return
        for each in (before, None if gone else rule):
            for id in list(self._records) if each is not None else ():
                if each is not None and may_taint(each, *id):
                    self._touch(id, published=True)

    def _record(self, id: PoolID) -> _Record:
        record = self._records.get(id)
        if record is None:
            record = self._records[id] = _Record()
        return record

    def _touch(self, id: PoolID, *, published: bool = False) -> None:
        record = self._records[id]
        record.usage = None
        if published:
            record.inventory = None
        if not record.published and not record.held:
            del self._records[id]
        self._touched.add(id)

    # --- queries ---

    def drain(self) -> set[PoolID]:
        """The pools affected since the last call, including those that are gone."""
        touched, self._touched = self._touched, set()
        return touched

    def pool(self, id: PoolID) -> PoolUsage | None:
        """One pool in its present state; None if no slice publishes it."""
        record = self._records.get(id)
        if record is None or not record.published:
            return None
        if record.usage is None:
            held = record.holdings()
            usage = pool_usage(self._inventory(id, record, held), held)
            record.usage = usage if self._all_claims else with_hidden_claims(usage, self._counts.get(id))
        return record.usage

    def partitions(self, id: PoolID, default: str | None = None) -> tuple[PartitionKind, ...]:
        """The partitions of a published pool by kind. Raises PartitionError.

        ``default`` is the attribute that distinguishes the kinds if no slice names one.
        """
        record = self._records[id]
        held = record.holdings()
        return partition_kinds(self._inventory(id, record, held), frozenset(in_use(held)), default)

    def shareable(self, id: PoolID) -> Shareable | None:
        """Totals of the shareable devices of a published pool; None if there are none."""
        record, usage = self._records[id], self.pool(id)
        assert usage is not None
        return shareable_of(self._inventory(id, record, record.holdings()).devices, usage.devices)

    def _inventory(self, id: PoolID, record: _Record, held: dict[str, list[AllocationInfo]]) -> Inventory:
        if not record.slices:
            return tree_inventory(id, record.trees.values(), in_use(held))
        if record.inventory is None:
            record.inventory = slice_inventory(
                record.slices.values(), self._rules.values(), len(record.trees)
            )
        return record.inventory

    def ids(self) -> list[PoolID]:
        """Every pool that slices publish, in no particular order."""
        return [id for id, record in self._records.items() if record.published]

    def pools(self) -> list[PoolUsage]:
        """Every pool, by driver and name."""
        return [found for id in sorted(self._records) if (found := self.pool(id)) is not None]

    def gone(self) -> dict[PoolID, tuple[VanishedDevice, ...]]:
        """Devices that claims hold in pools that no slice publishes any more."""
        return {
            id: tuple(
                VanishedDevice(name, tuple(sorted(infos, key=lambda each: each.order)))
                for name, infos in sorted(record.holdings().items())
            )
            for id, record in sorted(self._records.items())
            if not record.published
        }

    def claims(self) -> int:
        """How many claims hold devices."""
        return len(self._claims)

    def nodes(self) -> dict[str, NodeUsage]:
        """Every node that has devices of its own, by name."""
        return by_node(self.pools())

    def node(self, name: str) -> NodeUsage:
        """One node, which may have nothing. Shared devices are included only if the node itself is known."""
        own = [pool for pool in self.pools() if pool.node_name in (name, "")]
        usage = by_node(own).get(name) or NodeUsage(name)
        node = self._nodes.get(name)
        if node is None:
            return usage
        reaches = tuple(pool.id for pool in own if not pool.node_name and self._reaches(node, pool.id))
        return NodeUsage(name, usage.pools, reaches)

    def _reaches(self, node: Node, id: PoolID) -> bool:
        record = self._records[id]
        try:
            return self._inventory(id, record, {}).reached_by(node)
        except AllocationError:
            return False  # its node selector is broken: no claim gets anything from it

    def namespaces(self) -> dict[str, NamespaceUsage]:
        """Every namespace with claims that hold devices of a pool, by name."""
        return by_namespace(self.pools())

    def cluster(self) -> ClusterUsage:
        """All pools together."""
        return in_cluster(self.pools())


def compute_usage(objects: Iterable[ApiStruct]) -> list[PoolUsage]:
    """Every pool of a cluster, from all its slices, claims and taint rules."""
    return Usage(objects).pools()


def _pool_of(slice: ResourceSlice | semantic.NodeResourceSlice) -> PoolID:
    if isinstance(slice, ResourceSlice):
        return PoolID(slice.spec.driver, slice.spec.pool.name)
    return PoolID(slice.spec.driver_name, slice.spec.node_name)


def _shelf(record: _Record, slice: ResourceSlice | semantic.NodeResourceSlice) -> dict[str, Any]:
    return record.slices if isinstance(slice, ResourceSlice) else record.trees
