"""CEL values survive the way through JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.quantity import Quantity
from allotment.cel.values import (
    OPTIONAL_NONE,
    Duration,
    Optional,
    Timestamp,
    TypeValue,
    UInt,
    equal,
    make_map,
)
from allotment.cli.ndjson.typed_value import TypedValueError, from_typed, to_typed

int64 = st.integers(-(2**63), 2**63 - 1)
scalars = (
    st.none()
    | st.booleans()
    | int64
    | st.integers(0, 2**64 - 1).map(UInt)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | int64.map(Duration)
    | st.integers(-62135596800 * 10**9, 253402300799 * 10**9).map(Timestamp)
    | st.sampled_from(["int", "list"]).map(TypeValue)
)
keys = st.booleans() | int64 | st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.lists(st.tuples(keys, inner)).map(make_map), max_leaves=20
)


@given(values)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    again = from_typed(json.loads(json.dumps(to_typed(value))))
    assert type(again) is type(value)
    assert equal(again, value)


@pytest.mark.parametrize(
    ("value", "typed"),
    [
        (float("nan"), ["double", "nan"]),
        (float("-inf"), ["double", "-inf"]),
        (UInt(3), ["uint", 3]),
        (b"\x00\xff", ["bytes", "00ff"]),
        (OPTIONAL_NONE, ["optional"]),
        (Optional(1), ["optional", ["int", 1]]),
        (Quantity.parse("8Gi"), ["opaque", "kubernetes.Quantity", "8Gi"]),
        (make_map([(True, 1)]), ["map", [[["bool", True], ["int", 1]]]]),
    ],
)
def test_written_forms(value: Any, typed: list[Any]) -> None:
    assert to_typed(value) == typed


NO_VALUES: list[Any] = [
    None,
    1,
    "int",
    [],
    {"int": 1},
    ["int"],
    ["int", "1"],
    ["int", True],
    ["int", 1.5],
    ["bool", 1],
]
NO_VALUES += [
    ["double", "x"],
    ["bytes", "f"],
    ["list", 1],
    ["map", [[1]]],
    ["map", {}],
    ["thing", 1],
    ["string", 1],
]


@pytest.mark.parametrize("typed", NO_VALUES, ids=repr)
def test_what_is_no_typed_value_is_refused(typed: Any) -> None:
    with pytest.raises(TypedValueError):
        from_typed(typed)
