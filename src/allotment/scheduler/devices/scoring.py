"""The score of taking these devices from this node.

Scoring keeps scarce devices whole. It prefers small devices to large ones, devices that cannot be partitioned to those that can,
parts of a partitioned device to parts of a whole one, and nodes whose devices are in use to empty nodes. A score of 0 to 100 is
the sum of

* 50 × how early the chosen alternatives are: for each request with ``firstAvailable`` 1 for its first entry, 0 for its last,
  and the average over all such requests; 1 if there is none;
* 20 × (1 − size), averaged over the devices. The size of a device is the average of its capacities, each as a fraction of the
  largest that any device of its driver has. Without capacities, it is the largest fraction that the device draws of a counter;
  without both, 1;
* 10 × (1 − cut), averaged over the devices. The cut of a device is the largest fraction that it draws of a counter on which other
  devices draw too, since that could be partitioned differently. It is 0 for a device that shares no counter;
* 20 × existing use, averaged over the devices. For a share, it is 1 if another claim has a share of the device. For a device that
  draws on counters, it is 1 if another device on the same counter set is in use. Otherwise it is the fraction of the node's
  devices in use.

Devices with admin access take nothing from other claims. They count as size 0, cut 0 and in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.allocator.pool import PooledDevice
    from allotment.allocator.request import Ask, Demand
    from allotment.allocator.site import Site, SiteUse
    from allotment.api.resource import ResourceSlice

EARLY, SMALL, UNCUT, FILLED = 50, 20, 10, 20
MOST = EARLY + SMALL + UNCUT + FILLED


Sizes = Mapping[tuple[str, str], int]
"""The largest amount of each capacity that any device of a driver has, in billionths; by driver and capacity."""


class DeviceSizes:
    """Updates ``largest`` as slices arrive. It never shrinks: it is only a yardstick, and should be the same for a device that
    returns. A mapping that was handed out does not change."""

    def __init__(self) -> None:
        self.largest: Sizes = {}

    def add(self, slice: ResourceSlice) -> bool:
        """Takes the devices of a slice. Returns whether that changed anything."""
        driver, largest = slice.spec.driver, self.largest
        more: dict[tuple[str, str], int] = {}
        for device in slice.spec.devices:
            for name, offer in device.capacity.items():
                key, amount = (driver, name), offer.value.nanos
                if amount > largest.get(key, 0) and amount > more.get(key, 0):
                    more[key] = amount
        if more:
            self.largest = {**largest, **more}
        return bool(more)


def early(demand: Demand, taken: Sequence[tuple[Ask, int]]) -> float:
    """How early in their lists the chosen alternatives are, from 0 (last) to 1."""
    chosen = {id(ask) for ask, _ in taken}
    ranks = [
        1 - number / (len(request.asks) - 1)
        for request in demand.requests
        if len(request.asks) > 1
        for number, ask in enumerate(request.asks)
        if id(ask) in chosen
    ]
    return sum(ranks) / len(ranks) if ranks else 1.0


def score(taken: Sequence[tuple[Ask, int]], earliness: float, site: Site, use: SiteUse, sizes: Sizes) -> int:
    """The score of a node, from 0 to 100."""
    if not taken:
        return MOST
    in_use = use.used | use.shared
    part = in_use.bit_count() / len(site.devices)
    size = cut = filled = 0.0
    for ask, position in taken:
        if ask.admin:
            filled += 1
            continue
        device = site.devices[position]
        drawn = _drawn(site, position) if site.drawing else None
        size += _size(device, sizes) if device.spec.capacity or drawn is None else drawn
        if drawn is not None and site.plan.alike[position] != 1 << position:
            cut += drawn
        filled += _filled(site, in_use, position, part)
    count = len(taken)
    kept = SMALL * (1 - size / count) + UNCUT * (1 - cut / count)
    return round(EARLY * earliness + kept + FILLED * filled / count)


def _filled(site: Site, in_use: int, position: int, part: float) -> float:
    if site.shareable >> position & 1:
        return 1.0 if in_use >> position & 1 else part
    if site.drawing and site.plan.alike.get(position, 0) & in_use:
        return 1.0
    return part


def _size(device: PooledDevice, sizes: Sizes) -> float:
    capacity = device.spec.capacity
    if not capacity:
        return 1.0
    driver, total = device.id.driver, 0.0
    for name, offer in capacity.items():
        largest = sizes.get((driver, name), 0)
        total += min(offer.value.nanos / largest, 1.0) if largest else 0.0
    return total / len(capacity)


def _drawn(site: Site, position: int) -> float | None:
    """The largest part of a counter that a device draws; None if it draws on nothing."""
    draw = site.plan.draws.get(position)
    if draw is None:
        return None
    totals = site.plan.totals
    return max([amount / totals[index] for index, amount in draw.amounts if totals[index]], default=1.0)
