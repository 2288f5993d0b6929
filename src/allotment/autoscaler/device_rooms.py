"""What can be said of a machine's devices by counting: necessary, not sufficient.

Each request of a claim takes so many devices out of those that suit it, and nobody else may have these. So of any set of devices,
requests that can be met only from within it cannot take more than there are. The sets looked at are those that suit some
request. Left out are devices that several claims may share, admin access and All.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from allotment.allocator.errors import AllocationError
from allotment.allocator.pool import by_pool, gather_pools
from allotment.allocator.request import Book
from allotment.allocator.site import Site
from allotment.allocator.strategy import in_order
from allotment.allocator.terms import Terms
from allotment.api.resource import ResourceClaim, ResourceSlice
from allotment.autoscaler.yard import Room
from allotment.scheduler.carried_claim import is_carrier

if TYPE_CHECKING:
    from allotment.api.core import Node
    from allotment.scheduler.cluster import Cluster

Wants = list[tuple[int, int]]
"""(devices that suit, how many of them), for each request of a bundle."""


def device_rooms(
    node: Node, slices: Sequence[ResourceSlice], claims: Sequence[Sequence[ResourceClaim]], cluster: Cluster
) -> list[Room]:
    """Rooms for lots whose bundles have these claims, on a node that may reach devices of these slices."""
    features = cluster.fleet.features
    try:
        pools = gather_pools(node, slices, features, everywhere=by_pool(slices))
    except AllocationError:
        return []
    site = Site(node, pools, in_order(pools), features)
    book = Book(cluster.classes, features)
    wants = [_wants(site, book, each) for each in claims]
    sets = {mask for each in wants for mask, _ in each if mask and not mask & site.shareable}
    rooms = {
        (
            mask.bit_count(),
            tuple(sum(n for suits, n in each if suits and not suits & ~mask) for each in wants),
        )
        for mask in sets
    }
    return [Room(size, needs) for size, needs in sorted(rooms)]


def _wants(site: Site, book: Book, claims: Sequence[ResourceClaim]) -> Wants:
    own = [each for each in claims if not is_carrier(each)]
    if not own:
        return []
    demand = book.demand(own)
    if demand.fault is not None:
        return []
    try:
        terms = Terms(site, demand)
    except AllocationError:
        return []
    wants: Wants = []
    for request in demand.requests:
        suits, least = 0, 32
        for ask in request.asks:
            judged = terms.suits[ask.shape]
            judged.judge_all()
            suits |= judged.selectable & judged.allowed
            least = min(least, 0 if ask.all or ask.admin else ask.count)
        if least:
            wants.append((suits, least))
    return wants
