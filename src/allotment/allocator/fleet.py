"""Many nodes at once: finds those that can take claims, without a search on each node.

Nodes in the same state count as one. For each *shape* of demand the fleet keeps a view (``demand_view``) that sorts nodes
by what the demand can see of them (``fingerprint``) and by what is in use. The search runs once for each distinct state.
Its answer consists of positions and not names, so it serves every node in that state.

Everything is incremental. A change to slices or to the ledger records the affected nodes in a log, and each view catches
up with the log on its next use. Pools that several nodes reach are not part of any node's state: their id and version
count instead, so that one commit there does not affect every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from uuid import NAMESPACE_OID, uuid5

from msgspec.structs import replace

from allotment.allocator.counters import Counters
from allotment.allocator.demand_view import DemandView, Group
from allotment.allocator.effort import Effort
from allotment.allocator.errors import AllocationError
from allotment.allocator.features import ALL, Features
from allotment.allocator.fingerprint import Fingerprints, Numbering
from allotment.allocator.ledger import Ledger
from allotment.allocator.outcome import Allocated, Nowhere, Outcome
from allotment.allocator.pool import DeviceID, Pool, PoolID, gather_pools, reaches
from allotment.allocator.request import Book
from allotment.allocator.result import ShareIDs
from allotment.allocator.search import DEFAULT_BUDGET
from allotment.allocator.site import Site, SiteUse
from allotment.allocator.strategy import FIRST_FIT, in_order
from allotment.api.codec import encode
from allotment.api.meta import ObjectMeta
from allotment.api.resource import (
    AllocationResult,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)

if TYPE_CHECKING:
    from allotment.api.core import Node
    from allotment.api.resource import DeviceClass, ResourceSlice

__all__ = ["Fleet"]

_VIEWS_KEPT = 64
_NUMBERS_KEPT = 4_000_000
_LOG_KEPT = 200_000


class NodePlace:
    """One node of the fleet: its devices, gathered on first use, and what is in use of them."""

    __slots__ = (
        "_consumed_key",
        "local",
        "name",
        "node",
        "positions",
        "prints",
        "reaches",
        "seen",
        "sees",
        "site",
        "use",
        "version",
    )

    def __init__(self, node: Node, version: int) -> None:
        self.node = node
        self.name = node.metadata.name
        self.version = version  # changes when the node or its slices do
        self.site: Site | None = None
        self.prints: Fingerprints | None = None
        self.use = SiteUse()
        self.positions: dict[DeviceID, int] | None = None
        self.local = 0  # positions of devices that no other node reaches
        self.reaches: tuple[PoolID, ...] = ()  # pools that other nodes reach too
        # a number for the visible part of those pools and for its positions: two nodes may reach different devices of
        # one pool, or find the same ones before their own devices and behind them
        self.sees = 0
        self.seen: tuple[int, ...] = ()  # the versions of those pools when ``use`` was last read

    def refresh(self, device: DeviceID, ledger: Ledger) -> None:
        """Reads the use of one device again."""
        site = self.site
        if site is None:
            return
        if self.positions is None:
            self.positions = {each.id: position for position, each in enumerate(site.devices)}
        position = self.positions.get(device)
        if position is not None:
            self.use.refresh(position, site, ledger)

    def reread(self, ledger: Ledger) -> None:
        """Reads the use of all devices again."""
        if self.site is not None:
            self.use = SiteUse.of(self.site, ledger)

    def state(self, relevant: int) -> tuple[object, ...]:
        """The use of the devices that no other node reaches; equal states compare equal."""
        use, relevant = self.use, self.local & relevant
        shared = use.shared & relevant
        if not shared:
            return (use.used & relevant,)
        consumed = [
            (position, tuple(sorted(amounts.items())))
            for position, amounts in use.consumed.items()
            if shared >> position & 1
        ]
        return use.used & relevant, shared, tuple(sorted(consumed))


class Fleet:
    """Nodes, slices and classes, with the ledger of allocations."""

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        slices: Iterable[ResourceSlice] = (),
        classes: Iterable[DeviceClass] = (),
        features: Features = ALL,
    ) -> None:
        self.features = features
        self.effort = Effort()
        self.ledger = Ledger(self._use_changed)
        self.places: dict[str, NodePlace] = {}
        self.log: list[str | None] = []  # names of changed nodes; None for a pool that several nodes reach
        self.log_start = 0  # how many entries were dropped before the first
        self.epoch = 0  # views of earlier epochs are invalid
        self._classes: dict[str, DeviceClass] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._of_node: dict[str, dict[str, ResourceSlice]] = {}
        self._for_several: dict[str, ResourceSlice] = {}
        self._by_pool: dict[PoolID, list[ResourceSlice]] = {}
        self._homes: dict[PoolID, str | None] = {}  # results of _home so far
        # for pools that several nodes reach: how often their use changed
        self._pool_versions: dict[PoolID, int] = {}
        self._publications: dict[PoolID, int] = {}  # how often a pool's slices changed
        self._numbers = Numbering()
        self._versions = 0
        self._views: dict[object, DemandView] = {}
        self.book = Book(self._classes, features)
        for found in classes:
            self.set_class(found)
        for slice in slices:
            self.set_slice(slice)
        for node in nodes:
            self.set_node(node)

    # --- the cluster changes ---

    def set_class(self, found: DeviceClass) -> None:
        """Adds or replaces a device class."""
        self._classes[found.metadata.name] = found
        self._drop_views()

    def remove_class(self, name: str) -> None:
        self._classes.pop(name, None)
        self._drop_views()

    def _drop_views(self) -> None:
        """Drops all views, since any answer may have changed."""
        self._views.clear()
        self.epoch += 1
        for name in self.places:
            self._note(name)

    def set_node(self, node: Node) -> None:
        """Adds or replaces a node."""
        self._versions += 1
        self.places[node.metadata.name] = NodePlace(node, self._versions)
        self._note(node.metadata.name)

    def remove_node(self, name: str) -> None:
        """Removes a node. Its slices stay until they are removed, and so do claims that hold its devices."""
        if self.places.pop(name, None) is not None:
            self._note(name)

    def set_slice(self, slice: ResourceSlice) -> None:
        """Adds or replaces a slice."""
        self.remove_slice(slice.metadata.name)
        self._slices[slice.metadata.name] = slice
        self._by_pool.setdefault(PoolID(slice.spec.driver, slice.spec.pool.name), []).append(slice)
        if slice.spec.node_name:
            self._of_node.setdefault(slice.spec.node_name, {})[slice.metadata.name] = slice
        else:
            self._for_several[slice.metadata.name] = slice
        self._pool_changed(slice)

    def remove_slice(self, name: str) -> None:
        slice = self._slices.pop(name, None)
        if slice is None:
            return
        self._by_pool[PoolID(slice.spec.driver, slice.spec.pool.name)].remove(slice)
        if slice.spec.node_name:
            del self._of_node[slice.spec.node_name][name]
        else:
            del self._for_several[name]
        self._pool_changed(slice)

    def _pool_changed(self, slice: ResourceSlice) -> None:
        """Makes all nodes that the pool's slices may reach gather their pools again."""
        id = PoolID(slice.spec.driver, slice.spec.pool.name)
        pool = self._by_pool[id]
        self._publications[id] = self._publications.get(id, 0) + 1
        self._homes.pop(id, None)
        if not self.places:
            return
        for name in self._reached((*pool, slice)):
            place = self.places.get(name)
            if place is not None:
                self._versions += 1
                self.places[name] = NodePlace(place.node, self._versions)
                self._note(name)

    def _reached(self, slices: Sequence[ResourceSlice]) -> Iterable[str]:
        """The nodes that any of these slices may reach."""
        names = {each.spec.node_name for each in slices if each.spec.node_name}
        several = [each for each in slices if not each.spec.node_name]
        if not several:
            return names
        try:
            return [
                name
                for name, place in self.places.items()
                if name in names or any(reaches(each, place.node) for each in several)
            ]
        except AllocationError:  # a broken selector makes every node unanswerable
            return list(self.places)

    def _use_changed(self, device: DeviceID) -> None:
        home = self._home(device.of_pool)
        if home is None:
            self._pool_versions[device.of_pool] = self._pool_versions.get(device.of_pool, 0) + 1
            self._note(None)
            return
        place = self.places.get(home)
        if place is not None:
            place.refresh(device, self.ledger)
            self._note(home)

    def _home(self, pool: PoolID) -> str | None:
        """The only node that reaches a pool, if there is just one."""
        if pool not in self._homes:
            names = {each.spec.node_name for each in self._by_pool.get(pool, ())}
            if not names:
                return None
            self._homes[pool] = names.pop() or None if len(names) == 1 else None
        return self._homes[pool]

    def _note(self, name: str | None) -> None:
        self.log.append(name)
        if len(self.log) > _LOG_KEPT:
            drop = len(self.log) // 2
            del self.log[:drop]
            self.log_start += drop

    # --- questions ---

    def site(self, place: NodePlace) -> Site:
        """The node's devices, gathered if necessary. Raises AllocationError for a broken node selector."""
        if place.site is None:
            mine = [*self._of_node.get(place.name, {}).values(), *self._for_several.values()]
            pools = gather_pools(place.node, mine, self.features, everywhere=self._by_pool)
            devices = in_order(pools)
            site = Site(place.node, pools, devices, self.features)
            common = [pool for pool in pools if self._home(pool.id) is None]
            place.reaches = tuple([pool.id for pool in common])
            place.local = (1 << len(devices)) - 1
            for position, device in enumerate(devices) if place.reaches else ():
                if device.id.of_pool in place.reaches:
                    place.local &= ~(1 << position)
            place.sees = self._numbers.of(("sees", place.local, *map(self._seen_of, common)))
            place.prints = Fingerprints(site, self._numbers)
            place.prints.skeleton()
            place.site = site
            place.reread(self.ledger)
            place.seen = self.versions(place)
        return place.site

    def _seen_of(self, pool: Pool) -> tuple[PoolID, int, frozenset[str]]:
        """A number for a node's view of a shared pool, equal for nodes that see the same devices of it."""
        slices = frozenset([device.slice.metadata.name for device in pool.devices])
        return pool.id, self._publications.get(pool.id, 0), slices

    def versions(self, place: NodePlace) -> tuple[int, ...]:
        """The versions of the pools that the node shares with others."""
        if not place.reaches:
            return ()
        return tuple([self._pool_versions.get(pool, 0) for pool in place.reaches])

    def use(self, place: NodePlace) -> SiteUse:
        """The use of a node's devices, read again if a pool that it shares with others changed."""
        if place.reaches and place.seen != self.versions(place):
            place.reread(self.ledger)
            place.seen = self.versions(place)
        return place.use

    def view(self, claims: Sequence[ResourceClaim], strategy: str, budget: int) -> DemandView:
        """The view for claims of this shape, independent of the claims' names."""
        if len(self._numbers) > _NUMBERS_KEPT:
            self._start_over()
        key = (strategy, budget, *[encode(claim.spec) for claim in claims])
        view = self._views.pop(key, None)
        if view is None or view.behind < self.log_start or view.crowded:
            view = DemandView(self, self.book.demand(_nameless(claims)), strategy, budget)
        self._views[key] = view  # moved to the end, so the first is the least recently used
        if len(self._views) > _VIEWS_KEPT:
            del self._views[next(iter(self._views))]
        return view

    def _start_over(self) -> None:
        """Drops all fingerprints once changing slices have left too many unused ones."""
        self._numbers = Numbering()
        self._drop_views()
        for name, place in list(self.places.items()):
            self._versions += 1
            self.places[name] = NodePlace(place.node, self._versions)

    def find(
        self,
        claims: Sequence[ResourceClaim],
        *,
        strategy: str = FIRST_FIT,
        budget: int = DEFAULT_BUDGET,
        share_id: ShareIDs | None = None,
    ) -> Allocated | Nowhere:
        """The first node by name that can take all claims, with their allocations. Nothing is committed."""
        view = self.view(claims, strategy, budget)
        place = view.first()
        if place is None:
            return Nowhere(view.groups)
        draft = view.draft(place)
        assert draft is not None
        site = self.site(place)
        results = draft.write(site.devices, place.name, share_id or named_shares(claims))
        return Allocated(place.name, results, [], 0)

    def survey(
        self, claims: Sequence[ResourceClaim], *, strategy: str = FIRST_FIT, budget: int = DEFAULT_BUDGET
    ) -> list[Group]:
        """All nodes, grouped by equal state, each group with its answer."""
        return self.view(claims, strategy, budget).groups()

    def count(self, class_name: str) -> int:
        """How many devices of a class exist, in use or not; 0 for an unknown class."""
        view = self._of_class(class_name)
        return view.suitable() if view is not None else 0

    def published(self, node: str, class_name: str) -> int:
        """How many devices of a class exist in a node's own pools, in use or not."""
        view, place = self._of_class(class_name), self.places.get(node)
        return view.suitable_on(place) if view is not None and place is not None else 0

    def _of_class(self, class_name: str) -> DemandView | None:
        """The view for one device of a class; None if the class is unknown."""
        if class_name not in self._classes:
            return None
        wish = DeviceRequest(
            name="r", exactly=ExactDeviceRequest(device_class_name=class_name, allocation_mode="ExactCount")
        )
        claim = ResourceClaim(spec=ResourceClaimSpec(devices=DeviceClaim(requests=(wish,))))
        return self.view([claim], FIRST_FIT, DEFAULT_BUDGET)

    def allocate(self, node: str, claims: Sequence[ResourceClaim], *, strategy: str = FIRST_FIT) -> Outcome:
        """The outcome on one node, with reasons if the claims do not fit. Raises AllocationError for an unknown node."""
        if node not in self.places:
            raise AllocationError(f"there is no node {node!r} among the {len(self.places)} of the fleet")
        view = self.view(claims, strategy, DEFAULT_BUDGET)
        return view.ask(self.places[node], claims, named_shares(claims))

    def fit(self, node: str, claims: Sequence[ResourceClaim]) -> list[AllocationResult] | None:
        """Like ``allocate``, but only how the claims fit, cached by the state of the node; None if they do not."""
        place = self.places[node]
        draft = self.view(claims, FIRST_FIT, DEFAULT_BUDGET).draft(place)
        return (
            draft.write(self.site(place).devices, node, named_shares(claims)) if draft is not None else None
        )

    def commit(self, claims: Sequence[ResourceClaim], allocated: Allocated) -> None:
        """Writes an answer of ``find`` or ``allocate`` into the ledger: all claims or, on a conflict, none."""
        if len(claims) == 1:
            self.ledger.commit(claims[0].metadata.key, allocated.results[0])
            return
        with self.ledger.fork() as fork:
            for claim, result in zip(claims, allocated.results, strict=True):
                self.ledger.commit(claim.metadata.key, result)
            fork.keep()

    def validate(self) -> None:
        """Re-derives the ledger and every node's use from the claims.

        Raises LedgerConflict if a device is promised twice, and AssertionError if the state here disagrees with the ledger.
        """
        self.ledger.validate()
        for place in self._current():
            assert place.site is None or place.use == SiteUse.of(place.site, self.ledger), (
                f"node {place.name}: use is not what the ledger says"
            )

    def overdrawn(self) -> list[str]:
        """Devices and nodes with more capacity or counters in use than exist.

        Our decisions never lead there, but a driver that shrinks its pool can.
        """
        found: dict[str, None] = {}  # several nodes may reach one device
        for place in self.places.values():
            try:
                site = self.site(place)
            except AllocationError:
                continue  # what this node reaches is unknown
            use = self.use(place)
            for position, amounts in use.consumed.items():
                device = site.devices[position]
                for name, amount in amounts.items():
                    offer = device.spec.capacity.get(name)
                    if offer is None or amount > offer.value.nanos:
                        found[f"device {device.id}: capacity {name}"] = None
            if (
                site.drawing
                and Counters(site.plan, use.used | use.shared, self.ledger, grouped=True).overdrawn
            ):
                found[f"node {place.name}: counters"] = None
        return list(found)

    def _current(self) -> list[NodePlace]:
        """The nodes whose use was read since the pools that they share with others last changed."""
        return [
            place
            for place in self.places.values()
            if place.site is not None and place.seen == self.versions(place)
        ]


def _nameless(claims: Sequence[ResourceClaim]) -> list[ResourceClaim]:
    """The same claims without their names.

    A view serves all claims of a shape, so its messages must not name any of them: the next caller may not be allowed to
    know.
    """
    return [replace(claim, metadata=ObjectMeta(name=f"#{number}")) for number, claim in enumerate(claims, 1)]


def named_shares(claims: Sequence[ResourceClaim]) -> ShareIDs:
    """Share ids derived from the claims' uids or names: the same claim always gets the same ids."""

    def name(claim: int, result: int) -> str:
        meta = claims[claim].metadata
        return str(uuid5(NAMESPACE_OID, f"{meta.uid or meta.key}/{result}"))

    return name
