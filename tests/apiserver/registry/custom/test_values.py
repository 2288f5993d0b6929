"""Whether values are what a schema asks for. Messages are the real server's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.status import told_as_cause
from allotment.apiserver.registry.custom.numbers import told
from allotment.apiserver.registry.custom.values import UNCORRELATED, ValueSchema
from tests.apiserver.registry.custom.schemas import TEXT, WHOLE, Raw, array, obj

Told = tuple[str, str]


def errors(schema: Raw, value: Any, old: Any = UNCORRELATED) -> list[Told]:
    found = ValueSchema(obj(x=schema)).errors(
        {"x": value}, old={"x": old} if old is not UNCORRELATED else UNCORRELATED
    )
    return [(str(error.path), told_as_cause(error)) for error in found]


WRONG: dict[str, tuple[Raw, Any, list[Told]]] = {
    "no number": (WHOLE, "a", [("x", 'Invalid value: "string": x in body must be of type integer: "string"')]),
    "a fraction": (
        WHOLE,
        1.5,
        [
            ("x", 'Invalid value: "number": x in body must be of type integer: "number"'),
            ("<nil>", 'Invalid value: "": Checked value must be of type integer (default format) in x'),
        ],
    ),
    "a bool is no number": (
        {"type": "number"},
        True,
        [("x", 'Invalid value: "boolean": x in body must be of type number: "boolean"')],
    ),
    "null": (TEXT, None, [("x", 'Invalid value: "null": x in body must be of type string: "null"')]),
    "too large for 32 bits": (
        {"type": "integer", "format": "int32"},
        2**31,
        [("<nil>", 'Invalid value: "": Checked value must be of type integer with format int32 in x')],
    ),
    "below": (
        {"type": "number", "minimum": 1.5},
        1.2,
        [("x", "Invalid value: 1.2: x in body should be greater than or equal to 1.5")],
    ),
    "not above": (
        {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
        1,
        [("x", "Invalid value: 1: x in body should be greater than 1")],
    ),
    "not below": (
        {"type": "number", "maximum": 2, "exclusiveMaximum": True},
        2.5,
        [("x", "Invalid value: 2.5: x in body should be less than 2")],
    ),
    "no multiple": (
        {"type": "integer", "multipleOf": 3},
        4,
        [("x", "Invalid value: 4: x in body should be a multiple of 3")],
    ),
    "too long, in characters": ({"type": "string", "maxLength": 2}, "ééé", [("x", "Too long: may not be more than 2 bytes")]),
    "too short": (
        {"type": "string", "minLength": 2},
        "é",
        [("x", 'Invalid value: "é": x in body should be at least 2 chars long')],
    ),
    "not of the pattern": (
        {"type": "string", "pattern": "^a+$"},
        "b",
        [("x", "Invalid value: \"b\": x in body should match '^a+$'")],
    ),
    "not of the format": (
        {"type": "string", "format": "ipv4"},
        "::1",
        [("x", 'Invalid value: "::1": x in body must be of type ipv4: "::1"')],
    ),
    "not in the list": (
        {"type": "integer", "enum": [1, 2]},
        3,
        [("x", 'Unsupported value: 3: supported values: "1", "2"')],
    ),
    "too many": (array(WHOLE, maxItems=1), [1, 2], [("x", "Too many: 2: must have at most 1 items")]),
    "too few": (array(WHOLE, minItems=1), [], [("x", "Invalid value: 0: x in body should have at least 1 items")]),
    "an element": (array(WHOLE), [1, "a"], [("x[1]", 'Invalid value: "string": x[1] in body must be of type integer: "string"')]),
    "a value of a map": (
        {"type": "object", "additionalProperties": WHOLE},
        {"k": "a"},
        [("x.k", 'Invalid value: "string": x.k in body must be of type integer: "string"')],
    ),
    "missing": (obj("a", a=TEXT), {}, [("x.a", "Required value")]),
    "none of the alternatives": (
        {**obj(a=TEXT, b=TEXT), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {},
        [
            ("<nil>", 'Invalid value: "": "x" must validate one and only one schema (oneOf). Found none valid'),
            ("x.a", "Required value"),
        ],
    ),
    "two of the alternatives": (
        {**obj(a=TEXT, b=TEXT), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"a": "", "b": ""},
        [("<nil>", 'Invalid value: "": "x" must validate one and only one schema (oneOf). Found 2 valid alternatives')],
    ),
    "what must not be": (
        {**TEXT, "not": {"pattern": "^x"}},
        "xy",
        [("<nil>", 'Invalid value: "": "x" must not validate the schema (not)')],
    ),
    "neither number nor text": (
        {"x-kubernetes-int-or-string": True},
        1.5,
        [("x", 'Invalid value: "number": x in body must be of type integer,string: "number"')],
    ),
    "nothing may stand here": (
        {"type": "object", "additionalProperties": False},
        {"a": 1},
        [("x", 'Invalid value: "a": x.a in body is a forbidden property')],
    ),
}  # fmt: skip

RIGHT: dict[str, tuple[Raw, Any]] = {
    "a whole float is an integer": (WHOLE, 2.0),
    "an integer is a number": ({"type": "number"}, 2),
    "null where it may stand": ({**TEXT, "nullable": True}, None),
    "an unknown format is ignored": ({"type": "string", "format": "frob"}, "x"),
    "a format of another type is ignored": ({"type": "integer", "format": "date"}, 5),
    "one of the alternatives": (
        {**obj(a=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"a": ""},
    ),
    "either": ({"x-kubernetes-int-or-string": True}, "5%"),
    "fields that the schema does not name": (obj(a=TEXT), {"b": 1}),
    "a bound is cut to a whole number for whole numbers, as upstream does": (
        {"type": "number", "minimum": 1.5},
        1,
    ),
    "a fraction as it is": ({"type": "number", "multipleOf": 0.5}, 1.5),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong(case: str) -> None:
    schema, value, expected = WRONG[case]
    assert errors(schema, value) == expected


@pytest.mark.parametrize("case", RIGHT)
def test_right(case: str) -> None:
    schema, value = RIGHT[case]
    assert errors(schema, value) == []


MAP_LIST = array(obj(id=TEXT, n={"type": "integer", "maximum": 1}), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]})  # fmt: skip
KEPT: dict[str, tuple[Raw, Any, Any, int]] = {
    "what did not change keeps its faults": (WHOLE, "a", "a", 0),
    "what changed does not": (WHOLE, "a", "b", 1),
    "true is not 1": (TEXT, True, 1, 1),
    "a field beside a changed one keeps its fault": (obj(a=WHOLE, b=TEXT), {"a": "x", "b": "2"}, {"a": "x", "b": "1"}, 0),
    "elements of maps are found by their keys": (
        MAP_LIST,
        [{"id": "b", "n": 9}, {"id": "a"}],
        [{"id": "a"}, {"id": "b", "n": 9}],
        0,
    ),
    "a new element obeys": (MAP_LIST, [{"id": "a"}, {"id": "c", "n": 9}], [{"id": "a"}], 1),
    "a plain list is compared as a whole": (array(WHOLE), ["a", 2], ["a", 1], 1),
    "and kept as a whole": (array(WHOLE), ["a"], ["a"], 0),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_ratcheting(case: str) -> None:
    schema, value, old, count = KEPT[case]
    assert len(errors(schema, value, old)) == count


def test_each_message_is_told_once() -> None:
    schema = {**TEXT, "allOf": [{"minLength": 2}, {"minLength": 2}]}
    assert [path for path, _ in errors(schema, "a")] == ["x", "<nil>"]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_numbers_are_told_so_that_they_can_be_read_again(number: float) -> None:
    assert float(told(number)) == float(number)


@pytest.mark.parametrize(
    ("number", "text"), [(10.0, "10"), (1.5, "1.5"), (1e21, "1e+21"), (1e-7, "1e-07"), (123456789.0, "123456789")]
)  # fmt: skip
def test_numbers_in_the_words_of_go(number: float, text: str) -> None:
    assert told(number) == text


def test_work_is_bounded() -> None:
    item = {**WHOLE, "allOf": [{"minimum": 0}] * 200}
    ((path, told_),) = errors(array(item), [1] * 6000)
    assert (path, told_) == ("<nil>", "Invalid value: takes more than 500000 checks, which is too many")
