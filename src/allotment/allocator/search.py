"""The search: first fit in upstream's order, without upstream's wasted work.

It tries claims, requests and devices in order, depth first; the first complete choice is the answer. That order is
observable (it decides which devices a claim gets), so we keep it exactly. We avoid work that cannot change the answer:

* *Constraints are masks.* A device that breaks a constraint is not a candidate in the first place.
* *Counting.* A request with fewer candidates left than it needs is given up at once, and so is a demand whose
  remaining requests cannot all be matched to different devices.
* *Foregone.* A request that fails by itself fails behind every choice for the others; what comes right before it need not be tried
  unless it could be an error (``foregone``).
* *Symmetry.* Devices that no ask can tell apart are one class. If one of them led nowhere, neither will its like.
* *Dead ends are remembered*, up to symmetry.

All but the first begin only when the search turns back, since most searches never do. Counting at every step and caching
begin only after it has turned back several times, since they cost more than a few wrong turns.

Errors are lazy. An expression that fails on a device is an error only if the search reaches that device while it is free.
Counting would skip such expressions, so it is not used when any could fail; symmetry and caching only ever skip what was
already fully explored without an error.

The search is iterative: its depth is bounded by the devices of the claims, not by Python's stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from allotment.allocator.bounds import Bounds
from allotment.allocator.constraint import FREE
from allotment.allocator.errors import ClaimError
from allotment.allocator.foregone import calm_requests, unservable
from allotment.allocator.matching import Shortage
from allotment.allocator.request import RESULTS_MAX
from allotment.allocator.symmetry import device_classes

if TYPE_CHECKING:
    from allotment.allocator.problem import Problem
    from allotment.allocator.request import Ask
    from allotment.allocator.suits import Suitability

DEFAULT_BUDGET = 500_000
"""Steps before the search gives up and says so. A step is one device tried or one request entered."""

_DEAD_ENDS_REMEMBERED = 100_000
"""The most dead ends that are cached."""

_PATIENT_TURNS = 16
"""How often the search turns back before it counts at every step, which many searches never need."""


class SearchEnd(Enum):
    """How a search ended."""

    FOUND = "found"
    IMPOSSIBLE = "impossible"
    GAVE_UP = "gave up"


@dataclass(slots=True)
class DeviceChoice:
    """One device for one ask."""

    request: int  # index in the demand
    ask: Ask
    position: int


@dataclass(slots=True)
class Answer:
    """The result of a search.

    If FOUND, the choices in order, and the ask that they serve for each request. If IMPOSSIBLE, a shortage proves it, or
    else the search was exhaustive.
    """

    verdict: SearchEnd
    steps: int
    choices: list[DeviceChoice] = field(default_factory=list)
    served: list[Ask] = field(default_factory=list)
    shortage: Shortage | None = None


class _Step(Enum):
    DOWN = 0  # continue with the top of the stack
    DEAD = 1  # no choice of devices below works
    TOO_MANY = 2  # the claim would hold more than RESULTS_MAX devices, whichever they are
    DONE = 3


class _Alternatives:
    """A request with alternatives, and the one being tried."""

    __slots__ = ("all_too_many", "next", "request")

    def __init__(self, request: int) -> None:
        self.request = request
        self.next = 0
        self.all_too_many = True


class _Slot:
    """One device of one ask: the candidates left to try, and the changes to undo for the current one."""

    __slots__ = (
        "ask", "before", "candidates", "index", "position", "request", "share", "start", "states", "taken", "taken_by_claim",
    )  # fmt: skip

    def __init__(self, request: int, ask: Ask, index: int, start: int) -> None:
        self.request = request
        self.ask = ask
        self.index = index  # how many devices of the ask come before this one
        self.start = start
        self.position = -1
        self.candidates = 0
        self.before: list[tuple[int, int]] | None = None
        self.share: dict[str, int] | None = None
        self.states: list[tuple[int, int]] = []  # (constraint, its state before)
        self.taken = 0
        self.taken_by_claim = 0


class Search:
    """A single run. Slots save the changing state of the search as ints."""

    def __init__(self, problem: Problem, budget: int = DEFAULT_BUDGET) -> None:
        self.problem = self._problem = problem
        self._requests = problem.demand.requests
        self._budget = budget
        self._steps = 0
        self._step: _Step | None = None  # the next step; None before the start
        self._taken = 0  # whole devices chosen so far
        self._by_claim = [0] * len(problem.demand.claims)  # the same, per claim (for admin access)
        self._count = [0] * len(problem.demand.claims)  # results per claim
        self._shares: dict[int, list[dict[str, int]]] = {}  # position → shares chosen so far
        self._stack: list[_Slot | _Alternatives] = []
        self._everything = (1 << len(problem.devices)) - 1
        self._classes: list[int] | None = None  # per device, its class as a bit set; None until we turn back
        self._dead: set[object] = set()  # states that lead nowhere
        self._states = [
            [FREE] * len(relations) for relations in problem.demand.relations
        ]  # states of the constraints
        self._turns = 0  # how often we turned back
        self._crowded = 0  # the claim that TOO_MANY was last said of
        self._foregone = range(0)  # requests behind which there is nothing, once we turned back
        self._bounds: Bounds | None = None  # once we turn back and know that no error is possible
        self._distinct_classes: list[int] = []
        self._any_admin = any(ask.admin for request in self._requests for ask in request.asks)

    @property
    def steps(self) -> int:
        """The steps taken so far."""
        return self._steps

    def run(self) -> Answer:
        """Runs to the end. Raises AllocationError if the search meets an error."""
        answer = self.go_on(None)
        assert answer is not None, "a search without a limit comes to an end"
        return answer

    def go_on(self, most: int | None) -> Answer | None:
        """Like ``run``, but returns None after about this many steps; the next call continues from there."""
        until = self._budget if most is None else min(self._budget, self._steps + most)
        step = self._enter(0) if self._step is None else self._step
        while step is not _Step.DONE:
            if self._steps > until:
                if self._steps > self._budget:
                    return Answer(SearchEnd.GAVE_UP, self._steps)
                self._step = step
                return None
            if step is _Step.DOWN:
                step = self._advance()
            elif not self._stack:
                return self._impossible(step)
            elif self._classes is None:
                shortage = self._turn_back()
                if shortage is not None:
                    self._unwind()
                    return Answer(SearchEnd.IMPOSSIBLE, self._steps, shortage=shortage)
                if self._problem.terms.all or self._bounds is None:
                    self._unwind()
                    self._foregone = unservable(self._problem)
                    if 0 in self._foregone:
                        return Answer(SearchEnd.IMPOSSIBLE, self._steps)
                    step = self._enter(0)  # down the same way again, as nothing was ruled out yet
            else:
                step = self._back(step)
        choices = [
            DeviceChoice(slot.request, slot.ask, slot.position)
            for slot in self._stack
            if isinstance(slot, _Slot)
        ]
        return Answer(SearchEnd.FOUND, self._steps, choices, self._served())

    def _served(self) -> list[Ask]:
        """For each request the ask that was served. A request for no devices has no slot to show it."""
        served = [request.asks[0] for request in self._requests]
        for top in self._stack:
            if isinstance(top, _Alternatives):
                served[top.request] = self._requests[top.request].asks[top.next - 1]
        return served

    def _impossible(self, step: _Step) -> Answer:
        if step is _Step.TOO_MANY and self._crowded == 0:
            raise ClaimError(f"allocation max size exceeded: a claim can hold {RESULTS_MAX} devices at most")
        return Answer(SearchEnd.IMPOSSIBLE, self._steps)

    def _turn_back(self) -> Shortage | None:
        """Prepares for a longer search after the first failure, and tries to prove that it can never succeed."""
        self._classes = device_classes(self._problem)
        self._distinct_classes = list(dict.fromkeys(self._classes))
        calm = calm_requests(self._problem)
        wholly = calm == len(self._requests)
        bounds = Bounds(self._problem, alls=wholly)
        if wholly or not self._problem.terms.may_fail():
            self._bounds = bounds
        return bounds.shortage(calm if self._bounds is None else len(self._requests))

    # --- going down ---

    def _enter(self, number: int) -> _Step:
        """Starts on request ``number``, or the first after it that wants devices; past the last one, all is done."""
        for request in self._requests[number:]:
            if number in self._foregone:
                return _Step.DEAD
            self._steps += 1
            if request.alternatives:
                self._stack.append(_Alternatives(number))
                return _Step.DOWN
            ask = request.asks[0]
            if ask.all or ask.count > 0:
                return self._open(number, ask, 0, 0)
            number += 1
        return _Step.DONE

    def _open(self, number: int, ask: Ask, index: int, start: int) -> _Step:
        """Opens the slot for device ``index`` of an ask, or goes on to the next request if it has all."""
        problem = self._problem
        if ask.all and not problem.terms.all[ask]:
            return _Step.DEAD
        missing = problem.terms.size(ask) - index
        if missing <= 0:
            return self._enter(number + 1)
        claim = self._requests[number].claim
        if missing > RESULTS_MAX - self._count[claim]:
            self._crowded = claim
            return _Step.TOO_MANY
        slot = _Slot(number, ask, index, start)
        if not ask.all:
            if self._dead and self._key(slot) in self._dead:
                return _Step.DEAD
            self._find_candidates(slot, claim)
            if self._bounds is not None:
                if slot.candidates.bit_count() < missing:
                    return _Step.DEAD
                if self._turns > _PATIENT_TURNS and self._bounds.hopeless(
                    number, ask, missing, slot.candidates, self._taken, self._states
                ):
                    self._remember(slot)
                    return _Step.DEAD
        self._stack.append(slot)
        return _Step.DOWN

    def _find_candidates(self, slot: _Slot, claim: int) -> None:
        """All devices from ``start`` on that are free, suit and break no constraint; and those that raise an error."""
        problem, ask = self._problem, slot.ask
        free = self._everything & ~(self._by_claim[claim] if ask.admin else problem.used | self._taken)
        free = free >> slot.start << slot.start
        suits = problem.suits[ask.shape]
        if not ask.constraints:
            slot.candidates = free & suits.possible
            return
        # Expressions come before constraints, so a device raises its error even if a constraint forbids it.
        suits.judge_all()
        suited = free & suits.selectable & suits.allowed
        slot.candidates = problem.terms.related(ask, claim, suited, self._states[claim])
        for position in suits.errors:
            slot.candidates |= free & 1 << position

    # --- trying devices ---

    def _advance(self) -> _Step:
        """Moves on from the top of the stack: its next alternative, or its next device."""
        top = self._stack[-1]
        if isinstance(top, _Alternatives):
            return self._next_alternative(top)
        return self._all_device(top) if top.ask.all else self._next_device(top)

    def _next_alternative(self, top: _Alternatives) -> _Step:
        asks = self._requests[top.request].asks
        if top.next == len(asks):
            self._stack.pop()
            return _Step.TOO_MANY if top.all_too_many else _Step.DEAD
        self._steps += 1
        ask = asks[top.next]
        top.next += 1
        return self._open(top.request, ask, 0, 0)

    def _next_device(self, slot: _Slot) -> _Step:
        problem, ask = self._problem, slot.ask
        suits = problem.suits[ask.shape]
        while slot.candidates:
            self._steps += 1
            lowest = slot.candidates & -slot.candidates
            slot.candidates ^= lowest
            position = lowest.bit_length() - 1
            if suits.judge(position) and self._take(slot, position, suits):
                return self._open(slot.request, ask, slot.index + 1, position + 1)
            self._skip_class(slot, position)
        self._stack.pop()
        if self._turns > _PATIENT_TURNS:
            self._remember(slot)
        return _Step.DEAD

    def _all_device(self, slot: _Slot) -> _Step:
        """The only device that a slot of an ask for all can have."""
        problem, ask = self._problem, slot.ask
        if slot.position >= 0:  # it was tried
            self._stack.pop()
            return _Step.DEAD
        self._steps += 1
        claim = self._requests[slot.request].claim
        position = problem.terms.all[ask][slot.index]
        suits = problem.suits[ask.shape]
        bit = 1 << position
        in_use = self._by_claim[claim] if ask.admin else problem.used | self._taken
        if in_use & bit or not suits.allowed & bit or not self._take(slot, position, suits):
            self._stack.pop()
            return _Step.DEAD
        return self._open(slot.request, ask, slot.index + 1, 0)

    def _take(self, slot: _Slot, position: int, suits: Suitability) -> bool:
        """Chooses a device for a slot if counters and capacity have enough. False leaves no trace.

        Upstream looks at an ask for all devices in another order, which shows where a constraint raises.
        """
        problem, ask = self._problem, slot.ask
        bit = 1 << position
        shareable = problem.shareable & bit
        amounts = None
        if problem.metered & bit:
            amounts = problem.amounts(ask.shape, position)
            if not ask.all and not self._enough(position, amounts):
                return False
        draw = problem.draws.get(position)
        slot.before = None
        if draw is not None and not (shareable and (problem.shared & bit or position in self._shares)):
            assert problem.counters is not None
            slot.before = problem.counters.take(draw)
            if slot.before is None:
                return False
        self._constrain(slot, position)
        if ask.all and amounts is not None and not self._enough(position, amounts):
            self._unconstrain(slot)
            self._undraw(slot, position)
            return False
        self._record(slot, position, amounts if shareable else None)
        return True

    def _record(self, slot: _Slot, position: int, share: dict[str, int] | None) -> None:
        claim = self._requests[slot.request].claim
        slot.position, slot.share = position, share
        slot.taken, slot.taken_by_claim = self._taken, self._by_claim[claim]
        if share is not None:
            self._shares.setdefault(position, []).append(share)
        else:
            self._taken |= 1 << position
            self._by_claim[claim] |= 1 << position
        self._count[claim] += 1

    def _enough(self, position: int, amounts: dict[str, int]) -> bool:
        problem = self._problem
        used = problem.consumed.get(position, {})
        shares = self._shares.get(position, ())
        for name, offer in problem.devices[position].spec.capacity.items():
            total = amounts.get(name, 0) + used.get(name, 0) + sum(share.get(name, 0) for share in shares)
            if total > offer.value.nanos:
                return False
        return True

    def _undraw(self, slot: _Slot, position: int) -> None:
        if slot.before is not None and self._problem.counters is not None:
            self._problem.counters.give(self._problem.draws[position], slot.before)
            slot.before = None

    def _constrain(self, slot: _Slot, position: int) -> None:
        """Updates the constraints for a device. Raises if a value cannot be computed, or an ask for all breaks one."""
        ask, problem = slot.ask, self._problem
        request = self._requests[slot.request]
        slot.states = []
        if not ask.constraints:
            return
        states = self._states[request.claim]
        for number, values in zip(ask.constraints, problem.terms.values[ask], strict=True):
            constraint = problem.terms.constraints[request.claim][number]
            if position in values.errors:
                raise values.errors[position]
            state = states[number]
            if ask.all and not constraint.allowed(values, state) >> position & 1:
                raise ClaimError(
                    f"claim {problem.demand.claims[request.claim].metadata.name}, request {ask.name}: cannot add device "
                    f"{problem.devices[position].id} because a claim constraint would not be satisfied"
                )
            slot.states.append((number, state))
            states[number] = constraint.joined(values, position, state)

    def _unconstrain(self, slot: _Slot) -> None:
        states = self._states[self._requests[slot.request].claim]
        for number, state in slot.states:
            states[number] = state

    # --- turning back ---

    def _back(self, step: _Step) -> _Step:
        """How the top of the stack reacts to a failure below it.

        TOO_MANY holds for any devices of the same claim, so only another alternative can help. Beyond the claim it
        is like any other failure: another choice there may open other alternatives here.
        """
        top = self._stack[-1]
        self._turns += 1
        if self._requests[top.request].claim != self._crowded:
            step = _Step.DEAD
        if isinstance(top, _Alternatives):
            if step is _Step.DEAD:
                top.all_too_many = False
            return _Step.DOWN  # continue with the next alternative
        self._untake(top)
        if top.ask.all or step is _Step.TOO_MANY:
            self._stack.pop()
            return step
        self._skip_class(top, top.position)
        return _Step.DOWN  # continue with the next device

    def _untake(self, slot: _Slot) -> None:
        claim = self._requests[slot.request].claim
        self._count[claim] -= 1
        if slot.share is not None:
            shares = self._shares[slot.position]
            shares.pop()
            if not shares:
                del self._shares[slot.position]
        self._taken, self._by_claim[claim] = slot.taken, slot.taken_by_claim
        self._unconstrain(slot)
        self._undraw(slot, slot.position)

    def _unwind(self) -> None:
        """Undoes all choices, so that reasons depend on what is in use and not on what was being tried."""
        while self._stack:
            top = self._stack.pop()
            if isinstance(top, _Slot):
                self._untake(top)

    # --- avoiding useless attempts ---

    def _skip_class(self, slot: _Slot, position: int) -> None:
        """Skips the untouched equals of a device that led nowhere.

        (A shared device from which this search took a share is no longer equal to its class.)
        """
        if self._classes is None:
            return
        if position in self._shares or self._taken >> position & 1:
            return
        alike = self._classes[position]
        if alike & (alike - 1):
            for touched in self._shares:
                alike &= ~(1 << touched)
            slot.candidates &= ~alike | self._taken

    def _remember(self, slot: _Slot) -> None:
        """Records that nothing works from here on."""
        if len(self._dead) >= _DEAD_ENDS_REMEMBERED:
            self._dead.clear()
        self._dead.add(self._key(slot))

    def _key(self, slot: _Slot) -> object:
        """The state of the search at a slot, up to exchange of equal devices."""
        if self._classes is None:
            return None
        claim = self._requests[slot.request].claim
        states = tuple([tuple(states) for states in self._states])
        if self._any_admin:
            taken: object = (self._taken, tuple(self._by_claim))
        else:
            before = (1 << slot.start) - 1
            taken = tuple(
                ((members & self._taken & before).bit_count(), (members & self._taken & ~before).bit_count())
                for members in self._distinct_classes
            )
        shares = (
            tuple(
                sorted(
                    (
                        self._classes[position],
                        position < slot.start,
                        tuple(tuple(sorted(share.items())) for share in held),
                    )
                    for position, held in self._shares.items()
                )
            )
            if self._shares
            else ()
        )
        return slot.request, id(slot.ask), slot.index, slot.start, self._count[claim], taken, states, shares
