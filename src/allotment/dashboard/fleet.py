"""The picture of all devices for people with the same rights: one for all of them, kept up as things change.

A change costs the pools that it touches; each is put into the form that the page reads once, when somebody is there to be told.
Only objects that these people may see get in, so no name of any other can get out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import msgspec

from allotment.allocator.pool import PoolID
from allotment.api.alpha2 import NodeResourceSlice
from allotment.api.meta import ApiStruct
from allotment.api.pools import ResourcePool
from allotment.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.dashboard.rights import FleetRights
from allotment.usage.device import DeviceUsage
from allotment.usage.pool import PoolUsage
from allotment.usage.published import as_published, published
from allotment.usage.summary import NOTHING, DeviceState, Summary
from allotment.usage.usage import Usage

AT_ONCE = 50
"""Pools, or objects, that are worked on before others get their turn."""
HOLDERS = 20
"""Claims that a device is told to be held by; of more there is the number."""

STATES = tuple(DeviceState)
_NUMBER = {state: number for number, state in enumerate(STATES)}
_encode = msgspec.json.Encoder().encode

Touched = Callable[[PoolID], None]


class Fleet:
    """See the module. ``viewers`` are told which pools change."""

    def __init__(self, rights: FleetRights) -> None:
        self.rights = rights
        self.viewers: set[Touched] = set()
        self.filled: asyncio.Task[None] | None = None  # until then it lacks things; what has no task has all
        self._usage = Usage(all_claims=rights.claims.everywhere)
        self._published: dict[PoolID, PoolUsage] = {}  # in place of usage, for whoever may not see slices
        self._told: dict[PoolID, msgspec.Raw] = {}
        self._counts: dict[PoolID, Summary] = {}
        self._uncounted: set[PoolID] = set()
        self.total = NOTHING

    def change(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
        """Takes in what an informer tells, if these people may see it. Telling it again does no harm."""
        shown = new if new is not None else old
        match shown:
            case ResourcePool():
                self._pool(shown, gone=new is None)
            case ResourceClaim() if self.rights.slices and shown.metadata.namespace in self.rights.claims:
                self._usage.change(old, new)
            case ResourceSlice() if self.rights.slices:
                self._usage.change(old, new)
            case NodeResourceSlice() if self.rights.slices and self.rights.node_slices:
                self._usage.change(old, new)
            case DeviceTaintRule() if self.rights.rules:
                self._usage.change(old, new)
            case _:
                return
        for id in self._usage.drain():
            self._touch(id)

    def _pool(self, pool: ResourcePool, *, gone: bool) -> None:
        id = PoolID(pool.spec.driver, pool.spec.pool_name)
        if not self.rights.pools:
            return
        if self.rights.slices:
            if not self.rights.claims.everywhere:
                self._usage.set_counts(id, None if gone else published(pool))
        elif gone:
            self._published.pop(id, None)
            self._touch(id)
        else:
            self._published[id] = as_published(pool)
            self._touch(id)

    def _touch(self, id: PoolID) -> None:
        self._told.pop(id, None)
        self._uncounted.add(id)
        for touched in self.viewers:
            touched(id)

    # --- telling ---

    def pool(self, id: PoolID) -> PoolUsage | None:
        return self._usage.pool(id) if self.rights.slices else self._published.get(id)

    def told(self, id: PoolID) -> msgspec.Raw | None:
        """One pool as the page reads it; None if it is gone."""
        if id not in self._told:
            pool = self.pool(id)
            if pool is None:
                return None
            self._told[id] = msgspec.Raw(_encode(pool_document(pool)))
        return self._told[id]

    async def all_told(self) -> list[msgspec.Raw]:
        """Every pool there is. Pools that change meanwhile are told to viewers, who are told them again."""
        found = []
        async for id in in_turns(self._ids()):
            told = self.told(id)
            if told is not None:
                found.append(told)
        return found

    def _ids(self) -> list[PoolID]:
        return sorted(self._usage.ids() if self.rights.slices else self._published)

    async def count(self) -> Summary:
        """All pools together. Costs the pools touched since it was last asked."""
        uncounted, self._uncounted = self._uncounted, set()
        async for id in in_turns(uncounted):
            pool = self.pool(id)
            before = self._counts.pop(id, NOTHING)
            now = pool.summary if pool is not None else NOTHING
            if pool is not None:
                self._counts[id] = now
            self.total = _difference(self.total + now, before)
        return self.total


async def in_turns(ids: Iterable[Any]) -> AsyncIterator[Any]:
    """Each of them, with a pause for others after some."""
    for number, id in enumerate(ids, 1):
        yield id
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)


def pool_document(pool: PoolUsage) -> dict[str, Any]:
    """A pool for the page. Devices are lists of name, number of state, node (if not the pool's), claims, and words; what is
    empty at the end is left out, as there are many."""
    counts = pool.summary
    problems = [finding.message for finding in (pool.valid, pool.complete) if not finding.holds]
    return {
        "driver": pool.driver,
        "pool": pool.pool_name,
        "node": pool.node_name,
        "counts": {
            "total": counts.total,
            "allocated": counts.allocated,
            "partially": counts.partially_allocated,
            "available": counts.available,
            "unavailable": counts.unavailable,
            "unknown": counts.unknown,
        },
        "hidden": pool.hidden,
        "unseen": pool.unseen if pool.hidden else 0,
        "problems": [*problems, *pool.validation_errors],
        "devices": [_device(device, pool.node_name) for device in pool.devices],
    }


def _device(device: DeviceUsage, node: str) -> list[Any]:
    claims = [
        f"{each.claim} (admin access)" if each.admin_access else each.claim
        for each in device.allocations[:HOLDERS]
    ]
    if len(device.allocations) > HOLDERS:
        claims.append(f"{len(device.allocations) - HOLDERS} more")
    own = device.node_name if device.node_name != node else ""
    told: list[Any] = [device.name, _NUMBER[device.state], own, claims, device.message]
    while not told[-1] and len(told) > 2:
        told.pop()
    return told


def _difference(total: Summary, part: Summary) -> Summary:
    return Summary(
        total.total - part.total,
        total.allocated - part.allocated,
        total.available - part.available,
        total.unavailable - part.unavailable,
        total.partially_allocated - part.partially_allocated,
        total.unknown - part.unknown,
    )
