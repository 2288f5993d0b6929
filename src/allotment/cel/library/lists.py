"""Kubernetes' list functions: order, sums, extremes, positions, and ``includes``.

``includes`` also takes a single value, so that an attribute may be asked alike whether it is a list or not. It
came in 1.37, so an environment may want it apart: it is a library of its own.

Elements that have no order with each other do not stop ``min`` and ``max``: they are passed over, as upstream
does. What has no order at all (a list, null) is an error.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from allotment.cel.declare import Library, Overload
from allotment.cel.errors import CelNoSuchOverload, CelRuntimeError
from allotment.cel.library.pricing import priced
from allotment.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    param,
)
from allotment.cel.values import (
    Duration,
    Timestamp,
    UInt,
    Value,
    checked_duration,
    checked_int,
    checked_uint,
    compare,
    equal,
    type_name,
)

COMPARABLE: tuple[tuple[str, Type], ...] = (
    ("int", INT),
    ("uint", UINT),
    ("double", DOUBLE),
    ("bool", BOOL),
    ("duration", DURATION),
    ("timestamp", TIMESTAMP),
    ("string", STRING),
    ("bytes", BYTES),
)
ORDERED_CLASSES = frozenset({int, UInt, float, bool, Duration, Timestamp, str, bytes})


def is_sorted(items: Sequence[Value]) -> bool:
    _check_ordered(items)
    return all(_order(left, right) != 1 for left, right in pairwise(items))


def smallest(items: Sequence[Value]) -> Value:
    return _extreme(items, "min", 1)


def largest(items: Sequence[Value]) -> Value:
    return _extreme(items, "max", -1)


def _extreme(items: Sequence[Value], name: str, worse: int) -> Value:
    if not items:
        raise CelRuntimeError(f"{name} called on empty list")
    _check_ordered(items)
    best = items[0]
    for item in items[1:]:
        if _order(best, item) == worse:
            best = item
    return best


def _check_ordered(items: Sequence[Value]) -> None:
    for item in items:
        if type(item) not in ORDERED_CLASSES:
            raise CelNoSuchOverload(f"{type_name(item)} has no order")


def _order(left: Value, right: Value) -> int | None:
    """None where the two have no order: different types, or NaN."""
    try:
        return compare(left, right)
    except CelRuntimeError:
        return None


def _sum(kind: type, total: Callable[[Sequence[Value]], Value]) -> Callable[[Sequence[Value]], Value]:
    def add(items: Sequence[Value]) -> Value:
        for item in items:
            if type(item) is not kind:
                raise CelNoSuchOverload(f"{type_name(item)} cannot be added here")
        return total(items)

    return add


def _int_total(items: Sequence[int]) -> int:
    total = 0
    for item in items:
        total = checked_int(total + item)  # an overflow on the way counts, even if the end fits
    return total


def _uint_total(items: Sequence[int]) -> UInt:
    return checked_uint(sum(items))


def _double_total(items: Sequence[float]) -> float:
    total = 0.0
    for item in items:  # in order and without compensation, unlike sum() of newer Pythons
        total += item
    return total


def _duration_total(items: Sequence[Duration]) -> Duration:
    total = Duration(0)
    for item in items:
        total = checked_duration(total.ns + item.ns)
    return total


def index_of(items: Sequence[Value], wanted: Value) -> int:
    return next((at for at, item in enumerate(items) if equal(item, wanted)), -1)


def last_index_of(items: Sequence[Value], wanted: Value) -> int:
    return next((at for at in range(len(items) - 1, -1, -1) if equal(items[at], wanted)), -1)


def includes(target: Value, wanted: Value) -> bool:
    if type(target) is list:
        return any(equal(item, wanted) for item in target)
    return equal(target, wanted)


_SUMS = (
    ("int", INT, _sum(int, _int_total)),
    ("uint", UINT, _sum(UInt, _uint_total)),
    ("double", DOUBLE, _sum(float, _double_total)),
    ("duration", DURATION, _sum(Duration, _duration_total)),
)


def _per_type(pattern: str, impl: Callable[..., Value], result: Type | None) -> tuple[Overload, ...]:
    """An overload for each type that has an order; ``result`` None stands for that type."""
    return tuple(
        Overload(pattern.format(name), (list_of(type_),), result or type_, impl, member=True)
        for name, type_ in COMPARABLE
    )


_A = param("A")

LIBRARY = Library(
    "kubernetes.lists",
    (
        priced("isSorted", *_per_type("list_{0}_is_sorted_bool", is_sorted, BOOL)),
        priced("min", *_per_type("list_{0}_min_{0}", smallest, None)),
        priced("max", *_per_type("list_{0}_max_{0}", largest, None)),
        priced(
            "sum",
            *(
                Overload(f"list_{name}_sum_{name}", (list_of(type_),), type_, impl, member=True)
                for name, type_, impl in _SUMS
            ),
        ),
        priced("indexOf", Overload("list_a_index_of_int", (list_of(_A), _A), INT, index_of, member=True)),
        priced(
            "lastIndexOf",
            Overload("list_a_last_index_of_int", (list_of(_A), _A), INT, last_index_of, member=True),
        ),
    ),
)
INCLUDES = Library(
    "kubernetes.lists.includes",
    (priced("includes", Overload("list_includes_dyn_dyn", (DYN, DYN), BOOL, includes, member=True)),),
)
