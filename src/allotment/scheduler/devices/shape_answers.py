"""The fleet's answers for pods of one shape: which nodes can give the devices, how, how well, or why not.

One wish serves all pods whose pending claims ask for the same. It keeps the fleet's view of those claims, so that a question
about a node is a look-up by the node's state. For each state that does not fit, it keeps a few words of explanation, computed
once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from allotment.allocator.fleet import named_shares
from allotment.scheduler.devices.scoring import early, score
from allotment.scheduler.devices.wording import GENERIC, anything_in_use, refusal, unjudged
from allotment.scheduler.framework import Status, StatusCode

if TYPE_CHECKING:
    from allotment.allocator.demand_view import DemandView
    from allotment.allocator.fleet import Fleet, NodePlace
    from allotment.allocator.result import AnswerDraft
    from allotment.api.resource import AllocationResult, ResourceClaim
    from allotment.scheduler.devices.scoring import Sizes

_SHAPE_ANSWERS_KEPT = 10_000
"""How many answers of each sort a wish remembers."""
_ANSWERS_OF_A_VIEW = 10_000
"""After so many answers, the wish asks for a new view, so that the fleet can forget outdated state."""


class ShapeAnswers:
    """What equal claims want, with the remembered answers per node state."""

    def __init__(
        self, fleet: Fleet, claims: Sequence[ResourceClaim], strategy: str, budget: int, plugin: str
    ) -> None:
        self._fleet = fleet
        self._claims = tuple(claims)
        self._strategy = strategy
        self._budget = budget
        self._plugin = plugin
        self._view: DemandView | None = None
        self._views = 0  # the number of views so far: each numbers its states on its own
        self._epoch = -1
        self._left = 0
        self._fault = ""
        self._refusals: dict[Hashable, Status] = {}
        self._early: dict[int, tuple[AnswerDraft, float]] = {}
        self._asked: NodePlace | None = None  # for a draft last, and at which position of the fleet's log
        self._asked_at = -1
        self._draft: AnswerDraft | None = None
        self._seen: NodePlace | None = None  # last, and when, and in which state
        self._seen_at = -1
        self._state: object = None

    def of(self, fleet: Fleet) -> bool:
        return self._fleet is fleet

    @property
    def view(self) -> DemandView:
        view = self._view
        if view is None or self._epoch != self._fleet.epoch or self._left <= 0:
            view = self._fleet.view(self._claims, self._strategy, self._budget)
            if view is not self._view:
                self._views += 1
                self._seen = None
                self._refusals.clear()
                self._early.clear()
            self._view, self._epoch, self._left = view, self._fleet.epoch, _ANSWERS_OF_A_VIEW
            self._fault = view.fault
        self._left -= 1
        return view

    @property
    def fault(self) -> str:
        """What is wrong with the claims on every node alike; empty if nothing is."""
        if self._epoch != self._fleet.epoch:
            return self.view.fault
        return self._fault

    def likeness(self, place: NodePlace) -> Hashable:
        """Equal for nodes with the same ``draft``, ``score`` and ``refusal``; None if comparing is not worth the cost."""
        fleet, view = self._fleet, self.view
        look = view.appearance(place)
        self._seen, self._seen_at, self._state = place, fleet.log_start + len(fleet.log), look[1]
        site, use = place.site, place.use
        if site is None or place.reaches or site.drawing or site.bearing:
            return None
        return self._views, look, use.used, use.shared

    def draft(self, place: NodePlace) -> AnswerDraft | None:
        """How the claims fit on a node; None if they do not. Two calls in a row cost one look-up."""
        fleet = self._fleet
        now = fleet.log_start + len(fleet.log)
        if self._asked is not place or self._asked_at != now:
            view = self.view
            seen = self._seen is place and self._seen_at == now
            self._draft = view.draft(place, self._state if seen else None)
            self._asked, self._asked_at = place, now
        return self._draft

    def write(self, place: NodePlace, claims: Sequence[ResourceClaim]) -> list[AllocationResult] | None:
        """The allocations of these claims on a node; None if they do not fit, or no longer."""
        draft = self.draft(place)
        if draft is None:
            return None
        return draft.write(self._fleet.site(place).devices, place.name, named_shares(claims))

    def score(self, place: NodePlace, sizes: Sizes) -> int:
        """The score of the node, from 0 to 100; 0 if the claims do not fit."""
        draft = self.draft(place)
        if draft is None:
            return 0
        taken = draft.taken()
        known = self._early.get(id(draft))
        if known is None or known[0] is not draft:
            if len(self._early) >= _SHAPE_ANSWERS_KEPT:
                self._early.clear()
            known = self._early[id(draft)] = (draft, early(self.view.demand, taken))
        fleet = self._fleet
        return score(taken, known[1], fleet.site(place), fleet.use(place), sizes)

    def refusal(self, place: NodePlace) -> Status:
        """Why the claims do not fit on a node. Preemption may help only if the devices are in use."""
        view = self.view
        look = view.appearance(place)
        known = self._refusals.get(look)
        if known is None:
            if len(self._refusals) >= _SHAPE_ANSWERS_KEPT:
                self._refusals.clear()
            known = self._refusals[look] = self._explain(view, place)
        return known

    def _explain(self, view: DemandView, place: NodePlace) -> Status:
        words, problem = view.refusal(place), view.problem(place)
        if words:
            in_use = problem is not None and anything_in_use(problem)
            return self._status(unjudged(words), by_use=in_use)
        if problem is None:
            return self._status(GENERIC, by_use=True)
        found = refusal(problem)
        return self._status(found.words, by_use=found.by_use, lasting=found.lasting)

    def _status(self, words: str, *, by_use: bool, lasting: bool = False) -> Status:
        return Status(
            StatusCode.UNSCHEDULABLE if by_use else StatusCode.UNRESOLVABLE, self._plugin, words, lasting
        )
