"""The sets extension of cel-go: lists treated as sets."""

from collections.abc import Callable, Sequence

from allotment.cel.declare import Estimate, Function, Library, Overload, RuntimeCost
from allotment.cel.estimate import ONE, ArgumentSizes, CallEstimate, EstimatedArgument
from allotment.cel.library.identity import Identities
from allotment.cel.library.pricing import Nodes, Values
from allotment.cel.types import BOOL, list_of, param
from allotment.cel.values import Value, size_of


def contains(items: Sequence[Value], part: Sequence[Value]) -> bool:
    """Whether every element of ``part`` is in ``items``."""
    identities = Identities()
    whole = set(map(identities.of, items))
    return all(identities.of(item) in whole for item in part)


def equivalent(left: Sequence[Value], right: Sequence[Value]) -> bool:
    """Whether each contains the other, however often and in whatever order."""
    return contains(left, right) and contains(right, left)


def intersects(left: Sequence[Value], right: Sequence[Value]) -> bool:
    identities = Identities()
    return not set(map(identities.of, left)).isdisjoint(map(identities.of, right))


def _estimate(factor: float) -> Estimate:
    def estimate(sizes: ArgumentSizes, target: EstimatedArgument | None, args: Nodes) -> CallEstimate | None:
        return CallEstimate((sizes.of(args[0]) * sizes.of(args[1])).times(factor) + ONE)

    return estimate


def _cost(factor: int) -> RuntimeCost:
    def cost(args: Values, result: Value) -> int:
        return 1 + size_of(args[0]) * size_of(args[1]) * factor

    return cost


_T = list_of(param("T"))


def _function(name: str, impl: Callable[..., bool], factor: int) -> Function:
    overload = Overload(
        f"list_sets_{name}_list",
        (_T, _T),
        BOOL,
        impl,
        estimate=_estimate(factor),
        runtime_cost=_cost(factor),
    )
    return Function(f"sets.{name}", (overload,))


LIBRARY = Library(
    "sets",
    (
        _function("contains", contains, 1),
        _function("equivalent", equivalent, 2),
        _function("intersects", intersects, 1),
    ),
)
