"""The JSON that a struct type expects, as a small tree that guides walks over plain values.

msgspec decodes fast but silently drops unknown fields, refuses ``null`` where Kubernetes reads "absent", and
leaves map keys out of the paths in its errors. The walks here compensate for that, outside the fast path:
:func:`conform` turns input that Kubernetes would accept into input that msgspec accepts, or says exactly what is
wrong and where; :func:`unknown` finds fields that no struct has.
"""

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, Union, get_args, get_origin

import msgspec

from allotment.api.fields import shortened
from allotment.api.meta import ApiStruct
from allotment.api.quantity import Quantity, QuantityError

_LONGEST_GUESS = 64
_INT64 = range(-(2**63), 2**63)


class Misfit(ValueError):
    """A value does not have the shape that the API requires. ``path`` reads like ``.spec.devices[0].name``."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


@dataclass(slots=True)
class Shape:
    """Plain JSON of any form: this class accepts everything, its subclasses less."""

    def conform(self, value: Any, path: str) -> Any:
        return value

    def unknown(self, value: Any) -> Iterator[str]:
        return iter(())


@dataclass(slots=True)
class ScalarShape(Shape):
    """A string, number, truth value or quantity."""

    expected: str
    accepts: Callable[[Any], bool]
    zero: Any

    def conform(self, value: Any, path: str) -> Any:
        if value is None:
            return self.zero
        if not self.accepts(value):
            raise Misfit(path, f"must be {self.expected}, but is {described(value)}")
        return int(value) if isinstance(value, float) else value  # 2.0 where the type is a whole number


@dataclass(slots=True)
class QuantityShape(Shape):
    """An amount with a unit, or a bare number."""

    def conform(self, value: Any, path: str) -> Any:
        if value is None:
            return "0"
        try:
            Quantity.from_json(value)
        except QuantityError as exc:
            raise Misfit(path, str(exc)) from exc
        return value


@dataclass(slots=True)
class ListShape(Shape):
    """Any number of values of one shape."""

    item: Shape

    def conform(self, value: Any, path: str) -> Any:
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            raise Misfit(path, f"must be a list, but is {described(value)}")
        return [self.item.conform(item, f"{path}[{i}]") for i, item in enumerate(value)]

    def unknown(self, value: Any) -> Iterator[str]:
        if isinstance(value, list | tuple):
            for i, item in enumerate(value):
                for rest in self.item.unknown(item):
                    yield f"[{i}]{rest}"


@dataclass(slots=True)
class MapShape(Shape):
    """Values of one shape under names that the user chooses."""

    value: Shape

    def conform(self, value: Any, path: str) -> Any:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise Misfit(path, f"must be a map, but is {described(value)}")
        return {key: self.value.conform(item, f"{path}[{shortened(key)}]") for key, item in value.items()}

    def unknown(self, value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for key, item in value.items():
                for rest in self.value.unknown(item):
                    yield f"[{shortened(key)}]{rest}"


@dataclass(slots=True)
class StructShape(Shape):
    """The fields of one struct type. They are set after construction, since types may be recursive."""

    type: type[ApiStruct]
    fields: dict[str, Shape] = field(default_factory=dict, repr=False)

    def conform(self, value: Any, path: str) -> Any:
        if value is None:
            return {}
        if isinstance(value, str) and self.type.SHORT_FORM is not None:
            value = {self.type.SHORT_FORM: value}
        if not isinstance(value, dict):
            raise Misfit(path, f"must be an object with fields, but is {described(value)}")
        return {
            name: self.fields[name].conform(item, f"{path}.{name}")
            for name, item in value.items()
            if item is not None and name in self.fields
        }

    def unknown(self, value: Any) -> Iterator[str]:
        if not isinstance(value, dict):
            return
        for name, item in value.items():
            shape = self.fields.get(name)
            if shape is not None:
                for rest in shape.unknown(item):
                    yield f".{name}{rest}"
            elif name not in self.type.NOT_READ:
                yield f".{shortened(name)}{_suggestion(name, self.type)}"


def described(value: Any) -> str:
    """A value in an error message: its type and, if it is short, its text."""
    match value:
        case None:
            return "null"
        case bool():
            return f"the truth value {str(value).lower()} (quote it if you mean text)"
        case int() | float():
            text = repr(value)
            return f"the number {text if len(text) <= 40 else text[:40] + '…'}"
        case str():
            return f'the string "{value if len(value) <= 40 else value[:40] + "…"}"'
        case list() | tuple():
            return "a list"
        case _:
            return "an object"


@lru_cache(maxsize=1024)
def _suggestion(name: str, kind: type[ApiStruct]) -> str:
    if len(name) > _LONGEST_GUESS:
        return ""
    known = {field.lower(): field for field in (*shape_of(kind).fields, *sorted(kind.NOT_READ))}
    close = get_close_matches(name.lower(), known, n=1)
    return f" (did you mean {known[close[0]]}?)" if close else ""


def _is_integer(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer() and int(value) in _INT64
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT64


_ANY = Shape()
_SCALARS: dict[Any, Shape] = {
    str: ScalarShape("a string", lambda value: isinstance(value, str), ""),
    bool: ScalarShape("true or false", lambda value: isinstance(value, bool), False),
    int: ScalarShape("a whole number of 64 bits", _is_integer, 0),
    Quantity: QuantityShape(),
    Any: _ANY,
}


@cache
def shape_of(kind: type[ApiStruct]) -> StructShape:
    """The shape of a struct type; computed once per type."""
    return _struct(kind, {})


def _struct(kind: type[ApiStruct], seen: dict[type, StructShape]) -> StructShape:
    if kind in seen:
        return seen[kind]
    seen[kind] = shape = StructShape(kind)
    for info in msgspec.structs.fields(kind):
        shape.fields[info.encode_name] = _shape(info.type, seen)
    return shape


def _shape(hint: Any, seen: dict[type, StructShape]) -> Shape:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, ApiStruct):
        return _struct(hint, seen)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):  # an optional value: null is dropped before the shape sees it
        return _shape(next(arg for arg in args if arg is not type(None)), seen)
    if origin is tuple:
        return ListShape(_shape(args[0], seen))
    if origin is dict:
        return MapShape(_shape(args[1], seen))
    if hasattr(hint, "__metadata__"):
        return _shape(args[0], seen)
    raise TypeError(f"no shape for {hint!r}")
