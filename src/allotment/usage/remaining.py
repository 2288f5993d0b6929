"""How many more claims of one shape fit, determined by calling the allocator.

On a node, we allocate and commit one claim after another in a fork of the ledger, until the allocator refuses. The
fleet's index treats nodes in equal state as one, so each state is filled once. A scheduler would reach the same number.
If its first choices were unlucky, more could fit, so we then ask for one more claim, all of them together, until the
allocator proves that they do not fit. A claim for one device without counters needs no proof: all choices leave as much.

In the cluster, the numbers of nodes that share nothing add up. Nodes with common pools are filled one after the other.
That gives a lower bound, which is exact for a claim for one device and if all of these nodes reach the same pools.
In a pool, we count as if there were no other. Pools that have nothing in common are counted at the same time.

Everything is bounded: by ``limit`` for each number, by ``steps`` of search for all proofs. A number that hit a bound
is marked as a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from allotment.allocator.allocate import numbered_shares, solve
from allotment.allocator.demand_view import DemandView
from allotment.allocator.fleet import Fleet, NodePlace
from allotment.allocator.ledger import Holding
from allotment.allocator.outcome import Allocated, GaveUp
from allotment.allocator.phrases import GAVE_UP
from allotment.allocator.pool import DeviceID, PoolID, by_pool
from allotment.allocator.search import DEFAULT_BUDGET
from allotment.allocator.strategy import FIRST_FIT
from allotment.allocator.taint import tainted
from allotment.usage.allocation import AllocationInfo, AnyClaim, held_by

if TYPE_CHECKING:
    from allotment.api.core import Node
    from allotment.api.resource import (
        AllocationResult,
        DeviceClass,
        DeviceTaintRule,
        ResourceClaim,
        ResourceSlice,
    )

__all__ = ["Fits", "Remaining", "remaining"]

MOST_COUNTED = 1_000
"""The most claims counted in one place."""
PROOF_STEPS = 200_000
"""Steps of search for all proofs together: a second or two."""
MOST_CLAIMS_OF_A_PROOF = 64
"""The most claims in one proof."""


@dataclass(frozen=True, slots=True)
class Fits:
    """How many more claims fit, exactly or at least. ``words`` give a reason for the limit that is not about devices."""

    number: int
    exact: bool = True
    words: str = ""

    def __str__(self) -> str:
        return str(self.number) if self.exact else f"at least {self.number}"


@dataclass(frozen=True, slots=True)
class Remaining:
    """Numbers for each node and each pool alone, and for all nodes together.

    They need not add up, as nodes may reach the same devices.
    """

    cluster: Fits
    nodes: Mapping[str, Fits]
    pools: Mapping[PoolID, Fits]


def remaining(
    claim: ResourceClaim,
    *,
    nodes: Iterable[Node],
    slices: Iterable[ResourceSlice],
    classes: Iterable[DeviceClass],
    claims: Iterable[AnyClaim] = (),
    rules: Iterable[DeviceTaintRule] = (),
    strategy: str = FIRST_FIT,
    limit: int = MOST_COUNTED,
    steps: int = PROOF_STEPS,
) -> Remaining:
    """How many more claims like ``claim`` fit beside the existing ones, all of which are in ``claims``.

    Whether ``claim`` itself is allocated does not matter.
    """
    stock = _FleetSources(list(nodes), list(slices), list(classes), list(claims), list(rules))
    bounds = CountingBudget(limit, steps)
    tally = _fill(stock.fleet(stock.nodes, stock.slices), claim, strategy, bounds)
    return Remaining(tally.cluster, tally.nodes, _pools(stock, tally, claim, strategy, bounds))


@dataclass(slots=True)
class CountingBudget:
    """How much work counting may still do."""

    limit: int
    steps: int  # left


class _FleetSources:
    """The nodes, slices and holdings from which fleets are made."""

    def __init__(
        self,
        nodes: Sequence[Node],
        slices: Sequence[ResourceSlice],
        classes: Sequence[DeviceClass],
        claims: Sequence[AnyClaim],
        rules: Sequence[DeviceTaintRule],
    ) -> None:
        self.nodes = nodes
        ordered = sorted(rules, key=lambda rule: rule.metadata.name)
        self.slices = [tainted(slice, ordered) for slice in slices]
        self._classes = classes
        self._held: dict[PoolID, dict[str, list[AllocationInfo]]] = {}
        for each in claims:
            for pool, devices in held_by(each).items():
                for device, infos in devices.items():
                    users = [info for info in infos if not info.admin_access]
                    self._held.setdefault(pool, {}).setdefault(device, []).extend(users)

    def fleet(self, nodes: Sequence[Node], slices: Sequence[ResourceSlice]) -> Fleet:
        """A fleet of these slices, with what claims hold of them."""
        fleet = Fleet(nodes, slices, self._classes)
        for pool in by_pool(slices):
            for name, infos in self._held.get(pool, {}).items():
                _occupy(fleet, DeviceID(*pool, name), infos)
        return fleet


def _occupy(fleet: Fleet, device: DeviceID, infos: Sequence[AllocationInfo]) -> None:
    """Records in the ledger that claims hold a device. A device promised twice is held once, whole if any claim has it whole."""
    if not infos:
        return
    if any(info.share_id is None for info in infos):
        shares = [Holding(device, None, (), False)]
    else:
        shares = [
            Holding(device, info.share_id, tuple((n, q.nanos) for n, q in info.capacity.items()), False)
            for info in infos
        ]
    fleet.ledger.hold(f"held {device}", tuple(shares))


# --- nodes and the cluster ---


@dataclass(slots=True)
class _FitCount:
    cluster: Fits
    nodes: dict[str, Fits] = field(default_factory=dict)


def _fill(fleet: Fleet, claim: ResourceClaim, strategy: str, bounds: CountingBudget) -> _FitCount:
    """Counts on every node, and on all nodes together."""
    view = fleet.view([claim], strategy, DEFAULT_BUDGET)
    tally = _FitCount(Fits(0))
    number, exact, sharing = 0, True, list[list[str]]()
    for group in view.groups():
        place = fleet.places[group.nodes[0]]
        if group.fits:
            fits = _most(fleet, view, place, claim, bounds).fits
        else:
            fits = Fits(0, not group.words.startswith(GAVE_UP), group.words)
        for name in group.nodes:
            tally.nodes[name] = fits
        if group.fits and view.shares_pools(place):
            sharing.append(group.nodes)
        else:
            number += fits.number * len(group.nodes)
            exact = exact and fits.exact
    tally.nodes = {name: tally.nodes[name] for name in sorted(tally.nodes)}
    if sharing:
        more = _on_all(fleet, view, claim, sharing, tally.nodes, bounds)
        number, exact = number + more.number, exact and more.exact
    tally.cluster = Fits(number, exact, view.fault)
    return tally


@dataclass(slots=True)
class _ClaimsOnNode:
    """A number of claims on a node, and the devices they get there. Nothing is committed."""

    fits: Fits
    results: list[AllocationResult]


def _most(
    fleet: Fleet, view: DemandView, place: NodePlace, claim: ResourceClaim, bounds: CountingBudget
) -> _ClaimsOnNode:
    """The number that fits on one node."""
    simple = _simple(view, place)
    with fleet.ledger.fork():
        filling = _until_refused(fleet, view, place, bounds.limit)
    fits = filling.fits
    if simple or not fits.exact or fits.number == 0:
        return filling
    if any(ask.admin for request in view.demand.requests for ask in request.asks):
        # A proof would ask a different question: admin access blocks claims in the same request, but not later ones.
        return _ClaimsOnNode(replace(fits, exact=False), filling.results)
    return _proved(fleet, place, claim, filling, bounds)


def _until_refused(fleet: Fleet, view: DemandView, place: NodePlace, limit: int) -> _ClaimsOnNode:
    """Allocates one claim after the other. Committed claims stay."""
    results: list[AllocationResult] = []
    devices = fleet.site(place).devices
    while len(results) < limit:
        draft = view.draft(place)
        if draft is None:
            words = view.refusal(place)
            return _ClaimsOnNode(Fits(len(results), not words.startswith(GAVE_UP), words), results)
        results += draft.write(devices, place.name, numbered_shares)
        _commit(fleet, place, len(results), results[-1])
    return _ClaimsOnNode(Fits(len(results), exact=False), results)


def _commit(fleet: Fleet, place: NodePlace, number: int, result: AllocationResult) -> None:
    fleet.ledger.commit(f"remaining {place.name} {number}", result)


def _simple(view: DemandView, place: NodePlace) -> bool:
    """Whether the number of claims that fit does not depend on which devices they get."""
    problem, requests = view.problem(place), view.demand.requests
    if problem is None or len(requests) != 1 or len(requests[0].asks) != 1:
        return False
    ask = requests[0].asks[0]
    suits = problem.suits[ask.shape]
    suits.judge_all()
    drawing = any(suits.selectable >> position & 1 for position in problem.draws)
    return ask.count == 1 and not ask.all and not suits.errors and not drawing


def _proved(
    fleet: Fleet, place: NodePlace, claim: ResourceClaim, filling: _ClaimsOnNode, bounds: CountingBudget
) -> _ClaimsOnNode:
    """Asks for one more claim, all of them together, as long as that succeeds."""
    results, words = filling.results, filling.fits.words
    while len(results) < min(bounds.limit, MOST_CLAIMS_OF_A_PROOF) and bounds.steps > 0:
        demand = fleet.book.demand([claim] * (len(results) + 1))
        outcome = solve(
            place.node, lambda: fleet.site(place), demand, fleet.ledger, fleet.book, budget=bounds.steps
        )
        bounds.steps -= outcome.steps
        if isinstance(outcome, GaveUp):
            break
        if not isinstance(outcome, Allocated):
            return _ClaimsOnNode(Fits(len(results), True, words), results)
        results = outcome.results
    return _ClaimsOnNode(Fits(len(results), False, words), results)


def _on_all(
    fleet: Fleet,
    view: DemandView,
    claim: ResourceClaim,
    groups: Sequence[Sequence[str]],
    alone: Mapping[str, Fits],
    bounds: CountingBudget,
) -> Fits:
    """Fills nodes that have devices in common, one after the other, those with most room first."""
    first = fleet.places[groups[0][0]]
    if len(groups) == 1 and not first.local:
        return alone[first.name]  # what one of these nodes can get, every one can
    number, exact, limit = 0, True, bounds.limit
    names = [name for group in groups for name in group]
    simple = all(_simple(view, fleet.places[name]) for name in names)
    with fleet.ledger.fork():
        for name in sorted(names, key=lambda name: (-alone[name].number, name)):
            place = fleet.places[name]
            bounds.limit = limit - number
            filling = _most(fleet, view, place, claim, bounds)
            for each, result in enumerate(filling.results):
                _commit(fleet, place, each, result)
            number, exact = number + filling.fits.number, exact and filling.fits.exact
    bounds.limit = limit
    return Fits(number, exact and simple)


# --- pools ---


def _pools(
    stock: _FleetSources, whole: _FitCount, claim: ResourceClaim, strategy: str, bounds: CountingBudget
) -> dict[PoolID, Fits]:
    found: dict[PoolID, Fits] = {}
    nodes = {node.metadata.name: node for node in stock.nodes}
    layers = list(_layers(by_pool(stock.slices)))
    for homes, slices in layers:
        if len(layers) == 1:
            tally = whole
        else:
            reaching = [nodes[home] for home in homes if home in nodes] if None not in homes else stock.nodes
            tally = _fill(stock.fleet(reaching, slices), claim, strategy, bounds)
        for home, pool in homes.items():
            found[pool] = tally.cluster if home is None else tally.nodes.get(home, Fits(0, True, _NO_NODE))
    return {pool: found[pool] for pool in sorted(found)}


_NO_NODE = "its node does not exist"


def _layers(
    pools: Mapping[PoolID, Sequence[ResourceSlice]],
) -> Iterator[tuple[dict[str | None, PoolID], list[ResourceSlice]]]:
    """Groups of pools in which each node has at most one. A pool that several nodes may reach is alone in its group."""
    of_node: dict[str, list[PoolID]] = {}
    for pool, slices in pools.items():
        homes = {slice.spec.node_name for slice in slices}
        home = homes.pop() if len(homes) == 1 else None
        if home:
            of_node.setdefault(home, []).append(pool)
        else:
            yield {None: pool}, list(slices)
    for depth in range(max(map(len, of_node.values()), default=0)):
        layer: dict[str | None, PoolID] = {
            home: mine[depth] for home, mine in of_node.items() if depth < len(mine)
        }
        yield layer, [slice for pool in layer.values() for slice in pools[pool]]
