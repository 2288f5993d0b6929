"""Kubernetes' own price for ``==``: values of its types cost one to compare, whatever their size."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.cel import types
from allotment.cel.declare import Function, Library
from allotment.cel.estimate import ONE, STRING_TRAVERSAL, CallEstimate, Node, Range, Sizes
from allotment.cel.library import standard
from allotment.cel.values import Value, type_name

_LONGEST_FORMAT = 64
_UNIT_TYPES = frozenset({types.QUANTITY, types.SEMVER, types.IP, types.CIDR})
_UNIT_NAMES = frozenset(t.name for t in (*_UNIT_TYPES, types.FORMAT, types.URL))


def _estimate(sizes: Sizes, overload: str, target: Node | None, args: Sequence[Node]) -> CallEstimate | None:
    if len(args) != 2 or args[0].type != args[1].type:
        return None
    type_ = args[0].type
    if type_ in _UNIT_TYPES:
        return CallEstimate(ONE)
    if type_ == types.FORMAT:
        return CallEstimate(Range(1, _LONGEST_FORMAT).times(STRING_TRAVERSAL))
    if type_ == types.URL:
        known = args[1].computed
        return CallEstimate(Range(1, 1 if known is None else known.max).times(STRING_TRAVERSAL))
    return None


def _cost(overload: str, args: Sequence[Value], result: Value) -> int | None:
    kind = type(args[0])
    if kind is str or kind is int or kind is list or kind is dict:
        return None
    return 1 if type_name(args[0]) in _UNIT_NAMES else None


_EQUALS = next(f for f in standard.LIBRARY.functions if f.name == "_==_")

LIBRARY = Library(
    "kubernetes.equality",
    functions=(Function("_==_", _EQUALS.overloads, estimate=_estimate, runtime_cost=_cost),),
)
