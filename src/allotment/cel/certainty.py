"""Types that values certainly have at run time.

The checker's types are not: a list from a dynamic value has elements of an unknown type, and the checker
settles unknown types by the first overload that fits. Here only certain types count: those of literals, of declared
variables and their fields, and of results of functions that declare them. Calls whose arguments all have certain types
need not test them.
"""

from __future__ import annotations

from allotment.cel import ast, types
from allotment.cel.ast import Expr
from allotment.cel.checker import Checked
from allotment.cel.recursion import Recursive, run
from allotment.cel.types import Type, TypeKind, is_dynamic, parts


def certainties(checked: Checked) -> dict[int, Type]:
    """Certain types by node id; other nodes are left out."""
    judge = _Judge(checked)
    run(judge.visit(checked.expr))
    return judge.sure


def _concrete(type_: Type) -> bool:
    return not any(is_dynamic(part) or part.kind is TypeKind.PARAM or part.nullable for part in parts(type_))


class _Judge:
    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.sure: dict[int, Type] = {}
        self.locals: dict[str, list[Type | None]] = {}

    def visit(self, expr: Expr) -> Recursive[None]:
        variable = self.checked.names.get(expr.id)
        if variable is not None:
            stack = self.locals.get(variable.name) if variable.local else None
            self.note(expr, stack[-1] if stack else None if variable.local else variable.type)
            return
        if isinstance(expr, ast.Comprehension):
            yield self.comprehension(expr)
            return
        resolution = self.checked.calls.get(expr.id)
        namespaced = resolution is not None and resolution.namespaced
        for child in expr.args if isinstance(expr, ast.FunctionCall) and namespaced else ast.children(expr):
            yield self.visit(child)
        self.note(expr, self.judge(expr))

    def note(self, expr: Expr, type_: Type | None) -> None:
        if type_ is not None and _concrete(type_):
            self.sure[expr.id] = type_

    def judge(self, expr: Expr) -> Type | None:
        match expr:
            case ast.Literal():
                return self.checked.types[expr.id]
            case ast.Select(test_only=True):
                return types.BOOL
            case ast.Select():
                owner = self.sure.get(expr.operand.id)
                if owner is None:
                    return None
                if owner.kind is TypeKind.OBJECT:
                    return self.checked.types[expr.id]
                return owner.params[1] if owner.kind is TypeKind.MAP else None
            case ast.ListExpr():
                element = self.common(expr.elements) if not expr.optional else None
                return None if element is None else types.list_of(element)
            case ast.MapExpr():
                key = self.common([entry.key for entry in expr.entries])
                value = self.common([entry.value for entry in expr.entries])
                if key is None or value is None or any(entry.optional for entry in expr.entries):
                    return None
                return types.map_of(key, value)
            case ast.FunctionCall():
                return self.call(expr)
            case _:
                return None

    def common(self, exprs: list[Expr]) -> Type | None:
        """The common type, if all have the same certain type."""
        found = {self.sure.get(expr.id) for expr in exprs}
        return found.pop() if len(found) == 1 else None

    def call(self, expr: ast.FunctionCall) -> Type | None:
        if expr.function == "_?_:_":
            return self.common(expr.args[1:])
        if expr.function == "_[_]":
            owner = self.sure.get(expr.args[0].id)
            return (
                owner.params[-1]
                if owner is not None and owner.kind in (TypeKind.LIST, TypeKind.MAP)
                else None
            )
        results = {overload.result for overload in self.checked.calls[expr.id].overloads}
        return results.pop() if len(results) == 1 else None

    def comprehension(self, expr: ast.Comprehension) -> Recursive[None]:
        yield self.visit(expr.range)
        yield self.visit(expr.init)
        ranged = self.sure.get(expr.range.id)
        first = second = None
        if ranged is not None and ranged.kind in (TypeKind.LIST, TypeKind.MAP):
            first, second = ranged.params[0], ranged.params[-1]
            if ranged.kind is TypeKind.LIST and expr.variable2 is not None:
                first = types.INT
        bound = (
            self.sure.get(expr.init.id)
            if isinstance(expr.condition, ast.Literal) and not expr.condition.value
            else None
        )
        scope: dict[str, Type | None] = {expr.accumulator: bound, expr.variable: first}
        if expr.variable2 is not None:
            scope[expr.variable2] = second
        for name, type_ in scope.items():
            self.locals.setdefault(name, []).append(type_)
        yield self.visit(expr.condition)
        yield self.visit(expr.step)
        for name in scope:
            if name != expr.accumulator:
                self.locals[name].pop()
        yield self.visit(expr.result)
        self.locals[expr.accumulator].pop()
        self.note(expr, self.sure.get(expr.result.id))
