"""Sets of fields: the form they are stored in, and the algebra, checked against plain sets of paths."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.patch.element import BadElement, canonical, spoken
from allotment.apiserver.patch.fieldset import EMPTY, FieldSet, Path, told
from tests.apiserver.patch.values import nested

STEPS = st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'k:{"n":"y"}', "v:1", "i:0"])
PATHS: st.SearchStrategy[Path] = st.lists(STEPS, min_size=1, max_size=4).map(tuple)
PATH_SETS = st.sets(PATHS, max_size=12)


def of(paths: set[Path]) -> FieldSet:
    return FieldSet.of_paths(sorted(paths))


@given(PATH_SETS)
def test_a_set_has_its_members_and_no_others(paths: set[Path]) -> None:
    fields = of(paths)
    assert set(fields) == paths
    assert len(list(fields)) == len(paths)
    assert all(path in fields for path in paths)
    assert () not in fields
    assert bool(fields) == bool(paths)


@given(PATH_SETS, st.randoms())
def test_the_order_of_insertion_does_not_matter(paths: set[Path], random: Any) -> None:
    shuffled = list(paths)
    random.shuffle(shuffled)
    assert FieldSet.of_paths(shuffled) == of(paths)


@given(PATH_SETS)
def test_what_is_written_reads_the_same(paths: set[Path]) -> None:
    assert FieldSet.parse(of(paths).fields) == of(paths)


@given(PATH_SETS, PATH_SETS)
def test_union_intersection_and_difference_are_those_of_the_paths(one: set[Path], other: set[Path]) -> None:
    assert of(one) | of(other) == of(one | other)
    assert of(one) & of(other) == of(one & other)
    assert of(one) - of(other) == of(one - other)


@given(PATH_SETS, PATH_SETS)
def test_without_drops_what_is_below_too(one: set[Path], other: set[Path]) -> None:
    kept = {path for path in one if not any(path[: len(gone)] == gone for gone in other)}
    assert of(one).without(of(other)) == of(kept)


@given(PATH_SETS, PATH_SETS)
def test_operations_leave_their_operands_alone(one: set[Path], other: set[Path]) -> None:
    a, b = of(one), of(other)
    _ = (a | b, a & b, a - b, a.without(b), b | a, b - a)
    assert (a, b) == (of(one), of(other))


def test_the_stored_form_is_kubernetes_own() -> None:
    paths = [("f:spec",), ("f:spec", "f:replicas"), ("f:metadata", "f:labels", "f:a")]
    assert FieldSet.of_paths(paths).fields == {
        "f:spec": {".": {}, "f:replicas": {}},
        "f:metadata": {"f:labels": {"f:a": {}}},
    }
    assert FieldSet.of_names("spec", "spec.replicas", "metadata.labels.a") == FieldSet.of_paths(paths)
    assert FieldSet.parse({}) == EMPTY


def test_steps_written_differently_are_the_same() -> None:
    ours: Any = {'k:{"containerPort":80,"protocol":"TCP"}': {}, 'v:"a<b"': {}, "i:3": {}}
    theirs: Any = {
        'k:{ "protocol": "TCP", "containerPort": 80 }': {".": {}},
        'v: "a\\u003cb"': {},
        "i:03": {},
    }
    assert FieldSet.parse(theirs) == FieldSet.parse(ours)
    assert canonical('v:"a<b"') == 'v:"a\\u003cb"'


def test_steps_of_kinds_yet_to_come_are_dropped() -> None:
    assert FieldSet.parse({"f:a": {}, "z:what": {"f:b": {}}}) == FieldSet.of_names("a")


@pytest.mark.parametrize(
    "fields",
    [
        [], "f:a", 1, {"f:a": None}, {"f:a": []}, {"": {}}, {"f": {}}, {"fa": {}}, {"k:": {}}, {"k:[]": {}}, {"k:1": {}},
        {"v:": {}}, {"v:{": {}}, {"v:1 2": {}}, {"i:x": {}}, {"i:٣": {}}, {"i:" + "9" * 40: {}}, {"k:" + "[" * 9999: {}},
        {"f:" + "x" * 200_000: {}},
    ],
)  # fmt: skip
def test_nonsense_is_refused(fields: Any) -> None:
    with pytest.raises(BadElement):
        FieldSet.parse(fields)


def test_depth_is_bounded() -> None:
    deep = nested(5000)
    with pytest.raises(BadElement):
        FieldSet.parse({"f:a": deep})


def test_paths_are_told_as_kubernetes_tells_them() -> None:
    path = ("f:spec", "f:containers", 'k:{"containerPort":80,"protocol":"TCP"}', 'v:"x"', "i:0")
    assert told(path) == '.spec.containers[containerPort=80,protocol="TCP"][="x"][0]'
    assert spoken("f:c/d") == ".c/d"


def test_paths_come_in_order() -> None:
    fields = FieldSet.parse(
        {
            'k:{"port":443}': {},
            'k:{"port":80}': {"f:x": {}, ".": {}},
            "f:b": {"f:a": {}},
            "f:c": {},
            "v:true": {},
            "v:2": {},
        }
    )
    assert [told(path) for path in fields] == [
        ".c", "[port=80]", "[port=443]", "[=2]", "[=true]", ".b.a", "[port=80].x",
    ]  # fmt: skip


@given(PATH_SETS, st.randoms())
def test_json_is_in_order_whatever_the_order_of_the_parts(paths: set[Path], random: Any) -> None:
    shuffled = list(paths)
    random.shuffle(shuffled)
    one, other = of(paths), FieldSet.of_paths(shuffled)
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())
    assert one.to_json() == one.fields
    assert FieldSet(one.to_json()).to_json() == one.to_json()


def test_the_order_of_json() -> None:
    steps = ['v:"b"', "i:10", "i:9", 'k:{"port":80}', 'k:{"port":9}', "f:b", "f:a", "v:2"]
    fields: dict[str, Any] = {**{step: {"f:y": {}, "f:x": {}, ".": {}} for step in steps}, ".": {}}
    expected = ["f:a", "f:b", 'k:{"port":9}', 'k:{"port":80}', "v:2", 'v:"b"', "i:9", "i:10"]
    made = FieldSet(fields).to_json()
    assert list(made) == [".", *expected]
    assert all(list(part) == [".", "f:x", "f:y"] for part in made.values() if part)
