"""A checked tree made ready to run: constants computed, names turned into slots, overloads chosen.

The plan is what both evaluators read: the compiler, which turns it into closures, and the meter, which walks
it to count costs where an error occurred. Its shapes follow upstream's planner, because costs are counted on
them and not on the syntax:

* A :class:`Path` is a variable (or any value) with the steps into it: ``device.attributes["x"].y`` is one node
  with three steps. ``c ? a : b`` is a :class:`Choice` between paths, and steps behind it go into both.
* Literals of constants, and conversions of constants, are constants and cost nothing. A conversion that
  fails, or a literal pattern that is no regular expression, is a fault of the text.
* ``x in [constants]`` is a look-up in a set that costs nothing; in an empty list it is ``false``.

Every variable, declared or bound, has a slot in the frame of an evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from allotment.cel import ast
from allotment.cel.ast import Expr
from allotment.cel.certainty import certainties
from allotment.cel.checker import Checked
from allotment.cel.declare import Function, Overload
from allotment.cel.dispatch import certain, dispatch
from allotment.cel.errors import CelCheckError, CelRuntimeError
from allotment.cel.library.regex import LiteralPatterns
from allotment.cel.recursion import Recursive, run
from allotment.cel.values import UInt, Value, make_literal_map

FIRST_SLOT = 4
"""Slots before it belong to the evaluation itself: cost so far, limit, whether an error was absorbed."""

_CONVERSIONS = frozenset(
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"]
)
# fmt: off
_GENERIC = frozenset({
    "_+_", "_-_", "_*_", "_/_", "_%_", "-_", "!_", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "@in", "size",
    "type", "dyn", "matches", "@not_strictly_false", "sort", "lists.@sortByAssociatedKeys",
})
"""Functions with one implementation for all their overloads: the values decide, whatever the checker chose."""
# fmt: on
PATTERNS = frozenset({"matches", "find", "findAll"})
"""Functions whose second argument is a regular expression."""
_KEYS = frozenset({str, int, UInt, float, bool})
_PRIMITIVES = frozenset({str, int, UInt, float, bool})


@dataclass(slots=True, eq=False)
class PlanNode:
    id: int


@dataclass(slots=True, eq=False)
class Const(PlanNode):
    value: Value


@dataclass(slots=True, eq=False)
class PathStep:
    """One link of a path: a constant key, or a key computed by a node."""

    id: int
    key: Value
    node: PlanNode | None = None
    optional: bool = False
    """``[?key]``: an absent key ends the path with ``optional.none()``."""
    test: bool = False
    """The last link of ``has``: true or false instead of the value."""
    strict: bool = False
    """Reading a key of a value without keys is an error, not an absence."""


@dataclass(slots=True, eq=False)
class Path(PlanNode):
    slot: int | None
    """The variable it starts from, or None if it starts from ``origin``."""
    origin: PlanNode | None
    steps: list[PathStep] = field(default_factory=list)
    name: str = ""

    @property
    def last_id(self) -> int:
        return self.steps[-1].id if self.steps else self.id


@dataclass(slots=True, eq=False)
class Conditional(PlanNode):
    """``test ? yes : no``."""

    test: PlanNode
    yes: Path | Conditional
    no: Path | Conditional

    @property
    def last_id(self) -> int:
        return self.yes.last_id if self.yes.last_id == self.no.last_id else self.id


@dataclass(slots=True, eq=False)
class Presence(PlanNode):
    """``has(…)``: a path whose last step tests."""

    path: Path | Conditional


@dataclass(slots=True, eq=False)
class PlannedCall(PlanNode):
    function: Function
    overload: str
    """The id, or "" if it is found out at run time."""
    args: list[PlanNode]
    impl: Overload | None
    """The overload to call without testing the arguments, if the checker is certain."""
    overloads: tuple[Overload, ...]
    """The overloads to choose from by the values."""
    strict: bool = True
    stops: bool = False
    """Whether upstream evaluates no argument after one that failed. This affects only costs."""


@dataclass(slots=True, eq=False)
class Logical(PlanNode):
    conjunction: bool
    terms: list[PlanNode]


@dataclass(slots=True, eq=False)
class OrElse(PlanNode):
    """``left.or(right)`` and, with ``unwrap``, ``left.orValue(right)``."""

    left: PlanNode
    right: PlanNode
    unwrap: bool


@dataclass(slots=True, eq=False)
class Among(PlanNode):
    """``item in [constants]``."""

    item: PlanNode
    values: frozenset[tuple[bool, Value]]


@dataclass(slots=True, eq=False)
class MakeList(PlanNode):
    elements: list[PlanNode]
    optional: frozenset[int]


@dataclass(slots=True, eq=False)
class MakeMap(PlanNode):
    entries: list[tuple[PlanNode, PlanNode, bool]]
    """Key, value, and whether the value is an optional to be unwrapped or left out."""
    unique_keys: bool


@dataclass(slots=True, eq=False)
class Fold(PlanNode):
    range: PlanNode
    variable: int
    variable2: int | None
    accumulator: int
    init: PlanNode
    condition: PlanNode
    step: PlanNode
    result: PlanNode

    @property
    def binds(self) -> bool:
        """Whether this is ``cel.bind``: nothing to iterate over, only a name."""
        return isinstance(self.range, Const) and self.range.value == []


@dataclass(slots=True)
class ExecutionPlan:
    root: PlanNode
    slots: int
    """Size of the frame."""
    variables: dict[str, int]
    """Slots to fill before an evaluation, by name."""
    accumulators: frozenset[int]


@dataclass(frozen=True, slots=True)
class LanguageRules:
    """The rules in which dialects differ; the defaults are Kubernetes'."""

    fold_failures: bool = True
    """A constant conversion that fails is a fault of the text, not of the evaluation."""
    unique_keys: bool = False
    """A map literal that repeats a key is an error; else the last entry wins."""
    strict_presence: bool = False
    """Asking whether a number or a string has a field is an error; else it has none."""


KUBERNETES = LanguageRules()


def plan(checked: Checked, rules: LanguageRules = KUBERNETES) -> ExecutionPlan:
    """Raises :class:`CelCheckError`."""
    planner = _Planner(checked, rules)
    root = run(planner.node(checked.expr))
    return ExecutionPlan(root, planner.slots, planner.variables, frozenset(planner.accumulators))


def children(node: PlanNode) -> Iterator[PlanNode]:
    """Nodes directly inside a node."""
    match node:
        case Path():
            if node.origin is not None:
                yield node.origin
            yield from (step.node for step in node.steps if step.node is not None)
        case Conditional():
            yield from (node.test, node.yes, node.no)
        case Presence():
            yield node.path
        case PlannedCall():
            yield from node.args
        case Logical():
            yield from node.terms
        case OrElse():
            yield from (node.left, node.right)
        case Among():
            yield node.item
        case MakeList():
            yield from node.elements
        case MakeMap():
            yield from (part for key, value, _ in node.entries for part in (key, value))
        case Fold():
            yield from (node.range, node.init, node.condition, node.step, node.result)


def nodes(root: PlanNode) -> Iterator[PlanNode]:
    """Every node, parents first."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(children(node))


def closed_nodes(root: PlanNode) -> frozenset[int]:
    """Ids of nodes that read no variable but those bound inside them: their value is always the same."""
    free: dict[int, frozenset[int]] = {}
    closed: set[int] = set()
    for node in reversed(list(nodes(root))):
        slots = frozenset[int]().union(*(free[id(child)] for child in children(node)))
        if isinstance(node, Path) and node.slot is not None:
            slots |= {node.slot}
        elif isinstance(node, Fold):
            slots -= {node.accumulator, node.variable, node.variable2}
        free[id(node)] = slots
        if not slots:
            closed.add(node.id)
    return frozenset(closed)


def node_id(node: PlanNode) -> int:
    """The id under which upstream files the value of a node: a path's is that of its last step."""
    return node.last_id if isinstance(node, Path | Conditional) else node.id


def among_key(value: Value) -> tuple[bool, Value]:
    """A key that is equal only for equal primitive values, whereas in Python ``True == 1``."""
    return type(value) is bool, value


class _Planner:
    def __init__(self, checked: Checked, rules: LanguageRules) -> None:
        self.checked = checked
        self.rules = rules
        self.slots = FIRST_SLOT
        self.variables: dict[str, int] = {}
        self.accumulators: set[int] = set()
        self.locals: list[dict[str, int]] = []
        self.sure = certainties(checked)
        self.patterns = LiteralPatterns()

    def fault(self, expr: Expr, message: str) -> NoReturn:
        raise CelCheckError([self.checked.source.issue(expr.position, message)])

    def slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def node(self, expr: Expr) -> Recursive[PlanNode]:
        match expr:
            case ast.Literal():
                return Const(expr.id, expr.value)
            case ast.Ident():
                return self.name(expr)
            case ast.Select() if expr.id in self.checked.names:
                return self.name(expr)
            case ast.Select():
                inner = self.select(expr)
            case ast.FunctionCall():
                inner = self.call(expr)
            case ast.ListExpr():
                inner = self.list(expr)
            case ast.MapExpr():
                inner = self.map(expr)
            case ast.Comprehension():
                inner = self.fold(expr)
            case _:
                self.fault(expr, "objects cannot be built here")
        built: PlanNode = yield inner
        return built

    def name(self, expr: ast.Ident | ast.Select) -> PlanNode:
        variable = self.checked.names[expr.id]
        if variable.constant:
            return Const(expr.id, variable.value)
        if variable.local:
            slot = next(scope[variable.name] for scope in reversed(self.locals) if variable.name in scope)
        else:
            slot = self.variables.get(variable.name, 0) or self.slot()
            self.variables[variable.name] = slot
        return Path(expr.id, slot, None, name=variable.name)

    # --- paths

    def select(self, expr: ast.Select) -> Recursive[PlanNode]:
        operand: PlanNode = yield self.node(expr.operand)
        path = self.path(operand)
        _extend(path, PathStep(expr.id, expr.field, test=expr.test_only, strict=self.rules.strict_presence))
        return Presence(expr.id, path) if expr.test_only else path

    def path(self, node: PlanNode) -> Path | Conditional:
        if isinstance(node, Path | Conditional):
            return node
        return Path(node.id, None, node)

    def index(self, expr: ast.FunctionCall, operand: PlanNode, key: PlanNode, optional: bool) -> PlanNode:
        path = self.path(operand)
        constant = isinstance(key, Const) and type(key.value) in _KEYS
        if isinstance(key, Const) and not constant and self.rules.fold_failures:
            self.fault(expr, "invalid qualifier type: a list or map cannot be indexed by this")
        step = PathStep(
            expr.id,
            key.value if isinstance(key, Const) else None,
            None if constant else key,
            optional=optional,
            strict=self.rules.strict_presence,
        )
        _extend(path, step)
        return path

    # --- calls

    def call(self, expr: ast.FunctionCall) -> Recursive[PlanNode]:
        resolution = self.checked.calls[expr.id]
        operands = list(expr.args)
        if expr.target is not None and not resolution.namespaced:
            operands.insert(0, expr.target)
        args: list[PlanNode] = []
        for operand in operands:
            args.append((yield self.node(operand)))  # noqa: PERF401 - a comprehension cannot yield
        name = resolution.function.name
        match name:
            case "_&&_" | "_||_":
                return Logical(expr.id, name == "_&&_", args)
            case "_?_:_":
                return Conditional(expr.id, args[0], self.branch(args[1]), self.branch(args[2]))
            case "_[_]" | "_[?_]" | "_?._":
                return self.index(expr, args[0], args[1], optional=name != "_[_]")
            case "or" | "orValue" if len(args) == 2:
                return OrElse(expr.id, args[0], args[1], unwrap=name == "orValue")
        overloads = resolution.overloads
        call = self.plain_call(expr, resolution.function, overloads, operands, args)
        if isinstance(call, PlannedCall) and call.overload == "in_list" and isinstance(args[1], Const):
            return self.among(call, args[0], args[1].value)
        if name in _CONVERSIONS and len(args) == 1 and isinstance(args[0], Const):
            return self.converted(expr, call, args[0])
        if name in PATTERNS and len(args) >= 2 and isinstance(args[1], Const) and type(args[1].value) is str:
            self.check_pattern(expr, args[1].value)
        return call

    def branch(self, node: PlanNode) -> Path | Conditional:
        return node.path if isinstance(node, Presence) else self.path(node)

    def plain_call(
        self,
        expr: ast.FunctionCall,
        function: Function,
        overloads: tuple[Overload, ...],
        operands: list[Expr],
        args: list[PlanNode],
    ) -> PlannedCall:
        single = overloads[0] if len(overloads) == 1 else None
        types = [self.sure.get(operand.id) for operand in operands]
        sure = single is not None and all(
            given is not None and certain(param, given)
            for param, given in zip(single.params, types, strict=True)
        )
        generic = function.name in _GENERIC
        if single is None or generic:
            member = overloads[0].member if overloads else False
            overloads = tuple(
                o for o in function.overloads if o.member == member and len(o.params) == len(args)
            )
        pattern = function.name in PATTERNS and len(args) >= 2 and isinstance(args[1], Const)
        return PlannedCall(
            expr.id,
            function,
            single.id if single is not None else "",
            args,
            single if sure else None,
            overloads,
            strict=function.name != "@not_strictly_false",
            stops=len(args) > 2 or pattern or (single is None and not generic) or function.name == "format",
        )

    def among(self, call: PlannedCall, item: PlanNode, values: list[Value]) -> PlanNode:
        if not values:
            return Const(call.id, False)
        if any(type(value) not in _PRIMITIVES for value in values):
            return call
        return Among(call.id, item, frozenset(map(among_key, values)))

    def converted(self, expr: ast.FunctionCall, call: PlannedCall, arg: Const) -> PlanNode:
        try:
            impl = call.impl or dispatch(call.function.name, call.overloads, (arg.value,))
            assert impl.impl is not None
            return Const(expr.id, impl.impl(arg.value))
        except CelRuntimeError as exc:
            if self.rules.fold_failures:
                self.fault(expr, str(exc))
            return call

    def check_pattern(self, expr: ast.FunctionCall, pattern: str) -> None:
        try:
            self.patterns.check(pattern)
        except CelRuntimeError as exc:
            if self.rules.fold_failures:
                self.fault(expr, str(exc))

    # --- aggregates

    def list(self, expr: ast.ListExpr) -> Recursive[PlanNode]:
        elements: list[PlanNode] = []
        for element in expr.elements:
            elements.append((yield self.node(element)))  # noqa: PERF401 - a comprehension cannot yield
        if not expr.optional and all(isinstance(e, Const) for e in elements):
            return Const(expr.id, [e.value for e in elements if isinstance(e, Const)])
        return MakeList(expr.id, elements, expr.optional)

    def map(self, expr: ast.MapExpr) -> Recursive[PlanNode]:
        entries: list[tuple[PlanNode, PlanNode, bool]] = []
        for entry in expr.entries:
            key: PlanNode = yield self.node(entry.key)
            value: PlanNode = yield self.node(entry.value)
            entries.append((key, value, entry.optional))
        constants = [
            (key.value, value.value)
            for key, value, optional in entries
            if isinstance(key, Const) and isinstance(value, Const) and not optional
        ]
        if len(constants) == len(entries):
            try:
                return Const(expr.id, make_literal_map(constants, self.rules.unique_keys))
            except CelRuntimeError:
                pass  # raised again at every evaluation
        return MakeMap(expr.id, entries, self.rules.unique_keys)

    def fold(self, expr: ast.Comprehension) -> Recursive[PlanNode]:
        init: PlanNode = yield self.node(expr.init)
        ranged: PlanNode = yield self.node(expr.range)
        accumulator, variable = self.slot(), self.slot()
        variable2 = self.slot() if expr.variable2 is not None else None
        self.accumulators.add(accumulator)
        self.locals.append({expr.accumulator: accumulator})
        loop = {expr.variable: variable}
        if expr.variable2 is not None and variable2 is not None:
            loop[expr.variable2] = variable2
        self.locals.append(loop)
        condition: PlanNode = yield self.node(expr.condition)
        step: PlanNode = yield self.node(expr.step)
        self.locals.pop()
        result: PlanNode = yield self.node(expr.result)
        self.locals.pop()
        return Fold(expr.id, ranged, variable, variable2, accumulator, init, condition, step, result)


def _extend(path: Path | Conditional, step: PathStep) -> None:
    """A step behind a choice is a step behind both its branches."""
    pending: list[Path | Conditional] = [path]
    while pending:
        target = pending.pop()
        if isinstance(target, Conditional):
            pending += (target.yes, target.no)
        else:
            target.steps.append(step)
