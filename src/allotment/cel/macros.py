"""The macros of the language: what looks like a call and is rewritten into folds before anything else sees it.

``has`` becomes a presence test. The quantifiers and ``map``, ``filter`` fold with a hidden accumulator whose
name no expression can write. ``cel.bind`` is a fold over nothing whose accumulator is the bound name. The
shapes are upstream's, because costs are counted on them.
"""

from __future__ import annotations

from allotment.cel.ast import Expr, Factory, Ident, Select
from allotment.cel.declare import Expander, Macro, MacroError, namespace

ACCUMULATOR = "@result"
_OLD_ACCUMULATOR = "__result__"

MOST_TREE_NODES = 20_000
"""The largest expression of which ``optMap`` still copies a part. 10 KiB of text without copies stay below."""


def _variable(expr: Expr, complaint: str = "argument must be a simple name") -> str:
    if not isinstance(expr, Ident):
        raise MacroError(expr, complaint)
    if expr.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise MacroError(expr, "iteration variable overwrites accumulator variable")
    return expr.name


def _variables(args: list[Expr], count: int) -> tuple[str, str | None]:
    first = _variable(args[0])
    if count == 1:
        return first, None
    second = _variable(args[1])
    if first == second:
        raise MacroError(args[1], f"duplicate variable name: {first}")
    return first, second


def _result(make: Factory) -> Expr:
    return make.ident(ACCUMULATOR)


def _has(make: Factory, target: Expr | None, args: list[Expr]) -> Expr:
    operand = args[0]
    if not isinstance(operand, Select) or operand.test_only:
        raise MacroError(operand, "invalid argument to has() macro")
    return Select(make.fresh(), make.position, operand.operand, operand.field, test_only=True)


def _quantifier(variables: int, universal: bool) -> Expander:
    def expand(make: Factory, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        first, second = _variables(args, variables)
        accumulated = _result(make) if universal else make.call("!_", _result(make))
        return make.fold(
            target,
            first,
            ACCUMULATOR,
            make.literal(universal),
            make.call("@not_strictly_false", accumulated),
            make.call("_&&_" if universal else "_||_", _result(make), args[variables]),
            _result(make),
            second,
        )

    return expand


def _exists_one(variables: int) -> Expander:
    def expand(make: Factory, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        first, second = _variables(args, variables)
        counted = make.call("_+_", _result(make), make.literal(1))
        return make.fold(
            target,
            first,
            ACCUMULATOR,
            make.literal(0),
            make.literal(True),
            make.call("_?_:_", args[variables], counted, _result(make)),
            make.call("_==_", _result(make), make.literal(1)),
            second,
        )

    return expand


def _transform(variables: int) -> Expander:
    """``map``, ``transformList``: with one argument more than variables and value, the first is a filter."""

    def expand(make: Factory, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        first, second = _variables(args, variables)
        step = make.call("_+_", _result(make), make.list(args[-1]))
        return _collect(make, target, first, second, make.list(), _filtered(make, args, variables, step))

    return expand


def _filter(make: Factory, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    variable = _variable(args[0], "argument is not an identifier")
    step = make.call("_+_", _result(make), make.list(args[0]))
    step = make.call("_?_:_", args[1], step, _result(make))
    return _collect(make, target, variable, None, make.list(), step)


def _transform_map(make: Factory, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    first, second = _variables(args, 2)
    step = make.call("cel.@mapInsert", _result(make), make.ident(first), args[-1])
    return _collect(make, target, first, second, make.map(), _filtered(make, args, 2, step))


def _transform_map_entry(make: Factory, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    first, second = _variables(args, 2)
    step = make.call("cel.@mapInsert", _result(make), args[-1])
    return _collect(make, target, first, second, make.map(), _filtered(make, args, 2, step))


def _filtered(make: Factory, args: list[Expr], variables: int, step: Expr) -> Expr:
    if len(args) == variables + 1:
        return step
    return make.call("_?_:_", args[variables], step, _result(make))


def _collect(make: Factory, target: Expr, first: str, second: str | None, init: Expr, step: Expr) -> Expr:
    return make.fold(target, first, ACCUMULATOR, init, make.literal(True), step, _result(make), second)


def _bind(make: Factory, target: Expr | None, args: list[Expr]) -> Expr | None:
    if not namespace(target, "cel"):
        return None
    if not isinstance(args[0], Ident):
        raise MacroError(args[0], "cel.bind() variable names must be simple identifiers")
    return make.bind(args[0].name, args[1], args[2])


def _optional_map(flat: bool) -> Expander:
    name = "optFlatMap" if flat else "optMap"

    def expand(make: Factory, target: Expr | None, args: list[Expr]) -> Expr:
        assert target is not None
        if not isinstance(args[0], Ident):
            raise MacroError(args[0], f"{name}() variable name must be a simple identifier")
        if make.next_id > MOST_TREE_NODES:
            raise MacroError(target, f"too many {name}() in a row: each doubles what comes before it")
        present = make.member_call(target, "hasValue")
        value = make.bind(args[0].name, make.member_call(make.copy(target), "value"), args[1])
        mapped = value if flat else make.call("optional.of", value)
        return make.call("_?_:_", present, mapped, make.call("optional.none"))

    return expand


STANDARD = (
    Macro("has", 1, _has, receiver=False),
    Macro("all", 2, _quantifier(1, universal=True)),
    Macro("exists", 2, _quantifier(1, universal=False)),
    Macro("exists_one", 2, _exists_one(1)),
    Macro("map", 2, _transform(1)),
    Macro("map", 3, _transform(1)),
    Macro("filter", 2, _filter),
)
TWO_VARIABLES = (
    Macro("all", 3, _quantifier(2, universal=True)),
    Macro("exists", 3, _quantifier(2, universal=False)),
    Macro("exists_one", 3, _exists_one(2)),
    Macro("existsOne", 3, _exists_one(2)),
    Macro("transformList", 3, _transform(2)),
    Macro("transformList", 4, _transform(2)),
    Macro("transformMap", 3, _transform_map),
    Macro("transformMap", 4, _transform_map),
    Macro("transformMapEntry", 3, _transform_map_entry),
    Macro("transformMapEntry", 4, _transform_map_entry),
)
BINDINGS = (Macro("bind", 3, _bind),)
OPTIONALS = (Macro("optMap", 2, _optional_map(flat=False)), Macro("optFlatMap", 2, _optional_map(flat=True)))
