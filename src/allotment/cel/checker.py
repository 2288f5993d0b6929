"""Types and references for every node of a tree, or the faults that prevent them.

Bottom up, as upstream does it: arguments first, then the overloads of the function that fit them. Several may
fit when arguments are dynamic; the result is then dynamic too unless they agree, and the choice is made at
run time. What was learnt is not written into the tree but kept beside it, by node id: the type, for names the
variable they mean, for calls the function and its candidate overloads.

All faults are reported together; a faulty node has the error type, which fits everything, so that one mistake
is reported once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from allotment.cel import ast, types
from allotment.cel.ast import Expr
from allotment.cel.declare import Function, Overload
from allotment.cel.errors import CelCheckError, Issue, SourceText
from allotment.cel.inference import TooComplex, TypeBindings, more_general
from allotment.cel.parser import Syntax
from allotment.cel.recursion import Recursive, run
from allotment.cel.scope import Declarations, Variable
from allotment.cel.types import Type, TypeKind, describe, is_dynamic, is_optional
from allotment.cel.values import UInt


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a call means: the function, and the overloads that fit its arguments."""

    function: Function
    overloads: tuple[Overload, ...]
    namespaced: bool = False
    """``a.f(x)`` where ``a.f`` is the function's name: the receiver is no argument."""


@dataclass(slots=True)
class Checked:
    """A tree that type-checks, with what is known about its nodes."""

    source: SourceText
    expr: Expr
    types: dict[int, Type] = field(default_factory=dict)
    names: dict[int, Variable] = field(default_factory=dict)
    """By the id of an identifier, or of a selection that is a qualified name."""
    calls: dict[int, Resolution] = field(default_factory=dict)

    @property
    def output(self) -> Type:
        return self.types[self.expr.id]


def check(syntax: Syntax, declarations: Declarations) -> Checked:
    """Raises :class:`CelCheckError` with every fault found."""
    checker = _Checker(syntax, declarations)
    try:
        run(checker.check(syntax.expr))
        for node, type_ in checker.out.types.items():
            checker.out.types[node] = checker.bindings.resolve(type_, free_is_dyn=True)
    except TooComplex:
        checker.fault(checker.position, "the types in this expression are too complex")
    if checker.issues:
        raise CelCheckError(checker.issues)
    return checker.out


def qualified_name(expr: Expr) -> str | None:
    """``a.b.c`` as one name, if the expression is nothing but names and dots."""
    parts: list[str] = []
    while isinstance(expr, ast.Select) and not expr.test_only:
        parts.append(expr.field)
        expr = expr.operand
    if not isinstance(expr, ast.Ident):
        return None
    return ".".join([expr.name, *reversed(parts)])


_LITERALS: dict[type, Type] = {
    type(None): types.NULL,
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
}


class _Checker:
    def __init__(self, syntax: Syntax, declarations: Declarations) -> None:
        self.out = Checked(syntax.source, syntax.expr)
        self.declared = declarations
        self.bindings = TypeBindings()
        self.scopes: list[dict[str, Variable]] = []
        self.issues: list[Issue] = []
        self.position = 0

    def fault(self, position: int, message: str) -> Type:
        self.issues.append(self.out.source.issue(position, message))
        return types.ERROR

    def undeclared(self, position: int, name: str) -> Type:
        return self.fault(
            position, f"undeclared reference to '{name}' (in container '{self.declared.container}')"
        )

    def mismatch(self, expr: Expr, wanted: Type, given: Type) -> Type:
        return self.fault(expr.position, f"expected type '{describe(wanted)}' but found '{describe(given)}'")

    def type_of(self, expr: Expr) -> Type:
        return self.out.types[expr.id]

    # --- names

    def local(self, name: str) -> Variable | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def check(self, expr: Expr) -> Recursive[None]:
        self.position = expr.position
        match expr:
            case ast.Literal():
                type_ = _LITERALS[type(expr.value)]
            case ast.Ident():
                type_ = self.identifier(expr)
            case ast.Select():
                type_ = yield self.selection(expr)
            case ast.FunctionCall():
                type_ = yield self.call(expr)
            case ast.ListExpr():
                type_ = yield self.list(expr)
            case ast.MapExpr():
                type_ = yield self.map(expr)
            case ast.Comprehension():
                type_ = yield self.comprehension(expr)
            case ast.ObjectExpr():
                type_ = self.object(expr)
            case _:
                raise AssertionError(expr)
        self.out.types[expr.id] = type_

    def identifier(self, expr: ast.Ident) -> Type:
        found = self.local(expr.name) or self.declared.variable(expr.name)
        if found is None:
            return self.undeclared(expr.position, expr.name)
        self.out.names[expr.id] = found
        return found.type

    def selection(self, expr: ast.Select) -> Recursive[Type]:
        """A qualified name if one is declared, else a field of the operand."""
        name = qualified_name(expr)
        if name is not None and self.local(name.partition(".")[0]) is None:
            found = self.declared.variable(name)
            if found is not None:
                self.out.names[expr.id] = found
                return found.type
        field_type: Type = yield self.field(expr, expr.operand, expr.field, optional=False)
        return types.BOOL if expr.test_only else self.bindings.resolve(field_type)

    def field(self, expr: Expr, operand: Expr, name: str, optional: bool) -> Recursive[Type]:
        yield self.check(operand)
        owner = self.bindings.resolve(self.type_of(operand))
        unwrapped = owner.params[0] if is_optional(owner) else owner
        match unwrapped.kind:
            case TypeKind.MAP:
                result = unwrapped.params[1]
            case TypeKind.OBJECT:
                fields = self.declared.fields.get(unwrapped.name, {})
                result = fields.get(name, types.ERROR)
                if name not in fields:
                    self.fault(expr.position, f"undefined field '{name}'")
            case TypeKind.PARAM:
                self.bindings.assign(types.DYN, unwrapped)
                result = types.DYN
            case _:
                if not is_dynamic(unwrapped):
                    self.fault(
                        expr.position, f"type '{describe(unwrapped)}' does not support field selection"
                    )
                result = types.DYN
        return types.optional_of(result) if optional or is_optional(owner) else result

    # --- calls

    def call(self, expr: ast.FunctionCall) -> Recursive[Type]:
        if expr.function == "_?._":
            label = expr.args[1]
            assert isinstance(label, ast.Literal)
            self.out.types[label.id] = types.STRING
            result: Type = yield self.field(expr, expr.args[0], label.value, optional=True)
            function = self.declared.functions["_?._"]
            self.out.calls[expr.id] = Resolution(function, function.overloads)
            return self.bindings.resolve(result)
        for arg in expr.args:
            yield self.check(arg)
        target = expr.target
        if target is not None:
            prefix = qualified_name(target)
            function_ = None if prefix is None else self.declared.function(f"{prefix}.{expr.function}")
            if function_ is not None:
                return self.resolve(expr, function_, None, namespaced=True)
            yield self.check(target)
        found = self.declared.function(expr.function)
        if found is None:
            return self.undeclared(expr.position, expr.function)
        return self.resolve(expr, found, target)

    def resolve(
        self, expr: ast.FunctionCall, function: Function, target: Expr | None, namespaced: bool = False
    ) -> Type:
        operands = expr.args if target is None else [target, *expr.args]
        given = [self.type_of(operand) for operand in operands]
        if function.name in ("_&&_", "_||_"):
            return self.logical(expr, function, given)
        fitting: list[Overload] = []
        result: Type | None = None
        for overload in function.overloads:
            if overload.member != (target is not None) or overload.id in self.declared.disabled:
                continue
            params, returned = self.instance(overload)
            if self.bindings.assign_all(given, params):
                fitting.append(overload)
                returned = self.bindings.resolve(returned)
                if result is None:
                    result = returned
                elif not is_dynamic(result) and returned != result:
                    result = types.DYN
        if result is None:
            shown = [describe(self.bindings.resolve(type_, free_is_dyn=True)) for type_ in given]
            receiver = f"{shown.pop(0)}." if target is not None else ""
            message = f"found no matching overload for '{function.name}' applied to '{receiver}({', '.join(shown)})'"
            return self.fault(expr.position, message)
        self.out.calls[expr.id] = Resolution(function, tuple(fitting), namespaced)
        return result

    def logical(self, expr: ast.FunctionCall, function: Function, given: list[Type]) -> Type:
        result = types.BOOL
        for arg, type_ in zip(expr.args, given, strict=True):
            if not self.bindings.assign(type_, types.BOOL):
                result = self.mismatch(arg, types.BOOL, self.bindings.resolve(type_))
        self.out.calls[expr.id] = Resolution(function, function.overloads)
        return result

    def instance(self, overload: Overload) -> tuple[list[Type], Type]:
        """The signature with variables of its own in place of its parameters."""
        fresh: dict[str, Type] = {}
        return [self.renamed(p, fresh) for p in overload.params], self.renamed(overload.result, fresh)

    def renamed(self, type_: Type, fresh: dict[str, Type]) -> Type:
        if type_.kind is TypeKind.PARAM:
            if type_.name not in fresh:
                fresh[type_.name] = self.bindings.variable()
            return fresh[type_.name]
        if not type_.params:
            return type_
        return Type(
            type_.kind, type_.name, tuple([self.renamed(p, fresh) for p in type_.params]), type_.nullable
        )

    # --- aggregates

    def list(self, expr: ast.ListExpr) -> Recursive[Type]:
        joined: Type | None = None
        for number, element in enumerate(expr.elements):
            yield self.check(element)
            type_ = self.type_of(element)
            if number in expr.optional:
                type_ = self.unwrapped(element, type_)
            joined = self.join(joined, type_)
        return types.list_of(self.bindings.variable() if joined is None else joined)

    def map(self, expr: ast.MapExpr) -> Recursive[Type]:
        keys: Type | None = None
        values: Type | None = None
        for entry in expr.entries:
            yield self.check(entry.key)
            keys = self.join(keys, self.type_of(entry.key))
            yield self.check(entry.value)
            type_ = self.type_of(entry.value)
            if entry.optional:
                type_ = self.unwrapped(entry.value, type_)
            values = self.join(values, type_)
        if keys is None or values is None:
            return types.map_of(self.bindings.variable(), self.bindings.variable())
        return types.map_of(keys, values)

    def unwrapped(self, expr: Expr, type_: Type) -> Type:
        if is_optional(type_):
            return type_.params[0]
        if not is_dynamic(type_):
            self.mismatch(expr, types.optional_of(type_), type_)
        return type_

    def join(self, previous: Type | None, current: Type) -> Type:
        """The type of an aggregate's parts; parts that do not fit together make it dynamic."""
        if previous is None:
            return current
        return more_general(previous, current) if self.bindings.assign(previous, current) else types.DYN

    def object(self, expr: ast.ObjectExpr) -> Type:
        """No type of ours can be built by naming its fields, so this only chooses the words."""
        found = self.declared.variable(expr.name)
        if found is None:
            return self.undeclared(expr.position, expr.name)
        if found.type.kind is not TypeKind.TYPE:
            return self.fault(expr.position, f"'{found.type.name}' is not a type")
        return self.fault(expr.position, f"'{found.name}' is not a message type")

    def comprehension(self, expr: ast.Comprehension) -> Recursive[Type]:
        yield self.check(expr.range)
        yield self.check(expr.init)
        ranged = self.bindings.resolve(self.type_of(expr.range))
        accumulated = self.type_of(expr.init)
        self.scopes.append({expr.accumulator: Variable(expr.accumulator, accumulated, local=True)})
        self.scopes.append(self.iteration(expr, ranged))
        yield self.check(expr.condition)
        self.require(expr.condition, types.BOOL)
        yield self.check(expr.step)
        self.require(expr.step, accumulated)
        self.scopes.pop()
        yield self.check(expr.result)
        self.scopes.pop()
        return self.bindings.resolve(self.type_of(expr.result))

    def iteration(self, expr: ast.Comprehension, ranged: Type) -> dict[str, Variable]:
        """The loop variables: elements or keys; with two, index and element or key and value."""
        match ranged.kind:
            case TypeKind.LIST:
                first, second = types.INT, ranged.params[0]
                if expr.variable2 is None:
                    first = second
            case TypeKind.MAP:
                first, second = ranged.params
            case TypeKind.DYN | TypeKind.ERROR | TypeKind.PARAM:
                self.bindings.assign(types.DYN, ranged)
                first = second = types.DYN
            case _:
                message = f"expression of type '{describe(ranged)}' cannot be range of a comprehension"
                first = second = self.fault(expr.range.position, f"{message} (must be list, map, or dynamic)")
        variables = {expr.variable: Variable(expr.variable, first, local=True)}
        if expr.variable2 is not None:
            variables[expr.variable2] = Variable(expr.variable2, second, local=True)
        return variables

    def require(self, expr: Expr, wanted: Type) -> None:
        if not self.bindings.assign(wanted, self.type_of(expr)):
            self.mismatch(expr, self.bindings.resolve(wanted), self.bindings.resolve(self.type_of(expr)))
