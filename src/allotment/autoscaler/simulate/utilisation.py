"""How much of a node is in use, for the search for nodes that could be removed.

Resources: what pods request of the node's capacity. Devices, for each pool that only this node has: the average over its
*units*. A unit is a device, or a set of counters on which devices draw, or a root of a semantic tree. The used part of a
device is all of it if it is allocated exclusively; of a shared device, the largest part of any capacity in use; of a set of
counters, the largest part drawn of any counter; of a tree, the used part of its best complete use.

Admin access uses nothing, and the devices of pods that belong to the node (``drain.goes_along``) do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from allotment.allocator.errors import AllocationError
from allotment.allocator.ledger import Holding, holding
from allotment.allocator.pool import DeviceID, PoolID
from allotment.allocator.semantic_carrier import carried_holdings
from allotment.allocator.semantic_pools import partition_pools
from allotment.api import semantic
from allotment.autoscaler.simulate.drain import goes_along
from allotment.scheduler.node import PODS

if TYPE_CHECKING:
    from allotment.allocator.pool import PooledDevice
    from allotment.allocator.site import Site
    from allotment.api.resource import ResourceClaim
    from allotment.autoscaler.simulate.simulation import Simulation

__all__ = ["Utilisation", "utilisation"]

NOTHING = Fraction(0)


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Parts from 0 to 1; a node whose pools were shrunk may have more than 1 in use."""

    resources: Mapping[str, Fraction]
    pools: Mapping[PoolID, Fraction]

    @property
    def most(self) -> Fraction:
        """The largest of the parts."""
        return max((*self.resources.values(), *self.pools.values()), default=NOTHING)


def utilisation(simulation: Simulation, node: str) -> Utilisation:
    """How much of a node is in use. Raises NoSuchNode."""
    simulation.node(node)
    held: dict[DeviceID, list[Holding]] = {}
    for claim in simulation.claims_on(simulation.slices(node)):
        if _counts(simulation, claim):
            for each in _holdings(claim):
                held.setdefault(each.device, []).append(each)
    units = {**_pools(simulation, node, held), **_trees(simulation, node, held)}
    pools = {id: sum(used, NOTHING) / len(used) for id, used in units.items() if used}
    return Utilisation(_resources(simulation, node), pools)


def _resources(simulation: Simulation, node: str) -> dict[str, Fraction]:
    info = simulation.cluster.nodes[node]
    taken = dict(info.taken)
    for key, pod in info.pods.items():
        if goes_along(pod.pod):
            for name, amount in (*pod.requests.items(), *info.extra.get(key, {}).items()):
                taken[name] -= amount
    return {
        name: Fraction(taken.get(name, 0), offered)
        for name, offered in info.offered.items()
        if offered and name != PODS
    }


def _counts(simulation: Simulation, claim: ResourceClaim) -> bool:
    """Whether a claim has a user that needs another place if the node is removed."""
    users = [simulation.cluster.pods[key].pod for key in simulation.bound_users(claim)]
    return not users or not all(goes_along(pod) for pod in users)


def _holdings(claim: ResourceClaim) -> Iterator[Holding]:
    allocation = claim.status.allocation
    found: Iterable[Holding] | None = carried_holdings(claim)
    if found is None:
        found = [holding(result) for result in allocation.devices.results] if allocation is not None else ()
    return (each for each in found if not each.admin)


Held = Mapping[DeviceID, list[Holding]]


def _pools(simulation: Simulation, node: str, held: Held) -> dict[PoolID, list[Fraction]]:
    """The units of v1's pools."""
    fleet = simulation.cluster.fleet
    place = fleet.places[node]
    try:
        site = fleet.site(place)
    except AllocationError:
        return {}  # nobody knows what this node reaches
    units: dict[PoolID, list[Fraction]] = {}
    drawn: dict[int, int] = {}
    for position, device in enumerate(site.devices):
        if not place.local >> position & 1:
            continue
        draw = site.plan.draws.get(position) if site.drawing else None
        if draw is None or not draw.amounts:
            units.setdefault(device.id.of_pool, []).append(_used(device, held.get(device.id, ())))
            continue
        for counter, amount in draw.amounts:
            drawn[counter] = drawn.get(counter, 0) + (amount if device.id in held else 0)
    for id, used in _sets(site, drawn):
        units.setdefault(id, []).append(used)
    return units


def _used(device: PooledDevice, held: Iterable[Holding]) -> Fraction:
    """How much of a device is in use."""
    taken: dict[str, int] = {}
    for each in held:
        if each.share is None:
            return Fraction(1)
        for name, amount in each.consumed:
            taken[name] = taken.get(name, 0) + amount
    offers = {name: offer.value.nanos for name, offer in device.spec.capacity.items()}
    return max((Fraction(taken[name], offers[name]) for name in taken if offers.get(name)), default=NOTHING)


def _sets(site: Site, drawn: Mapping[int, int]) -> Iterator[tuple[PoolID, Fraction]]:
    """How much is drawn from each set of counters."""
    most: dict[tuple[int, str], Fraction] = {}
    for counter, amount in drawn.items():
        total, key = site.plan.totals[counter], (site.plan.pool_of[counter], site.plan.names[counter][0])
        most[key] = max(most.get(key, NOTHING), Fraction(amount, total) if total else NOTHING)
    for (pool, _), used in most.items():
        yield site.pools[pool].id, used


def _trees(simulation: Simulation, node: str, held: Held) -> dict[PoolID, list[Fraction]]:
    """The units of semantic pools."""
    slices = [each for each in simulation.slices(node) if isinstance(each, semantic.NodeResourceSlice)]
    found: dict[PoolID, list[Fraction]] = {}
    for pool in partition_pools(node, slices):
        parts = {tuple(device.id.device.split("/")): device.part or Fraction(1) for device in pool.devices}
        used: dict[str, Fraction] = {}
        for path, part in parts.items():
            if DeviceID(*pool.id, "/".join(path)) in held:
                used[path[0]] = used.get(path[0], NOTHING) + part
        roots = dict.fromkeys(path[0] for path in parts)
        found[pool.id] = [used.get(root, NOTHING) / _most((root,), parts) for root in roots]
    return found


def _most(instance: tuple[str, ...], parts: Mapping[tuple[str, ...], Fraction]) -> Fraction:
    """The most that an instance can provide: as a whole, or by the best of its groups."""
    if instance in parts:
        return parts[instance]
    depth = len(instance)
    below = [path for path in parts if path[:depth] == instance]
    groups = dict.fromkeys(path[: depth + 1] for path in below)
    members = {
        group: dict.fromkeys(path[: depth + 2] for path in below if path[: depth + 1] == group)
        for group in groups
    }
    return max(sum((_most(each, parts) for each in found), NOTHING) for found in members.values())
