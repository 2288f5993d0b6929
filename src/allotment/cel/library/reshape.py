"""The lists extension of cel-go, version 3: ``slice flatten range sort sortBy reverse distinct``.

``sortBy`` is a macro: it evaluates a key for every element and hands both lists to a function that no
expression can name. Costs hang on overloads here and count as if sorting and ``distinct`` compared all pairs,
which is what upstream does.
"""

from collections.abc import Callable

from allotment.cel.ast import Comprehension, Expr, Factory, FunctionCall, Ident, ListExpr, Literal, Select
from allotment.cel.declare import Estimate, Function, Library, Macro, MacroError, Overload, RuntimeCost
from allotment.cel.errors import CelRuntimeError
from allotment.cel.estimate import (
    LIST_CREATE,
    MAX_COST,
    ONE,
    STRING_TRAVERSAL,
    ArgumentSizes,
    CallEstimate,
    EstimatedArgument,
    Range,
    exactly,
)
from allotment.cel.library.identity import Identities
from allotment.cel.library.limits import MOST_ENTRIES
from allotment.cel.library.lists import COMPARABLE, ORDERED_CLASSES
from allotment.cel.library.pricing import Nodes, Values
from allotment.cel.macros import STANDARD
from allotment.cel.types import BYTES, DYN, INT, STRING, Type, list_of, param
from allotment.cel.values import Value, size_of

_INPUT = "@__sortBy_input__"
_MAP = next(macro for macro in STANDARD if macro.name == "map" and macro.arity == 2)


def slice_(items: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        raise CelRuntimeError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelRuntimeError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(items):
        raise CelRuntimeError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def flatten(items: list[Value], depth: int = 1) -> list[Value]:
    """Lists inside, down to ``depth`` levels, give way to their elements. Others stay."""
    if depth < 0:
        raise CelRuntimeError("level must be non-negative")
    flat: list[Value] = []
    pending: list[tuple[Value, int]] = [(item, depth) for item in reversed(items)]
    steps = len(pending)
    while pending:
        item, level = pending.pop()
        if level == 0 or type(item) is not list:
            flat.append(item)
            continue
        steps += len(item) + 1
        if steps > MOST_ENTRIES:
            raise CelRuntimeError(f"flatten: more than {MOST_ENTRIES} elements")
        pending.extend((inner, level - 1) for inner in reversed(item))
    return flat


def range_(count: int) -> list[int]:
    if count < 0:
        raise CelRuntimeError(f"lists.range: size must be non-negative, got {count}")
    if count > MOST_ENTRIES:
        raise CelRuntimeError(f"lists.range: size {count} exceeds maximum allowed ({MOST_ENTRIES})")
    return list(range(count))


def reverse(items: list[Value]) -> list[Value]:
    return items[::-1]


def distinct(items: list[Value]) -> list[Value]:
    """The first of every set of equal elements, in order."""
    identities = Identities()
    first: dict[object, Value] = {}
    for item in items:
        first.setdefault(identities.of(item), item)
    return list(first.values())


def sort(items: list[Value]) -> list[Value]:
    return sort_by_keys(items, items)


def sort_by_keys(items: list[Value], keys: list[Value]) -> list[Value]:
    """``items`` in the order of the key at the same place; equal keys keep their order."""
    if len(items) != len(keys):
        raise CelRuntimeError(f"sortBy: {len(items)} elements but {len(keys)} keys")
    if not items:
        return items
    kind = type(keys[0])
    if kind not in ORDERED_CLASSES:
        raise CelRuntimeError("list elements must be comparable")
    if any(type(key) is not kind for key in keys):
        raise CelRuntimeError("list elements must have the same type")
    return [items[at] for at in sorted(range(len(items)), key=keys.__getitem__)]


def _sort_by(make: Factory, target: Expr | None, args: list[Expr]) -> Expr:
    if not isinstance(target, ListExpr | Select | Ident | Comprehension | FunctionCall):
        raise MacroError(
            target or args[0],
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    keys = _MAP.expand(make, make.ident(_INPUT), args)
    assert keys is not None
    return make.bind(_INPUT, target, make.member_call(make.ident(_INPUT), "@sortByAssociatedKeys", keys))


def _allocating(size: Range, factor: float) -> CallEstimate:
    return CallEstimate(size.times(factor) + ONE + exactly(LIST_CREATE), size)


def _literal(node: EstimatedArgument, otherwise: int) -> int:
    """The number that an argument is written as; negative ones count as 0."""
    if isinstance(node.expr, Literal) and type(node.expr.value) is int:
        return max(node.expr.value, 0)
    return otherwise


def _estimate_slice(
    sizes: ArgumentSizes, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    if target is None:
        return None
    end = _literal(args[1], sizes.of(target).max)
    return _allocating(exactly((end - _literal(args[0], 0)) % 2**64), 1)


def _estimate_range(
    sizes: ArgumentSizes, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    return _allocating(exactly(_literal(args[0], MAX_COST)), 1)


def _estimate_reverse(
    sizes: ArgumentSizes, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    return _allocating(sizes.of(target), 1) if target is not None else None


def _estimate_flatten(
    sizes: ArgumentSizes, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    depth = _literal(args[0], MAX_COST) if args else 1
    return _allocating(sizes.of(target), float(depth)) if target is not None else None


def _estimate_distinct(
    sizes: ArgumentSizes, target: EstimatedArgument | None, args: Nodes
) -> CallEstimate | None:
    return _all_pairs(sizes, target, 2.0)


def _estimate_sort(element: Type, *, by_keys: bool) -> Estimate:
    factor = 2.0 + (STRING_TRAVERSAL if element in (STRING, BYTES) else 0)

    def estimate(sizes: ArgumentSizes, target: EstimatedArgument | None, args: Nodes) -> CallEstimate | None:
        return _all_pairs(sizes, args[0] if by_keys else target, factor)

    return estimate


def _all_pairs(sizes: ArgumentSizes, node: EstimatedArgument | None, factor: float) -> CallEstimate | None:
    if node is None:
        return None
    size = sizes.of(node)
    return _allocating(size * size, factor)


def _charge(size: int, factor: float) -> int:
    return min(int(float(size) * factor) + 1 + LIST_CREATE, MAX_COST)


def _result_cost(args: Values, result: Value) -> int:
    return _charge(size_of(result), 1.0)


def _flatten_cost(args: Values, result: Value) -> int:
    depth = float(args[1]) if len(args) == 2 and type(args[1]) is int else 1.0
    return _charge(size_of(args[0]), 1.0 if depth < 0 else depth)


def _pairs_cost(compared: int) -> RuntimeCost:
    def cost(args: Values, result: Value) -> int:
        keys = args[compared]
        textual = type(keys) is list and keys and type(keys[0]) in (str, bytes)
        return _charge(size_of(keys) ** 2, 2.0 + (STRING_TRAVERSAL if textual else 0))

    return cost


_LIST = list_of(param("T"))


def _member(
    id_: str, params: tuple[Type, ...], impl: Callable[..., Value], estimate: Estimate, cost: RuntimeCost
) -> Overload:
    result = list_of(DYN) if id_ == "list_flatten_int" else _LIST
    return Overload(id_, params, result, impl, member=True, estimate=estimate, runtime_cost=cost)


def _sorts(suffix: str, impl: Callable[..., Value], *, by_keys: bool) -> tuple[Overload, ...]:
    return tuple(
        Overload(
            f"list_{type_.name}_{suffix}",
            (_LIST, list_of(type_)) if by_keys else (list_of(type_),),
            _LIST if by_keys else list_of(type_),
            impl,
            member=True,
            estimate=_estimate_sort(type_, by_keys=by_keys),
            runtime_cost=_pairs_cost(1 if by_keys else 0),
        )
        for _, type_ in COMPARABLE
    )


LIBRARY = Library(
    "lists",
    (
        Function("slice", (_member("list_slice", (_LIST, INT, INT), slice_, _estimate_slice, _result_cost),)),
        Function(
            "flatten",
            (
                _member("list_flatten", (list_of(_LIST),), flatten, _estimate_flatten, _flatten_cost),
                _member("list_flatten_int", (list_of(DYN), INT), flatten, _estimate_flatten, _flatten_cost),
            ),
        ),
        Function(
            "lists.range",
            (
                Overload(
                    "lists_range",
                    (INT,),
                    list_of(INT),
                    range_,
                    estimate=_estimate_range,
                    runtime_cost=_result_cost,
                ),
            ),
        ),
        Function("reverse", (_member("list_reverse", (_LIST,), reverse, _estimate_reverse, _result_cost),)),
        Function(
            "distinct", (_member("list_distinct", (_LIST,), distinct, _estimate_distinct, _pairs_cost(0)),)
        ),
        Function("sort", _sorts("sort", sort, by_keys=False)),
        Function("@sortByAssociatedKeys", _sorts("sortByAssociatedKeys", sort_by_keys, by_keys=True)),
    ),
    macros=(Macro("sortBy", 2, _sort_by),),
)
