"""What rules may refer to: the type and the greatest size of every value in a schema, and the values themselves.

Names that are not identifiers, or are reserved words, are escaped (``namespace`` is ``__namespace__``, ``a-b`` is
``a__dash__b``). Parts that a schema leaves open are hidden from rules. Sizes bound the cost of a rule; if a schema sets no
limit, the limit of a request applies.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from allotment.apiserver.registry.custom.formats import duration_nanoseconds
from allotment.apiserver.registry.custom.structural import Structural
from allotment.cel import types
from allotment.cel.errors import CelRuntimeError
from allotment.cel.estimate import Range
from allotment.cel.times import parse_timestamp
from allotment.cel.types import Type
from allotment.cel.values import Duration, Value

REQUEST_SIZE: Final = 3 * 1024 * 1024
_WORDS: Final = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile(r"__|[-./]")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./-]+")
_DURATION_SIZE, _TIME_SIZE, _DATE_SIZE = 32, 32, 12

Convert = Callable[[Any], Value]


def escaped(name: str) -> str | None:
    """The name of a field in rules; None if rules cannot name it."""
    if not name or name[0].isdigit() or not _PLAIN.fullmatch(name):
        return None
    if name in _WORDS:
        return f"__{name}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


def _spellings(name: str) -> tuple[str, ...]:
    """All names of a field in rules: after a dot, a reserved word may also be written without escapes."""
    known_as = escaped(name)
    if known_as is None:
        return ()
    return (known_as, name) if name in _WORDS else (known_as,)


@dataclass(eq=False, slots=True)
class Declared:
    """A value as rules see it."""

    type: Type
    smallest: int  # bytes of the shortest JSON
    largest: int  # entries or characters at most
    convert: Convert
    fields: dict[str, Declared] = field(default_factory=dict)  # of an object, by the names that rules use
    element: Declared | None = None
    names: dict[str, str] = field(default_factory=dict)  # of an object: field to escaped name

    def size(self, path: tuple[str, ...]) -> Range | None:
        """The size of what lies at a path from here, as costs are estimated by it."""
        here: Declared | None = self
        for step in path:
            if here is None:
                return None
            if step in ("@items", "@values"):
                here = here.element
            elif step == "@keys":
                return Range(0, 0) if here.element is not None else None
            elif step in _WORDS:
                return None  # Kubernetes knows sizes by escaped names only, so a costly rule has to use those
            else:
                here = here.fields.get(step)
        return Range(0, here.largest) if here is not None else None


class SchemaDeclarations:
    """The types of one schema. ``fields`` is what an environment needs to know of object types."""

    def __init__(self) -> None:
        self.fields: dict[str, Mapping[str, Type]] = {}
        self._numbers = count(1)
        self._known: dict[tuple[int, bool], Declared | None] = {}

    def declare(self, structural: Structural, root: bool) -> Declared | None:
        """Declares a value for rules; None if it is hidden from them. ``root`` is true for a whole object."""
        key = (id(structural), root)
        if key not in self._known:
            self._known[key] = self._declare(structural, root)
        return self._known[key]

    def _declare(self, structural: Structural, root: bool) -> Declared | None:
        raw = structural.raw
        if structural.int_or_string:
            longest = raw.get("maxLength")
            return Declared(
                types.DYN, 1, REQUEST_SIZE - 2 if longest is None else max(longest, 0) * 4, _int_or_string
            )
        match structural.type:
            case "array":
                return self._list(structural)
            case "object" if structural.additional is not None:
                return self._map(structural, structural.additional)
            case "object":
                return self._object(structural, root)
            case "string":
                return _text(raw)
            case "boolean":
                return Declared(types.BOOL, 4, 0, _checked(bool, "bool"))
            case "number":
                return Declared(types.DOUBLE, 1, 0, _number)
            case "integer":
                return Declared(types.INT, 1, 0, _checked(int, "int"))
        return None

    def _list(self, structural: Structural) -> Declared | None:
        items = structural.items
        element = self.declare(items, items.embedded) if items is not None else None
        if items is None or element is None:
            return None
        most = structural.raw.get("maxItems")
        largest = (REQUEST_SIZE - 2) // (element.smallest + 1) if most is None else max(most, 0)
        convert = _nullable(items, element.convert)

        def of_list(value: Any) -> Value:
            if not isinstance(value, list):
                raise CelRuntimeError(
                    "invalid data, expected an array for the provided schema with type=array"
                )
            return [convert(item) for item in value]

        return Declared(types.list_of(element.type), 2, largest, of_list, element=element)

    def _map(self, structural: Structural, additional: Structural) -> Declared | None:
        element = self.declare(additional, additional.embedded)
        if element is None:
            return None
        most = structural.raw.get("maxProperties")
        largest = (REQUEST_SIZE - 2) // (element.smallest + 6) if most is None else max(most, 0)
        convert = _nullable(additional, element.convert)

        def of_map(value: Any) -> Value:
            return {name: convert(item) for name, item in _entries(value)}

        return Declared(types.map_of(types.STRING, element.type), 2, largest, of_map, element=element)

    def _object(self, structural: Structural, root: bool) -> Declared:
        properties = dict(structural.properties)
        if root:
            properties |= _head(properties)
        type_ = types.object_type(f"selfType{next(self._numbers)}")
        made = Declared(type_, 2, 0, lambda value: value)
        converts: dict[str, Convert] = {}
        required = frozenset(structural.raw.get("required") or ())
        for name, each in properties.items():
            declared = self.declare(each, each.embedded)
            if declared is None:
                continue
            if name in required and each.default is None:
                made.smallest += len(name.encode()) + declared.smallest + 4
            for known_as in _spellings(name):
                made.fields[known_as] = declared
            if escaped(name) is not None:
                converts[name] = _nullable(each, declared.convert)
        self.fields[type_.name] = {name: each.type for name, each in made.fields.items()}

        def of_object(value: Any) -> Value:
            read: dict[str, Value] = {}
            for name, item in _entries(value):
                if name in converts:
                    read.update(dict.fromkeys(_spellings(name), converts[name](item)))
            return read

        made.convert = of_object
        return made


def _entries(value: Any) -> Any:
    if not isinstance(value, dict):
        raise CelRuntimeError("invalid data, expected a map for the provided schema with type=object")
    return value.items()


def _nullable(structural: Structural, convert: Convert) -> Convert:
    def of_nullable(value: Any) -> Value:
        if value is None:
            if structural.nullable:
                return None
            raise CelRuntimeError("invalid data, got null for schema with nullable=false")
        return convert(value)

    return of_nullable


def _text(raw: Mapping[str, Any]) -> Declared:
    longest, format_ = raw.get("maxLength"), raw.get("format") or ""
    whole = REQUEST_SIZE - 2
    match format_:
        case "byte":
            return Declared(types.BYTES, 2, whole if longest is None else max(longest, 0), _bytes)
        case "duration":
            return Declared(types.DURATION, 3, _DURATION_SIZE, _duration)
        case "date":
            return Declared(types.TIMESTAMP, _DATE_SIZE, _DATE_SIZE, lambda text: _time(f"{text}T00:00:00Z"))
        case "date-time":
            return Declared(types.TIMESTAMP, 21, _TIME_SIZE, _time)
    if longest is not None:
        largest = max(longest, 0) * 4
    elif raw.get("enum"):
        largest = max((len(each.encode()) for each in raw["enum"] if isinstance(each, str)), default=0)
    else:
        largest = whole
    return Declared(types.STRING, 2, largest, _checked(str, "string"))


def _checked(kind: type, name: str) -> Convert:
    def convert(value: Any) -> Value:
        if type(value) is not kind:
            raise CelRuntimeError(f"invalid data, expected {name}, got {type(value).__name__}")
        return value

    return convert


def _number(value: Any) -> Value:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CelRuntimeError(f"invalid data, expected float, got {type(value).__name__}")
    return float(value)


def _int_or_string(value: Any) -> Value:
    if type(value) is int or type(value) is str:
        return value
    raise CelRuntimeError("invalid data, expected XIntOrString value to be either a string or integer")


def _bytes(value: Any) -> Value:
    try:
        return base64.b64decode(value, b"-_", validate=True)
    except (binascii.Error, TypeError, ValueError) as exc:
        raise CelRuntimeError(f"Invalid byte formatted string {value}: {exc}") from exc


def _duration(value: Any) -> Value:
    nanoseconds = duration_nanoseconds(value) if isinstance(value, str) else None
    if nanoseconds is None:
        raise CelRuntimeError(f"Invalid duration {value}")
    return Duration(nanoseconds)


def _time(value: Any) -> Value:
    time = parse_timestamp(value.upper()) if isinstance(value, str) else None
    if time is None:
        raise CelRuntimeError(f"Invalid date-time formatted string {value}")
    return time


_NAME: Final = {"type": "string"}
_LONGEST_NAME: Final = 253
"""The longest name of an object in Kubernetes, so that rules about names have a bound."""


def _head(properties: Mapping[str, Structural]) -> Mapping[str, Structural]:
    """What rules see of every whole object besides its schema: its kind, and of its metadata the two names.

    A schema that declares all of this itself is taken at its word, and may show more of the metadata.
    """
    metadata = properties.get("metadata")
    named = metadata.properties if metadata is not None else {}
    whole = all(name in properties and properties[name].type == "string" for name in ("apiVersion", "kind"))
    both = all(name in named and named[name].type == "string" for name in ("name", "generateName"))
    if whole and both and metadata is not None and metadata.type == "object":
        return {}
    # the server appends at least one letter to generateName
    names = {
        "name": _name(named.get("name"), _LONGEST_NAME),
        "generateName": _name(named.get("generateName"), _LONGEST_NAME - 1),
    }
    head = {"apiVersion": _NAME, "kind": _NAME, "metadata": {"type": "object", "properties": names}}
    return Structural({"properties": head}).properties


def _name(declared: Structural | None, longest: int) -> dict[str, Any]:
    limit = declared.raw.get("maxLength") if declared is not None else None
    return {"type": "string", "maxLength": longest if limit is None else min(limit, longest)}
