"""Chooses the overload to run: in advance if types are certain, else by the values.

A value fits a parameter by its class; a list or map, as upstream has it, by its class and its first entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from allotment.cel.declare import Overload
from allotment.cel.errors import CelNoSuchOverload
from allotment.cel.types import Type, TypeKind, is_dynamic
from allotment.cel.values import Duration, Optional, Timestamp, TypeValue, UInt, Value, key_value, type_name

_CLASSES: dict[TypeKind, type] = {
    TypeKind.NULL: type(None),
    TypeKind.BOOL: bool,
    TypeKind.INT: int,
    TypeKind.UINT: UInt,
    TypeKind.DOUBLE: float,
    TypeKind.STRING: str,
    TypeKind.BYTES: bytes,
    TypeKind.TIMESTAMP: Timestamp,
    TypeKind.DURATION: Duration,
    TypeKind.TYPE: TypeValue,
}
_OPEN = frozenset({TypeKind.PARAM, TypeKind.DYN, TypeKind.ANY})
"""Parameters that take anything."""


def certain(param: Type, given: Type) -> bool:
    """Whether every value of the given type fits the parameter, so that no test is needed."""
    if param.kind in _OPEN:
        return True
    if is_dynamic(given) or given.nullable or given.kind is not param.kind or given.name != param.name:
        return False
    return all(map(certain, param.params, given.params))


def fits(param: Type, value: Value) -> bool:
    kind = param.kind
    expected = _CLASSES.get(kind)
    if expected is not None:
        return type(value) is expected or (param.nullable and value is None)
    match kind:
        case _ if kind in _OPEN:
            return True
        case TypeKind.LIST:
            return type(value) is list and (not value or fits(param.params[0], value[0]))
        case TypeKind.MAP:
            if not isinstance(value, dict):
                return False
            keys, values = param.params
            for first in value:
                return fits(keys, key_value(first)) and (values.kind in _OPEN or fits(values, value[first]))
            return True
        case TypeKind.OPAQUE if param.name == "optional_type":
            return type(value) is Optional
        case _:
            return type_name(value) == param.name


def dispatch(name: str, overloads: Sequence[Overload], args: Sequence[Value]) -> Overload:
    """The first overload that takes these values. Raises :class:`CelNoSuchOverload`."""
    for overload in overloads:
        if all(map(fits, overload.params, args)):
            return overload
    raise CelNoSuchOverload(f"{name}({', '.join(map(type_name, args))})")
