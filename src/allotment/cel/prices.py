"""The default costs of calls, for libraries that set none.

Most functions cost 1. Those that look through text or lists cost by size, and their sizes tell the static
worst case as well. Both halves must agree with upstream to the unit: the static one decides what is admitted,
the other when an evaluation is stopped. Everything is keyed by overload id, as upstream does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import TypeAlias

from allotment.cel.declare import Function, Overload
from allotment.cel.errors import CelRuntimeError
from allotment.cel.estimate import REGEX_LENGTH, STRING_TRAVERSAL
from allotment.cel.values import Optional, Value, size_of

CallCost: TypeAlias = Callable[[Sequence[Value], Value], int]


def size(value: Value) -> int:
    """As :func:`size_of`; an error counts 1 and an optional as what it holds."""
    if type(value) is Optional and value.present:
        return size(value.value)
    return 1 if isinstance(value, CelRuntimeError) else size_of(value)


def _second(args: Sequence[Value], result: Value) -> int:
    return ceil(size(args[1]) * STRING_TRAVERSAL)


def _first(args: Sequence[Value], result: Value) -> int:
    return ceil(size(args[0]) * STRING_TRAVERSAL)


def _entries(args: Sequence[Value], result: Value) -> int:
    return size(args[1])


def smaller(args: Sequence[Value], result: Value) -> int:
    return ceil(min(size(args[0]), size(args[1])) * STRING_TRAVERSAL)


def _both(args: Sequence[Value], result: Value) -> int:
    return ceil((size(args[0]) + size(args[1])) * STRING_TRAVERSAL)


def _pattern(args: Sequence[Value], result: Value) -> int:
    return ceil((1.0 + size(args[0])) * STRING_TRAVERSAL) * ceil(size(args[1]) * REGEX_LENGTH)


def _search(args: Sequence[Value], result: Value) -> int:
    return ceil(size(args[0]) * STRING_TRAVERSAL) * ceil(size(args[1]) * STRING_TRAVERSAL)


COMPARED = frozenset(
    [
        f"{order}_{kind}"
        for order in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    ]
    + ["equals", "not_equals"]
)
"""Overloads that look at both operands until they differ."""

_BY_OVERLOAD: dict[str, CallCost] = {
    "starts_with_string": _second,
    "ends_with_string": _second,
    "string_to_bytes": _first,
    "bytes_to_string": _first,
    "strings_quote": _first,
    "string_format": _first,
    "in_list": _entries,
    "add_string": _both,
    "add_bytes": _both,
    "matches": _pattern,
    "matches_string": _pattern,
    "contains_string": _search,
    **dict.fromkeys(COMPARED, smaller),
}
_PROBES: tuple[Value, ...] = ("", "x" * 1000, [], ["x"] * 1000)


def call_cost(function: Function, overload_id: str, overloads: Sequence[Overload]) -> CallCost | int:
    """The price of a call, as a number where it is always the same.

    An overload's own price comes first, then the function's, then the general table.
    """
    own = next((o.runtime_cost for o in overloads if o.id == overload_id), None)
    named = function.runtime_cost
    general: CallCost | int = _BY_OVERLOAD.get(overload_id, 1)
    if own is None and named is None:
        return general
    if own is None and named is not None:
        fixed = _fixed(function, overload_id)
        if fixed is not None:
            return fixed

    def price(args: Sequence[Value], result: Value) -> int:
        cost = own(args, result) if own is not None else None
        if cost is None and named is not None:
            cost = named(overload_id, args, result)
        if cost is None:
            cost = general if isinstance(general, int) else general(args, result)
        return cost

    return price


def _fixed(function: Function, overload_id: str) -> int | None:
    """The price, if it is the same for nothing and for a thousand of anything."""
    assert function.runtime_cost is not None
    arity = max((len(o.params) for o in function.overloads), default=0)
    prices = {function.runtime_cost(overload_id, [probe] * arity, probe) for probe in _PROBES}
    return prices.pop() if len(prices) == 1 else None
