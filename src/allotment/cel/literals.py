"""Faults in literals that types do not show.

Functions may look at the literals they are called with (``"%d".format(["x"])``). Kubernetes also wants lists and
maps of one type, though not inside calls that are meant for mixed ones, and checks literal times and patterns.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel import ast
from allotment.cel.ast import Expr
from allotment.cel.checker import Checked
from allotment.cel.errors import CelRuntimeError, Issue
from allotment.cel.library.regex import LiteralPatterns
from allotment.cel.types import Type, describe


def issues(checked: Checked, kubernetes: bool) -> Iterator[Issue]:
    """All faults; with ``kubernetes``, including those that only Kubernetes reports."""
    patterns = LiteralPatterns()
    pending: list[tuple[Expr, bool]] = [(checked.expr, False)]
    while pending:
        expr, mixed = pending.pop()
        resolution = checked.calls.get(expr.id)
        if isinstance(expr, ast.FunctionCall) and resolution is not None:
            mixed = mixed or any(overload.mixed for overload in resolution.overloads)
            yield from _call_issues(checked, expr)
        if kubernetes:
            yield from _kubernetes_issues(checked, expr, mixed, patterns)
        pending.extend((child, mixed) for child in reversed(list(_checked_children(checked, expr))))


def _checked_children(checked: Checked, expr: Expr) -> Iterator[Expr]:
    """Children with a meaning of their own, not the parts of a qualified name."""
    if expr.id in checked.names:
        return
    resolution = checked.calls.get(expr.id)
    if isinstance(expr, ast.FunctionCall) and resolution is not None and resolution.namespaced:
        yield from expr.args
    else:
        yield from ast.children(expr)


def _call_issues(checked: Checked, call: ast.FunctionCall) -> Iterator[Issue]:
    for overload in checked.calls[call.id].overloads:
        if overload.check is not None:
            for place, message in overload.check(call, lambda expr: checked.types[expr.id]):
                yield checked.source.issue(place.position, message)


def _kubernetes_issues(
    checked: Checked, expr: Expr, mixed: bool, patterns: LiteralPatterns
) -> Iterator[Issue]:
    match expr:
        case ast.ListExpr() if not mixed:
            types = [_unwrapped(checked, e, n in expr.optional) for n, e in enumerate(expr.elements)]
            yield from _mixed(checked, list(zip(expr.elements, types, strict=True)))
        case ast.MapExpr() if not mixed:
            yield from _mixed(checked, [(e.key, checked.types[e.key.id]) for e in expr.entries])
            values = [(e.value, _unwrapped(checked, e.value, e.optional)) for e in expr.entries]
            yield from _mixed(checked, values)
        case ast.FunctionCall(function="duration" | "timestamp" | "matches") if expr.args:
            yield from _bad_literal(checked, expr, patterns)


def _unwrapped(checked: Checked, expr: Expr, optional: bool) -> Type:
    type_ = checked.types[expr.id]
    return type_.params[0] if optional and type_.params else type_


def _mixed(checked: Checked, typed: list[tuple[Expr, Type]]) -> Iterator[Issue]:
    for expr, type_ in typed[1:]:
        if not _equivalent(typed[0][1], type_):
            message = f"expected type '{describe(typed[0][1])}' but found '{describe(type_)}'"
            yield checked.source.issue(expr.position, message)
            return


def _equivalent(one: Type, two: Type) -> bool:
    return (
        one.kind is two.kind
        and one.name == two.name
        and len(one.params) == len(two.params)
        and all(map(_equivalent, one.params, two.params))
    )


def _bad_literal(checked: Checked, call: ast.FunctionCall, patterns: LiteralPatterns) -> Iterator[Issue]:
    """The first argument is looked at, also of ``matches(text, pattern)``, where it is the text: upstream's slip."""
    literal = call.args[0]
    if not isinstance(literal, ast.Literal):
        return
    impl = patterns.check if call.function == "matches" else checked.calls[call.id].overloads[0].impl
    if call.function == "matches" and type(literal.value) is not str:
        return
    assert impl is not None
    try:
        impl(literal.value)
    except CelRuntimeError:
        yield checked.source.issue(literal.position, f"invalid {call.function} argument")
