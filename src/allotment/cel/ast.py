"""The syntax tree: what the parser builds, macros rewrite, the checker annotates and the compiler reads.

Every node has an ``id``, unique in its tree, under which the checker files types and references, and a
``position`` (an offset into the source). Macros are gone by the time a tree leaves the parser: ``all``,
``map`` and their kind are :class:`Comprehension`, ``has`` is a :class:`Select` with ``test_only``.

Operators are calls of functions whose names are the language's own: ``_+_``, ``_&&_``, ``_?_:_``, ``_[_]``,
``_[?_]``, ``_?._``, ``-_``, ``!_``, ``@in``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from allotment.cel.values import Value


@dataclass(slots=True, eq=False)
class Expr:
    id: int
    position: int


@dataclass(slots=True, eq=False)
class Literal(Expr):
    value: Value


@dataclass(slots=True, eq=False)
class Ident(Expr):
    name: str
    """With a leading dot where the source had one: ``.x`` skips the container and local variables."""


@dataclass(slots=True, eq=False)
class Select(Expr):
    operand: Expr
    field: str
    test_only: bool = False
    """``has(operand.field)``."""


@dataclass(slots=True, eq=False)
class FunctionCall(Expr):
    function: str
    target: Expr | None
    """The receiver of ``target.function(args)``; None for a global call or an operator."""
    args: list[Expr]


@dataclass(slots=True, eq=False)
class ListExpr(Expr):
    elements: list[Expr]
    optional: frozenset[int] = frozenset()
    """Indices of the elements written ``?element``."""


@dataclass(slots=True, eq=False)
class MapEntry:
    id: int
    position: int
    key: Expr
    value: Expr
    optional: bool = False


@dataclass(slots=True, eq=False)
class MapExpr(Expr):
    entries: list[MapEntry]


@dataclass(slots=True, eq=False)
class FieldEntry:
    id: int
    position: int
    name: str
    value: Expr
    optional: bool = False


@dataclass(slots=True, eq=False)
class ObjectExpr(Expr):
    """``Name{field: value}``: parsed so that the checker can say that no such type can be built."""

    name: str
    fields: list[FieldEntry]


@dataclass(slots=True, eq=False)
class Comprehension(Expr):
    """Folds ``range``: the accumulator starts as ``init``; while ``condition`` holds, ``step`` replaces it
    for every element; ``result`` is the value. With two variables the first is the index or the key."""

    range: Expr
    variable: str
    variable2: str | None
    accumulator: str
    init: Expr
    condition: Expr
    step: Expr
    result: Expr


def children(expr: Expr) -> Iterator[Expr]:
    """Direct subexpressions in source order (a comprehension's in order of its fields)."""
    match expr:
        case Select():
            yield expr.operand
        case FunctionCall():
            if expr.target is not None:
                yield expr.target
            yield from expr.args
        case ListExpr():
            yield from expr.elements
        case MapExpr():
            for entry in expr.entries:
                yield entry.key
                yield entry.value
        case ObjectExpr():
            for item in expr.fields:
                yield item.value
        case Comprehension():
            yield from (expr.range, expr.init, expr.condition, expr.step, expr.result)
        case _:
            return


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node, parents before children, without recursion."""
    pending = [expr]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(list(children(node))))


@dataclass(slots=True)
class Factory:
    """Builds nodes with fresh ids at one position: what a macro writes its expansion with."""

    next_id: int = 1
    position: int = 0

    def fresh(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def literal(self, value: Value) -> Literal:
        return Literal(self.fresh(), self.position, value)

    def ident(self, name: str) -> Ident:
        return Ident(self.fresh(), self.position, name)

    def call(self, function: str, *args: Expr) -> FunctionCall:
        return FunctionCall(self.fresh(), self.position, function, None, list(args))

    def member_call(self, target: Expr, function: str, *args: Expr) -> FunctionCall:
        return FunctionCall(self.fresh(), self.position, function, target, list(args))

    def list(self, *elements: Expr) -> ListExpr:
        return ListExpr(self.fresh(), self.position, list(elements))

    def map(self) -> MapExpr:
        return MapExpr(self.fresh(), self.position, [])

    def fold(
        self,
        range_: Expr,
        variable: str,
        accumulator: str,
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
        variable2: str | None = None,
    ) -> Comprehension:
        return Comprehension(
            self.fresh(),
            self.position,
            range_,
            variable,
            variable2,
            accumulator,
            init,
            condition,
            step,
            result,
        )

    def bind(self, name: str, init: Expr, result: Expr) -> Comprehension:
        """``result`` with ``name`` standing for ``init``: a fold over nothing."""
        return self.fold(self.list(), "#unused", name, init, self.literal(False), self.ident(name), result)

    def copy(self, expr: Expr) -> Expr:
        """The same tree with ids of its own: an expansion that repeats an argument needs two."""
        copies: dict[int, Expr] = {}
        for node in reversed(list(walk(expr))):
            copies[node.id] = self._copy_node(node, copies)
        return copies[expr.id]

    def _copy_node(self, node: Expr, done: dict[int, Expr]) -> Expr:
        match node:
            case Select():
                return replace(node, id=self.fresh(), operand=done[node.operand.id])
            case FunctionCall():
                target = None if node.target is None else done[node.target.id]
                return replace(node, id=self.fresh(), target=target, args=[done[a.id] for a in node.args])
            case ListExpr():
                return replace(node, id=self.fresh(), elements=[done[e.id] for e in node.elements])
            case MapExpr():
                entries = [
                    replace(e, id=self.fresh(), key=done[e.key.id], value=done[e.value.id])
                    for e in node.entries
                ]
                return replace(node, id=self.fresh(), entries=entries)
            case ObjectExpr():
                fields = [replace(f, id=self.fresh(), value=done[f.value.id]) for f in node.fields]
                return replace(node, id=self.fresh(), fields=fields)
            case Comprehension():
                return replace(
                    node,
                    id=self.fresh(),
                    range=done[node.range.id],
                    init=done[node.init.id],
                    condition=done[node.condition.id],
                    step=done[node.step.id],
                    result=done[node.result.id],
                )
            case _:
                return replace(node, id=self.fresh())
