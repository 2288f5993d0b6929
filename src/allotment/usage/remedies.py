"""Finds single changes that would make claims fit, and confirms each by calling the allocator.

It tries, in this order: a tolerated taint, a count or an amount of capacity reduced (to the most that fits), a constraint
or a selector left out (``changes``), and the release of one claim, starting with claims that hold least and, among those,
with claims in the same namespace. Offers are sorted by kind, then by how much is given up. Each change is tried alone;
if only two together would help, it offers nothing.

The caller chooses the nodes, and the claims whose release may be suggested: somebody who may not see a claim must not
learn of it here.

Everything is bounded: by ``most`` changes of each kind, by ``questions``, by steps of search for each question, and by
``go_on``, which is called often and may look at a clock. ``cut`` says that a bound was hit; then more changes than those
offered may help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from allotment.allocator.errors import AllocationError
from allotment.allocator.phrases import GAVE_UP, if_released
from allotment.allocator.strategy import FIRST_FIT
from allotment.usage.changes import (
    ChangeKind,
    ClaimChange,
    ReducibleDemand,
    capacities,
    constraints_left_out,
    counts,
    selectors_left_out,
    tolerations,
)

if TYPE_CHECKING:
    from allotment.allocator.demand_view import DemandView
    from allotment.allocator.fleet import Fleet
    from allotment.allocator.pool import PoolID
    from allotment.api.resource import Device, DeviceTaint, ResourceClaim

__all__ = ["Remedies", "Remedy", "remedies"]

MOST_QUESTIONS = 20_000
"""The most questions. Each is about all nodes; the release of a claim only concerns nodes that it affects."""
STEPS_PER_QUESTION = 20_000
"""Steps of search for one question on one node."""
MOST_OFFERED = 10
"""The most changes of one kind that are offered."""
MOST_TAINT_KEYS = 32
"""The most taint keys that are tried."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change after which all claims fit, for example on ``node``. ``words`` complete "fits …"."""

    kind: ChangeKind
    claim: str  # the claim that is rewritten or released
    request: str
    value: str
    words: str
    node: str
    given_up: float
    change: ClaimChange | None = None  # None for a release


@dataclass(frozen=True, slots=True)
class Remedies:
    """The changes found, the smallest first."""

    found: tuple[Remedy, ...] = ()
    cut: bool = False  # true: a bound was hit, so not everything was tried


def remedies(
    fleet: Fleet,
    claims: Sequence[ResourceClaim],
    *,
    nodes: Iterable[str],
    releasable: Iterable[str] = (),
    strategy: str = FIRST_FIT,
    most: int = MOST_OFFERED,
    questions: int = MOST_QUESTIONS,
    budget: int = STEPS_PER_QUESTION,
    go_on: Callable[[], bool] = lambda: True,
) -> Remedies:
    """Single changes that make all the claims fit together on one of the nodes.

    ``releasable`` are claims under the names of the fleet's ledger. The fleet is left as it was.
    """
    search = _RemedySearch(fleet, claims, list(nodes), strategy, questions, budget, go_on)
    found = [
        *search.first(most, search.tolerations()),
        *search.first(most, search.counts()),
        *search.first(most, search.capacities()),
        *search.first(most, search.constraints()),
        *search.first(most, search.selectors()),
        *search.first(most, search.releases(releasable)),
    ]
    order = list(ChangeKind)
    found.sort(key=lambda each: (order.index(each.kind), each.given_up))
    return Remedies(tuple(found), search.cut)


class _RemedySearch:
    """The search for changes: the questions asked so far, and what is left of the bounds."""

    def __init__(
        self,
        fleet: Fleet,
        claims: Sequence[ResourceClaim],
        nodes: list[str],
        strategy: str,
        questions: int,
        budget: int,
        go_on: Callable[[], bool],
    ) -> None:
        self._fleet = fleet
        self._claims = claims
        self._nodes = [name for name in nodes if name in fleet.places]
        self._strategy = strategy
        self._budget = budget
        self._left = questions
        self._go_on = go_on
        self.cut = False

    # --- one question ---

    def _view(self, claims: Sequence[ResourceClaim]) -> DemandView:
        return self._fleet.view(claims, self._strategy, self._budget)

    def _fits(self, view: DemandView, nodes: Iterable[str]) -> str | None:
        """The first node that takes the claims; None if there is none, or a bound is reached."""
        if self._left <= 0:
            self.cut = True
            return None
        self._left -= 1
        for name in nodes:
            if not self._go_on():
                self._left, self.cut = 0, True
                return None
            place = self._fleet.places[name]
            if view.draft(place) is not None:
                return name
            self.cut = self.cut or view.refusal(place).startswith(GAVE_UP)
        return None

    def _tried(self, change: ClaimChange) -> Remedy | None:
        claims = list(self._claims)
        claims[change.number] = change.claim
        if self._left <= 0:  # before making the view, which also costs something
            self.cut = True
            return None
        node = self._fits(self._view(claims), self._nodes)
        if node is None:
            return None
        return Remedy(
            change.kind,
            self._claims[change.number].metadata.key,
            change.request,
            change.value,
            change.words,
            node,
            change.given_up,
            change,
        )

    def first(self, most: int, found: Iterator[Remedy]) -> list[Remedy]:
        """The first results, up to the limit. If there are more, the search counts as cut."""
        offered = list(islice(found, most))
        if len(offered) == most and next(found, None) is not None:
            self.cut = True
        return offered

    # --- changes to the demands ---

    def tolerations(self) -> Iterator[Remedy]:
        return self._helping(tolerations(self._claims, self._taints()))

    def constraints(self) -> Iterator[Remedy]:
        return self._helping(constraints_left_out(self._claims))

    def selectors(self) -> Iterator[Remedy]:
        return self._helping(selectors_left_out(self._claims))

    def counts(self) -> Iterator[Remedy]:
        return self._turned_down(counts(self._claims))

    def capacities(self) -> Iterator[Remedy]:
        return self._turned_down(capacities(self._claims))

    def _helping(self, changes: Iterable[ClaimChange]) -> Iterator[Remedy]:
        for change in changes:
            if (found := self._tried(change)) is not None:
                yield found

    def _turned_down(self, dials: Iterable[ReducibleDemand]) -> Iterator[Remedy]:
        for dial in dials:
            if (found := self._most(dial)) is not None:
                yield found

    def _most(self, dial: ReducibleDemand) -> Remedy | None:
        """The largest setting of the dial that fits."""
        if dial.most < 1:
            return None
        best = self._tried(dial.at(1))
        low, high = 1, dial.most
        while best is not None and low < high:
            middle = (low + high + 1) // 2
            more = self._tried(dial.at(middle))
            if more is not None:
                best, low = more, middle
            else:
                high = middle - 1
        return best

    def _taints(self) -> list[DeviceTaint]:
        """One taint for each key that devices of the nodes have."""
        found: dict[tuple[str, str | None, str], DeviceTaint] = {}
        keys: set[str] = set()
        for name in self._nodes:
            if not self._go_on():
                self.cut = True
                break
            for device in self._devices_of(name):
                for taint in device.taints:
                    if taint.key not in keys and len(keys) >= MOST_TAINT_KEYS:
                        self.cut = True
                        continue
                    keys.add(taint.key)
                    found.setdefault((taint.key, taint.value, taint.effect), taint)
        return list(found.values())

    def _devices_of(self, name: str) -> Iterator[Device]:
        try:
            site = self._fleet.site(self._fleet.places[name])
        except AllocationError:
            return  # a broken node selector: no claim gets anything there
        yield from (device.spec for device in site.devices)

    # --- claims to release ---

    def releases(self, releasable: Iterable[str]) -> Iterator[Remedy]:
        ledger, reach = self._fleet.ledger, self._reach()
        held = {name: [each for each in ledger.holdings(name) if not each.admin] for name in set(releasable)}
        own = {each.metadata.namespace for each in self._claims}
        view = self._view(self._claims)
        for name in sorted(held, key=lambda name: (len(held[name]), name.partition("/")[0] not in own, name)):
            nodes = dict.fromkeys(node for each in held[name] for node in reach.get(each.device.of_pool, ()))
            if not nodes:
                continue
            with ledger.fork():
                ledger.release(name)
                node = self._fits(view, nodes)
            if node is not None:
                words = if_released(name)
                yield Remedy(ChangeKind.RELEASE, name, "", name, words, node, float(len(held[name])))

    def _reach(self) -> dict[PoolID, list[str]]:
        """The nodes that a pool can affect."""
        found: dict[PoolID, list[str]] = {}
        for name in self._nodes:
            if not self._go_on():
                self.cut = True
                break
            try:
                pools = self._fleet.site(self._fleet.places[name]).pools
            except AllocationError:
                continue
            for pool in pools:
                found.setdefault(pool.id, []).append(name)
        return found
