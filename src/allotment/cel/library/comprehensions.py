"""Comprehensions with two variables, index or key first: ``transformList``, ``transformMap``, ``all(i, v, …)``.

The macros fold a map with a function that no expression can name and that adds entries to an accumulator.
Nobody else holds that accumulator, so from the second entry on it grows in place: a thousand entries cost a
thousand steps and no copies.
"""

from collections.abc import Mapping
from typing import Any

from allotment.cel.declare import Function, Library, Overload
from allotment.cel.errors import CelRuntimeError
from allotment.cel.macros import TWO_VARIABLES
from allotment.cel.types import map_of, param
from allotment.cel.values import Value, key_value, map_key


class Growing(dict[Any, Value]):
    """A map under construction. Only the insertions below make one, and only they change it."""

    __slots__ = ()


def insert(mapping: Mapping[Any, Value], key: Value, value: Value) -> Growing:
    grown = mapping if isinstance(mapping, Growing) else Growing(mapping)
    stored = map_key(key)
    if stored in grown:
        raise CelRuntimeError(f"insert failed: key {key} already exists")
    grown[stored] = value
    return grown


def insert_all(mapping: Mapping[Any, Value], entries: Mapping[Any, Value]) -> Mapping[Any, Value]:
    for key, value in entries.items():
        mapping = insert(mapping, key_value(key), value)
    return mapping


_K, _V = param("K"), param("V")
_MAP = map_of(_K, _V)

LIBRARY = Library(
    "comprehensions",
    (
        Function(
            "cel.@mapInsert",
            (
                Overload("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, insert),
                Overload("@mapInsert_map_map", (_MAP, _MAP), _MAP, insert_all),
            ),
        ),
    ),
    macros=TWO_VARIABLES,
)
