"""A dumb evaluator: walks the syntax tree, knows no types, folds nothing, counts nothing.

It shares the functions with the real thing but none of the checker, the planner or the compiler, so agreement
between the two says that those three leave the meaning of an expression alone.
"""

from collections.abc import Mapping

from allotment.cel import ast
from allotment.cel.access import elements, enter, entries, look
from allotment.cel.ast import Expr
from allotment.cel.checker import qualified_name
from allotment.cel.dispatch import dispatch
from allotment.cel.environment import Environment
from allotment.cel.errors import CelNoSuchOverload, CelRuntimeError
from allotment.cel.values import OPTIONAL_NONE, Optional, Value, make_literal_map

Scope = Mapping[str, Value]


def evaluate(environment: Environment, text: str, variables: Scope) -> Value:
    """Raises :class:`CelRuntimeError`."""
    return _Walker(environment).value(environment.parse(text).expr, variables)


class _Walker:
    def __init__(self, environment: Environment) -> None:
        self.declared = environment.declarations

    def value(self, expr: Expr, scope: Scope) -> Value:
        match expr:
            case ast.Literal():
                return expr.value
            case ast.Ident():
                return self.name(expr.name, scope)
            case ast.Select():
                return self.select(expr, scope)
            case ast.FunctionCall():
                return self.call(expr, scope)
            case ast.ListExpr():
                return [
                    v for n, e in enumerate(expr.elements) for v in self.items(e, n in expr.optional, scope)
                ]
            case ast.MapExpr():
                pairs = [
                    (self.value(entry.key, scope), value)
                    for entry in expr.entries
                    for value in self.items(entry.value, entry.optional, scope)
                ]
                return make_literal_map(pairs, unique=False)
            case ast.Comprehension():
                return self.fold(expr, scope)
        raise AssertionError(expr)

    def items(self, expr: Expr, optional: bool, scope: Scope) -> list[Value]:
        """The value; of an optional, what it holds, or nothing."""
        value = self.value(expr, scope)
        if not optional:
            return [value]
        if type(value) is not Optional:
            raise CelRuntimeError("not an optional")
        return [value.value] if value.present else []

    def name(self, name: str, scope: Scope) -> Value:
        if name in scope:
            value = scope[name]
            if callable(value):
                value = value()
            if isinstance(value, CelRuntimeError):
                raise value
            return value
        declared = self.declared.variable(name)
        if declared is None or not declared.constant:
            raise CelRuntimeError(f"no such attribute(s): {name}")
        return declared.value

    def select(self, expr: ast.Select, scope: Scope) -> Value:
        name = qualified_name(expr)
        declared = (
            self.declared.variable(name) if name is not None and name.partition(".")[0] not in scope else None
        )
        if declared is not None and declared.constant:
            return declared.value
        return self.step(self.value(expr.operand, scope), expr.field, optional=False, test=expr.test_only)

    def step(self, value: Value, key: Value, optional: bool, test: bool = False) -> Value:
        if type(value) is Optional:
            if not value.present:
                return False if test else value
            value, optional = value.value, True
        if test:
            return look(value, key)[1]
        if not optional:
            return enter(value, key)
        found, present = look(value, key)
        return Optional(found) if present else OPTIONAL_NONE

    def call(self, expr: ast.FunctionCall, scope: Scope) -> Value:
        match expr.function:
            case "_&&_" | "_||_":
                return self.logical(expr, scope)
            case "_?_:_":
                test = self.value(expr.args[0], scope)
                if type(test) is not bool:
                    raise CelNoSuchOverload
                return self.value(expr.args[1 if test else 2], scope)
            case "_[_]" | "_[?_]" | "_?._":
                owner, key = (self.value(arg, scope) for arg in expr.args)
                if key is None or isinstance(key, list | dict | bytes | Optional):
                    raise CelRuntimeError("not a key")
                return self.step(owner, key, optional=expr.function != "_[_]")
            case "@in" if isinstance(expr.args[1], ast.ListExpr) and not expr.args[1].elements:
                return False  # upstream does not even look at the item
            case "@not_strictly_false":
                try:
                    value = self.value(expr.args[0], scope)
                except CelRuntimeError:
                    return True
                return value if type(value) is bool else True
        return self.function(expr, scope)

    def logical(self, expr: ast.FunctionCall, scope: Scope) -> bool:
        deciding = expr.function == "_||_"
        error: CelRuntimeError | None = None
        for arg in expr.args:
            try:
                value = self.value(arg, scope)
            except CelRuntimeError as exc:
                error = error or exc
                continue
            if type(value) is not bool:
                error = error or CelNoSuchOverload()
            elif value == deciding:
                return deciding
        if error is not None:
            raise error
        return not deciding

    def function(self, expr: ast.FunctionCall, scope: Scope) -> Value:
        target = expr.target
        prefix = qualified_name(target) if target is not None else None
        found = self.declared.function(f"{prefix}.{expr.function}") if prefix is not None else None
        operands = expr.args if target is None or found is not None else [target, *expr.args]
        if expr.function in ("or", "orValue") and len(operands) == 2:
            return self.either(operands, expr.function == "orValue", scope)
        member = target is not None and found is None
        found = found or self.declared.function(expr.function)
        values = [self.value(operand, scope) for operand in operands]
        if found is None:
            raise CelNoSuchOverload
        overloads = [o for o in found.overloads if o.member == member and len(o.params) == len(values)]
        impl = dispatch(found.name, overloads, values).impl
        assert impl is not None
        return impl(*values)

    def either(self, operands: list[Expr], unwrap: bool, scope: Scope) -> Value:
        left = self.value(operands[0], scope)
        if type(left) is not Optional:
            raise CelNoSuchOverload
        if left.present:
            return left.value if unwrap else left
        return self.value(operands[1], scope)

    def fold(self, expr: ast.Comprehension, scope: Scope) -> Value:
        """The accumulator may be an error; a bound name is computed when it is read."""
        ranged = self.value(expr.range, scope)
        items = elements(ranged) if expr.variable2 is None else entries(ranged)
        accumulated: Value = lambda: self.value(expr.init, scope)  # noqa: E731 - a value computed when it is read
        for item in items:
            loop = {expr.variable: item}
            if expr.variable2 is not None:
                loop = dict(zip((expr.variable, expr.variable2), item, strict=True))
            inner = {**scope, expr.accumulator: accumulated, **loop}
            if self.attempt(expr.condition, inner) is False:
                break
            accumulated = self.attempt(expr.step, inner)
        return self.value(expr.result, {**scope, expr.accumulator: accumulated})

    def attempt(self, expr: Expr, scope: Scope) -> Value:
        try:
            return self.value(expr, scope)
        except CelRuntimeError as exc:
            return exc
