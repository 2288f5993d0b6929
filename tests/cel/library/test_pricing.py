"""Prices of calls, static and actual, on sizes chosen to show each rule. All numbers follow Kubernetes 1.37."""

from collections.abc import Sequence

import pytest

from allotment.cel.ast import Literal
from allotment.cel.declare import Function, Library, Overload
from allotment.cel.estimate import MAX_COST, UNKNOWN, CallEstimate, EstimatedArgument, Range
from allotment.cel.library import (
    cidr,
    format,
    ip,
    lists,
    pricing,
    quantity,
    regex,
    reshape,
    semver,
    sets,
    strings,
    urls,
)
from allotment.cel.library.address import parse_cidr, parse_ip
from allotment.cel.library.naming import FORMATS
from allotment.cel.types import INT, STRING, Type, list_of
from allotment.cel.values import Value

LIBRARIES = (
    strings.LIBRARY, lists.LIBRARY, lists.INCLUDES, reshape.LIBRARY, sets.LIBRARY, regex.LIBRARY, urls.LIBRARY,
    ip.LIBRARY, cidr.LIBRARY, format.LIBRARY, quantity.LIBRARY, semver.LIBRARY,
)  # fmt: skip


class KnownSizes:
    """Sizes as given; elements of lists are texts of up to 20 characters."""

    def of(self, node: EstimatedArgument) -> Range:
        return node.computed or UNKNOWN

    def element(self, node: EstimatedArgument) -> EstimatedArgument | None:
        return EstimatedArgument(node.type.params[0], computed=Range(0, 20)) if node.type.params else None


def declared(overload: str) -> tuple[Function, Overload]:
    return next(
        (function, candidate)
        for library in LIBRARIES
        for function in library.functions
        for candidate in function.overloads
        if candidate.id == overload
    )


def text(least: int, most: int | None = None) -> EstimatedArgument:
    return EstimatedArgument(STRING, computed=Range(least, least if most is None else most))


def items(element: Type, least: int, most: int) -> EstimatedArgument:
    return EstimatedArgument(list_of(element), computed=Range(least, most))


def number(value: int) -> EstimatedArgument:
    return EstimatedArgument(INT, expr=Literal(1, 0, value))


def estimate(overload: str, nodes: Sequence[EstimatedArgument]) -> CallEstimate:
    function, found = declared(overload)
    target, args = (nodes[0], nodes[1:]) if found.member else (None, nodes)
    price = found.estimate and found.estimate(KnownSizes(), target, args)
    price = price or (function.estimate and function.estimate(KnownSizes(), overload, target, args))
    return price or CallEstimate(Range(1, 1))


STATIC: dict[str, tuple[str, list[EstimatedArgument], tuple[int, int], tuple[int, int] | None]] = {
    "a scan of the text": ("string_lower_ascii", [text(7)], (1, 1), (7, 7)),
    "a scan of an unknown text": (
        "string_trim",
        [EstimatedArgument(STRING)],
        (0, 1844674407370955264),
        (0, MAX_COST),
    ),
    "indexOf in a text": ("string_index_of_string", [text(5, 25), text(1)], (1, 3), None),
    "indexOf in numbers": ("list_a_index_of_int", [items(INT, 2, 3), EstimatedArgument(INT)], (2, 3), None),
    "indexOf in texts": ("list_a_index_of_int", [items(STRING, 2, 3), text(1)], (2, 9), None),
    "includes of something unknown": ("list_includes_dyn_dyn", [text(0, 64), text(1)], (0, 64), None),
    "replace that grows": ("string_replace_string_string", [text(5), text(1), text(6)], (1, 1), (5, 30)),
    "replace that shrinks": ("string_replace_string_string", [text(6), text(3), text(1)], (2, 2), (2, 6)),
    "replace nothing": ("string_replace_string_string", [text(5), text(0), text(6)], (1, 1), (41, 41)),
    "split": ("string_split_string", [text(5, 10), text(1)], (1, 2), (0, 10)),
    "split into few": ("string_split_string_int", [text(5, 10), text(1), number(2)], (1, 2), (0, 2)),
    "split with a negative limit": (
        "string_split_string_int",
        [text(5), text(1), number(-1)],
        (1, 1),
        (0, MAX_COST),
    ),
    "join": ("list_join_string", [items(STRING, 1, 3), text(2)], (0, 7), (0, 64)),
    "join nothing": ("list_join", [items(STRING, 0, 0)], (0, 0), (0, 0)),
    "quote": ("strings_quote", [text(5)], (1, 1), (7, 12)),
    "format": ("string_format", [text(11), EstimatedArgument(list_of(STRING))], (2, 2), None),
    "find": ("string_find_string", [text(0, 100), text(9)], (3, 33), (0, 100)),
    "url keeps its size": ("string_to_url", [text(30)], (3, 3), (30, 30)),
    "isURL has no price": ("is_url_string", [text(3000)], (1, 1), None),
    "ip of a text": ("string_to_ip", [text(11)], (2, 2), None),
    "ip of a network": ("cidr_ip", [EstimatedArgument(INT)], (1, 1), None),
    "isCanonical": ("ip_is_canonical", [text(11)], (3, 3), None),
    "containsIP": ("cidr_contains_ip_ip", [EstimatedArgument(INT), EstimatedArgument(INT)], (1, 4), None),
    "containsIP of a text": ("cidr_contains_ip_string", [EstimatedArgument(INT), text(8)], (2, 5), None),
    "containsCIDR": ("cidr_contains_cidr", [EstimatedArgument(INT), EstimatedArgument(INT)], (3, 7), None),
    "containsCIDR of a text": ("cidr_contains_cidr_string", [EstimatedArgument(INT), text(11)], (5, 9), None),
    "validate": ("format-validate", [EstimatedArgument(INT), text(7)], (32, 32), None),
    "slice": ("list_slice", [items(INT, 0, 9), number(1), number(3)], (13, 13), (2, 2)),
    "slice to somewhere": (
        "list_slice",
        [items(INT, 0, 9), number(1), EstimatedArgument(INT)],
        (19, 19),
        (8, 8),
    ),
    "range": ("lists_range", [number(5)], (16, 16), (5, 5)),
    "range of something": (
        "lists_range",
        [EstimatedArgument(INT)],
        (MAX_COST, MAX_COST),
        (MAX_COST, MAX_COST),
    ),
    "flatten": ("list_flatten", [items(INT, 2, 3)], (13, 14), (2, 3)),
    "flatten deeper": ("list_flatten_int", [items(INT, 2, 3), number(2)], (15, 17), (2, 3)),
    "distinct": ("list_distinct", [items(INT, 2, 3)], (19, 29), (4, 9)),
    "sort numbers": ("list_int_sort", [items(INT, 3, 3)], (29, 29), (9, 9)),
    "sort texts": ("list_string_sort", [items(STRING, 2, 2)], (20, 20), (4, 4)),
    "sort by keys": (
        "list_int_sortByAssociatedKeys",
        [items(STRING, 9, 9), items(INT, 3, 3)],
        (29, 29),
        (9, 9),
    ),
    "sets": ("list_sets_contains_list", [items(INT, 2, 2), items(INT, 3, 3)], (7, 7), None),
    "sets both ways": ("list_sets_equivalent_list", [items(INT, 2, 2), items(INT, 3, 3)], (13, 13), None),
    "accessor": ("semver_major", [EstimatedArgument(INT)], (1, 1), None),
}


@pytest.mark.parametrize(("overload", "nodes", "cost", "size"), STATIC.values(), ids=STATIC.keys())
def test_static(
    overload: str, nodes: list[EstimatedArgument], cost: tuple[int, int], size: tuple[int, int] | None
) -> None:
    price = estimate(overload, nodes)
    assert (price.cost.min, price.cost.max) == cost
    assert (price.size and (price.size.min, price.size.max)) == size


def charge(overload: str, args: list[Value]) -> int:
    function, found = declared(overload)
    assert found.impl is not None
    result = found.impl(*args)
    cost = found.runtime_cost and found.runtime_cost(args, result)
    if cost is None and function.runtime_cost is not None:
        cost = function.runtime_cost(overload, args, result)
    return 1 if cost is None else cost


ACTUAL: dict[str, tuple[str, list[Value], int]] = {
    "a scan": ("string_lower_ascii", ["tacocat"], 1),
    "characters count, not bytes": ("string_trim", ["é" * 11], 2),
    "a walk counts bytes, and rounds down": ("string_index_of_string", ["é" * 9, "x"], 1),
    "a walk of texts": ("list_a_index_of_int", [["a" * 19, "b" * 10], "x"], 2),
    "a walk of a map": ("list_includes_dyn_dyn", [[{"k" * 10: [1, 2]}], 1], 3),
    "replace": ("string_replace_string_string", ["hello", "l", "abc"], 1),
    "split": ("string_split_string", ["a,b,c,d,e,f", ","], 3),
    "join pays for the result": ("list_join_string", [["aaaa", "bbbb"], "--"], 2),
    "find": ("string_find_string", ["hello", "l+"], 1),
    "find of nothing": ("string_find_string", ["hello", ""], 0),
    "ip": ("string_to_ip", ["1.2.3.4"], 1),
    "ip of a network": ("cidr_ip", [parse_cidr("::/128")], 1),
    "containsIP": ("cidr_contains_ip_ip", [parse_cidr("::/128"), parse_ip("::")], 4),
    "containsIP of a text": ("cidr_contains_ip_string", [parse_cidr("10.0.0.0/8"), "10.1.1.1"], 2),
    "containsCIDR": ("cidr_contains_cidr", [parse_cidr("::/0"), parse_cidr("::/0")], 1),
    "containsCIDR of a text": ("cidr_contains_cidr_string", [parse_cidr("10.0.0.0/8"), "10.1.0.0/16"], 5),
    "validate": ("format-validate", [FORMATS["dns1123Label"], "my-name"], 8),
    "range": ("lists_range", [5], 16),
    "flatten": ("list_flatten_int", [[[1], [2]], 3], 17),
    "distinct": ("list_distinct", [[1, 2, 1]], 29),
    "distinct texts": ("list_distinct", [["a", "a"]], 19),
    "sort by keys": ("list_int_sortByAssociatedKeys", [["a", "b"], [2, 1]], 19),
    "sets both ways": ("list_sets_equivalent_list", [[1, 2], [2, 1, 1]], 13),
}  # fmt: skip


@pytest.mark.parametrize(("overload", "args", "cost"), ACTUAL.values(), ids=ACTUAL.keys())
def test_actual(overload: str, args: list[Value], cost: int) -> None:
    assert charge(overload, args) == cost


def test_a_value_that_is_a_huge_tree_costs_more_than_any_limit() -> None:
    tree: Value = []
    for _ in range(60):
        tree = [tree, tree]
    assert pricing.traversal(tree) == MAX_COST


def test_every_price_belongs_to_a_function() -> None:
    names = {function.name for library in LIBRARIES for function in library.functions}
    assert set(pricing.PRICES) <= names


def test_overload_ids_are_unique() -> None:
    ids = [
        overload.id
        for library in LIBRARIES
        for function in library.functions
        for overload in function.overloads
    ]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_overloads_are_well_formed(library: Library) -> None:
    for function in library.functions:
        for overload in function.overloads:
            assert overload.params or not overload.member
