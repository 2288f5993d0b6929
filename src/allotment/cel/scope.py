"""Names: what an environment declares, and how a name in an expression finds its declaration.

In the container ``a.b`` the name ``x.y`` may mean ``a.b.x.y``, ``a.x.y`` or ``x.y``, tried in that order; with
a leading dot it means ``x.y`` only. Variables of comprehensions hide all of these unless the dot is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from allotment.cel import types
from allotment.cel.declare import Function, Library
from allotment.cel.types import Type
from allotment.cel.values import TypeValue, Value


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared name. ``constant`` marks names with a value of their own: types and constants."""

    name: str
    type: Type
    constant: bool = False
    value: Value = None
    local: bool = False


@dataclass(slots=True)
class Declarations:
    """Everything the checker may refer to."""

    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    fields: dict[str, Mapping[str, Type]] = field(default_factory=dict)
    """Fields of object types by the type's name."""
    container: str = ""
    disabled: frozenset[str] = frozenset()
    """Ids of overloads that exist at run time but may not be written."""

    def add_library(self, library: Library) -> None:
        for function in library.functions:
            self.functions[function.name] = _merged(self.functions.get(function.name), function)
        for type_ in library.types:
            self.variables[type_.name] = type_variable(type_)
        for name, (type_, value) in library.constants.items():
            self.variables[name] = Variable(name, type_, constant=True, value=value)

    def candidates(self, name: str) -> Iterator[str]:
        """Full names that a name may stand for in this container, most specific first."""
        if name.startswith("."):
            yield name[1:]
            return
        prefix = self.container
        while prefix:
            yield f"{prefix}.{name}"
            prefix = prefix.rpartition(".")[0]
        yield name

    def variable(self, name: str) -> Variable | None:
        return next((self.variables[c] for c in self.candidates(name) if c in self.variables), None)

    def function(self, name: str) -> Function | None:
        return next((self.functions[c] for c in self.candidates(name) if c in self.functions), None)


def type_variable(type_: Type) -> Variable:
    """The name of a type as a value: ``int``, ``net.IP``."""
    return Variable(type_.name, types.type_of(type_), constant=True, value=TypeValue(type_.name))


def _merged(old: Function | None, new: Function) -> Function:
    """Overloads of both; a later overload of the same id replaces the earlier."""
    if old is None:
        return new
    overloads = {o.id: o for o in old.overloads} | {o.id: o for o in new.overloads}
    return Function(
        old.name,
        tuple(overloads.values()),
        new.estimate or old.estimate,
        new.runtime_cost or old.runtime_cost,
    )
