"""One shape of demand on a fleet: the state of each node, and the answer for each state.

``first`` keeps a heap of the nodes that may fit. A node whose state has the answer "no" leaves the heap and returns when it
changes, so that finding a node takes time in proportion to the changes and not to the number of nodes. ``groups`` sorts all
nodes by state, and keeps them sorted in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from allotment.allocator.allocate import numbered_shares, solve
from allotment.allocator.errors import AllocationError
from allotment.allocator.fingerprint import Numbering, RelevantParts, unwritable
from allotment.allocator.held import NOTHING_HELD
from allotment.allocator.outcome import Outcome
from allotment.allocator.paused_searches import PausedSearches
from allotment.allocator.phrases import gave_up
from allotment.allocator.pool import DeviceID
from allotment.allocator.problem import Problem
from allotment.allocator.result import AnswerDraft, ShareIDs
from allotment.allocator.search import Search, SearchEnd
from allotment.allocator.site import Site, SiteUse
from allotment.allocator.strategy import FIRST_FIT, arrange
from allotment.allocator.suits import ask_ahead
from allotment.allocator.terms import Terms

if TYPE_CHECKING:
    from allotment.allocator.fleet import Fleet, NodePlace
    from allotment.allocator.held import Holdings
    from allotment.allocator.request import Demand
    from allotment.api.resource import ResourceClaim

_ANSWERS_KEPT = 20_000
_ORDERS_KEPT = 256
"""The most orders of devices that depend on use, cached for one sight."""
_SIGHTS_UNTIL_CHECK = 64
"""How many nodes may look different before we check whether most do."""


@dataclass(slots=True)
class Group:
    """Nodes in equal state, and whether they fit. ``words`` gives a reason against them that is not about devices."""

    fits: bool
    nodes: list[str]
    words: str = ""


@dataclass(slots=True)
class _Unfit:
    """The answer for a state that does not fit; its reasons are computed again on demand."""

    words: str = ""


@dataclass(slots=True)
class _Order:
    """The devices of a node in the order of a strategy other than upstream's."""

    positions: list[int]  # the position in upstream's order of each device in this one
    terms: Terms  # with the devices in this order

    def use(self, use: SiteUse) -> SiteUse:
        """The same use, with the devices in this order."""
        other = SiteUse()
        for number, position in enumerate(self.positions):
            other.used |= (use.used >> position & 1) << number
            if use.shared >> position & 1:
                other.shared |= 1 << number
                other.consumed[number] = use.consumed[position]
        return other


@dataclass(slots=True)
class _NodeSight:
    """What a demand sees of a node, apart from use. Equal numbers give equal answers if ``relevant`` devices have equal use."""

    number: int
    relevant: int
    terms: Terms | None  # the terms of one such node, which are valid for the others
    words: str = ""  # instead of terms: why there are none
    plain: bool = False  # whether the strategy's order is upstream's
    fixed: bool = False  # if not, whether it is independent of use
    # cached orders, by what they depend on
    orders: dict[tuple[int, int], _Order] = field(default_factory=dict)


def _drawn_from(site: Site, use: SiteUse, held: Holdings) -> int:
    """The counter sets that devices in use draw from."""
    sets = 0
    if site.drawing:
        in_use, plan = use.used | use.shared, site.plan
        for position, draw in plan.draws.items():
            if in_use >> position & 1:
                for index, _ in draw.groups:
                    sets |= 1 << index
        for device, draw in plan.elsewhere:
            if held.exclusive(device) or held.shared(device):
                for index, _ in draw.groups:
                    sets |= 1 << index
    return sets


class DemandView:
    """The states and answers for one shape of demand. It belongs to one fleet, which drops it when it is too far behind."""

    def __init__(self, fleet: Fleet, demand: Demand, strategy: str, budget: int) -> None:
        self._fleet = fleet
        self._demand = demand
        self._strategy = strategy
        self._budget = budget
        self._demanding = any(demand.relations) or any(
            ask.all or ask.admin for request in demand.requests for ask in request.asks
        )
        self._relevant = None if demand.fault is not None else RelevantParts(demand, fleet.features)
        self._numbers = Numbering()
        self._static: dict[str, tuple[int, _NodeSight]] = {}  # node → (its version, its sight)
        self._sights: dict[tuple[int, ...], _NodeSight] = {}
        self._answers: dict[object, AnswerDraft | _Unfit] = {}
        self._searches = PausedSearches(fleet.effort)
        self._heap = list(fleet.places)
        heapify(self._heap)
        self._waiting: set[str] = set(self._heap)  # nodes in the heap
        # nodes outside the heap that a change to a pool of several nodes may bring back
        self._resting: set[str] = set()
        self._read = fleet.log_start + len(fleet.log)  # the log position that ``first`` has reached
        self._members: dict[object, dict[str, None]] = {}
        self._group_of: dict[str, object] = {}
        self._sorted = -1  # the log position that ``groups`` has reached; -1 if it never ran

    @property
    def behind(self) -> int:
        """The oldest entry of the log that this view still needs."""
        return self._read if self._sorted < 0 else min(self._read, self._sorted)

    @property
    def crowded(self) -> bool:
        """Whether the view holds far more than can exist now, because slices have changed a lot."""
        return len(self._sights) > 1024 + 4 * len(self._fleet.places)

    # --- the answer to one node's state ---

    def draft(self, place: NodePlace, state: object = None) -> AnswerDraft | None:
        """How the claims fit on a node in its present state, which may be given; None if they do not."""
        answer = self._answer(place, state if state is not None else self.state(place))
        return answer if isinstance(answer, AnswerDraft) else None

    @property
    def demand(self) -> Demand:
        return self._demand

    @property
    def fault(self) -> str:
        """What is wrong with the demand on every node; empty if nothing is."""
        return str(self._demand.fault) if self._demand.fault is not None else ""

    def refusal(self, place: NodePlace) -> str:
        """Why the claims do not fit on a node, if the reason is not about devices; else empty."""
        answer = self._answer(place, self.state(place))
        return answer.words if isinstance(answer, _Unfit) else ""

    def appearance(self, place: NodePlace) -> tuple[object, object]:
        """A value equal for nodes that are alike in everything, including reasons; ``state`` only distinguishes answers."""
        state = self.state(place)
        known = self._static.get(place.name)
        return id(known[1]) if known is not None else None, state

    def problem(self, place: NodePlace) -> Problem | None:
        """The problem for the search on a node; None if the demand cannot be judged there."""
        self.state(place)
        known = self._static.get(place.name)
        if known is None or known[1].terms is None:
            return None
        return Problem(known[1].terms, self._fleet.use(place), self._fleet.ledger)

    def state(self, place: NodePlace) -> object:
        """The node's state, as far as it matters to this demand. Raises Paused where expensive expressions are to be evaluated first."""
        fleet = self._fleet
        if self._relevant is None:
            return ""  # the demand is at fault, on every node
        if place.site is None:
            try:
                fleet.site(place)
            except AllocationError as exc:
                return str(exc)
        known = self._static.get(place.name)
        if known is None or known[0] != place.version:
            known = self._static[place.name] = (place.version, self._sight(self._relevant, place))
        sight = known[1]
        if not sight.relevant & ~place.local:
            return sight.number, place.state(sight.relevant)
        return sight.number, place.state(sight.relevant), place.sees, fleet.versions(place)

    def _sight(self, relevant: RelevantParts, place: NodePlace) -> _NodeSight:
        """What the demand sees of a node, apart from use."""
        assert place.prints is not None
        look = (*relevant.look(place.prints), place.sees)
        sight = self._sights.get(look)
        if sight is None:
            sight = self._sights[look] = self._look_closer(look, self._fleet.site(place))
        return sight

    def _look_closer(self, look: tuple[int, ...], site: Site) -> _NodeSight:
        for ask in self._demand.shapes:
            ask_ahead(ask, site, self._fleet.effort)
        try:
            terms = Terms(site, self._demand)
        except AllocationError as exc:
            return _NodeSight(self._numbers.of(look), -1, None, str(exc))
        if len(self._sights) > _SIGHTS_UNTIL_CHECK and 2 * len(self._sights) > len(self._static):
            # Hardly two nodes look alike, so judge devices as the search reaches them, not all in advance.
            plain = self._strategy == FIRST_FIT or terms.may_fail()
            return _NodeSight(self._numbers.of(look), (1 << len(site.devices)) - 1, terms, plain=plain)
        terms.may_fail()  # judges all devices
        bits, relevant = self._bits(site, terms)
        sight = _NodeSight(0, relevant, terms, plain=self._strategy == FIRST_FIT or terms.may_fail())
        if not sight.plain:
            self._settle_order(sight, site)
        sight.number = self._numbers.of(("suits", *bits) if bits and sight.plain else look)
        return sight

    def _settle_order(self, sight: _NodeSight, site: Site) -> None:
        """Determines whether the strategy's order here equals upstream's or is at least constant.

        A device that is shared, or draws on counters, has a lower value once these are in use.
        """
        relevant = sight.relevant
        sharing = any(
            d.spec.allow_multiple_allocations and relevant >> n & 1 for n, d in enumerate(site.devices)
        )
        if sharing or (site.drawing and any(relevant >> p & 1 for p in site.plan.draws)):
            return
        sight.fixed = True
        order = sight.orders[0, 0] = self._arranged(site, NOTHING_HELD)
        mine = [position for position in order.positions if relevant >> position & 1]
        sight.plain = mine == sorted(mine)

    def _arranged(self, site: Site, held: Holdings) -> _Order:
        devices = arrange(site.pools, self._strategy, held)
        base = {device.id: position for position, device in enumerate(site.devices)}
        arranged = Site(site.node, site.pools, devices, site.features)
        return _Order([base[device.id] for device in devices], Terms(arranged, self._demand))

    def _order(self, sight: _NodeSight, site: Site, use: SiteUse) -> _Order:
        """The strategy's present order. It depends on which devices are shared, and which counter sets are drawn from."""
        key = (0, 0) if sight.fixed else (use.shared, _drawn_from(site, use, self._fleet.ledger))
        order = sight.orders.get(key)
        if order is None:
            if len(sight.orders) >= _ORDERS_KEPT:
                sight.orders.clear()
            order = sight.orders[key] = self._arranged(site, self._fleet.ledger)
        return order

    def _bits(self, site: Site, terms: Terms) -> tuple[tuple[object, ...] | None, int]:
        """A fingerprint of which devices suit, if nothing else matters; and the devices whose use matters."""
        relevant = errors = 0
        for suits in terms.suits:
            relevant |= suits.selectable
            for position in suits.errors:
                errors |= 1 << position
        relevant |= errors
        if site.drawing:
            related = site.plan.related(relevant)
            if any(related >> position & 1 for position in site.plan.draws):
                return None, related
        plain = not (errors or self._demanding or relevant & site.shareable) and all(
            p.usable for p in site.pools
        )
        if not plain or unwritable(site.devices):
            return None, relevant
        return tuple([suits.selectable & suits.allowed for suits in terms.suits]), relevant

    def _answer(self, place: NodePlace, key: object) -> AnswerDraft | _Unfit:
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _ANSWERS_KEPT:
                self._answers.clear()
            answer = self._answers[key] = self._solve(place, key)
        return answer

    def _solve(self, place: NodePlace, key: object) -> AnswerDraft | _Unfit:
        fleet = self._fleet
        try:
            site = fleet.site(place)
            use = fleet.use(place)
            if self._demand.fault is not None:
                raise self._demand.fault
            sight = self._static[place.name][1]
            if sight.plain or sight.terms is None:
                found = self._search(sight, use, key)
            else:
                order = self._order(sight, site, use)
                found = self._search(_NodeSight(0, 0, order.terms), order.use(use), key)
                if isinstance(found, AnswerDraft):
                    found = found.renumbered(order.positions.__getitem__)
            if place.reaches and isinstance(found, AnswerDraft):
                # Only these can have node selectors, and one that no result can name is an error of this node.
                found.write(site.devices, place.name, numbered_shares)
            return found
        except AllocationError as exc:
            return _Unfit(str(exc))

    def _search(self, sight: _NodeSight, use: SiteUse, key: object) -> AnswerDraft | _Unfit:
        """Runs the search. Raises Paused when this turn's steps are used up; the next call for this state continues it."""
        if sight.terms is None:
            return _Unfit(sight.words)
        terms = sight.terms
        problem, answer = self._searches.run(
            key, lambda: Search(Problem(terms, use, self._fleet.ledger), self._budget)
        )
        if answer.verdict is SearchEnd.FOUND:
            return AnswerDraft(problem, answer, self._fleet.book.classes)
        if answer.verdict is SearchEnd.GAVE_UP:
            return _Unfit(gave_up(answer.steps))
        return _Unfit(problem.site.flaws())

    def ask(self, place: NodePlace, claims: Sequence[ResourceClaim], share_id: ShareIDs) -> Outcome:
        """The full outcome on one node, for these very claims."""
        fleet = self._fleet
        return solve(
            place.node,
            lambda: fleet.site(place),
            fleet.book.demand(claims),  # read again, because errors name the claims
            fleet.ledger,
            fleet.book,
            strategy=self._strategy,
            budget=self._budget,
            share_id=share_id,
        )

    def suitable(self) -> int:
        """How many devices of the fleet suit the first request, in use or not."""
        fleet, found, local = self._fleet, set[DeviceID](), 0
        for place in fleet.places.values():
            self.state(place)
            known = self._static.get(place.name)
            if known is None or known[1].terms is None:
                continue
            suits = known[1].terms.suits[0]
            suits.judge_all()
            local += (suits.selectable & place.local).bit_count()
            elsewhere = suits.selectable & ~place.local
            found.update(
                device.id for n, device in enumerate(fleet.site(place).devices) if elsewhere >> n & 1
            )
        return local + len(found)

    def suitable_on(self, place: NodePlace) -> int:
        """How many devices of the node's own pools suit the first request, in use or not.

        A pool is the node's own if no other node reaches it, or if it has the node's name.
        """
        self.state(place)
        known = self._static.get(place.name)
        if known is None or known[1].terms is None:
            return 0
        suits = known[1].terms.suits[0]
        suits.judge_all()
        return sum(
            bool(suits.selectable >> n & 1)
            and (bool(place.local >> n & 1) or device.id.pool.partition("/")[0] == place.name)
            for n, device in enumerate(self._fleet.site(place).devices)
        )

    # --- the first node that fits ---

    def first(self) -> NodePlace | None:
        """The first node by name that fits, or None."""
        self._catch_up()
        heap, places = self._heap, self._fleet.places
        while heap:
            place = places.get(heap[0])
            if place is not None and isinstance(self._answer(place, self.state(place)), AnswerDraft):
                return place
            name = heappop(heap)
            self._waiting.discard(name)
            if place is not None and self.shares_pools(place):
                self._resting.add(name)
        return None

    def shares_pools(self, place: NodePlace) -> bool:
        """Whether the answer on a node depends on pools that other nodes reach too."""
        known = self._static.get(place.name)
        return known is None or bool(known[1].relevant & ~place.local)

    def _catch_up(self) -> None:
        fleet = self._fleet
        changes = fleet.log[self._read - fleet.log_start :]
        self._read = fleet.log_start + len(fleet.log)
        for name in changes:
            if name is None:
                for other in self._resting - self._waiting:
                    self._wait(other)
                self._resting.clear()
            elif name not in self._waiting:
                self._wait(name)

    def _wait(self, name: str) -> None:
        self._waiting.add(name)
        heappush(self._heap, name)

    # --- all nodes ---

    def groups(self) -> list[Group]:
        """All nodes by state, those that fit first."""
        fleet = self._fleet
        if self._sorted < 0:
            stale: Sequence[str | None] = list(fleet.places)
        else:
            stale = fleet.log[self._sorted - fleet.log_start :]
        now = fleet.log_start + len(fleet.log)
        if None in stale:
            stale = [*stale, *[place.name for place in fleet.places.values() if place.reaches]]
        for name in dict.fromkeys(stale):
            if name is not None:
                self._sort(name)
        self._sorted = now
        groups = []
        for members in self._members.values():
            place = fleet.places[next(iter(members))]
            answer = self._answer(place, self.state(place))
            words = answer.words if isinstance(answer, _Unfit) else ""
            groups.append(Group(isinstance(answer, AnswerDraft), list(members), words))
        groups.sort(key=lambda group: not group.fits)
        return groups

    def _sort(self, name: str) -> None:
        place = self._fleet.places.get(name)
        key = self.state(place) if place is not None else None  # first, as it may pause
        before = self._group_of.pop(name, None)
        if before is not None:
            members = self._members[before]
            del members[name]
            if not members:
                del self._members[before]
        if place is not None:
            self._group_of[name] = key
            self._members.setdefault(key, {})[name] = None
