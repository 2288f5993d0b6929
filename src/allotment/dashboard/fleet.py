"""All devices in the form that the page reads, kept up to date from the events it receives.

A change costs only the pools that it touches. Each pool is put into the page's form once, when a reader needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from allotment.allocator.pool import PoolID
from allotment.api.meta import ApiStruct
from allotment.api.pools import ResourcePool
from allotment.usage.device import DeviceUsage
from allotment.usage.pool import PoolUsage
from allotment.usage.published import as_published, published
from allotment.usage.summary import DeviceState
from allotment.usage.usage import Usage

POOLS_AT_ONCE = 50
"""How many pools are put into form before other tasks get their turn."""
HOLDERS_NAMED = 20
"""How many of a device's claims are named; of more, only the number is given."""

STATES = tuple(DeviceState)
_NUMBER = {state: number for number, state in enumerate(STATES)}
_encode = msgspec.json.Encoder().encode


class FleetPicture:
    """The devices of a fleet in the page's form. ``touched`` is called with each pool that changes."""

    def __init__(self, *, slices: bool, all_claims: bool, touched: Callable[[PoolID], None]) -> None:
        """Without ``slices``, there are only counts; without ``all_claims``, the counts show how much is hidden."""
        self._slices = slices
        self._touched = touched
        self._usage = Usage(all_claims=all_claims)
        self._published: dict[
            PoolID, PoolUsage
        ] = {}  # used instead of usage if the reader may not see slices
        self._told: dict[PoolID, msgspec.Raw] = {}

    def change(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
        """Takes in an event from an informer. Repeating an event does no harm."""
        shown = new if new is not None else old
        if isinstance(shown, ResourcePool):
            self._pool(shown, gone=new is None)
        else:
            self._usage.change(old, new)
        for id in self._usage.drain():
            self._touch(id)

    def _pool(self, pool: ResourcePool, *, gone: bool) -> None:
        id = PoolID(pool.spec.driver, pool.spec.pool_name)
        if self._slices:
            self._usage.set_counts(id, None if gone else published(pool))
            return
        if gone:
            self._published.pop(id, None)
        else:
            self._published[id] = as_published(pool)
        self._touch(id)

    def _touch(self, id: PoolID) -> None:
        self._told.pop(id, None)
        self._touched(id)

    # --- telling ---

    def told(self, id: PoolID) -> msgspec.Raw | None:
        """One pool in the page's form; None if it is gone."""
        if id not in self._told:
            pool = self._usage.pool(id) if self._slices else self._published.get(id)
            if pool is None:
                return None
            self._told[id] = msgspec.Raw(_encode(pool_document(pool)))
        return self._told[id]

    async def all_told(self) -> list[msgspec.Raw]:
        """All pools. Pools that change meanwhile are reported as touched, and must be sent again."""
        found = []
        for number, id in enumerate(sorted(self._usage.ids() if self._slices else self._published), 1):
            told = self.told(id)
            if told is not None:
                found.append(told)
            if number % POOLS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return found


def pool_document(pool: PoolUsage) -> dict[str, Any]:
    """A pool for the page. A device is a list of name, number of state, node (if it differs from the pool's), claims, and
    words. Because there are many devices, empty values at the end are left out."""
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
        for each in device.allocations[:HOLDERS_NAMED]
    ]
    if len(device.allocations) > HOLDERS_NAMED:
        claims.append(f"{len(device.allocations) - HOLDERS_NAMED} more")
    own = device.node_name if device.node_name != node else ""
    told: list[Any] = [device.name, _NUMBER[device.state], own, claims, device.message]
    while not told[-1] and len(told) > 2:
        told.pop()
    return told
