"""Optionals, map insertion, quantities and versions as functions see them."""

import pytest

from allotment.api.quantity import Quantity
from allotment.api.semver import Version
from allotment.cel.errors import CelRuntimeError
from allotment.cel.library import optionals, quantity, semver
from allotment.cel.library.comprehensions import insert, insert_all
from allotment.cel.values import (
    OPTIONAL_NONE,
    TIMESTAMP_MIN,
    Duration,
    Optional,
    Timestamp,
    UInt,
    make_map,
    type_name,
)

ZEROS: list[object] = [
    None,
    False,
    0,
    UInt(0),
    0.0,
    -0.0,
    "",
    b"",
    [],
    {},
    Duration(0),
    Timestamp(TIMESTAMP_MIN),
]
OTHERS: list[object] = [
    True,
    1,
    float("nan"),
    "a",
    [0],
    make_map([("", 0)]),
    Duration(1),
    Timestamp(0),
    OPTIONAL_NONE,
    Quantity.of(0),
]


@pytest.mark.parametrize("value", ZEROS, ids=repr)
def test_zero_values(value: object) -> None:
    assert optionals.of_non_zero_value(value) is OPTIONAL_NONE


@pytest.mark.parametrize("value", OTHERS, ids=repr)
def test_other_values(value: object) -> None:
    assert optionals.of_non_zero_value(value).present


def test_ends_of_a_list() -> None:
    assert optionals.first([1, 2]) == Optional(1)
    assert optionals.last([1, 2]) == Optional(2)
    assert optionals.first([]) is optionals.last([]) is OPTIONAL_NONE


def test_unwrapping() -> None:
    assert optionals.unwrap([Optional(1), OPTIONAL_NONE, Optional(None)]) == [1, None]
    with pytest.raises(CelRuntimeError):
        optionals.unwrap([1])
    with pytest.raises(CelRuntimeError, match="dereference"):
        optionals.value_of(OPTIONAL_NONE)


def test_inserting_leaves_the_first_map_alone_and_then_grows_in_place() -> None:
    start = make_map([("a", 1)])
    grown = insert(start, "b", 2)
    assert start == {"a": 1}
    assert insert(grown, True, 3) is grown
    assert grown == make_map([("a", 1), ("b", 2), (True, 3)])


def test_inserting_twice_is_an_error() -> None:
    with pytest.raises(CelRuntimeError, match="insert failed: key 1 already exists"):
        insert(make_map([(UInt(1), 1)]), 1, 2)
    with pytest.raises(CelRuntimeError, match="already exists"):
        insert_all({"a": 1}, {"b": 1, "a": 2})
    assert insert_all({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}


def test_quantities() -> None:
    one = quantity.parse("1")
    assert quantity.is_quantity("12Mi")
    assert not quantity.is_quantity("12x")
    with pytest.raises(CelRuntimeError):
        quantity.parse("12x")
    assert str(quantity.add(quantity.parse("1Ki"), one)) == "1025"
    assert str(quantity.add_int(one, 2)) == "3"
    assert str(quantity.subtract_int(one, 2)) == "-1"
    assert str(quantity.subtract(quantity.parse("1.5"), one)) == "500m"
    assert quantity.compare(one, quantity.parse("1000m")) == 0
    assert quantity.as_integer(quantity.parse("1k")) == 1000
    assert not quantity.is_integer(quantity.parse("1000m"))  # as upstream: the text has milli precision
    with pytest.raises(CelRuntimeError, match="cannot convert value to integer"):
        quantity.as_integer(quantity.parse("0.5"))
    assert type_name(one) == "kubernetes.Quantity"


def test_versions() -> None:
    assert semver.is_semver("1.2.3")
    assert not semver.is_semver("v1.2")
    assert semver.is_semver("v01.2", True)
    assert semver.parse("v1", True) == Version.parse("1.0.0")
    with pytest.raises(CelRuntimeError):
        semver.parse("v1")
    assert semver.compare(semver.parse("1.0.0-a"), semver.parse("1.0.0")) == -1
    assert (
        semver.major(semver.parse("1.2.3")),
        semver.minor(semver.parse("1.2.3")),
        semver.patch(semver.parse("1.2.3")),
    ) == (1, 2, 3)
    assert semver.major(semver.parse("18446744073709551615.0.0")) == -1  # as upstream
    assert type_name(semver.parse("1.2.3")) == "kubernetes.Semver"
