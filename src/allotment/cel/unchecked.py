"""References without types, for expressions that run unchecked.

Names refer to the given variables; an unknown name fails when it is read, not before.
Every type is dynamic, so overloads are found at run time by the values.
"""

from __future__ import annotations

from allotment.cel import ast, types
from allotment.cel.checker import Checked, Resolution, qualified_name
from allotment.cel.declare import Function
from allotment.cel.parser import Syntax
from allotment.cel.recursion import Recursive, run
from allotment.cel.scope import Declarations, Variable


def resolve(syntax: Syntax, declarations: Declarations) -> Checked:
    """Resolves names. Never fails: an unknown name fails when it is evaluated."""
    resolver = _Resolver(syntax, declarations)
    run(resolver.visit(syntax.expr))
    return resolver.out


class _Resolver:
    def __init__(self, syntax: Syntax, declarations: Declarations) -> None:
        self.out = Checked(syntax.source, syntax.expr)
        self.declared = declarations
        self.locals: list[str] = []

    def visit(self, expr: ast.Expr) -> Recursive[None]:
        self.out.types[expr.id] = types.DYN
        if isinstance(expr, ast.Ident):
            self.out.names[expr.id] = self.variable(expr.name)
        elif isinstance(expr, ast.Comprehension):
            yield self.comprehension(expr)
        elif isinstance(expr, ast.FunctionCall):
            yield self.call(expr)
        elif not self.is_qualified(expr):
            for child in ast.children(expr):
                yield self.visit(child)

    def variable(self, name: str) -> Variable:
        if name in self.locals:
            return Variable(name, types.DYN, local=True)
        found = self.declared.variable(name)
        return Variable(name.removeprefix("."), types.DYN) if found is None else found

    def is_qualified(self, expr: ast.Expr) -> bool:
        """Whether the expression is the dotted name of a variable; if so, records its meaning."""
        name = qualified_name(expr) if isinstance(expr, ast.Select) else None
        if name is None or name.partition(".")[0] in self.locals:
            return False
        found = self.declared.variable(name)
        if found is not None:
            self.out.names[expr.id] = found
        return found is not None

    def call(self, expr: ast.FunctionCall) -> Recursive[None]:
        for arg in expr.args:
            yield self.visit(arg)
        target = expr.target
        prefix = qualified_name(target) if target is not None else None
        namespaced = self.declared.function(f"{prefix}.{expr.function}") if prefix is not None else None
        if target is not None and namespaced is None:
            yield self.visit(target)
        function = namespaced or self.declared.function(expr.function) or Function(expr.function, ())
        member = target is not None and namespaced is None
        arity = len(expr.args) + member
        overloads = tuple(o for o in function.overloads if o.member == member and len(o.params) == arity)
        self.out.calls[expr.id] = Resolution(function, overloads, namespaced is not None)

    def comprehension(self, expr: ast.Comprehension) -> Recursive[None]:
        yield self.visit(expr.range)
        yield self.visit(expr.init)
        loop = [expr.variable, *([expr.variable2] if expr.variable2 is not None else [])]
        self.locals += [expr.accumulator, *loop]
        yield self.visit(expr.condition)
        yield self.visit(expr.step)
        del self.locals[-len(loop) :]
        yield self.visit(expr.result)
        self.locals.pop()
