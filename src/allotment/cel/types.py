"""Types of the expression language as terms: a kind, a name and parameters.

Types are immutable and compare by structure. ``dyn`` and ``any`` stand for "found out at run time", a
parameter such as ``A`` for "any one type, the same everywhere in this signature". The device types of
Kubernetes are of two kinds that behave alike here but are costed differently upstream: *objects*
(``kubernetes.Quantity``, ``kubernetes.Semver``, ``kubernetes.URL``, named formats) and *opaques*
(``net.IP``, ``net.CIDR``, ``optional_type``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto


class TypeKind(Enum):
    """The kind of a type term, on which costs and assignability depend."""

    DYN = auto()
    ANY = auto()
    ERROR = auto()
    NULL = auto()
    BOOL = auto()
    INT = auto()
    UINT = auto()
    DOUBLE = auto()
    STRING = auto()
    BYTES = auto()
    TIMESTAMP = auto()
    DURATION = auto()
    LIST = auto()
    MAP = auto()
    TYPE = auto()
    OBJECT = auto()
    OPAQUE = auto()
    PARAM = auto()


@dataclass(frozen=True, slots=True)
class Type:
    """One type term. ``str(t)`` is the notation of error messages: ``map(string, list(int))``."""

    kind: TypeKind
    name: str
    params: tuple[Type, ...] = ()
    nullable: bool = False
    """A wrapper such as ``wrapper(int)``: the primitive or null."""

    def __str__(self) -> str:
        text = self.name
        if self.params:
            text = f"{self.name}({', '.join(map(str, self.params))})"
        return f"wrapper({text})" if self.nullable else text


DYN = Type(TypeKind.DYN, "dyn")
ANY = Type(TypeKind.ANY, "any")
ERROR = Type(TypeKind.ERROR, "!error!")
NULL = Type(TypeKind.NULL, "null_type")
BOOL = Type(TypeKind.BOOL, "bool")
INT = Type(TypeKind.INT, "int")
UINT = Type(TypeKind.UINT, "uint")
DOUBLE = Type(TypeKind.DOUBLE, "double")
STRING = Type(TypeKind.STRING, "string")
BYTES = Type(TypeKind.BYTES, "bytes")
TIMESTAMP = Type(TypeKind.TIMESTAMP, "google.protobuf.Timestamp")
DURATION = Type(TypeKind.DURATION, "google.protobuf.Duration")


def list_of(element: Type) -> Type:
    return Type(TypeKind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type(TypeKind.MAP, "map", (key, value))


def type_of(inner: Type) -> Type:
    """The type of a type: ``type(int)`` is what the identifier ``int`` has."""
    return Type(TypeKind.TYPE, "type", (inner,))


def optional_of(inner: Type) -> Type:
    return Type(TypeKind.OPAQUE, "optional_type", (inner,))


def object_type(name: str) -> Type:
    """A named type with fields or methods of its own, such as ``kubernetes.Quantity``."""
    return Type(TypeKind.OBJECT, name)


def opaque_type(name: str, *params: Type) -> Type:
    """A named type about which the language knows nothing, such as ``net.IP``."""
    return Type(TypeKind.OPAQUE, name, params)


def param(name: str) -> Type:
    """A type parameter of a signature: ``param("T")``."""
    return Type(TypeKind.PARAM, name)


def wrapper_of(primitive: Type) -> Type:
    """The primitive or null (``google.protobuf.Int64Value`` and its siblings)."""
    return Type(primitive.kind, primitive.name, primitive.params, nullable=True)


def describe(type_: Type, depth: int = 12) -> str:
    """The type as error messages about overloads and mismatches write it, down to some depth."""
    short = _SHORT.get(type_.kind)
    if short is not None:
        return short
    if type_.nullable:
        return f"wrapper({type_.name})"
    if not type_.params:
        return type_.name
    inner = ", ".join(describe(param, depth - 1) for param in type_.params) if depth else "…"
    return f"{type_.name}({inner})"


def is_optional(type_: Type) -> bool:
    return type_.kind is TypeKind.OPAQUE and type_.name == "optional_type"


def is_dynamic(type_: Type) -> bool:
    return type_.kind in _DYNAMIC


def parts(type_: Type) -> Iterator[Type]:
    """The term and every term inside it."""
    pending = [type_]
    while pending:
        term = pending.pop()
        yield term
        pending.extend(term.params)


_SHORT = {
    TypeKind.ANY: "any",
    TypeKind.NULL: "null",
    TypeKind.TIMESTAMP: "timestamp",
    TypeKind.DURATION: "duration",
}
_DYNAMIC = frozenset({TypeKind.DYN, TypeKind.ANY, TypeKind.ERROR})

QUANTITY = object_type("kubernetes.Quantity")
SEMVER = object_type("kubernetes.Semver")
URL = object_type("kubernetes.URL")
FORMAT = object_type("kubernetes.NamedFormat")
IP = opaque_type("net.IP")
CIDR = opaque_type("net.CIDR")
