"""Requests that nothing can serve, whatever is chosen for the others.

All devices of a request for all are given: so if one of them is in use, tainted, too small, or draws more than is left, the request
fails before anything else is chosen, and what others take makes it no better. Likewise one for more devices than there are. A
search would find that out anew behind every choice for the requests before it.

Whether it *fails* is not enough: it must never raise instead, since errors surface in the order of the search. It cannot where no
expression and no value of a constraint has an error, no claim gets more devices than it can hold, and no request for all devices
breaks a constraint. The last is certain where all that may be chosen up to there could meet the constraint together.

Nor may a request before it raise: those that could are searched as always, up to the last of them. What comes after that one, as far
as the request that fails, need not be entered, whatever was chosen before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.allocator.constraint import FREE
from allotment.allocator.request import RESULTS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allotment.allocator.counters import Draw
    from allotment.allocator.problem import Problem
    from allotment.allocator.request import Ask, RequestDemand


def calm_requests(problem: Problem) -> int:
    """How many requests, from the first on, can be searched without an error, whatever is chosen."""
    for number, quiet in enumerate(_quiet(problem)):
        if not quiet or _breaks(problem, number):
            return number
    return len(problem.demand.requests)


def unservable(problem: Problem) -> range:
    """Requests, one after the other, behind which there is no answer and no error, whatever was chosen before them; empty: none are
    known. Nothing may be chosen yet."""
    first = 0  # after the last request that could raise
    for number, quiet in enumerate(_quiet(problem)):
        if quiet and all(_fails(problem, number, ask) for ask in problem.demand.requests[number].asks):
            return range(first, number + 1)
        if not quiet or _breaks(problem, number):
            first = number + 1
    return range(0)


def _quiet(problem: Problem) -> Iterator[bool]:
    """Of each request, whether no device raises, and the claim can hold the most that it can get up to here."""
    most = [0] * len(problem.demand.claims)
    for request in problem.demand.requests:
        most[request.claim] += max([problem.terms.size(ask) for ask in request.asks])
        yield most[request.claim] <= RESULTS_MAX and not any(_raises(problem, ask) for ask in request.asks)


def _breaks(problem: Problem, number: int) -> bool:
    """Whether an ask for all devices could break a constraint, which is an error."""
    return any(ask.all and _may_break(problem, number, ask) for ask in problem.demand.requests[number].asks)


def _may_break(problem: Problem, number: int, ask: Ask) -> bool:
    """Whether some choice for the requests before leaves an ask's devices in breach of a constraint. Surely not if all that could be
    chosen meets it together: any part of that does so too, in any order."""
    claim = problem.demand.requests[number].claim
    before = [other for other in problem.demand.requests[:number] if other.claim == claim]
    for index in ask.constraints:
        state = FREE
        for other in (*(each for request in before for each in request.asks), ask):
            joined = _join(problem, claim, index, other, state) if index in other.constraints else state
            if joined is None:
                return True
            state = joined
    return False


def _join(problem: Problem, claim: int, index: int, ask: Ask, state: int) -> int | None:
    """A constraint's state once it has all devices that an ask could get; None if they do not meet it together."""
    constraint = problem.terms.constraints[claim][index]
    values = problem.terms.values[ask][ask.constraints.index(index)]
    for position in problem.terms.all[ask] if ask.all else _positions(_suited(problem, ask)):
        if not constraint.allowed(values, state) >> position & 1:
            return None
        state = constraint.joined(values, position, state)
    return state


def _positions(devices: int) -> Iterator[int]:
    while devices:
        lowest = devices & -devices
        devices ^= lowest
        yield lowest.bit_length() - 1


def _raises(problem: Problem, ask: Ask) -> bool:
    """Whether asking about some device has an error for an answer. What is in use is not asked about."""
    suits, free = problem.suits[ask.shape], _free(problem, ask)
    suits.judge_all()
    if any(free >> position & 1 for position in suits.errors):
        return True
    suited = _suited(problem, ask)
    tables = problem.terms.values.get(ask, ())
    return any(suited >> position & 1 for values in tables for position in values.errors)


def _suited(problem: Problem, ask: Ask) -> int:
    """The devices that an ask could get, by themselves."""
    suits = problem.suits[ask.shape]
    return _free(problem, ask) & suits.selectable & suits.allowed


def _free(problem: Problem, ask: Ask) -> int:
    everything = (1 << len(problem.devices)) - 1
    return everything if ask.admin else everything & ~problem.used


def _fails(problem: Problem, number: int, ask: Ask) -> bool:
    if not ask.all:
        return _suited(problem, ask).bit_count() < ask.count
    request = problem.demand.requests[number]
    before = [other for other in problem.demand.requests[:number] if other.claim == request.claim]
    shared = any(_share(ask, other) for other in before)
    positions = problem.terms.all[ask]
    return not positions or _fails_at_one(problem, number, ask, shared=shared)


def _share(ask: Ask, request: RequestDemand) -> bool:
    return any(not set(ask.constraints).isdisjoint(other.constraints) for other in request.asks)


def _fails_at_one(problem: Problem, number: int, ask: Ask, *, shared: bool) -> bool:
    """The devices one after the other, each asked in the search's order: free, drawn, constrained, large enough. With ``shared``
    constraints that others might break, only as far as these have no say."""
    suits, counters = problem.suits[ask.shape], problem.counters
    relations = problem.terms.constraints[problem.demand.requests[number].claim]
    breakable = shared and _may_break(problem, number, ask)
    states = dict.fromkeys(ask.constraints, FREE)
    drawn: list[tuple[Draw, list[tuple[int, int]]]] = []
    try:
        for position in problem.terms.all[ask]:
            bit = 1 << position
            if (problem.used & bit and not ask.admin) or not suits.allowed & bit:
                return True
            draw = problem.draws.get(position)
            if draw is not None and counters is not None and not problem.shareable & problem.shared & bit:
                before = counters.take(draw)
                if before is None:
                    return True
                drawn.append((draw, before))
            if breakable:
                return False
            for index, values in zip(ask.constraints, problem.terms.values.get(ask, ()), strict=True):
                if shared:
                    break  # nobody can break it
                if not relations[index].allowed(values, states[index]) & bit:
                    return False  # which is an error
                states[index] = relations[index].joined(values, position, states[index])
            if problem.metered & bit and _too_small(problem, ask, position):
                return True
        return False
    finally:
        for draw, before in reversed(drawn):
            assert counters is not None
            counters.give(draw, before)


def _too_small(problem: Problem, ask: Ask, position: int) -> bool:
    amounts, used = problem.amounts(ask.shape, position), problem.consumed.get(position, {})
    capacity = problem.devices[position].spec.capacity
    return any(
        amounts.get(name, 0) + used.get(name, 0) > offer.value.nanos for name, offer in capacity.items()
    )
