"""Finds devices that no ask can distinguish. If one of them led nowhere in a search, so will the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.allocator.constraint import AttributeValues, Constraint
    from allotment.allocator.problem import Problem


def device_classes(problem: Problem) -> list[int]:
    """For each device the bit set of its equals, including itself. All devices must have been judged.

    An ask for all devices goes through them in a fixed order, and a constraint that they break is an error: there the
    order distinguishes equals, so each device is a class of its own.
    """
    terms = problem.terms
    terms.may_fail()  # judges all devices
    positions = range(len(problem.devices))
    if any(ask.constraints for ask in terms.all):
        return [1 << position for position in positions]
    requests = problem.demand.requests
    admin = any(ask.admin for request in requests for ask in request.asks)
    tables = {
        id(values): (terms.constraints[request.claim][number], values)
        for request in requests
        for ask in request.asks
        for number, values in zip(ask.constraints, terms.values.get(ask, ()), strict=True)
    }
    signatures = [_signature(problem, position, admin, tables.values()) for position in positions]
    members: dict[object, int] = {}
    for position, signature in enumerate(signatures):
        members[signature] = members.get(signature, 0) | 1 << position
    return [members[signature] for signature in signatures]


def _signature(
    problem: Problem, position: int, admin: bool, tables: Iterable[tuple[Constraint, AttributeValues]]
) -> object:
    """Everything that the search can see of a device."""
    bit = 1 << position
    in_use = bool(problem.used & bit)
    suited = [(bool(s.selectable & bit), bool(s.allowed & bit), position in s.errors) for s in problem.suits]
    if (in_use and not admin) or not any(selectable or error for selectable, _, error in suited):
        return in_use  # never a candidate; all such devices are alike
    parts: list[object] = [in_use, bool(problem.shareable & bit), bool(problem.shared & bit), tuple(suited)]
    if problem.metered & bit:
        shapes = range(len(problem.suits))
        parts += [tuple(sorted(problem.amounts(shape, position).items())) for shape in shapes]
        capacity = problem.devices[position].spec.capacity
        parts.append(tuple(sorted((name, offer.value.nanos) for name, offer in capacity.items())))
        parts.append(tuple(sorted(problem.consumed.get(position, {}).items())))
    draw = problem.draws.get(position)
    if draw is not None:
        parts.append(draw.signature())
    own: dict[tuple[int, int], int] = {}
    for constraint, values in tables:
        parts.append((bool(values.present & bit), bool(values.unknown & bit), position in values.errors))
        common, alone = _parted(constraint, values.held[position], bit)
        parts.append(common)
        if problem.shareable & bit:
            parts += [own.setdefault((id(constraint), number), len(own)) for number in alone]
    return tuple(parts)


def _parted(constraint: Constraint, held: int, bit: int) -> tuple[int, list[int]]:
    """Those of a device's values that another device has too, as a bit set; and those that no other has.

    The latter are interchangeable, as long as equal ones stay equal: derived for one request, a value may equal the
    one published for another, and a shared device may serve both. So a shared device's own are numbered anew.
    """
    common, alone = 0, []
    while held:
        lowest = held & -held
        held ^= lowest
        number = lowest.bit_length() - 1
        if constraint.holders[number] != bit:
            common |= lowest
        else:
            alone.append(number)
    return common, alone
