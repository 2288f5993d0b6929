"""The worst that an expression can cost, before it ever runs.

Sizes flow upwards: a literal has its size, a variable the limit its environment declares for the way to it
(``device``, ``attributes``, ``@values``, …), a concatenation the sum of its parts. A comprehension costs its
body times the most elements its range can have. Unknown sizes make the result the largest number there is.

The rules, odd ones included, are upstream's: the API server compares this number with its limit and refuses
what exceeds it, so an estimate of our own would accept other expressions than Kubernetes does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from allotment.cel import ast
from allotment.cel.ast import Expr
from allotment.cel.checker import Checked, Resolution
from allotment.cel.declare import Overload
from allotment.cel.estimate import (
    LIST_CREATE,
    MAP_CREATE,
    MAX_COST,
    ONE,
    REGEX_LENGTH,
    STRING_TRAVERSAL,
    UNKNOWN,
    ZERO,
    CallEstimate,
    EstimatedArgument,
    Range,
    exactly,
)
from allotment.cel.macros import ACCUMULATOR
from allotment.cel.prices import COMPARED
from allotment.cel.recursion import Recursive, run
from allotment.cel.types import Type, TypeKind, is_optional

Limits: TypeAlias = Callable[[tuple[str, ...]], Range | None]
"""Declared size of what lies at a path; None where nothing is declared."""

_SCALARS = frozenset(
    {TypeKind.BOOL, TypeKind.DOUBLE, TypeKind.DURATION, TypeKind.INT, TypeKind.TIMESTAMP, TypeKind.UINT}
)
_ADDITIONS = frozenset({"add_string", "add_bytes", "add_list"})


@dataclass(frozen=True, slots=True)
class EntrySizes:
    """Sizes of the keys (or indices) and values of a container."""

    list: bool
    key: Range
    value: Range

    def union(self, other: EntrySizes) -> EntrySizes:
        return EntrySizes(self.list, self.key.union(other.key), self.value.union(other.value))


@dataclass(frozen=True, slots=True)
class Local:
    """A bound variable: where its value lies, and the sizes known of it."""

    path: tuple[str, ...]
    size: Range | None
    entry: EntrySizes | None


def worst_case(checked: Checked, limits: Limits) -> Range:
    """Least and most that evaluating the expression can cost."""
    return run(_Estimator(checked, limits).cost(checked.expr))


class _Estimator:
    def __init__(self, checked: Checked, limits: Limits) -> None:
        self.checked = checked
        self.limits = limits
        self.paths: dict[int, tuple[str, ...]] = {}
        self.sizes: dict[int, Range] = {}
        self.entries: dict[int, EntrySizes] = {}
        self.locals: dict[str, list[Local]] = {}

    def type_of(self, expr: Expr) -> Type:
        return self.checked.types[expr.id]

    # --- sizes (this object is the ``Sizes`` that estimators ask)

    def of(self, node: EstimatedArgument) -> Range:
        if node.computed is not None:
            return node.computed
        declared = self.limits(node.path) if node.path else None
        return UNKNOWN if declared is None else declared

    def element(self, node: EstimatedArgument) -> EstimatedArgument | None:
        if not node.type.params:
            return None
        return EstimatedArgument(node.type.params[0], (*node.path, "@items") if node.path else ())

    def local(self, expr: Expr) -> Local | None:
        if not isinstance(expr, ast.Ident):
            return None
        stack = self.locals.get(expr.name)
        return stack[-1] if stack else None

    def path(self, expr: Expr) -> tuple[str, ...]:
        local = self.local(expr)
        return local.path if local is not None else self.paths.get(expr.id, ())

    def size(self, expr: Expr) -> Range | None:
        known = self.sizes.get(expr.id)
        if known is None:
            known = _literal_size(expr)
        if known is not None:
            return known
        path = self.path(expr)
        declared = self.limits(path) if path else None
        if declared is not None:
            self.sizes[expr.id] = declared
            return declared
        if _is_scalar(self.type_of(expr)):
            return ONE
        local = self.local(expr)
        return local.size if local is not None else None

    def size_or_unknown(self, expr: Expr) -> Range:
        size = self.size(expr)
        return UNKNOWN if size is None else size

    def entry(self, expr: Expr) -> EntrySizes | None:
        known = self.entries.get(expr.id)
        local = self.local(expr) if known is None else None
        return local.entry if local is not None else known

    def node(self, expr: Expr) -> EstimatedArgument:
        path = self.path(expr)
        if path and path[0] == ACCUMULATOR:
            path = ()
        return EstimatedArgument(self.type_of(expr), path, expr, self.size(expr))

    # --- costs

    def cost(self, expr: Expr) -> Recursive[Range]:
        match expr:
            case ast.Literal():
                return ZERO
            case ast.Ident():
                local = self.local(expr)
                self.paths[expr.id] = local.path if local is not None else (self.name(expr),)
                return ONE
            case ast.Select() if expr.id in self.checked.names:
                self.paths[expr.id] = (self.name(expr),)
                return ONE
            case ast.Select():
                inner = self.select(expr)
            case ast.FunctionCall():
                inner = self.call(expr)
            case ast.ListExpr():
                inner = self.list(expr)
            case ast.MapExpr():
                inner = self.map(expr)
            case ast.Comprehension():
                inner = self.bind(expr) if _is_bind(expr) else self.comprehension(expr)
            case _:
                return ZERO
        total: Range = yield inner
        return total

    def name(self, expr: Expr) -> str:
        variable = self.checked.names.get(expr.id)
        return variable.name if variable is not None else ""

    def select(self, expr: ast.Select) -> Recursive[Range]:
        """A presence test is free; a selection costs one where the operand's type is known to have fields."""
        total: Range = yield self.cost(expr.operand)
        if expr.test_only:
            return total
        if self.type_of(expr.operand).kind in (TypeKind.MAP, TypeKind.OBJECT, TypeKind.PARAM):
            total = total + ONE
        self.paths[expr.id] = (*self.path(expr.operand), expr.field)
        return total

    def call(self, expr: ast.FunctionCall) -> Recursive[Range]:
        if expr.function == "dyn":
            inner: Range = yield self.cost(expr.args[0])
            self.copy_sizes(expr, expr.args[0])
            return ONE + inner
        costs: list[Range] = []
        nodes: list[EstimatedArgument] = []
        for arg in expr.args:
            costs.append((yield self.cost(arg)))
            nodes.append(self.node(arg))
        resolution = self.checked.calls[expr.id]
        total = ZERO
        target: EstimatedArgument | None = None
        if expr.target is not None and not resolution.namespaced:
            total = yield self.cost(expr.target)
            target = self.node(expr.target)
        widest = Range(MAX_COST, 0)
        size: Range | None = None
        for overload in resolution.overloads:
            estimate = self.overload(expr, resolution, overload, target, nodes, costs)
            widest = widest.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
            size = self.indexed(expr, overload.id, size)
        if size is not None:
            self.sizes[expr.id] = size
        return total + widest

    def indexed(self, expr: ast.FunctionCall, overload: str, size: Range | None) -> Range | None:
        """Where the result of an index lies; else the size that is known otherwise, if none is known yet."""
        if overload in ("index_list", "index_map"):
            entry = self.entry(expr.args[0])
            size = None if entry is None else entry.value
            step = "@items" if overload == "index_list" else "@values"
            self.paths[expr.id] = (*self.path(expr.args[0]), step)
        return self.size(expr) if size is None else size

    def overload(
        self,
        expr: ast.FunctionCall,
        resolution: Resolution,
        overload: Overload,
        target: EstimatedArgument | None,
        nodes: list[EstimatedArgument],
        costs: list[Range],
    ) -> CallEstimate:
        arguments = sum(costs, ZERO)
        own = overload.estimate(self, target, nodes) if overload.estimate is not None else None
        if own is None and resolution.function.estimate is not None:
            own = resolution.function.estimate(self, overload.id, target, nodes)
        if own is None:
            own = self.logical(expr, overload.id, nodes, costs)
            if own is not None:
                return own
            own = self.general(expr, overload.id, target, nodes)
        return replace(own, cost=own.cost + arguments)

    def logical(
        self, expr: ast.FunctionCall, overload: str, nodes: list[EstimatedArgument], costs: list[Range]
    ) -> CallEstimate | None:
        """Operators that do not evaluate all their arguments; None for the others."""
        if overload in ("logical_or", "logical_and"):
            return CallEstimate(Range(costs[0].min, sum(costs, ZERO).max))
        if overload != "conditional":
            return None
        size = _known(nodes[1]).union(_known(nodes[2]))
        self.unite_entries(expr, expr.args[1], expr.args[2])
        return CallEstimate(costs[0] + costs[1].union(costs[2]), size)

    def general(
        self,
        expr: ast.FunctionCall,
        overload: str,
        target: EstimatedArgument | None,
        nodes: list[EstimatedArgument],
    ) -> CallEstimate:
        """The standard functions that cost by size; everything else costs one."""
        both = [*([target] if target is not None else []), *nodes]
        sizes = [_known(node) for node in both]
        match overload:
            case "string_format" if target is not None:
                return CallEstimate(sizes[0].times(STRING_TRAVERSAL))
            case "string_to_bytes":
                size = Range(sizes[0].min, sizes[0].max * 4 % 2**64)
                return CallEstimate(sizes[0].times(STRING_TRAVERSAL), size)
            case "bytes_to_string":
                size = Range(sizes[0].min // 4, sizes[0].max)
                return CallEstimate(sizes[0].times(STRING_TRAVERSAL), size)
            case "strings_quote":
                size = Range((sizes[0].min + 2) % 2**64, (sizes[0].max * 2 + 2) % 2**64)
                return CallEstimate(sizes[0].times(STRING_TRAVERSAL), size)
            case "starts_with_string" | "ends_with_string":
                return CallEstimate(sizes[1].times(STRING_TRAVERSAL))
            case "in_list":
                return CallEstimate(sizes[1].times(1))
            case "matches" | "matches_string":
                text = (sizes[0] + ONE).times(STRING_TRAVERSAL)
                return CallEstimate(text * sizes[1].times(REGEX_LENGTH))
            case "contains_string":
                return CallEstimate(sizes[0].times(STRING_TRAVERSAL) * sizes[1].times(STRING_TRAVERSAL))
            case _ if overload in _ADDITIONS:
                size = sizes[0] + sizes[1]
                self.unite_entries(expr, expr.args[0], expr.args[1])
                return CallEstimate(ONE if overload == "add_list" else size.times(STRING_TRAVERSAL), size)
            case _ if overload in COMPARED:
                most = min(sizes[0].max, sizes[1].max)
                return CallEstimate(Range(min(most, 1), most).times(STRING_TRAVERSAL))
        return CallEstimate(ONE)

    # --- aggregates

    def list(self, expr: ast.ListExpr) -> Recursive[Range]:
        total = exactly(LIST_CREATE)
        size = Range(MAX_COST if expr.elements else 0, 0)
        for element in expr.elements:
            total = total + (yield self.cost(element))
            size = size.union(self.size_or_unknown(element))
        self.entries[expr.id] = EntrySizes(True, ONE, size)
        return total

    def map(self, expr: ast.MapExpr) -> Recursive[Range]:
        total = exactly(MAP_CREATE)
        keys = values = Range(MAX_COST if expr.entries else 0, 0)
        for entry in expr.entries:
            total = total + (yield self.cost(entry.key))
            total = total + (yield self.cost(entry.value))
            keys = keys.union(self.size_or_unknown(entry.key))
            values = values.union(self.size_or_unknown(entry.value))
        self.entries[expr.id] = EntrySizes(False, keys, values)
        return total

    def unite_entries(self, expr: Expr, one: Expr, two: Expr) -> None:
        first, second = self.entry(one), self.entry(two)
        if first is not None and second is not None:
            self.entries[expr.id] = first.union(second)

    def copy_sizes(self, target: Expr, source: Expr) -> None:
        size, entry = self.size(source), self.entry(source)
        if size is not None:
            self.sizes[target.id] = size
        if entry is not None:
            self.entries[target.id] = entry

    # --- comprehensions

    def push(self, name: str, local: Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def bind(self, expr: ast.Comprehension) -> Recursive[Range]:
        total: Range = yield self.cost(expr.range)
        total = total + (yield self.cost(expr.init))
        self.push(expr.accumulator, Local(self.path(expr.init), self.size(expr.init), self.entry(expr.init)))
        total = total + (yield self.cost(expr.result))
        self.locals[expr.accumulator].pop()
        self.copy_sizes(expr, expr.result)
        return total

    def comprehension(self, expr: ast.Comprehension) -> Recursive[Range]:
        total: Range = yield self.cost(expr.range)
        total = total + (yield self.cost(expr.init))
        self.push(expr.accumulator, Local(self.path(expr.init), self.size(expr.init), self.entry(expr.init)))
        names = self.push_variables(expr)
        body: Range = yield self.cost(expr.condition)
        body = body + (yield self.cost(expr.step))
        for name in names:
            self.locals[name].pop()
        total = total + (yield self.cost(expr.result))
        self.locals[expr.accumulator].pop()
        count = self.size_or_unknown(expr.range)
        if isinstance(expr.init, ast.Literal):
            size = self.size(expr.init)
            if size is not None:
                self.sizes[expr.id] = size
        elif isinstance(expr.init, ast.ListExpr | ast.MapExpr):
            self.sizes[expr.id] = count
            entry = self.entry(expr.step)
            if entry is not None:
                self.entries[expr.id] = entry
        return total + count * body

    def push_variables(self, expr: ast.Comprehension) -> tuple[str, ...]:
        entry = self.entry(expr.range)
        is_list = entry.list if entry is not None else self.type_of(expr.range).kind is TypeKind.LIST
        path = self.path(expr.range)
        key, value = (entry.key, entry.value) if entry is not None else (None, None)
        keys = Local((*path, "@indices" if is_list else "@keys"), key, None)
        values = Local((*path, "@items" if is_list else "@values"), value, None)
        if expr.variable2 is None:
            self.push(expr.variable, values if is_list else keys)
            return (expr.variable,)
        self.push(expr.variable, keys)
        self.push(expr.variable2, values)
        return expr.variable, expr.variable2


def _known(node: EstimatedArgument) -> Range:
    return UNKNOWN if node.computed is None else node.computed


def _literal_size(expr: Expr) -> Range | None:
    match expr:
        case ast.Literal():
            return exactly(len(expr.value)) if isinstance(expr.value, str | bytes) else ONE
        case ast.ListExpr():
            return exactly(len(expr.elements))
        case ast.MapExpr():
            return exactly(len(expr.entries))
        case _:
            return None


def _is_scalar(type_: Type) -> bool:
    while is_optional(type_):
        type_ = type_.params[0]
    return type_.kind in _SCALARS


def _is_bind(expr: ast.Comprehension) -> bool:
    return (
        isinstance(expr.range, ast.ListExpr)
        and not expr.range.elements
        and isinstance(expr.condition, ast.Literal)
        and expr.condition.value is False
    )
