"""JSON patch: the RFC's operations, Kubernetes' liberties, and bounds."""

from __future__ import annotations

import contextlib
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given

from allotment.api.status import BadRequest, Invalid, StatusError, TooLarge
from allotment.apiserver.patch.json_patch import MAX_OPERATIONS, json_patch
from tests.apiserver.patch.values import nested, objects

DOC = {"a": {"b": 1, "n": None}, "l": [1, 2, 3], "x/y": "slash", "m~n": "tilde"}

APPLIES: dict[str, tuple[Any, Any, Any]] = {
    "add sets a key": ({}, [{"op": "add", "path": "/a", "value": 1}], {"a": 1}),
    "add replaces a key": ({"a": 0}, [{"op": "add", "path": "/a", "value": 1}], {"a": 1}),
    "add inserts": ({"l": [1, 3]}, [{"op": "add", "path": "/l/1", "value": 2}], {"l": [1, 2, 3]}),
    "add appends at the length": ({"l": [1]}, [{"op": "add", "path": "/l/1", "value": 2}], {"l": [1, 2]}),
    "add appends with a dash": ({"l": [1]}, [{"op": "add", "path": "/l/-", "value": 2}], {"l": [1, 2]}),
    "add from the end": ({"l": [1, 3]}, [{"op": "add", "path": "/l/-2", "value": 2}], {"l": [1, 2, 3]}),
    "add without a value adds null": ({}, [{"op": "add", "path": "/a"}], {"a": None}),
    "add to the empty key": ({}, [{"op": "add", "path": "/", "value": 1}], {"": 1}),
    "what stands before the slash is ignored": ({}, [{"op": "add", "path": "z/a", "value": 1}], {"a": 1}),
    "remove drops a key": ({"a": 1}, [{"op": "remove", "path": "/a"}], {}),
    "remove drops a null": ({"a": None}, [{"op": "remove", "path": "/a"}], {}),
    "remove closes the gap": ({"l": [1, 2, 3]}, [{"op": "remove", "path": "/l/1"}], {"l": [1, 3]}),
    "remove from the end": ({"l": [1, 2, 3]}, [{"op": "remove", "path": "/l/-1"}], {"l": [1, 2]}),
    "replace": ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
    "replace adds an absent key": ({}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
    "replace an element": ({"l": [1, 2]}, [{"op": "replace", "path": "/l/1", "value": 3}], {"l": [1, 3]}),
    "replace everything": ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    "move": ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
    "move in a list": ({"l": [1, 2, 3]}, [{"op": "move", "from": "/l/0", "path": "/l/2"}], {"l": [2, 3, 1]}),
    "copy": ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
    "copy is apart from its source": (
        {"a": [1]},
        [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/-", "value": 2}],
        {"a": [1], "b": [1, 2]},
    ),
    "copy of an absent key is null": ({}, [{"op": "copy", "from": "/a", "path": "/b"}], {"b": None}),
    "test passes": (DOC, [{"op": "test", "path": "/l", "value": [1, 2, 3]}], DOC),
    "test of everything": (DOC, [{"op": "test", "path": "", "value": DOC}], DOC),
    "test for null of an absent key": ({}, [{"op": "test", "path": "/a", "value": None}], {}),
    "a slash is ~1": (DOC, [{"op": "test", "path": "/x~1y", "value": "slash"}], DOC),
    "a tilde is ~0": (DOC, [{"op": "test", "path": "/m~0n", "value": "tilde"}], DOC),
    "no operation": ({"a": 1}, [], {"a": 1}),
}

FAILS: dict[str, tuple[list[Any], str]] = {
    "add below nothing": (
        [{"op": "add", "path": "/z/b", "value": 1}],
        'add operation does not apply: doc is missing path: "/z/b": missing value',
    ),
    "add below a scalar": ([{"op": "add", "path": "/a/b/c", "value": 1}], "doc is missing path"),
    "add below null": ([{"op": "add", "path": "/a/n/c", "value": 1}], "doc is missing path"),
    "add to everything": ([{"op": "add", "path": "", "value": {}}], "doc is missing path"),
    "add beyond the end": ([{"op": "add", "path": "/l/4", "value": 1}], "Unable to access invalid index: 4"),
    "add at a giant index": (
        [{"op": "add", "path": "/l/" + "9" * 400, "value": 1}],
        "not a proper array index",
    ),
    "add at a word": ([{"op": "add", "path": "/l/one", "value": 1}], "not a proper array index: 'one'"),
    "add at a digit of another script": ([{"op": "add", "path": "/l/٣", "value": 1}], "not a proper array"),
    "remove of nothing": (
        [{"op": "remove", "path": "/z"}],
        "error in remove for path: '/z': Unable to remove nonexistent key: z: missing value",
    ),
    "remove beyond the end": ([{"op": "remove", "path": "/l/3"}], "invalid index"),
    "replace beyond the end": ([{"op": "replace", "path": "/l/3", "value": 1}], "invalid index"),
    "replace below nothing": ([{"op": "replace", "path": "/z/b", "value": 1}], "doc is missing path: /z/b"),
    "replace everything by a scalar": (
        [{"op": "replace", "path": "", "value": 1}],
        "must be object or array",
    ),
    "replace everything by a list": ([{"op": "replace", "path": "", "value": []}], "not an object"),
    "move of nothing": ([{"op": "move", "from": "/z", "path": "/y"}], "nonexistent key: z"),
    "move from nowhere": ([{"op": "move", "from": "/z/z", "path": "/y"}], "missing from path"),
    "move to nowhere": ([{"op": "move", "from": "/a", "path": "/z/z"}], "missing destination path"),
    "move into itself": ([{"op": "move", "from": "/a", "path": "/a/b"}], "missing destination path"),
    "copy to nowhere": ([{"op": "copy", "from": "/a", "path": "/z/z"}], "missing destination path"),
    "test of another value": (
        [{"op": "test", "path": "/a/b", "value": 2}],
        "testing value /a/b failed: test failed",
    ),
    "test takes no true for 1": ([{"op": "test", "path": "/a/b", "value": True}], "test failed"),
    "test of an absent key": ([{"op": "test", "path": "/z", "value": 1}], "test failed"),
    "an unknown operation": ([{"op": "frobnicate", "path": "/a"}], "Unexpected kind: frobnicate"),
    "no operation": ([{"path": "/a"}], "Unexpected kind: unknown"),
    "an operation that is null": ([None], "Unexpected kind: unknown"),
    "an operation that is a map": ([{"op": {}, "path": "/a"}], "Unexpected kind: unknown"),
    "no path": ([{"op": "remove"}], "failed to decode path"),
    "a path that is a number": ([{"op": "remove", "path": 1}], "failed to decode path"),
    "no from": ([{"op": "copy", "path": "/a"}], "failed to decode from"),
    "a path too deep": ([{"op": "remove", "path": "/a" * 300}], "may have 200 steps"),
}


@pytest.mark.parametrize("case", APPLIES)
def test_an_operation_changes_a_copy(case: str) -> None:
    document, patch, expected = APPLIES[case]
    before = deepcopy((document, patch))
    assert json_patch(document, patch) == expected
    assert (document, patch) == before


@pytest.mark.parametrize("case", FAILS)
def test_an_operation_that_does_not_apply_is_invalid_and_the_cause_says_why(case: str) -> None:
    patch, why = FAILS[case]
    with pytest.raises(Invalid) as caught:
        json_patch(DOC, patch)
    assert caught.value.message == "the server rejected our request due to an error in our request"
    assert why in caught.value.details["causes"][0]["message"]


@pytest.mark.parametrize("patch", [{}, "x", None, 1, [1], ["add"], [[]]])
def test_a_document_that_is_no_patch_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(BadRequest):
        json_patch(DOC, patch)


def test_the_number_of_operations_is_bounded() -> None:
    with pytest.raises(TooLarge, match=f"is {MAX_OPERATIONS}, got {MAX_OPERATIONS + 1}"):
        json_patch({}, [{"op": "add", "path": "/a", "value": 1}] * (MAX_OPERATIONS + 1))


def test_copies_that_double_are_stopped() -> None:
    patch = [{"op": "copy", "from": "/a", "path": f"/a/{i}"} for i in range(100)]
    with pytest.raises(Invalid) as caught:
        json_patch({"a": {"x": "y" * 100}}, patch)
    assert "accumulated size" in caught.value.details["causes"][0]["message"]


def test_copies_that_nest_are_stopped() -> None:
    with pytest.raises(StatusError):
        json_patch({"a": {}}, [{"op": "copy", "from": "/a", "path": "/a/b"}] * 5000)


def test_values_that_nest_are_stopped() -> None:
    with pytest.raises(StatusError):
        json_patch({}, [{"op": "add", "path": "/a", "value": nested(5000)}])
    with pytest.raises(StatusError):
        json_patch(
            {},
            [
                {"op": "add", "path": "/a", "value": nested(150)},
                {"op": "add", "path": "/a" * 100, "value": nested(150)},
            ],
        )


def test_shifting_a_long_list_over_and_over_is_stopped() -> None:
    with pytest.raises(Invalid, match="our request"):
        json_patch({"l": [0] * 100_000}, [{"op": "add", "path": "/l/0", "value": 0}] * MAX_OPERATIONS)


def _difference(old: Any, new: Any, path: str) -> list[dict[str, Any]]:
    """A patch from ``old`` to ``new``, the obvious way."""
    if isinstance(old, dict) and isinstance(new, dict):
        steps = []
        for key in old.keys() | new.keys():
            inner = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in new:
                steps.append({"op": "remove", "path": inner})
            elif key not in old:
                steps.append({"op": "add", "path": inner, "value": new[key]})
            else:
                steps += _difference(old[key], new[key], inner)
        return steps
    return [{"op": "test", "path": path, "value": old}, {"op": "replace", "path": path, "value": new}]


@given(objects(nulls=True), objects(nulls=True))
def test_the_difference_of_two_documents_leads_from_one_to_the_other(old: Any, new: Any) -> None:
    assert json_patch(old, _difference(old, new, "")) == new


@given(objects(), objects(nulls=True))
def test_whatever_the_patch_only_a_status_error_comes_out(document: Any, operation: Any) -> None:
    for op in ("add", "remove", "replace", "move", "copy", "test"):
        for path in ("", "/", "/a", "/a/0", "/a/-", "/b/-1", "/x~1y/b"):
            with contextlib.suppress(StatusError):
                json_patch(document, [{"op": op, "path": path, "from": path, "value": operation}])
