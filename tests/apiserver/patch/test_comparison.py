"""Which fields an object has and in which it differs from another."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from allotment.api.schema.schema import Schema, schema_of
from allotment.apiserver.patch.comparison import (
    blank,
    brought,
    compare,
    fields_of,
    reconciled,
    with_named_fields,
)
from allotment.apiserver.patch.element import BadElement
from allotment.apiserver.patch.fieldset import FieldSet, told
from tests.apiserver.patch.pods import pods
from tests.apiserver.patch.schemas import CONTAINER, POD, atomic_struct, keyed, listing, struct


def names(fields: FieldSet) -> list[str]:
    return [told(path) for path in fields]


MENTIONED: dict[str, tuple[Any, list[str]]] = {
    "scalars": ({"spec": {"nodeName": "x"}}, [".spec.nodeName"]),
    "keys of maps": ({"metadata": {"labels": {"a": "1"}}}, [".metadata.labels.a"]),
    "an empty map": ({"metadata": {"labels": {}}}, [".metadata.labels"]),
    "an empty struct": ({"spec": {}}, [".spec"]),
    "null": ({"spec": {"nodeName": None, "containers": None}}, [".spec.containers", ".spec.nodeName"]),
    "an atomic struct": ({"spec": {"selector": {"matchLabels": {"a": "b"}}}}, [".spec.selector"]),
    "an atomic list": ({"spec": {"tolerations": [{"key": "a"}]}}, [".spec.tolerations"]),
    "an empty atomic list": ({"spec": {"tolerations": []}}, [".spec.tolerations"]),
    "an empty keyed list": ({"spec": {"containers": []}}, []),
    "elements and their fields": (
        {"spec": {"containers": [{"name": "c", "image": "i"}]}},
        ['.spec.containers[name="c"]', '.spec.containers[name="c"].image', '.spec.containers[name="c"].name'],
    ),
    "elements of a set": ({"metadata": {"finalizers": ["a"]}}, ['.metadata.finalizers[="a"]']),
    "elements that are there twice": ({"metadata": {"finalizers": ["a", "a"]}}, ['.metadata.finalizers[="a"]']),
    "keys that have a default": (
        {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}},
        [
            '.spec.containers[name="c"]',
            '.spec.containers[name="c"].name',
            '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"]',
            '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"].containerPort',
        ],
    ),
    "what has no schema": (
        {"spec": {"opaque": {"a": {"b": 1}, "l": [{"c": 2}]}}},
        [".spec.opaque.a", ".spec.opaque.l", ".spec.opaque.a.b"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MENTIONED)
def test_an_object_mentions_its_leaves_its_keys_and_its_elements(case: str) -> None:
    obj, expected = MENTIONED[case]
    assert names(fields_of(obj, POD)) == expected


CHANGES: dict[str, tuple[Any, Any, list[str], list[str], list[str]]] = {
    "nothing": ({"nodeName": "x"}, {"nodeName": "x"}, [], [], []),
    "a scalar": ({"nodeName": "x"}, {"nodeName": "y"}, [], [".spec.nodeName"], []),
    "a new scalar": ({}, {"nodeName": "y"}, [], [], [".spec.nodeName"]),
    "a scalar gone": ({"nodeName": "x"}, {}, [".spec.nodeName"], [], []),
    "a map is added with its keys": (
        {},
        {"nodeSelector": {"a": "1"}},
        [],
        [],
        [".spec.nodeSelector", ".spec.nodeSelector.a"],
    ),
    "a key of a map": (
        {"nodeSelector": {"a": "1", "b": "1"}},
        {"nodeSelector": {"a": "2", "c": "1"}},
        [".spec.nodeSelector.b"],
        [".spec.nodeSelector.a"],
        [".spec.nodeSelector.c"],
    ),
    "null becomes a map": ({"nodeSelector": None}, {"nodeSelector": {"a": "1"}}, [], [], [".spec.nodeSelector.a"]),
    "a map becomes empty": ({"nodeSelector": {"a": "1"}}, {"nodeSelector": {}}, [".spec.nodeSelector.a"], [], []),
    "null becomes empty": ({"nodeSelector": None}, {"nodeSelector": {}}, [], [".spec.nodeSelector"], []),
    "an atomic struct": (
        {"selector": {"matchLabels": {"a": "1"}}},
        {"selector": {"matchLabels": {"a": "2"}}},
        [],
        [".spec.selector"],
        [],
    ),
    "an element": (
        {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]},
        {"containers": [{"name": "c"}, {"name": "a", "image": "2"}]},
        ['.spec.containers[name="b"]', '.spec.containers[name="b"].name'],
        ['.spec.containers[name="a"].image'],
        ['.spec.containers[name="c"]', '.spec.containers[name="c"].name'],
    ),
    "only the order of elements": (
        {"containers": [{"name": "a"}, {"name": "b"}]},
        {"containers": [{"name": "b"}, {"name": "a"}]},
        [],
        [],
        [],
    ),
    "an element that is there twice now": (
        {"containers": [{"name": "a"}]},
        {"containers": [{"name": "a"}, {"name": "a", "image": "x"}]},
        ['.spec.containers[name="a"]', '.spec.containers[name="a"].name'],
        [],
        ['.spec.containers[name="a"]'],
    ),
    "an element that was there twice": (
        {"containers": [{"name": "a"}, {"name": "a", "image": "x"}]},
        {"containers": [{"name": "a"}]},
        ['.spec.containers[name="a"]'],
        [],
        ['.spec.containers[name="a"]', '.spec.containers[name="a"].name'],
    ),
    "elements that are there twice before and after": (
        {"containers": [{"name": "a"}, {"name": "a"}]},
        {"containers": [{"name": "a"}, {"name": "a", "image": "x"}]},
        [],
        ['.spec.containers[name="a"]'],
        [],
    ),
    "a scalar becomes a map": ({"opaque": 1}, {"opaque": {"a": 1}}, [], [".spec.opaque"], [".spec.opaque.a"]),
    "a map becomes a list": ({"opaque": {"a": 1}}, {"opaque": [1]}, [".spec.opaque.a"], [".spec.opaque"], []),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_is_told_by_field(case: str) -> None:
    old, new, removed, modified, added = CHANGES[case]
    change = compare({"spec": old}, {"spec": new}, POD)
    assert (names(change.removed), sorted(names(change.gained))) == (removed, sorted(modified + added))
    assert bool(change) == (removed + modified + added != [])


@given(pods(), pods())
def test_the_way_back_is_the_opposite(old: Any, new: Any) -> None:
    there, back = compare(old, new, POD), compare(new, old, POD)
    assert there.all == back.all
    assert not there.removed - back.gained


@given(pods())
def test_what_appears_from_nothing_has_all_that_is_mentioned(obj: Any) -> None:
    added = compare({}, obj, POD).gained
    assert not fields_of(obj, POD) - added


@given(pods(), pods())
def test_equal_objects_and_only_they_compare_as_equal(old: Any, new: Any) -> None:
    def sorted_lists(obj: Any) -> Any:
        if isinstance(obj, dict):
            return {key: sorted_lists(value) for key, value in obj.items()}
        return sorted(map(sorted_lists, obj), key=str) if isinstance(obj, list) else obj

    assert (not compare(old, new, POD)) == (sorted_lists(old) == sorted_lists(new))


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"containers": [{"image": "x"}]}, 'omits all key fields ["name"]'),
        ({"containers": ["x"]}, "non-map elements"),
        ({"containers": [None]}, "null element"),
    ],
)
def test_an_element_without_its_key_cannot_be_told(spec: Any, complaint: str) -> None:
    with pytest.raises(BadElement) as caught:
        fields_of({"spec": spec}, POD)
    assert complaint in str(caught.value)


def test_a_pod_is_not_nothing_before_it_is_written() -> None:
    empty = blank(schema_of("v1", "Pod"))
    assert (empty["metadata"], empty["spec"]) == ({}, {"containers": None})
    assert blank(schema_of("apps/v1", "Deployment"))["spec"]["selector"] is None
    assert blank(POD) == {}  # it has no name, so it is a custom kind


def test_named_fields_are_there_through_what_is_in_them() -> None:
    fields = FieldSet.of_names("spec.nodeSelector.a")
    assert names(with_named_fields(fields, POD)) == [".spec", ".spec.nodeSelector", ".spec.nodeSelector.a"]


@given(pods())
def test_owners_of_parts_own_the_whole_once_it_is_atomic(obj: Any) -> None:
    closed = struct(
        metadata=POD.properties["metadata"],
        spec=struct(
            containers=listing(CONTAINER),
            nodeSelector=atomic_struct(),
            nodeName=POD.properties["spec"].properties["nodeName"],
        ),
    )
    fields = fields_of({key: value for key, value in obj.items() if key != "status"}, POD)
    told_now = names(reconciled(fields, closed))
    assert not [name for name in told_now if name.startswith((".spec.containers[", ".spec.nodeSelector."))]
    assert reconciled(fields, POD) == fields


def test_values_of_keys_are_told_apart_by_type() -> None:
    schema = struct(l=keyed(struct(), "k"))
    assert names(fields_of({"l": [{"k": 1}, {"k": True}, {"k": "1"}]}, schema)) == [
        ".l[k=1]", '.l[k="1"]', ".l[k=true]", ".l[k=1].k", '.l[k="1"].k', ".l[k=true].k",
    ]  # fmt: skip


@pytest.mark.parametrize("schema", [POD, schema_of("v1", "Pod")], ids=["custom", "built-in"])
@given(pods())
def test_a_new_object_brings_what_a_blank_one_has_not(schema: Schema, pod: Any) -> None:
    try:
        expected = compare({"metadata": {}, **blank(schema)}, pod, schema).gained
    except BadElement:  # what is a pod of ours may be none of Kubernetes'
        return
    assert (
        brought(pod, schema) == expected == brought(pod, schema)
    )  # the second time, its spec was seen before
