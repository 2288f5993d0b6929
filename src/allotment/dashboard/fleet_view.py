"""All devices that one person may see, with the claims that hold them, and the waiting pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from allotment.allocator.pool import PoolID
from allotment.api.pools import ResourcePool
from allotment.api.resource import Device, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.api.semantic import NodeResourceSlice
from allotment.client.client import Client
from allotment.client.informer import Informer
from allotment.dashboard.fleet import FleetPicture
from allotment.dashboard.person_view import PersonView
from allotment.dashboard.rights import Rights


class FleetView(PersonView):
    """The parts of this view are the pools, by their ids, and the pods."""

    def __init__(self, client: Client, rights: Rights) -> None:
        self.fleet = FleetPicture(
            slices=rights.slices, all_claims=rights.claims.everywhere, touched=self.tell
        )
        self._slices = Informer(client.of(ResourceSlice), indexes={"pool": _pools_of})
        devices = list(self._of_devices(client, rights))
        for informer in devices:
            informer.on_change(self.fleet.change)
        super().__init__(client, rights, *devices)

    def _of_devices(self, client: Client, rights: Rights) -> Iterator[Informer[Any]]:
        """The kinds from which the picture of devices is made. Claims reveal devices, so they are left out if the person may
        not see slices."""
        if rights.slices:
            yield self._slices
            yield from [Informer(client.of(ResourceClaim), each) for each in rights.claims.each()]
            if rights.rules:
                yield Informer(client.of(DeviceTaintRule))
            if rights.node_slices:
                yield Informer(client.of(NodeResourceSlice))
        if rights.pools and not (rights.slices and rights.claims.everywhere):
            yield Informer(client.of(ResourcePool))

    def device(self, id: PoolID, name: str) -> Device | None:
        """A device as the newest generation of its pool publishes it."""
        slices = sorted(self._slices.by("pool", id), key=lambda each: -each.spec.pool.generation)
        return next((device for each in slices for device in each.spec.devices if device.name == name), None)


def _pools_of(slice: ResourceSlice) -> tuple[PoolID]:
    return (PoolID(slice.spec.driver, slice.spec.pool.name),)


def device_document(device: Device) -> dict[str, Any]:
    """The attributes and capacity of a device, without its holders."""
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
