"""What the page needs of the cluster, followed once for everybody, and the pictures that are made of it.

It is read by a user of its own; what gets into a person's picture is decided by that person's rights (``rights``, ``fleet``). A
picture is made when the first with such rights looks, and kept a while after the last has gone. The one of everything is always
there: the timeline is taken from it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from allotment.allocator.pool import PoolID
from allotment.api.alpha2 import NodeResourceSlice
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct
from allotment.api.pools import ResourcePool
from allotment.api.resource import Device, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.api.status import TooManyRequests
from allotment.client.client import Client
from allotment.client.informer import Informer
from allotment.dashboard.fleet import Fleet, Touched, in_turns
from allotment.dashboard.rights import EVERYTHING, FleetRights
from allotment.dashboard.timeline import WIDTH, Timeline

FLEETS = 32
"""Pictures at a time, that is people with different rights."""
SAMPLE_SECONDS = WIDTH / 2  # so that no bucket is without, however late a sample is


class Cluster:
    """Follows while :meth:`run` runs. ``pods`` has those without a node; ``viewers`` are told when one of them changes."""

    def __init__(self, client: Client) -> None:
        self.pods = Informer(client.of(Pod), fields="spec.nodeName=")
        self._namespaces = Informer(client.plain("v1", "namespaces", namespaced=False))
        self._slices = Informer(client.of(ResourceSlice), indexes={"pool": _pools_of})
        self._followed: list[Informer[Any]] = [
            self._slices,
            Informer(client.of(ResourceClaim)),
            Informer(client.of(DeviceTaintRule)),
            Informer(client.of(NodeResourceSlice)),
            Informer(client.of(ResourcePool)),
        ]
        self._everything = Fleet(EVERYTHING)
        self._fleets = {EVERYTHING: self._everything}
        self.timeline = Timeline()
        self.began = time.time()
        self._begun = time.monotonic()
        self.viewers: set[Callable[[], None]] = set()
        for informer in self._followed:
            informer.on_change(self._changed)
        self.pods.on_change(self._pods_changed)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in (*self._followed, self.pods, self._namespaces):
                tasks.create_task(informer.run())
            tasks.create_task(self._sample())

    async def synced(self) -> None:
        """Returns when all is known that there was at the start."""
        for informer in (*self._followed, self.pods, self._namespaces):
            await informer.synced()

    async def _sample(self) -> None:
        await self.synced()
        while True:
            counts = await self._everything.count()
            self.timeline.note(time.monotonic() - self._begun, counts)
            await asyncio.sleep(SAMPLE_SECONDS)

    def namespaces(self) -> list[str]:
        return [obj["metadata"]["name"] for obj in self._namespaces.all()]

    def device(self, id: PoolID, name: str) -> Device | None:
        """What the newest generation of a pool publishes of a device."""
        slices = sorted(self._slices.by("pool", id), key=lambda each: -each.spec.pool.generation)
        return next((device for each in slices for device in each.spec.devices if device.name == name), None)

    # --- pictures ---

    @asynccontextmanager
    async def seen_by(self, rights: FleetRights, viewer: Touched) -> AsyncIterator[Fleet]:
        """The picture for people with these rights, with everything in it, and kept up while somebody is in here; the viewer is
        told of each pool that changes. Raises TooManyRequests."""
        fleet = self._fleets.pop(rights, None)
        if fleet is None:
            self._make_room()
            fleet = Fleet(rights)
            fleet.filled = asyncio.create_task(self._fill(fleet))
        self._fleets[rights] = fleet  # last, as the one used last
        fleet.viewers.add(viewer)
        try:
            if fleet.filled is not None:
                await asyncio.shield(fleet.filled)
            yield fleet
        finally:
            fleet.viewers.discard(viewer)

    def _make_room(self) -> None:
        if len(self._fleets) < FLEETS:
            return
        unused = next(
            (each for each in self._fleets.values() if not each.viewers and each is not self._everything),
            None,
        )
        if unused is None:
            told = f"people with {FLEETS} different sets of rights look at the dashboard already; try again later"
            raise TooManyRequests(told, {"retryAfterSeconds": 10})
        del self._fleets[unused.rights]

    async def _fill(self, fleet: Fleet) -> None:
        """What changes meanwhile reaches it as well, so each object is taken as it is by then."""
        for informer in self._followed:
            async for obj in in_turns(informer.all()):
                meta = obj.metadata
                current = informer.get(meta.name, meta.namespace)
                if current is not None:
                    fleet.change(None, current)

    def _changed(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
        for fleet in list(self._fleets.values()):
            fleet.change(old, new)

    def _pods_changed(self, old: Pod | None, new: Pod | None) -> None:
        for changed in list(self.viewers):
            changed()


def _pools_of(slice: ResourceSlice) -> tuple[PoolID]:
    return (PoolID(slice.spec.driver, slice.spec.pool.name),)


def device_document(device: Device) -> dict[str, Any]:
    """What a device is, whoever has it."""
    attributes = {
        name: next(iter(msgspec.to_builtins(value).values()), None)
        for name, value in device.attributes.items()
    }
    return {
        "attributes": attributes,
        "capacity": {name: str(offer.value) for name, offer in device.capacity.items()},
        "shared": bool(device.allow_multiple_allocations),
        "taints": [
            f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in device.taints
        ],
    }
