"""Totals of pool usage: for nodes, for namespaces, for the whole cluster.

A device counts for a node if only that node reaches it. A device that several nodes reach counts for none of them, so
that the nodes never add up to more than exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.allocator.pool import PoolID
from allotment.usage.summary import NOTHING, Summary, count

if TYPE_CHECKING:
    from allotment.usage.device import DeviceUsage
    from allotment.usage.pool import PoolUsage

__all__ = ["ClusterUsage", "NamespaceUsage", "NodeUsage", "by_namespace", "by_node", "in_cluster"]


@dataclass(frozen=True, slots=True)
class PoolOnNode:
    """A pool, or the part of a pool that is on one node."""

    id: PoolID
    devices: tuple[DeviceUsage, ...]
    summary: Summary
    hidden: int | None = 0  # see PoolUsage


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """The devices of one node."""

    name: str
    pools: tuple[PoolOnNode, ...] = ()
    reaches: tuple[PoolID, ...] = ()  # pools with devices that other nodes may reach too; not in the summary

    @property
    def summary(self) -> Summary:
        return sum([pool.summary for pool in self.pools], NOTHING)

    @property
    def hidden(self) -> int | None:
        return _sum([pool.hidden for pool in self.pools])


@dataclass(frozen=True, slots=True)
class NamespaceUsage:
    """What the claims of one namespace hold, counting those that the caller may see."""

    namespace: str
    claims: int = 0  # claims that hold anything
    devices: int = 0  # devices that they hold, whole or in part; each counts once
    shared: int = 0  # the devices among these that they hold in part
    observed: int = 0  # devices that they only monitor, with admin access
    vanished: int = 0  # devices that they hold and no slice publishes
    pools: Mapping[PoolID, int] = field(default_factory=dict)  # devices by pool


@dataclass(frozen=True, slots=True)
class ClusterUsage:
    """Totals over all pools."""

    pools: int
    incomplete: int
    invalid: int
    vanished: int  # devices that claims hold and no slice publishes
    summary: Summary
    drivers: Mapping[str, Summary]
    hidden: int | None = 0


def by_node(pools: Iterable[PoolUsage]) -> dict[str, NodeUsage]:
    """Every node that has devices of its own, by name."""
    found: dict[str, list[PoolOnNode]] = {}
    for pool in sorted(pools, key=lambda pool: pool.id):
        if pool.node_name:
            whole = PoolOnNode(pool.id, pool.devices, pool.summary, pool.hidden)
            found.setdefault(pool.node_name, []).append(whole)
            continue
        parts: dict[str, list[DeviceUsage]] = {}
        for device in pool.devices:
            if device.node_name:
                parts.setdefault(device.node_name, []).append(device)
        for name, devices in parts.items():
            summary = count([device.state for device in devices])
            hidden = 0 if pool.hidden == 0 else None  # their node is unknown
            found.setdefault(name, []).append(PoolOnNode(pool.id, tuple(devices), summary, hidden))
    return {name: NodeUsage(name, tuple(found[name])) for name in sorted(found)}


def by_namespace(pools: Iterable[PoolUsage]) -> dict[str, NamespaceUsage]:
    """Every namespace with claims that hold something, by name."""
    tallies: dict[str, _Tally] = {}
    for pool in pools:
        for device in pool.devices:
            for info in device.allocations:
                tally = tallies.setdefault(info.claim_namespace, _Tally())
                tally.claims.add(info.claim_name)
                held = (pool.id, device.name)
                (tally.observed if info.admin_access else tally.devices).add(held)
                if info.share_id is not None and not info.admin_access:
                    tally.shared.add(held)
        for gone in pool.vanished:
            for info in gone.allocations:
                tally = tallies.setdefault(info.claim_namespace, _Tally())
                tally.claims.add(info.claim_name)
                tally.vanished.add((pool.id, gone.name))
    return {name: tallies[name].usage(name) for name in sorted(tallies)}


_Devices = set[tuple[PoolID, str]]


@dataclass(slots=True)
class _Tally:
    claims: set[str] = field(default_factory=set)
    devices: _Devices = field(default_factory=set)
    shared: _Devices = field(default_factory=set)
    observed: _Devices = field(default_factory=set)
    vanished: _Devices = field(default_factory=set)

    def usage(self, namespace: str) -> NamespaceUsage:
        pools: dict[PoolID, int] = {}
        for pool, _ in sorted(self.devices):
            pools[pool] = pools.get(pool, 0) + 1
        return NamespaceUsage(
            namespace,
            claims=len(self.claims),
            devices=len(self.devices),
            shared=len(self.shared),
            observed=len(self.observed),
            vanished=len(self.vanished),
            pools=pools,
        )


def in_cluster(pools: Iterable[PoolUsage]) -> ClusterUsage:
    """The totals of the whole cluster."""
    known = list(pools)
    drivers: dict[str, Summary] = {}
    for pool in sorted(known, key=lambda pool: pool.id):
        drivers[pool.driver] = drivers.get(pool.driver, NOTHING) + pool.summary
    return ClusterUsage(
        pools=len(known),
        incomplete=sum(not pool.complete.holds for pool in known),
        invalid=sum(not pool.valid.holds for pool in known),
        vanished=sum(len(pool.vanished) for pool in known),
        summary=sum(drivers.values(), NOTHING),
        drivers=drivers,
        hidden=_sum([pool.hidden for pool in known]),
    )


def _sum(hidden: Iterable[int | None]) -> int | None:
    """The sum; None if any part is unknown."""
    total = 0
    for each in hidden:
        if each is None:
            return None
        total += each
    return total
