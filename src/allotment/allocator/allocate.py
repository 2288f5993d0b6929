"""The entry point: finds devices that satisfy claims on a node.

>>> allocator = Allocator(slices, classes)
>>> outcome = allocator.allocate(node, [claim])
>>> match outcome:
...     case Allocated(): outcome.results
...     case Unsatisfiable(): print(outcome.reasons())
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from allotment.allocator.errors import AllocationError, NodeError
from allotment.allocator.features import ALL, Features
from allotment.allocator.held import NOTHING_HELD, Holdings
from allotment.allocator.outcome import Allocated, GaveUp, InvalidInput, Outcome, Unsatisfiable
from allotment.allocator.pool import Pool, by_pool, gather_pools
from allotment.allocator.problem import Problem
from allotment.allocator.request import Book, Demand
from allotment.allocator.result import AnswerDraft, ShareIDs
from allotment.allocator.search import DEFAULT_BUDGET, Answer, Search, SearchEnd
from allotment.allocator.site import Site, SiteUse
from allotment.allocator.strategy import FIRST_FIT, arrange, in_order
from allotment.allocator.terms import Terms

if TYPE_CHECKING:
    from allotment.api.core import Node
    from allotment.api.resource import DeviceClass, ResourceClaim, ResourceSlice

__all__ = ["Allocator"]


_SITES_KEPT = 1024


def numbered_shares(claim: int, result: int) -> str:
    """Simple share ids, unique only within one call."""
    return f"00000000-0000-4000-8000-{claim:06x}{result:06x}"


class Allocator:
    """Answers questions about fixed slices and classes. Read-only: each question brings its own holdings.

    Use it for one question, or for questions about few nodes. For a whole cluster, or to follow changes, use ``Fleet``.
    """

    def __init__(
        self, slices: Sequence[ResourceSlice], classes: Iterable[DeviceClass], features: Features = ALL
    ) -> None:
        self.features = features
        self.book = Book({found.metadata.name: found for found in classes}, features)
        self._by_pool = by_pool(slices)
        self._of_node: dict[str, list[ResourceSlice]] = {}
        self._for_several: list[ResourceSlice] = []
        self._sites: dict[str, Site] = {}
        for slice in slices:
            if slice.spec.node_name:
                self._of_node.setdefault(slice.spec.node_name, []).append(slice)
            else:
                self._for_several.append(slice)

    def pools(self, node: Node) -> Sequence[Pool]:
        """The pools that the node reaches, in search order. Raises AllocationError."""
        return self._site(node).pools

    def _site(self, node: Node) -> Site:
        """The node with its devices in upstream's order; cached for the next question about the same node."""
        name = node.metadata.name
        site = self._sites.get(name)
        if site is None or site.node is not node:
            mine = [*self._of_node.get(name, ()), *self._for_several]
            pools = gather_pools(node, mine, self.features, everywhere=self._by_pool)
            if len(self._sites) >= _SITES_KEPT:
                self._sites.clear()
            site = self._sites[name] = Site(node, pools, in_order(pools), self.features)
        return site

    def allocate(
        self,
        node: Node,
        claims: Sequence[ResourceClaim],
        held: Holdings = NOTHING_HELD,
        *,
        strategy: str = FIRST_FIT,
        budget: int = DEFAULT_BUDGET,
        share_id: ShareIDs = numbered_shares,
    ) -> Outcome:
        """Chooses devices for all claims, or for none."""
        return solve(
            node,
            lambda: self._site(node),
            self.book.demand(claims),
            held,
            self.book,
            strategy=strategy,
            budget=budget,
            share_id=share_id,
        )


def solve(
    node: Node,
    find_site: Callable[[], Site],
    demand: Demand,
    held: Holdings,
    book: Book,
    *,
    strategy: str = FIRST_FIT,
    budget: int = DEFAULT_BUDGET,
    share_id: ShareIDs = numbered_shares,
    run: Callable[[Search], Answer] = Search.run,
) -> Outcome:
    """Solves one demand on one node, given its devices in upstream's order.

    ``run`` may interrupt the search by raising Paused.
    """
    name = node.metadata.name
    steps = 0
    try:
        site = find_site()
        terms = Terms(site, demand)
        if (
            strategy != FIRST_FIT and not terms.may_fail()
        ):  # errors must surface in upstream's order, or not at all
            site = Site(node, site.pools, arrange(site.pools, strategy, held), site.features)
            terms = Terms(site, demand)
        problem = Problem(terms, SiteUse.of(site, held), held)
        answer = run(Search(problem, budget))
        steps = answer.steps
        if answer.verdict is SearchEnd.GAVE_UP:
            return GaveUp(name, steps)
        if answer.verdict is SearchEnd.FOUND:
            results = AnswerDraft(problem, answer, book.classes).write(site.devices, name, share_id)
            return Allocated(name, results, answer.choices, steps)
        flaws = site.flaws()
        if flaws:
            raise NodeError(flaws)
        return Unsatisfiable(name, problem, steps, answer.shortage)
    except AllocationError as exc:
        return InvalidInput(name, exc, steps)
