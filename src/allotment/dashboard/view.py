"""What one person sees of the cluster: read with their own identity, so that the server lets through what they may see and nothing else.

All pages that are open as this person share it. It follows what their rights say that they may; when those change it is of no
use any more, and another takes its place (``views``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from allotment.allocator.pool import PoolID
from allotment.api.alpha2 import NodeResourceSlice
from allotment.api.core import Pod
from allotment.api.pools import ResourcePool
from allotment.api.resource import Device, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.client.client import Client
from allotment.client.informer import Informer
from allotment.dashboard.fleet import Fleet
from allotment.dashboard.rights import Rights

Viewer = Callable[[PoolID | None], None]
"""Is told of each pool that changes; None stands for the pods that wait, and for the end of the view."""


class View:
    """Kept up while :meth:`run` runs. ``over`` is set when the person's rights are no longer these."""

    def __init__(self, client: Client, rights: Rights) -> None:
        self.rights = rights
        self.over = False
        self.viewers: set[Viewer] = set()
        self.fleet = Fleet(slices=rights.slices, all_claims=rights.claims.everywhere, touched=self.tell)
        self._slices = Informer(client.of(ResourceSlice), indexes={"pool": _pools_of})
        self._devices = list(self._followed(client))
        self._pods = [Informer(client.of(Pod), each, fields="spec.nodeName=") for each in rights.pods.each()]
        for informer in self._devices:
            informer.on_change(self.fleet.change)
        for informer in self._pods:
            informer.on_change(lambda old, new: self.tell(None))

    def _followed(self, client: Client) -> Iterator[Informer[Any]]:
        """All that the picture of devices is made of. Claims tell of devices, which are not shown to who may not see slices."""
        rights = self.rights
        if rights.slices:
            yield self._slices
            yield from [Informer(client.of(ResourceClaim), each) for each in rights.claims.each()]
            if rights.rules:
                yield Informer(client.of(DeviceTaintRule))
            if rights.node_slices:
                yield Informer(client.of(NodeResourceSlice))
        if rights.pools and not (rights.slices and rights.claims.everywhere):
            yield Informer(client.of(ResourcePool))

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in (*self._devices, *self._pods):
                tasks.create_task(informer.run())

    async def ready(self, seconds: float) -> bool:
        """Whether all is known that there was at the start; waits for it so long. A right that was taken just now is in the way for ever."""
        try:
            async with asyncio.timeout(seconds):
                for informer in (*self._devices, *self._pods):
                    await informer.synced()
        except TimeoutError:
            return False
        return True

    def tell(self, id: PoolID | None) -> None:
        for viewer in self.viewers:
            viewer(id)

    def pods(self) -> list[Pod]:
        """Those without a node."""
        return [pod for informer in self._pods for pod in informer.all()]

    def device(self, id: PoolID, name: str) -> Device | None:
        """What the newest generation of a pool publishes of a device."""
        slices = sorted(self._slices.by("pool", id), key=lambda each: -each.spec.pool.generation)
        return next((device for each in slices for device in each.spec.devices if device.name == name), None)


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
