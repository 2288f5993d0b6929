"""Type variables and the types bound to them.

``assign`` asks whether a value of one type may stand where another is wanted, and binds free type variables
on the way. A failed question leaves no trace: bindings are kept on a trail and undone. Dynamic types fit
everything; null fits what can be absent (objects, opaques, times, wrappers).
"""

from __future__ import annotations

from collections.abc import Sequence

from allotment.cel import types
from allotment.cel.types import Type, TypeKind, is_dynamic

MAX_WEIGHT = 5000
"""The most terms in one type. ``{x: x}`` doubles with every nesting, so there must be a limit."""

_NULLABLE = frozenset({TypeKind.OPAQUE, TypeKind.OBJECT, TypeKind.ANY, TypeKind.DURATION, TypeKind.TIMESTAMP})
_PARAMETRIC = frozenset({TypeKind.OPAQUE, TypeKind.LIST, TypeKind.MAP, TypeKind.TYPE})


class TooComplex(Exception):
    """A type grew beyond :data:`MAX_WEIGHT`."""


class TypeBindings:
    """Types bound to variables; variables are parameters with names that no signature uses."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []
        self._variables = 0
        self._budget = 0

    def _spend(self) -> None:
        self._budget -= 1
        if self._budget < 0:
            raise TooComplex

    def variable(self) -> Type:
        self._variables += 1
        return types.param(f"_var{self._variables - 1}")

    def assign(self, wanted: Type, given: Type) -> bool:
        return self.assign_all((wanted,), (given,))

    def assign_all(self, wanted: Sequence[Type], given: Sequence[Type]) -> bool:
        """Whether all pairs fit together; only then are bindings kept."""
        mark = len(self._trail)
        self._budget = MAX_WEIGHT
        if self._all(wanted, given):
            return True
        while len(self._trail) > mark:
            name, old = self._trail.pop()
            if old is None:
                del self._bound[name]
            else:
                self._bound[name] = old
        return False

    def resolve(self, type_: Type, free_is_dyn: bool = False) -> Type:
        """The type with bound variables replaced, and the free ones by ``dyn`` if asked."""
        self._budget = MAX_WEIGHT
        return self._resolve(type_, free_is_dyn)

    def _resolve(self, type_: Type, free_is_dyn: bool) -> Type:
        self._spend()
        while type_.kind is TypeKind.PARAM:
            bound = self._bound.get(type_.name)
            if bound is None:
                return types.DYN if free_is_dyn else type_
            type_ = bound
        if not type_.params:
            return type_
        params = tuple([self._resolve(p, free_is_dyn) for p in type_.params])
        return Type(type_.kind, type_.name, params, type_.nullable)

    def _bind(self, name: str, type_: Type) -> None:
        self._trail.append((name, self._bound.get(name)))
        self._bound[name] = type_

    def _all(self, wanted: Sequence[Type], given: Sequence[Type]) -> bool:
        return len(wanted) == len(given) and all(map(self._fits, wanted, given))

    def _fits(self, one: Type, two: Type) -> bool:
        if one is two:
            return True
        self._spend()
        if two.kind is TypeKind.PARAM:
            fits, known = self._substitutes(one, two)
            if fits or known:
                return fits
        if one.kind is TypeKind.PARAM:
            return self._substitutes(two, one)[0]
        if is_dynamic(one) or is_dynamic(two):
            return True
        if one.kind is TypeKind.NULL:
            return _admits_null(two)
        if two.kind is TypeKind.NULL:
            return _admits_null(one)
        if one.kind is TypeKind.TYPE:
            return two.kind is TypeKind.TYPE
        if one.kind in _PARAMETRIC:
            return one.kind is two.kind and one.name == two.name and self._all(one.params, two.params)
        return one.kind is two.kind and one.name == two.name

    def _substitutes(self, type_: Type, variable: Type) -> tuple[bool, bool]:
        """Whether the variable may stand for the type, and whether it was bound already."""
        if type_ == variable:
            return True, True
        bound = self._bound.get(variable.name)
        if bound is not None:
            if type_ == bound:
                return True, True
            if not self._fits(type_, bound):
                return False, True
            general = more_general(type_, bound)
            if self._absent(variable, general):
                self._bind(variable.name, general)
            return True, True
        if self._absent(variable, type_):
            self._bind(variable.name, type_)
            return True, False
        return False, False

    def _absent(self, variable: Type, within: Type) -> bool:
        """Whether the variable does not occur in the type: it cannot stand for something that holds it."""
        pending = [within]
        budget = MAX_WEIGHT
        while pending:
            budget -= 1
            if budget < 0:
                raise TooComplex
            term = pending.pop()
            if term == variable:
                return False
            if term.kind is TypeKind.PARAM:
                bound = self._bound.get(term.name)
                if bound is not None:
                    pending.append(bound)
            else:
                pending.extend(term.params)
        return True


def _admits_null(type_: Type) -> bool:
    return type_.nullable or type_.kind in _NULLABLE or type_.kind is TypeKind.NULL


def more_general(one: Type, two: Type) -> Type:
    """Of two types that fit together, the one that says less."""
    return one if _says_no_more(one, two) else two


def _says_no_more(one: Type, two: Type) -> bool:
    if one.kind in (TypeKind.DYN, TypeKind.ANY, TypeKind.PARAM):
        return True
    if two.kind in (TypeKind.DYN, TypeKind.ANY, TypeKind.PARAM) or one.kind is not two.kind:
        return False
    match one.kind:
        case TypeKind.TYPE:
            return True
        case TypeKind.OPAQUE | TypeKind.LIST | TypeKind.MAP:
            return (
                one.name == two.name
                and len(one.params) == len(two.params)
                and all(map(_says_no_more, one.params, two.params))
            )
        case _:
            return one == two
