"""Expressions over typed maps, as KEP-4381 semantic parameters (v1alpha2) have them.

There is one map for each type of value: ``quantities``, ``bools``, ``ints``, ``intSlices``, ``strings``,
``stringSlices``, ``versions``. A quantity or a version compares with a string: ``quantities["memory"] >= "8Gi"``.
A literal there is read while compiling, so that a bad one is a fault of the text; versions are read tolerantly
(a leading ``v``, a missing patch level). A missing key is an error that names the key and the map.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from allotment.api.quantity import Quantity, QuantityError
from allotment.api.semver import Version, VersionError
from allotment.cel import ast
from allotment.cel.caching import cached_by_length
from allotment.cel.checker import Checked
from allotment.cel.declare import Function, Library, Overload
from allotment.cel.environment import COST_LIMIT, Environment, Program
from allotment.cel.errors import CelCheckError, CelCompileError, CelNoSuchKey, CelRuntimeError, Issue
from allotment.cel.estimate import Range
from allotment.cel.library import (
    bindings,
    comprehensions,
    lists,
    optionals,
    quantity,
    regex,
    reshape,
    semver,
    sets,
    standard,
    strings,
)
from allotment.cel.plan import Const, Path, PlannedCall, nodes, plan
from allotment.cel.types import BOOL, INT, QUANTITY, SEMVER, STRING, Type, TypeKind, list_of, map_of
from allotment.cel.values import Value

TypedMaps: TypeAlias = Mapping[str, Mapping[str, Value]]
MapRead: TypeAlias = tuple[str, str | None]
"""A map and the key looked up in it; None where any key may be."""

_MAPS: Final[dict[str, Type]] = {
    "quantities": QUANTITY,
    "bools": BOOL,
    "ints": INT,
    "intSlices": list_of(INT),
    "strings": STRING,
    "stringSlices": list_of(STRING),
    "versions": SEMVER,
}
_OPERATORS: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
    "_==_": operator.eq,
    "_!=_": operator.ne,
}


def _as_quantity(value: Value) -> Quantity:
    if isinstance(value, Quantity):
        return value
    try:
        return Quantity.parse(value)
    except QuantityError as exc:
        raise CelRuntimeError(str(exc)) from exc


def _as_version(value: Value) -> Version:
    if isinstance(value, Version):
        return value
    try:
        return Version.parse_tolerant(value)
    except VersionError as exc:
        raise CelRuntimeError(str(exc)) from exc


_READERS: Final[dict[str, Callable[[Value], Value]]] = {"quantity": _as_quantity, "semver": _as_version}


def _comparisons(name: str, compare: Callable[[Value, Value], Value]) -> Function:
    """The operator on quantities and on versions, with a string on either side or none."""
    overloads: list[Overload] = []
    for kind, type_ in (("quantity", QUANTITY), ("semver", SEMVER)):
        read = _READERS[kind]

        def apply(left: Value, right: Value, read: Callable[[Value], Value] = read) -> Value:
            return compare(read(left), read(right))

        overloads += (
            Overload(f"{kind}{name}text", (type_, STRING), BOOL, apply),
            Overload(f"{kind}{name}mirrored", (STRING, type_), BOOL, apply),
        )
        if name not in ("_==_", "_!=_"):
            overloads.append(Overload(f"{kind}{name}same", (type_, type_), BOOL, apply))
    return Function(name, tuple(overloads))


_MOST_ATTRIBUTES: Final = 2112  # 64 attributes of its own, and 32 groups of 64
_LONGEST_NAME: Final = 253
_LONGEST_TEXT: Final = 256
_LONGEST_LIST: Final = 64


def _declared_size(path: tuple[str, ...]) -> Range | None:
    """The largest size of the value at a path, by the limits of a NodeResourceSlice for one level of the tree.

    For deeper trees, the limit at run time applies.
    """
    match path:
        case (name,) if name in _MAPS:
            return Range(0, _MOST_ATTRIBUTES)
        case (name, "@keys") if name in _MAPS:
            return Range(0, _LONGEST_NAME)
        case ("strings", _) | ("stringSlices", _, "@items"):
            return Range(0, _LONGEST_TEXT)
        case ("intSlices" | "stringSlices", _):
            return Range(0, _LONGEST_LIST)
        case ("quantities" | "versions" | "ints" | "bools", _) | ("intSlices", _, "@items"):
            return Range(0, 1)
        case _:
            return None


_LIBRARY: Final = Library("semantic", functions=tuple(_comparisons(n, c) for n, c in _OPERATORS.items()))
_ENVIRONMENT: Final = Environment(
    (
        standard.LIBRARY,
        _LIBRARY,
        optionals.LIBRARY,
        strings.LIBRARY,
        sets.LIBRARY,
        lists.LIBRARY,
        reshape.LIBRARY,
        regex.LIBRARY,
        comprehensions.LIBRARY,
        bindings.LIBRARY,
        quantity.LIBRARY,
        semver.LIBRARY,
    ),
    variables={name: map_of(STRING, type_) for name, type_ in _MAPS.items()},
    homogeneous=True,
    limits=_declared_size,
)


class SemanticSelector:
    """A compiled expression. Immutable."""

    def __init__(self, program: Program) -> None:
        self.expression: Final = program.text
        self.reads: Final = _reads(program)
        self.max_cost: Final = program.worst_case().max
        self._program = program

    def matches(self, maps: TypedMaps, limit: int = COST_LIMIT) -> bool:
        """``maps`` by the names above; one that is left out is empty. Raises :class:`CelRuntimeError`, and for
        a missing key :class:`CelNoSuchKey`."""
        bound = {name: maps.get(name) or {} for name in _MAPS}
        try:
            value = self._program.value(bound, limit)
        except CelNoSuchKey as exc:
            raise self._named(exc, bound) from exc
        if type(value) is not bool:
            raise CelRuntimeError(f"{self.expression!r} gave {value!r}, must give true or false")
        return value

    def _named(self, error: CelNoSuchKey, maps: TypedMaps) -> CelNoSuchKey:
        for name, key in sorted(self.reads, key=repr):
            if key == error.key and key not in maps[name]:
                return CelNoSuchKey(error.key, f"no such key: {key} in {name}")
        return error


def compile_semantic(expression: str) -> SemanticSelector:
    """Compiles a selector, and caches the last ones. Raises :class:`CelCompileError`."""
    found = _compile(expression)
    if isinstance(found, CelCompileError):
        raise found
    return found


@cached_by_length
def _compile(expression: str) -> SemanticSelector | CelCompileError:
    try:
        checked = _ENVIRONMENT.check(expression)
        if checked.output.kind not in (TypeKind.BOOL, TypeKind.DYN):
            message = f"must evaluate to bool, not {checked.output}"
            raise CelCheckError([checked.source.issue(checked.expr.position, message)])
        issues = _bad_literals(checked)
        if issues:
            raise CelCheckError(issues)
        steps = plan(checked)
        for node in nodes(steps.root):
            if isinstance(node, PlannedCall) and node.overload.startswith(tuple(_READERS)):
                _read_literals(node)
        return SemanticSelector(Program(expression, checked, steps, _ENVIRONMENT.limits))
    except CelCompileError as exc:
        return exc.with_traceback(None)


def _bad_literals(checked: Checked) -> list[Issue]:
    issues: list[Issue] = []
    for expr in ast.walk(checked.expr):
        resolution = checked.calls.get(expr.id)
        if (
            not isinstance(expr, ast.FunctionCall)
            or resolution is None
            or resolution.function.name not in _OPERATORS
        ):
            continue
        read = _READERS.get(resolution.overloads[0].id.partition("_")[0])
        for arg in expr.args if read is not None else ():
            if isinstance(arg, ast.Literal) and read is not None:
                try:
                    read(arg.value)
                except CelRuntimeError as exc:
                    issues.append(checked.source.issue(arg.position, str(exc)))
    return issues


def _read_literals(call: PlannedCall) -> None:
    """Replaces literals, which are known to be readable, by their values."""
    read = _READERS[call.overload.partition("_")[0]]
    for arg in call.args:
        if isinstance(arg, Const):
            arg.value = read(arg.value)


def _reads(program: Program) -> frozenset[MapRead]:
    """Maps and keys; ``"k" in ints`` reads a key too. What is not a constant key reads the whole map."""
    slots = {slot: name for name, slot in program.plan.variables.items()}
    reads: set[MapRead] = set()
    asked: set[int] = set()
    for node in nodes(program.plan.root):
        if isinstance(node, PlannedCall) and node.function.name == "@in" and isinstance(node.args[0], Const):
            path = node.args[1]
            if (
                isinstance(path, Path)
                and path.slot in slots
                and not path.steps
                and type(node.args[0].value) is str
            ):
                reads.add((slots[path.slot], node.args[0].value))
                asked.add(id(path))
        elif isinstance(node, Path) and node.slot in slots and id(node) not in asked:
            first = node.steps[0] if node.steps else None
            exact = first is not None and first.node is None and type(first.key) is str
            reads.add((slots[node.slot], first.key if first is not None and exact else None))
    return frozenset(reads)
