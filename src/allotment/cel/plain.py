"""The language itself, without devices: ``allot cel`` and the conformance cases use it.

Differs from the device environment where Kubernetes is stricter or different: lists and maps may mix types, a
constant that cannot be converted fails when it is evaluated, a map literal may not repeat a key, a field of what
has no fields is an error even to ``has``, and the text functions are of the newest version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from allotment.cel import types, unchecked
from allotment.cel.environment import COST_LIMIT, Environment, Evaluation, Program
from allotment.cel.library import bindings, lists, strings
from allotment.cel.library.kubernetes import KUBERNETES
from allotment.cel.parser import Syntax
from allotment.cel.plan import LanguageRules, plan
from allotment.cel.types import Type
from allotment.cel.values import Value

_LIBRARIES: Final = (
    *(each for each in KUBERNETES if each is not strings.LIBRARY),
    strings.PLAIN,
    lists.INCLUDES,
    bindings.LIBRARY,
)
_RULES: Final = LanguageRules(fold_failures=False, unique_keys=True, strict_presence=True)
_SCALARS: Final[dict[str, Type]] = {
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "null_type": types.NULL,
    "null": types.NULL,
    "dyn": types.DYN,
    "any": types.ANY,
    "duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
    "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "type": types.type_of(types.DYN),
}
_PARTS = re.compile(r"\s*([A-Za-z_][\w.]*|[<>(),])\s*")
_DEEPEST_TYPE: Final = 50


class DeclarationError(ValueError):
    """A declared type cannot be read."""


def parse_type(text: str) -> Type:
    """``map<string, list<int>>``, with either kind of brackets. Raises :class:`DeclarationError`."""
    tokens = _PARTS.findall(text)
    if "".join(tokens) != re.sub(r"\s", "", text) or not tokens:
        raise DeclarationError(f"{text!r} is not a type")
    type_, rest = _parse_type(text, tokens, 0)
    if rest:
        raise DeclarationError(f"{text!r} is not a type: something follows {type_}")
    return type_


def _parse_type(text: str, tokens: list[str], depth: int) -> tuple[Type, list[str]]:
    name, rest = tokens[0], tokens[1:]
    if depth > _DEEPEST_TYPE:
        raise DeclarationError(f"{text!r} nests more than {_DEEPEST_TYPE} types")
    params: list[Type] = []
    if rest[:1] in (["<"], ["("]):
        separator = ","
        while separator == ",":
            if len(rest) < 2:
                raise DeclarationError(f"{text!r} is not a type: it ends too early")
            param, rest = _parse_type(text, rest[1:], depth + 1)
            params.append(param)
            separator = rest[0] if rest else ""
        if separator not in (">", ")"):
            raise DeclarationError(f"{text!r} is not a type: a bracket is not closed")
        rest = rest[1:]
    match name, params:
        case "list", [element]:
            return types.list_of(element), rest
        case "map", [key, value]:
            return types.map_of(key, value), rest
        case (("optional" | "optional_type"), [inner]):
            return types.optional_of(inner), rest
        case ("wrapper", [inner]):
            return types.wrapper_of(inner), rest
        case "type", [inner]:
            return types.type_of(inner), rest
        case _ if not params and name in _SCALARS:
            return _SCALARS[name], rest
    raise DeclarationError(f"{text!r} is not a type: {name} is not known")


class PlainProgram:
    """A compiled expression; unchecked ones are resolved again for the bindings of every evaluation."""

    def __init__(self, text: str, environment: Environment, check: bool) -> None:
        self._text = text
        self._environment = environment
        self._program: Program | None = environment.compile(text) if check else None
        self._syntax: Syntax | None = None if check else environment.parse(text)

    def evaluate(self, bindings: Mapping[str, Value], limit: int = COST_LIMIT) -> Value:
        """The value. Raises :class:`CelRuntimeError`."""
        return self._for(bindings).value(bindings, limit)

    def measure(self, bindings: Mapping[str, Value], limit: int = COST_LIMIT) -> Evaluation:
        """Like ``evaluate``, with the cost."""
        return self._for(bindings).evaluate(bindings, limit)

    def _for(self, bindings: Mapping[str, Value]) -> Program:
        if self._program is not None:
            return self._program
        assert self._syntax is not None
        environment = Environment(
            _LIBRARIES,
            variables=dict.fromkeys(bindings, types.DYN),
            container=self._environment.container,
            macros=self._environment.macros,
            rules=_RULES,
        )
        checked = unchecked.resolve(self._syntax, environment.declarations)
        return Program(self._text, checked, plan(checked, _RULES), environment.limits)


def compile_plain(
    expression: str,
    declarations: Mapping[str, str] | None = None,
    container: str = "",
    macros: bool = True,
    check: bool = True,
) -> PlainProgram:
    """``declarations`` gives the types of variables as text. Raises :class:`CelCompileError` and, for a type
    that cannot be read, :class:`DeclarationError`."""
    variables = {name: parse_type(text) for name, text in (declarations or {}).items()}
    environment = Environment(
        _LIBRARIES, variables=variables, container=container, macros=macros, rules=_RULES
    )
    return PlainProgram(expression, environment, check)
