"""Optional values: what may be absent, as a value of its own.

``or``, ``orValue`` and the selections ``a.?b``, ``a[?b]`` have no implementation here: they look at their right
side, or at the absence of a key, only where it matters, so the compiler evaluates them.
"""

from allotment.cel.declare import Function, Library, Overload
from allotment.cel.errors import CelRuntimeError
from allotment.cel.macros import OPTIONALS
from allotment.cel.types import BOOL, DYN, INT, STRING, list_of, map_of, optional_of, param
from allotment.cel.values import (
    OPTIONAL_NONE,
    TIMESTAMP_MIN,
    Duration,
    Optional,
    Timestamp,
    UInt,
    Value,
)

_SIZED = (str, bytes, list, dict)
_NUMERIC = (int, UInt, float, bool)


def of_non_zero_value(value: Value) -> Optional:
    return OPTIONAL_NONE if is_zero(value) else Optional(value)


def is_zero(value: Value) -> bool:
    """True for null, zero, false, empty values and the earliest timestamp; false for all others, even an absent optional."""
    if value is None or type(value) in _NUMERIC:
        return not value
    if isinstance(value, _SIZED):
        return len(value) == 0
    if isinstance(value, Duration):
        return value.ns == 0
    return isinstance(value, Timestamp) and value.ns == TIMESTAMP_MIN


def value_of(optional: Optional) -> Value:
    if not optional.present:
        raise CelRuntimeError("optional.none() dereference")
    return optional.value


def has_value(optional: Optional) -> bool:
    return optional.present


def first(items: list[Value]) -> Optional:
    return Optional(items[0]) if items else OPTIONAL_NONE


def last(items: list[Value]) -> Optional:
    return Optional(items[-1]) if items else OPTIONAL_NONE


def unwrap(items: list[Value]) -> list[Value]:
    """The values that are present."""
    for item in items:
        if not isinstance(item, Optional):
            raise CelRuntimeError("optional.unwrap: the list has an element that is not optional")
    return [item.value for item in items if item.present]


def none() -> Optional:
    return OPTIONAL_NONE


_K, _V = param("K"), param("V")
_OPTIONAL, _LIST, _MAP = optional_of(_V), list_of(_V), map_of(_K, _V)

LIBRARY = Library(
    "optionals",
    (
        Function("optional.of", (Overload("optional_of", (_V,), _OPTIONAL, Optional),)),
        Function(
            "optional.ofNonZeroValue",
            (Overload("optional_ofNonZeroValue", (_V,), _OPTIONAL, of_non_zero_value),),
        ),
        Function("optional.none", (Overload("optional_none", (), _OPTIONAL, none),)),
        Function("value", (Overload("optional_value", (_OPTIONAL,), _V, value_of, member=True),)),
        Function("hasValue", (Overload("optional_hasValue", (_OPTIONAL,), BOOL, has_value, member=True),)),
        Function("or", (Overload("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, member=True),)),
        Function("orValue", (Overload("optional_orValue_value", (_OPTIONAL, _V), _V, member=True),)),
        Function("first", (Overload("list_first", (_LIST,), _OPTIONAL, first, member=True),)),
        Function("last", (Overload("list_last", (_LIST,), _OPTIONAL, last, member=True),)),
        Function("optional.unwrap", (Overload("optional_unwrap", (list_of(_OPTIONAL),), _LIST, unwrap),)),
        Function(
            "unwrapOpt", (Overload("optional_unwrapOpt", (list_of(_OPTIONAL),), _LIST, unwrap, member=True),)
        ),
        Function("_?._", (Overload("select_optional_field", (DYN, STRING), _OPTIONAL),)),
        Function(
            "_[?_]",
            (
                Overload("list_optindex_optional_int", (_LIST, INT), _OPTIONAL),
                Overload("optional_list_optindex_optional_int", (optional_of(_LIST), INT), _OPTIONAL),
                Overload("map_optindex_optional_value", (_MAP, _K), _OPTIONAL),
                Overload("optional_map_optindex_optional_value", (optional_of(_MAP), _K), _OPTIONAL),
            ),
        ),
        Function(
            "_[_]",
            (
                Overload("optional_list_index_int", (optional_of(_LIST), INT), _OPTIONAL),
                Overload("optional_map_index_value", (optional_of(_MAP), _K), _OPTIONAL),
            ),
        ),
    ),
    macros=OPTIONALS,
    types=(optional_of(_V),),
)
