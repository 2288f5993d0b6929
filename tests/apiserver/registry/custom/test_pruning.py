"""What the body of a custom object becomes: unknown fields out, nulls out, defaults in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.status import BadRequest
from allotment.apiserver.registry.custom.pruning import fill, pruned
from allotment.apiserver.registry.custom.structural import Structural
from tests.apiserver.registry.custom.schemas import TEXT, WHOLE, Raw, array, obj

OPEN = {"x-kubernetes-preserve-unknown-fields": True}
NULLABLE = {"type": "string", "nullable": True}
DEFAULT = {"type": "string", "default": "d"}

PRUNED: dict[str, tuple[Raw, Any, Any, list[str]]] = {
    "unknown fields go": (obj(a=TEXT), {"a": "x", "b": 1}, {"a": "x"}, ["spec.b"]),
    "they are told by their place": (
        obj(l=array(obj(a=TEXT))),
        {"l": [{"a": "x"}, {"b": 1}]},
        {"l": [{"a": "x"}, {}]},
        ["spec.l[1].b"],
    ),
    "values of maps are looked into": (
        {"type": "object", "additionalProperties": obj(a=TEXT)},
        {"k": {"a": "x", "b": 1}},
        {"k": {"a": "x"}},
        ["spec.k.b"],
    ),
    "of a map of anything only scalars stay": (
        {"type": "object", "additionalProperties": True},
        {"k": 1, "o": {"a": 1}},
        {"k": 1, "o": {}},
        ["spec.o.a"],
    ),
    "what is to be preserved is, but for what is known": (
        {**obj(k=obj(a=TEXT)), **OPEN},
        {"u": {"v": [None]}, "k": {"a": "x", "b": 1}},
        {"u": {"v": [None]}, "k": {"a": "x"}},
        ["spec.k.b"],
    ),
    "null where it may not stand goes": (obj(a=TEXT, b=NULLABLE), {"a": None, "b": None}, {"b": None}, []),
    "null that a default replaces stays until then": (obj(a=DEFAULT), {"a": None}, {"a": None}, []),
    "null in a list stays": (obj(l=array(TEXT)), {"l": [None]}, {"l": [None]}, []),
    "a value of the wrong type is for others to find": (obj(a=WHOLE), {"a": "x"}, {"a": "x"}, []),
}


def whole(spec: Any) -> Raw:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "labels": {"k": "v"}},
        "spec": spec,
    }


@pytest.mark.parametrize("case", PRUNED)
def test_pruning(case: str) -> None:
    schema, given_, expected, unknown = PRUNED[case]
    found = pruned(Structural(obj(spec=schema)), whole(given_))
    assert found.obj == whole(expected)
    assert found.unknown == [f'unknown field "{path}"' for path in unknown]


def test_metadata_is_read_as_metadata() -> None:
    body = {**whole({}), "metadata": {"name": "a", "typo": 1, "creationTimestamp": None}, "extra": 1}
    found = pruned(Structural(obj(spec=obj())), body)
    assert found.obj["metadata"] == {"name": "a"}
    assert found.unknown == ['unknown field "metadata.typo"', 'unknown field "extra"']


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"name": 5}, "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"),
        ([], "json: cannot unmarshal array into Go value of type v1.ObjectMeta"),
    ],
)
def test_metadata_that_is_none(metadata: Any, why: str) -> None:
    with pytest.raises(BadRequest) as refused:
        pruned(Structural(obj()), {**whole({}), "metadata": metadata})
    assert refused.value.message == f'Widget in version "v1" cannot be handled as a Widget: {why}'


def test_an_object_inside_keeps_its_head_and_loses_unknown_metadata() -> None:
    inside = {"type": "object", "x-kubernetes-embedded-resource": True, **OPEN}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "typo": 1}, "spec": {"x": 1}}
    found = pruned(Structural(obj(spec=obj(template=inside))), whole({"template": pod}))
    assert found.obj["spec"]["template"] == {**pod, "metadata": {"name": "p"}}
    assert found.unknown == ['unknown field "spec.template.metadata.typo"']
    with pytest.raises(BadRequest, match=r"spec.template.kind: Invalid value: 1: must be a string"):
        pruned(Structural(obj(spec=obj(template=inside))), whole({"template": {**pod, "kind": 1}}))


FILLED: dict[str, tuple[Raw, Any, Any]] = {
    "what is absent": (obj(a=DEFAULT), {}, {"a": "d"}),
    "null, where it may not stand": (obj(a=DEFAULT), {"a": None}, {"a": "d"}),
    "not null where it may": (obj(a={**DEFAULT, "nullable": True}), {"a": None}, {"a": None}),
    "not what is there": (obj(a=DEFAULT), {"a": ""}, {"a": ""}),
    "inside a default": (obj(o={**obj(a=DEFAULT), "default": {}}), {}, {"o": {"a": "d"}}),
    "not inside what is absent": (obj(o=obj(a=DEFAULT)), {}, {}),
    "in every element": (obj(l=array(obj(a=DEFAULT))), {"l": [{}, {"a": "x"}]}, {"l": [{"a": "d"}, {"a": "x"}]}),
    "null elements": (obj(l=array(DEFAULT)), {"l": [None]}, {"l": ["d"]}),
    "null values of maps": (
        {"type": "object", "additionalProperties": DEFAULT},
        {"k": None, "l": "x"},
        {"k": "d", "l": "x"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FILLED)
def test_defaults_fill(case: str) -> None:
    schema, value, expected = FILLED[case]
    fill(Structural(schema), value)
    assert value == expected


def test_a_default_is_copied() -> None:
    schema = Structural(obj(o={"type": "object", "additionalProperties": WHOLE, "default": {"a": 1}}))
    one: Raw = {}
    fill(schema, one)
    one["o"]["a"] = 2
    other: Raw = {}
    fill(schema, other)
    assert other == {"o": {"a": 1}}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=12,
)


def schemas(depth: int) -> st.SearchStrategy[Raw]:
    leaf = st.sampled_from([TEXT, WHOLE, NULLABLE, DEFAULT, OPEN, {"type": "object", **OPEN}])
    if depth == 0:
        return leaf
    inner = schemas(depth - 1)
    objects = st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(lambda fields: obj(**fields))
    maps = inner.map(lambda each: {"type": "object", "additionalProperties": each})
    return leaf | objects | maps | inner.map(array)


@given(schemas(3), JSON)
def test_pruning_and_filling_are_done_once_and_change_nothing_of_the_body(schema: Raw, spec: Any) -> None:
    structural = Structural(obj(spec=schema))
    body = whole(spec)
    before = repr(body)
    once = pruned(structural, body)
    assert repr(body) == before
    fill(structural, once.obj)
    again = pruned(structural, once.obj)
    fill(structural, again.obj)
    assert (again.obj, again.unknown) == (once.obj, [])
