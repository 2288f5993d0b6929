"""The declarations by which a library of functions introduces itself to an environment.

A leaf module under ``library/`` exports one ``LIBRARY``: functions with their overloads, macros, types and
constants. An overload's ``impl`` takes the receiver first, then the arguments, as values of
:mod:`allotment.cel.values`; it is pure, returns a value, and raises :class:`CelRuntimeError` to fail.

Costs may be given in two places, because upstream has two: on an *overload* (asked first, by overload id)
and on a *function* (asked next, by function name whatever the overload, also when it is only found at run
time). Where both are absent or return None a call costs 1 on top of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from allotment.cel.ast import Expr, Factory, FunctionCall
from allotment.cel.estimate import ArgumentSizes, CallEstimate, EstimatedArgument
from allotment.cel.types import Type
from allotment.cel.values import Value

Estimate: TypeAlias = Callable[
    [ArgumentSizes, EstimatedArgument | None, Sequence[EstimatedArgument]], CallEstimate | None
]
"""Static cost of one overload: sizes, receiver (None for a global function), arguments."""

RuntimeCost: TypeAlias = Callable[[Sequence[Value], Value], int | None]
"""Actual cost of one overload: arguments (the receiver first), result."""

NamedEstimate: TypeAlias = Callable[
    [ArgumentSizes, str, EstimatedArgument | None, Sequence[EstimatedArgument]], CallEstimate | None
]
"""As ``Estimate``, with the overload id second."""

NamedRuntimeCost: TypeAlias = Callable[[str, Sequence[Value], Value], int | None]
"""As ``RuntimeCost``, with the overload id first; it is "" when the overload was found at run time only."""

LiteralCheck: TypeAlias = Callable[[FunctionCall, Callable[[Expr], Type]], Iterable[tuple[Expr, str]]]
"""Faults of a call that show in its literals and static types: the place and the message."""

Expander: TypeAlias = Callable[[Factory, Expr | None, list[Expr]], Expr | None]
"""Rewrites a call (receiver, arguments). None: leave it a call. Raises :class:`MacroError`."""


class MacroError(Exception):
    """A macro was used wrongly; the parser turns this into a syntax error at ``expr``."""

    def __init__(self, expr: Expr, message: str) -> None:
        super().__init__(message)
        self.expr = expr
        self.message = message


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function. Ids are upstream's, since costs and tests refer to them."""

    id: str
    params: tuple[Type, ...]
    """With ``member``, the receiver's type first."""
    result: Type
    impl: Callable[..., Value] | None = None
    """None for what the compiler evaluates itself (``&&``, ``?:``, indexing)."""
    member: bool = False
    estimate: Estimate | None = None
    runtime_cost: RuntimeCost | None = None
    check: LiteralCheck | None = None
    """Asked once types are known, of calls that resolve to this overload."""
    mixed: bool = False
    """Whether literals anywhere in the arguments may mix types even where the environment forbids it."""


@dataclass(frozen=True, slots=True)
class Function:
    """A name (``size``, ``math.greatest``, ``_+_``) and what it may be applied to."""

    name: str
    overloads: tuple[Overload, ...]
    estimate: NamedEstimate | None = None
    runtime_cost: NamedRuntimeCost | None = None


@dataclass(frozen=True, slots=True)
class Macro:
    """A call that the parser rewrites. ``arity`` None takes any number of arguments."""

    name: str
    arity: int | None
    expand: Expander
    receiver: bool = True
    """``target.name(args)`` (a namespace such as ``cel`` in ``cel.bind`` is a target too) or ``name(args)``."""


@dataclass(frozen=True, slots=True)
class Library:
    """What one module adds to an environment. A later library may add overloads to an earlier function.

    ``types`` are names usable in expressions (``type(x) == net.IP``); a Python class whose instances are
    values carries its type in a class attribute ``cel_type``. ``constants`` are named values.
    """

    name: str
    functions: tuple[Function, ...] = ()
    macros: tuple[Macro, ...] = ()
    types: tuple[Type, ...] = ()
    constants: Mapping[str, tuple[Type, Value]] = field(default_factory=dict)


def namespace(target: Expr | None, name: str) -> bool:
    """Whether a macro's receiver is the plain identifier ``name``: how ``cel.bind`` knows itself."""
    from allotment.cel.ast import Ident

    return isinstance(target, Ident) and target.name == name
