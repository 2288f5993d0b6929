"""Lists: order, sums, sets, reshaping. A quadratic reading of the definitions is the oracle."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.quantity import Quantity
from allotment.cel.errors import CelRuntimeError
from allotment.cel.library import lists, reshape, sets
from allotment.cel.values import Duration, Optional, UInt, Value, equal, make_map

ANSWERS = {
    "sorted": (lists.is_sorted, ([1, 1, 2],), True),
    "not sorted": (lists.is_sorted, (["b", "a"],), False),
    "sorted across numbers": (lists.is_sorted, ([1, 1.5, UInt(2)],), True),
    "sorted where nothing compares": (lists.is_sorted, (["a", 1],), True),
    "nothing is sorted": (lists.is_sorted, ([],), True),
    "min": (lists.smallest, ([3, 1, 2],), 1),
    "max": (lists.largest, (["a", "c", "b"],), "c"),
    "max passes over what does not compare": (lists.largest, ([1, "a", 2],), 2),
    "max beside NaN": (lists.largest, ([math.nan, 1.0],), math.nan),
    "the first of equals": (lists.largest, ([1, 1.0],), 1),
    "indexOf": (lists.index_of, (["a", "b", "b"], "b"), 1),
    "indexOf across numbers": (lists.index_of, ([1, 2], 2.0), 1),
    "indexOf of a list": (lists.index_of, ([[1], [2]], [2]), 1),
    "indexOf is not fooled by true": (lists.index_of, ([1, True], True), 1),
    "lastIndexOf": (lists.last_index_of, (["b", "b", "a"], "b"), 1),
    "lastIndexOf of something else": (lists.last_index_of, ([1], "b"), -1),
    "includes in a list": (lists.includes, ([1, 2], 2), True),
    "includes not": (lists.includes, ([1, 2], "2"), False),
    "includes of a single value": (lists.includes, ("model-a", "model-a"), True),
    "includes of another": (lists.includes, ("model-a", "model"), False),
    "slice": (reshape.slice_, ([1, 2, 3], 1, 2), [2]),
    "slice to the end": (reshape.slice_, ([1, 2, 3], 3, 3), []),
    "flatten": (reshape.flatten, ([[1], [2, [3]], 4],), [1, 2, [3], 4]),
    "flatten deeper": (reshape.flatten, ([[1], [2, [3, [4]]]], 2), [1, 2, 3, [4]]),
    "flatten not": (reshape.flatten, ([[1]], 0), [[1]]),
    "range": (reshape.range_, (3,), [0, 1, 2]),
    "reverse": (reshape.reverse, ([1, 2],), [2, 1]),
    "distinct": (reshape.distinct, ([1, True, 1.0, UInt(1), "1", [1], [1.0]],), [1, True, "1", [1]]),
    "distinct keeps every NaN": (lambda items: len(reshape.distinct(items)), ([math.nan, math.nan],), 2),
    "distinct quantities": (
        reshape.distinct,
        ([Quantity.parse("1Ki"), Quantity.parse("1024")],),
        [Quantity.parse("1Ki")],
    ),
    "sort": (reshape.sort, (["b", "a"],), ["a", "b"]),
    "sort nothing": (reshape.sort, ([],), []),
    "sort by keys": (reshape.sort_by_keys, (["x", "y", "z"], [3, 1, 2]), ["y", "z", "x"]),
    "contains": (sets.contains, ([1, 2], [2.0, 1]), True),
    "contains nothing": (sets.contains, ([], []), True),
    "contains not": (sets.contains, ([1], [1, 2]), False),
    "equivalent": (sets.equivalent, ([1, 2], [2, 1, 1]), True),
    "not equivalent": (sets.equivalent, ([1, 2], [1]), False),
    "intersects": (sets.intersects, ([1, "a"], ["a"]), True),
    "intersects nothing": (sets.intersects, ([1], []), False),
    "maps are compared by content": (
        sets.contains,
        ([make_map([("a", [1])])], [make_map([("a", [1.0])])]),
        True,
    ),
    "optionals too": (sets.contains, ([Optional(1)], [Optional(1.0)]), True),
}


@pytest.mark.parametrize(("function", "args", "answer"), ANSWERS.values(), ids=ANSWERS.keys())
def test_answers(function, args, answer):  # type: ignore[no-untyped-def]  # any of the functions above
    result = function(*args)
    assert result == answer or (result != result and answer != answer)
    assert type(result) is type(answer)


ERRORS = {
    "max of nothing": (lists.largest, ([],), "max called on empty list"),
    "min of nothing": (lists.smallest, ([],), "min called on empty list"),
    "min of lists": (lists.smallest, ([[1]],), "no such overload"),
    "order of null": (lists.is_sorted, ([None],), "no such overload"),
    "slice before": (reshape.slice_, ([1], -1, 1), "negative indexes"),
    "slice backwards": (reshape.slice_, ([1], 1, 0), "less than or equal"),
    "slice behind": (reshape.slice_, ([1, 2, 3], 1, 5), "list is length 3"),
    "flatten below": (reshape.flatten, ([], -1), "non-negative"),
    "range below": (reshape.range_, (-1,), "non-negative, got -1"),
    "range beyond memory": (reshape.range_, (2**62,), "exceeds maximum"),
    "sort of a mix": (reshape.sort, ([1, "a"],), "same type"),
    "sort of lists": (reshape.sort, ([[1]],), "comparable"),
    "keys that do not fit": (reshape.sort_by_keys, ([1], []), "1 elements but 0 keys"),
}


@pytest.mark.parametrize(("function", "args", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors(function, args, message):  # type: ignore[no-untyped-def]  # any of the functions above
    with pytest.raises(CelRuntimeError, match=message):
        function(*args)


def total(name: str, items: list[Value]) -> Value:
    function = next(function for function in lists.LIBRARY.functions if function.name == "sum")
    overload = next(overload for overload in function.overloads if overload.id == f"list_{name}_sum_{name}")
    assert overload.impl is not None
    return overload.impl(items)


def test_sums_keep_to_one_type() -> None:
    assert total("int", [1, 2, 3]) == 6
    assert total("int", []) == 0
    assert type(total("uint", [UInt(1), UInt(2)])) is UInt
    assert total("double", [0.1] * 3) == 0.1 + 0.1 + 0.1
    assert total("duration", [Duration(1), Duration(2)]) == Duration(3)
    with pytest.raises(CelRuntimeError, match="no such overload"):
        total("int", [1, 1.5])
    with pytest.raises(CelRuntimeError, match="overflow"):
        total("int", [2**63 - 1, 1, -5])
    with pytest.raises(CelRuntimeError, match="overflow"):
        total("uint", [UInt(2**64 - 1), UInt(1)])


def shared_tree() -> Value:
    """Sixty levels of a list that holds the level below twice: small to hold, endless to walk."""
    tree: Value = [1]
    for _ in range(60):
        tree = [tree, tree]
    return tree


ENDLESS: dict[str, Callable[[Value], object]] = {
    "distinct": reshape.distinct,
    "flatten": lambda tree: reshape.flatten(tree, 100),
    "sets.contains": lambda tree: sets.contains(tree, tree),
}


@pytest.mark.parametrize("call", ENDLESS.values(), ids=ENDLESS)
def test_values_that_are_huge_trees_end_in_an_error(call: Callable[[Value], object]) -> None:
    with pytest.raises(CelRuntimeError, match=r"too large|more than"):
        call(shared_tree())


values = st.recursive(
    st.one_of(
        st.integers(-2, 2),
        st.integers(0, 2).map(UInt),
        st.sampled_from([0.0, 1.0, 1.5]),
        st.booleans(),
        st.none(),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(st.lists(values, max_size=8))
def test_distinct_agrees_with_comparing_all_pairs(items: list[Value]) -> None:
    expected: list[Value] = []
    for item in items:
        if not any(equal(item, other) for other in expected):
            expected.append(item)
    assert list(map(id, reshape.distinct(items))) == list(map(id, expected))


@given(st.lists(values, max_size=6), st.lists(values, max_size=6))
def test_sets_agree_with_comparing_all_pairs(left: list[Value], right: list[Value]) -> None:
    inside = [any(equal(item, other) for other in left) for item in right]
    assert sets.contains(left, right) == all(inside)
    assert sets.intersects(left, right) == any(inside)
    assert sets.equivalent(left, right) == (all(inside) and sets.contains(right, left))


@given(st.lists(st.integers(0, 5)))
def test_sorting_sorts_and_keeps_equals_in_order(items: list[int]) -> None:
    assert lists.is_sorted(reshape.sort(items))
    assert reshape.sort_by_keys(list(range(len(items))), items) == sorted(
        range(len(items)), key=items.__getitem__
    )
