"""Requests that nothing can serve, whatever is chosen for the others.

All devices of a request for all are given: so if one of them is in use, tainted, too small, or draws more than is left, the request
fails before anything else is chosen, and what others take makes it no better. Likewise one for more devices than there are. A
search would find that out anew behind every choice for the requests before it.

Whether it *fails* is not enough: it must never raise instead, and neither may a request before it, since errors surface in
the order of the search. So a request counts only if nothing up to it can raise: no expression, no value of a constraint, no
request for all devices that could break a constraint, no claim that gets more devices than it can hold. The request itself may have
constraints if they are its own up to there: then its devices meet them in one state only. If others share them, it counts only if
its first device cannot be had, before any constraint is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.allocator.constraint import FREE
from allotment.allocator.request import RESULTS_MAX

if TYPE_CHECKING:
    from allotment.allocator.counters import Draw
    from allotment.allocator.problem import Problem
    from allotment.allocator.request import Ask, RequestDemand


def calm_requests(problem: Problem) -> int:
    """How many requests, from the first on, can be searched without an error, whatever is chosen."""
    most = [0] * len(problem.demand.claims)
    for number, request in enumerate(problem.demand.requests):
        if not _calm(problem, request, most) or any(ask.all and ask.constraints for ask in request.asks):
            return number
    return len(problem.demand.requests)


def unservable(problem: Problem) -> bool:
    """Whether the search must fail, without an error, at some request by itself. Nothing may be chosen yet."""
    most = [0] * len(problem.demand.claims)
    for number, request in enumerate(problem.demand.requests):
        if not _calm(problem, request, most):
            return False
        if all(_fails(problem, number, ask) for ask in request.asks):
            return True
        if any(ask.all and ask.constraints for ask in request.asks):
            return False
    return False


def _calm(problem: Problem, request: RequestDemand, most: list[int]) -> bool:
    """Whether no device raises, and the claim can hold the most that it can get up to here."""
    most[request.claim] += max([problem.terms.size(ask) for ask in request.asks])
    return most[request.claim] <= RESULTS_MAX and not any(_raises(problem, ask) for ask in request.asks)


def _raises(problem: Problem, ask: Ask) -> bool:
    """Whether asking about some device has an error for an answer. What is in use is not asked about."""
    suits, free = problem.suits[ask.shape], _free(problem, ask)
    suits.judge_all()
    if any(free >> position & 1 for position in suits.errors):
        return True
    suited = free & suits.selectable & suits.allowed
    tables = problem.terms.values.get(ask, ())
    return any(suited >> position & 1 for values in tables for position in values.errors)


def _free(problem: Problem, ask: Ask) -> int:
    everything = (1 << len(problem.devices)) - 1
    return everything if ask.admin else everything & ~problem.used


def _fails(problem: Problem, number: int, ask: Ask) -> bool:
    if not ask.all:
        suits = problem.suits[ask.shape]
        return (_free(problem, ask) & suits.selectable & suits.allowed).bit_count() < ask.count
    request = problem.demand.requests[number]
    before = [other for other in problem.demand.requests[:number] if other.claim == request.claim]
    shared = any(_share(ask, other) for other in before)
    positions = problem.terms.all[ask]
    return not positions or _fails_at_one(problem, request, ask, shared)


def _share(ask: Ask, request: RequestDemand) -> bool:
    return any(not set(ask.constraints).isdisjoint(other.constraints) for other in request.asks)


def _fails_at_one(problem: Problem, request: RequestDemand, ask: Ask, shared: bool) -> bool:
    """The devices one after the other, each asked in the search's order: free, drawn, constrained, large enough. With ``shared``
    constraints, only as far as these have no say."""
    suits, counters = problem.suits[ask.shape], problem.counters
    relations = problem.terms.constraints[request.claim]
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
            if shared:
                return False
            for index, values in zip(ask.constraints, problem.terms.values.get(ask, ()), strict=True):
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
