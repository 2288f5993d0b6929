"""Strategic merge patch: how lists merge, what directives do, and what nonsense is answered with."""

from __future__ import annotations

import contextlib
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.schema.schema import schema_of
from allotment.api.status import BadRequest, Invalid, StatusError
from allotment.apiserver.patch.strategic import strategic_merge
from tests.apiserver.patch.schemas import POD
from tests.apiserver.patch.values import nested


def pod_of(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **spec}}


A, B, C = ({"name": name, "image": name} for name in "abc")

MERGES: dict[str, tuple[Any, Any, Any]] = {
    "a scalar is replaced": (pod_of(A, nodeName="x"), {"spec": {"nodeName": "y"}}, pod_of(A, nodeName="y")),
    "null removes": (pod_of(A, nodeName="x"), {"spec": {"nodeName": None}}, pod_of(A)),
    "null of nothing is nothing": (pod_of(A), {"spec": {"nodeName": None}}, pod_of(A)),
    "maps merge": (
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"b": None, "c": "3"}}},
        {"metadata": {"labels": {"a": "1", "c": "3"}}},
    ),
    "elements merge by their key": (
        pod_of(A, B),
        pod_of({"name": "b", "args": ["x"]}),
        pod_of(A, {"name": "b", "image": "b", "args": ["x"]}),
    ),
    "new elements are added, without nulls and directives": (
        pod_of(A),
        pod_of(
            {"name": "b", "image": None, "$setElementOrder/ports": [], "env": [{"name": "E", "value": None}]}
        ),
        pod_of({"name": "b", "env": [{"name": "E"}]}, A),
    ),
    "lists of lists' elements merge too": (
        pod_of({"name": "a", "env": [{"name": "X", "value": "1"}]}),
        pod_of({"name": "a", "env": [{"name": "Y", "value": "2"}]}),
        pod_of({"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}),
    ),
    "other lists are replaced": (
        pod_of({"name": "a", "args": ["x", "y"]}),
        pod_of({"name": "a", "args": ["z"]}),
        pod_of({"name": "a", "args": ["z"]}),
    ),
    "scalars merge as a set": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["b", "c"]}},
        {"metadata": {"finalizers": ["a", "b", "c"]}},
    ),
    "a list is added whole": ({}, pod_of(A), pod_of(A)),
    "a map in place of a scalar": (
        {"spec": {"opaque": 1}},
        {"spec": {"opaque": {"a": 1}}},
        {"spec": {"opaque": {"a": 1}}},
    ),
    "$patch delete removes an element": (pod_of(A, B), pod_of({"name": "a", "$patch": "delete"}), pod_of(B)),
    "$patch delete of an absent element": (pod_of(A), pod_of({"name": "z", "$patch": "delete"}), pod_of(A)),
    "$patch delete where there is no list": ({}, pod_of({"name": "a", "$patch": "delete"}), pod_of()),
    "$patch replace replaces the list": (pod_of(A, B), pod_of({"$patch": "replace"}, C), pod_of(C)),
    "$patch replace replaces the map": (
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"$patch": "replace", "b": "2"}}},
        {"metadata": {"labels": {"b": "2"}}},
    ),
    "$patch delete empties the map": (
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"$patch": "delete"}}},
        {"metadata": {"labels": {}}},
    ),
    "$retainKeys keeps only these": (
        {"spec": {"selector": {"a": 1, "b": 2}}},
        {"spec": {"selector": {"$retainKeys": ["b", "c"], "c": 3}}},
        {"spec": {"selector": {"b": 2, "c": 3}}},
    ),
    "$deleteFromPrimitiveList removes scalars": (
        {"metadata": {"finalizers": ["a", "b", "c"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "c", "z"]}},
        {"metadata": {"finalizers": ["b"]}},
    ),
    "$deleteFromPrimitiveList where there is none": (
        {"metadata": {}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
        {"metadata": {}},
    ),
    "$setElementOrder orders": (
        pod_of(A, B, C),
        {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}]}},
        pod_of(C, B, A),
    ),
    "$setElementOrder with a patch": (
        pod_of(A, B),
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "c"}], "containers": [C]}},
        pod_of(A, B, C),
    ),
    "$setElementOrder weaves in what only the object has": (
        pod_of(A, B, C),
        {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}},
        pod_of(B, C, A),
    ),
    "$setElementOrder of scalars": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"$setElementOrder/finalizers": ["c", "b", "a"], "finalizers": ["c"]}},
        {"metadata": {"finalizers": ["c", "b", "a"]}},
    ),
    "$setElementOrder and $patch delete": (
        pod_of(A, B),
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "b"}],
                "containers": [{"name": "a", "$patch": "delete"}],
            }
        },
        pod_of(B),
    ),
    "$setElementOrder of nothing": (
        {"spec": {}},
        {"spec": {"$setElementOrder/containers": []}},
        {"spec": {}},
    ),
}

FAULTS: dict[str, tuple[Any, Any, str]] = {
    "no merge key": (
        pod_of(A),
        pod_of({"image": "x"}),
        "map: map[image:x] does not contain declared merge key: name",
    ),
    "delete without a merge key": (
        pod_of(A),
        pod_of({"$patch": "delete"}),
        "map: map[$patch:delete] does not contain declared merge key: name",
    ),
    "an unknown directive": (
        {"metadata": {}},
        {"metadata": {"$patch": "foo"}},
        "unknown patch type: foo in map: map[$patch:foo]",
    ),
    "an unknown directive in a list": (
        pod_of(A),
        pod_of({"$patch": 1, "name": "a"}),
        "unknown patch type: 1 in map: map[$patch:1 name:a]",
    ),
    "merge as a directive": (
        pod_of(A),
        pod_of({"$patch": "merge", "name": "a"}),
        "merging lists cannot yet be specified in the patch",
    ),
    "$retainKeys that is no list": (
        {"metadata": {}},
        {"metadata": {"$retainKeys": 1}},
        "invalid patch format of retainKeys",
    ),
    "$retainKeys without what is set": (
        {"metadata": {}},
        {"metadata": {"$retainKeys": ["a"], "b": 1}},
        "invalid patch format of retainKeys",
    ),
    "$setElementOrder without a name": (
        pod_of(A),
        {"spec": {"$setElementOrder": []}},
        "invalid patch format of setElementOrder list",
    ),
    "$setElementOrder that is no list": (
        pod_of(A),
        {"spec": {"$setElementOrder/containers": {}}},
        "invalid patch format of setElementOrder list",
    ),
    "an order without what is added": (
        pod_of(A),
        {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [B]}},
        "The order in patch list:\n[map[image:b name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
    ),
    "another order than that of the patch": (
        pod_of(),
        {"spec": {"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [B, A]}},
        "doesn't match $setElementOrder list",
    ),
    "$deleteFromPrimitiveList without a name": (
        {"metadata": {}},
        {"metadata": {"$deleteFromPrimitiveList": []}},
        "invalid patch format of primitive list",
    ),
    "$deleteFromPrimitiveList of objects": (
        pod_of(A),
        {"spec": {"$deleteFromPrimitiveList/containers": [A]}},
        "invalid patch format of primitive list",
    ),
    "a scalar among objects": (pod_of(A), pod_of("x"), "list element types are not identical: "),  # type: ignore[arg-type]  # nonsense
    "null among objects": (
        pod_of(A),
        {"spec": {"containers": [None]}},
        "list element types are not identical: ",
    ),
    "a merge key that is no scalar": (
        pod_of(A),
        pod_of({"name": {}}),
        "the merge key name of map[name:map[]] is no scalar",
    ),
}


@pytest.mark.parametrize("case", MERGES)
def test_a_strategic_merge_patch_changes_a_copy(case: str) -> None:
    live, patch, expected = MERGES[case]
    before = deepcopy((live, patch))
    assert strategic_merge(live, patch, POD) == expected
    assert (live, patch) == before


@pytest.mark.parametrize("case", FAULTS)
def test_a_patch_that_makes_no_sense_is_refused_in_kubernetes_words(case: str) -> None:
    live, patch, message = FAULTS[case]
    with pytest.raises(BadRequest) as caught:
        strategic_merge(live, patch, POD)
    assert message in caught.value.message


def test_lists_of_lists_are_refused() -> None:
    with pytest.raises(Invalid, match="lists of lists are not supported"):
        strategic_merge({"metadata": {"finalizers": [[]]}}, {"metadata": {"finalizers": [["a"]]}}, POD)


@pytest.mark.parametrize("patch", [None, [], "x", 1])
def test_a_patch_that_is_no_object_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(BadRequest):
        strategic_merge({}, patch, POD)


def test_a_patch_that_nests_too_deeply_is_a_bad_request() -> None:
    for depth in (201, 1000, 100_000):
        with pytest.raises(BadRequest, match="nests deeper"):
            strategic_merge({}, {"spec": {"opaque": nested(depth)}}, POD)


def test_long_lists_are_merged_in_good_time() -> None:
    """Looking up every element in the other list would be 10⁸ comparisons here."""
    many = [{"name": str(number)} for number in range(10_000)]
    merged = strategic_merge(pod_of(*many), pod_of(*({**each, "image": "x"} for each in reversed(many))), POD)
    assert merged["spec"]["containers"] == [{"name": str(n), "image": "x"} for n in reversed(range(10_000))]


def test_real_kinds_merge_by_their_keys() -> None:
    live = {
        "spec": {
            "tolerations": [{"key": "a"}],
            "containers": [{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 81}]}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "x"}],
        }
    }
    patch = {
        "spec": {
            "tolerations": [{"key": "b"}],
            "containers": [{"name": "c", "ports": [{"containerPort": 81, "name": "metrics"}]}],
            "resourceClaims": [
                {
                    "name": "gpu",
                    "$retainKeys": ["name", "resourceClaimTemplateName"],
                    "resourceClaimTemplateName": "t",
                }
            ],
        }
    }
    assert strategic_merge(live, patch, schema_of("v1", "Pod")) == {
        "spec": {
            "tolerations": [{"key": "b"}],
            "containers": [
                {"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 81, "name": "metrics"}]}
            ],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        }
    }


def test_a_claims_requests_are_replaced_as_they_are_atomic() -> None:
    live = {"spec": {"devices": {"requests": [{"name": "a"}, {"name": "b"}]}}}
    patch = {"spec": {"devices": {"requests": [{"name": "c"}]}}}
    assert strategic_merge(live, patch, schema_of("resource.k8s.io/v1", "ResourceClaim")) == patch


_NONSENSE = st.recursive(
    st.one_of(st.none(), st.integers(0, 2), st.sampled_from(["a", "delete", "replace", "merge"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "name", "containers", "finalizers", "env", "$patch", "$retainKeys", "$setElementOrder/containers",
                    "$setElementOrder/finalizers", "$deleteFromPrimitiveList/finalizers", "$setElementOrder/env",
                    "$deleteFromPrimitiveList/containers", "$setElementOrder/name",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=10,
)  # fmt: skip


@given(_NONSENSE, _NONSENSE)
def test_whatever_the_patch_only_a_status_error_comes_out(live: Any, patch: Any) -> None:
    with contextlib.suppress(StatusError):
        strategic_merge({"spec": live, "metadata": live}, {"spec": patch, "metadata": patch}, POD)


@given(_NONSENSE)
def test_no_directive_is_left_in_what_a_patch_adds(patch: Any) -> None:
    with contextlib.suppress(StatusError):
        assert "$" not in str(strategic_merge({}, {"spec": patch}, POD)).replace("$setElementOrder'", "")
