"""Requests for all devices that nothing can serve, whatever is chosen for the others.

All devices of such a request are given: so if one of them is in use, tainted, too small, or draws more than is left, the request
fails before anything else is chosen, and what others take makes it no better. A search would find that out anew behind every
choice for the requests before it.

Whether it *fails* is not enough: it must never raise instead, and neither may a request before it, since errors surface in
the order of the search. So a request counts only if nothing up to it can raise: no expression, no value of a constraint, no
request for all devices that could break a constraint. The request itself may have constraints if they are its own up to there:
then its devices meet them in one state only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.allocator.constraint import FREE

if TYPE_CHECKING:
    from allotment.allocator.counters import Draw
    from allotment.allocator.problem import Problem
    from allotment.allocator.request import Ask, Request


def unservable(problem: Problem) -> bool:
    """Whether the search must fail, without an error, at a request for all devices. Nothing may be chosen yet."""
    for number, request in enumerate(problem.demand.requests):
        if any(_raises(problem, ask) for ask in request.asks):
            return False
        if all(ask.all and _fails(problem, number, ask) for ask in request.asks):
            return True
        if any(ask.all and ask.constraints for ask in request.asks):
            return False
    return False


def _raises(problem: Problem, ask: Ask) -> bool:
    """Whether asking about some device has an error for an answer."""
    suits = problem.suits[ask.shape]
    suits.judge_all()
    return bool(suits.errors) or any(values.errors for values in problem.terms.values.get(ask, ()))


def _fails(problem: Problem, number: int, ask: Ask) -> bool:
    request = problem.demand.requests[number]
    before = problem.demand.requests[:number]
    if any(_shared(ask, other) for other in before if other.claim == request.claim):
        return False
    positions = problem.terms.all[ask]
    return not positions or _fails_at_one(problem, request, ask, positions)


def _shared(ask: Ask, request: Request) -> bool:
    return any(not set(ask.constraints).isdisjoint(other.constraints) for other in request.asks)


def _fails_at_one(problem: Problem, request: Request, ask: Ask, positions: list[int]) -> bool:
    """The devices one after the other, each asked in the search's order: free, drawn, constrained, large enough."""
    suits, counters = problem.suits[ask.shape], problem.counters
    relations = problem.terms.constraints[request.claim]
    states = dict.fromkeys(ask.constraints, FREE)
    drawn: list[tuple[Draw, list[tuple[int, int]]]] = []
    try:
        for position in positions:
            bit = 1 << position
            if (problem.used & bit and not ask.admin) or not suits.allowed & bit:
                return True
            draw = problem.draws.get(position)
            if draw is not None and counters is not None and not problem.shareable & problem.shared & bit:
                before = counters.take(draw)
                if before is None:
                    return True
                drawn.append((draw, before))
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
