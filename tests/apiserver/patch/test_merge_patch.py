"""JSON merge patch: the RFC's examples and the laws that follow from it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import assume, given

from allotment.api.status import BadRequest
from allotment.apiserver.patch.merge_patch import merge_patch, without_nulls
from tests.apiserver.patch.values import nested, objects

EXAMPLES: list[tuple[Any, Any, Any]] = [  # RFC 7386, appendix A, those between objects
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ({"a": {"b": 1}}, {"a": [{"c": None, "d": 1}, None]}, {"a": [{"d": 1}, None]}),  # as Kubernetes does
]


@pytest.mark.parametrize(("document", "patch", "expected"), EXAMPLES)
def test_a_merge_patch_changes_a_copy(document: Any, patch: Any, expected: Any) -> None:
    before = deepcopy((document, patch))
    assert merge_patch(document, patch) == expected
    assert (document, patch) == before


def test_what_a_patch_leaves_alone_is_shared_and_what_it_brings_is_not() -> None:
    document: Any = {"a": {"b": [1]}, "c": {"d": {}, "e": [2]}}
    patch = {"c": {"d": {"f": [3]}}}
    merged = merge_patch(document, patch)
    assert merged["a"] is document["a"]
    assert merged["c"]["e"] is document["c"]["e"]
    merged["c"]["d"]["f"].append(4)
    assert (document["c"]["d"], patch) == ({}, {"c": {"d": {"f": [3]}}})


@pytest.mark.parametrize("patch", [None, [], "x", 1, True])
def test_a_patch_that_is_no_object_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(BadRequest):
        merge_patch({}, patch)


def test_a_patch_that_nests_too_deeply_is_a_bad_request() -> None:
    for depth in (201, 1000, 100_000):
        with pytest.raises(BadRequest, match="nests deeper"):
            merge_patch({}, {"a": nested(depth)})


@given(objects(), objects(nulls=True))
def test_applying_a_patch_twice_is_applying_it_once(document: Any, patch: Any) -> None:
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once


@given(objects())
def test_the_empty_patch_changes_nothing(document: Any) -> None:
    assert merge_patch(document, {}) == document


@given(objects(nulls=True))
def test_patching_nothing_gives_the_patch_without_nulls(patch: Any) -> None:
    assert merge_patch({}, patch) == without_nulls(patch)


@given(objects(), objects(nulls=True), objects(nulls=True))
def test_patches_compose(document: Any, first: Any, second: Any) -> None:
    """One patch after the other is the patch that merges them with its nulls kept, if there is such a patch: none can
    say that an object takes the place of what was there."""
    assume(_can_be_one(first, second))
    assert merge_patch(merge_patch(document, first), second) == merge_patch(
        document, _composed(first, second)
    )


def _can_be_one(first: Any, second: Any) -> bool:
    return all(
        isinstance(first[key], dict) and _can_be_one(first[key], second[key])
        for key in first.keys() & second.keys()
        if isinstance(second[key], dict)
    )


def _composed(first: Any, second: Any) -> Any:
    merged = dict(first)
    for key, value in second.items():
        both = isinstance(value, dict) and isinstance(first.get(key), dict)
        merged[key] = _composed(first[key], value) if both else value
    return merged
