"""The meaning of ``==`` in Kubernetes.

Comparing values of its types costs one, whatever their size. It also has a bug that expressions can observe: a computed
quantity (``a.add(b)``) cannot stand on the right of ``==``. Expressions that fail there must fail here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from allotment.api.quantity import Quantity
from allotment.cel import types
from allotment.cel.declare import Function, Library, Overload
from allotment.cel.errors import CelNoSuchOverload
from allotment.cel.estimate import (
    ONE,
    STRING_TRAVERSAL,
    ArgumentSizes,
    CallEstimate,
    EstimatedArgument,
    Range,
)
from allotment.cel.library import quantity
from allotment.cel.values import Value, equals, type_name

_LONGEST_FORMAT = 64
_UNIT_TYPES = frozenset({types.QUANTITY, types.SEMVER, types.IP, types.CIDR})
_UNIT_NAMES = frozenset(t.name for t in (*_UNIT_TYPES, types.FORMAT, types.URL))


def _estimate(
    sizes: ArgumentSizes, overload: str, target: EstimatedArgument | None, args: Sequence[EstimatedArgument]
) -> CallEstimate | None:
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


class Computed(Quantity):
    """A quantity that ``add`` or ``sub`` made."""

    __slots__ = ()
    cel_type: ClassVar = types.QUANTITY


def _computed(impl: Callable[..., Quantity]) -> Callable[..., Computed]:
    return lambda *args: Computed(*impl(*args).__reduce__()[1])


def _equals(left: Value, right: Value) -> bool:
    if type(right) is Computed and isinstance(left, Quantity):
        raise CelNoSuchOverload
    if type(left) is Computed and type(right) is Quantity:
        return bool(left == right)
    return equals(left, right)


def _not_equals(left: Value, right: Value) -> bool:
    try:
        return not _equals(left, right)
    except CelNoSuchOverload:
        return True


def _arithmetic() -> Iterator[Function]:
    for function in quantity.LIBRARY.functions:
        if function.name in ("add", "sub"):
            overloads = tuple(
                replace(o, impl=_computed(o.impl)) for o in function.overloads if o.impl is not None
            )
            yield replace(function, overloads=overloads)


_A = types.param("A")

LIBRARY = Library(
    "kubernetes.equality",
    functions=(
        Function(
            "_==_",
            (Overload("equals", (_A, _A), types.BOOL, _equals),),
            estimate=_estimate,
            runtime_cost=_cost,
        ),
        Function("_!=_", (Overload("not_equals", (_A, _A), types.BOOL, _not_equals),)),
        *_arithmetic(),
    ),
)
