"""How many more semantic claims fit on partition trees."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.allocator.pool import PoolID
from allotment.allocator.semantic import SemanticBook
from allotment.api import semantic
from allotment.api.core import Node, NodeSelector
from allotment.usage.remaining import Fits, Remaining
from allotment.usage.semantic_remaining import remaining_instances
from tests.allocator.build import selector, where
from tests.allocator.trees import (
    DRIVER,
    NICS,
    NODE,
    book_for,
    card,
    claim,
    group,
    leaf,
    node,
    parameters,
    request,
    resource_class,
    slice_of,
    split,
)
from tests.thoroughness import examples
from tests.usage.test_trees import REST, WHOLE, carrier, tree_claim

ANYTHING = book_for("true")


def ask(
    *trees: semantic.NodeResourceSlice,
    held: tuple[semantic.ResourceClaim, ...] = (),
    book: SemanticBook = ANYTHING,
    nodes: tuple[Node, ...] = (node(),),
    **bounds: int,
) -> Remaining:
    return remaining_instances(claim("c"), nodes=nodes, trees=trees, book=book, claims=held, **bounds)


def test_a_card_is_split_so_that_most_fit() -> None:
    """One after the other, the first claim would get the whole card."""
    assert ask(slice_of(card("card"))).cluster == Fits(3)
    assert ask(slice_of(card("card"), leaf("single"))).cluster == Fits(4)
    assert ask(slice_of(card("card")), steps=0).cluster == Fits(1, exact=False)


def test_what_is_in_use_locks_the_rest() -> None:
    tree = slice_of(card("card"))
    assert ask(tree, held=(tree_claim("a", WHOLE),)).cluster == Fits(0)
    assert ask(tree, held=(tree_claim("a", REST + "half/half"),)).cluster == Fits(1)
    carried = remaining_instances(
        claim("c"),
        nodes=[node()],
        trees=[tree],
        book=ANYTHING,
        claims=[carrier(tree_claim("a", REST + "half/half"))],
    )
    assert carried.cluster == Fits(1)


def test_selectors_count() -> None:
    halves = book_for('quantities["memory"] >= "16Gi"')
    assert ask(slice_of(card("card")), book=halves).cluster == Fits(2)


def test_nodes_add_up_and_pools_are_counted_by_themselves() -> None:
    both = SemanticBook([resource_class()], [], [parameters("p", request("true"))])
    found = ask(
        slice_of(leaf("a"), leaf("b"), name="s1"),
        slice_of(leaf("a"), name="s2", driver=NICS),
        slice_of(leaf("a"), name="s3", on="n2"),
        book=both,
        nodes=(node(), node("n2"), node("n3")),
    )
    assert {name: fits.number for name, fits in found.nodes.items()} == {NODE: 2, "n2": 1, "n3": 0}
    assert {id: fits.number for id, fits in found.pools.items()} == {
        PoolID(DRIVER, NODE): 2,
        PoolID(NICS, NODE): 0,
        PoolID(DRIVER, "n2"): 1,
    }
    assert found.cluster == Fits(3)


def only_in(zone: str) -> NodeSelector:
    return selector(where("zone", "In", zone))


def test_a_class_is_for_its_nodes_only() -> None:
    book = SemanticBook([resource_class(suitable_nodes=only_in("a"))], [], [parameters("p", request("true"))])
    trees = [slice_of(leaf("x"), on=name, name=name) for name in ("n1", "n2")]
    found = ask(*trees, book=book, nodes=(node("n1", zone="a"), node("n2", zone="b")))
    assert {name: fits.number for name, fits in found.nodes.items()} == {"n1": 1, "n2": 0}


def test_a_claim_that_makes_no_sense_says_why() -> None:
    found = ask(slice_of(leaf("a")), book=SemanticBook([]))
    assert found.cluster.number == 0
    assert "there is no ResourceClass 'cards'" in found.cluster.words


def test_a_bound_makes_it_at_least() -> None:
    assert str(ask(slice_of(*[leaf(f"l{n}") for n in range(5)]), limit=3).cluster) == "at least 3"


INSTANCES = st.recursive(
    st.just(1),
    lambda inner: st.lists(st.lists(inner, min_size=1, max_size=3), min_size=1, max_size=3),
    max_leaves=8,
)
"""A leaf, or the ways to split an instance, each with its parts."""


def tree_of(shape: object, name: str) -> semantic.ResourceInstance:
    if not isinstance(shape, list):
        return leaf(name)
    return split(
        name,
        *[
            group(f"g{way}", *[tree_of(each, f"i{number}") for number, each in enumerate(parts)])
            for way, parts in enumerate(shape)
        ],
    )


def most(shape: object) -> int:
    """How many leaves can be in use at once: of every split instance one way, of that all parts."""
    if not isinstance(shape, list):
        return 1
    return max(sum(most(each) for each in parts) for parts in shape)


@settings(max_examples=examples(100))
@given(st.lists(INSTANCES, min_size=1, max_size=2))
def test_as_many_fit_as_the_best_way_to_split_every_card_has_leaves(shapes: list[object]) -> None:
    cards = [tree_of(shape, f"card{number}") for number, shape in enumerate(shapes)]
    assert ask(slice_of(*cards)).cluster == Fits(sum(most(shape) for shape in shapes))
