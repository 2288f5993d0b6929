"""A node and the devices that it reaches, numbered in search order; and which of them are in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.allocator.counters import CounterTable

if TYPE_CHECKING:
    from allotment.allocator.features import Features
    from allotment.allocator.held import Holdings
    from allotment.allocator.pool import Pool, PooledDevice
    from allotment.api.core import Node


class Site:
    """The devices of a node, independent of claims. A device's number is its *position*; sets are bit sets."""

    __slots__ = ("_plan", "bearing", "devices", "drawing", "features", "node", "pools", "shareable")

    def __init__(
        self, node: Node, pools: Sequence[Pool], devices: Sequence[PooledDevice], features: Features
    ) -> None:
        self.node = node
        self.pools = pools
        self.devices = devices
        self.features = features
        self.shareable = 0  # several claims may have a share
        self.drawing = False  # some device draws on counters
        self.bearing = False  # some device bears on the node's own resources
        self._plan: CounterTable | None = None
        for position, device in enumerate(devices):
            spec = device.spec
            if spec.allow_multiple_allocations and features.ConsumableCapacity:
                self.shareable |= 1 << position
            if spec.consumes_counters and features.PartitionableDevices:
                self.drawing = True
            if spec.node_allocatable_resources:
                self.bearing = True

    def flaws(self) -> str:
        """The faults of pools that cannot be used, in words; empty if there are none.

        An incomplete pool is not a fault: its driver is still publishing it.
        """
        flaws = "; ".join(f"{pool.id}: {pool.invalid}" for pool in self.pools if pool.invalid)
        return f"invalid resource pools were encountered: {flaws}" if flaws else ""

    @property
    def plan(self) -> CounterTable:
        """The counters, computed on first use."""
        if self._plan is None:
            self._plan = CounterTable(self.pools, self.devices)
        return self._plan


@dataclass(slots=True)
class SiteUse:
    """What claims hold of a site's devices."""

    used: int = 0  # someone has the whole device
    shared: int = 0  # someone has a share
    consumed: dict[int, dict[str, int]] = field(
        default_factory=dict
    )  # position → what all shares take, in billionths

    @classmethod
    def of(cls, site: Site, held: Holdings) -> SiteUse:
        """Looks every device up."""
        use, exclusive, shared = cls(), held.exclusive, held.shared
        for position, device in enumerate(site.devices):
            if exclusive(device.id) or shared(device.id):
                use.refresh(position, site, held)
        return use

    def refresh(self, position: int, site: Site, held: Holdings) -> None:
        """Looks one device up again."""
        device = site.devices[position]
        bit = 1 << position
        shared = held.shared(device.id)
        used = held.exclusive(device.id) or (shared and held.strict and not site.shareable & bit)
        self.used = self.used | bit if used else self.used & ~bit
        if not shared:
            if self.shared & bit:
                self.shared &= ~bit
                self.consumed.pop(position, None)
            return
        self.shared |= bit
        self.consumed[position] = dict(held.consumed(device.id))
