"""Conditions on a machine's devices that follow from counting: necessary, not sufficient.

Each request of a claim takes a number of devices out of those that suit it, exclusively. So for any set of devices, requests
that only this set can meet cannot take more than it contains. The examined sets are those that suit some request. Left out
are devices that several claims may share, admin access and All, and devices that are already allocated (``taken``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.allocator.errors import AllocationError
from allotment.allocator.pool import DeviceID, by_pool, gather_pools
from allotment.allocator.request import Book
from allotment.allocator.site import Site
from allotment.allocator.strategy import in_order
from allotment.allocator.suits import Suitability
from allotment.allocator.terms import Terms
from allotment.api.core import Node
from allotment.api.meta import ObjectMeta
from allotment.api.resource import ResourceClaim, ResourceSlice
from allotment.autoscaler.solver.covering_problem import Dimension
from allotment.scheduler.devices.semantic_claim import is_carrier

if TYPE_CHECKING:
    from allotment.autoscaler.simulate.forkable_cluster import ForkableCluster
    from allotment.scheduler.cluster import Cluster

Wants = list[tuple[int, int]]
"""(suitable devices, how many of them), for each request of a bundle."""


def device_rooms(
    node: Node,
    slices: Sequence[ResourceSlice],
    claims: Sequence[Sequence[ResourceClaim]],
    cluster: Cluster,
    taken: Collection[DeviceID] = (),
) -> list[Dimension]:
    """Rooms for lots whose bundles have these claims, on a node that may reach devices of these slices."""
    site = site_of(node, slices, cluster)
    if site is None:
        return []
    wants, free = wants_on(site, claims, cluster), ~mask_of(site, taken)
    rooms = {
        ((mask & free).bit_count(), tuple(needs_within(mask, each) for each in wants))
        for mask in countable(site, wants)
    }
    return [Dimension(size, needs) for size, needs in sorted(rooms)]


def site_of(node: Node, slices: Sequence[ResourceSlice], cluster: Cluster) -> Site | None:
    """The devices that a node would reach; None if that is unknown."""
    features = cluster.fleet.features
    try:
        pools = gather_pools(node, slices, features, everywhere=by_pool(slices))
    except AllocationError:
        return None
    return Site(node, pools, in_order(pools), features)


def mask_of(site: Site, devices: Collection[DeviceID]) -> int:
    """A set of devices as bits."""
    return sum(1 << position for position, device in enumerate(site.devices) if device.id in devices)


def countable(site: Site, wants: Sequence[Wants]) -> set[int]:
    """The sets of devices for which counting gives a condition."""
    return {mask for each in wants for mask, _ in each if mask and not mask & site.shareable}


def needs_within(mask: int, wants: Wants) -> int:
    """How many devices of a set are taken by requests that no other device can meet."""
    return sum(count for suits, count in wants if suits and not suits & ~mask)


def wants_on(site: Site, claims: Sequence[Sequence[ResourceClaim]], cluster: Cluster) -> list[Wants]:
    """The countable requests of each bundle on a site."""
    book = Book(cluster.classes, cluster.fleet.features)
    return [_wants(site, book, each) for each in claims]


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


def can_serve(
    slices: Sequence[ResourceSlice], claims: Sequence[Sequence[ResourceClaim]], cluster: Cluster
) -> bool:
    """Whether a node that reached these slices could get any of their devices for any of the claims; True if that is unknown."""
    asked = [each for each in claims if any(not is_carrier(claim) for claim in each)]
    if not asked:
        return False
    here = Node(metadata=ObjectMeta(name="anywhere"))
    site = site_of(here, [for_all(each) for each in slices], cluster)
    if site is None:
        return True
    book = Book(cluster.classes, cluster.fleet.features)
    for each in asked:
        demand = book.demand([claim for claim in each if not is_carrier(claim)])
        for ask in demand.shapes:
            judged = Suitability(ask, site)
            judged.judge_all()
            if judged.selectable or judged.errors or judged.unsure:
                return True
    return False


def for_all(slice: ResourceSlice) -> ResourceSlice:
    """A slice as if all nodes reached it."""
    spec = slice.spec
    if not spec.per_device_node_selection:
        return replace(slice, spec=replace(spec, node_name=None, node_selector=None, all_nodes=True))
    devices = [replace(each, node_name=None, all_nodes=True, node_selector=None) for each in spec.devices]
    return replace(slice, spec=replace(spec, devices=tuple(devices)))


def held(simulation: ForkableCluster) -> set[DeviceID]:
    """Devices that claims hold, except by admin access."""
    return {
        DeviceID(each.driver, each.pool, each.device)
        for claim in simulation.objects(ResourceClaim).values()
        if claim.status.allocation is not None
        for each in claim.status.allocation.devices.results
        if not each.admin_access
    }
