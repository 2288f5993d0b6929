"""Random trees: the answer is the one that trying everything in order gives."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from allotment.allocator.outcome import Allocated, Unsatisfiable
from allotment.allocator.strategy import BEST_FIT, FIRST_FIT
from tests.allocator.forests import Situation, dumb, in_conflict, situations, walk
from tests.allocator.trees import ask, at, ids, slice_of

ANY = "true"
WISHES = st.lists(st.integers(0, 3), min_size=1, max_size=4)


def expressions(wishes: list[int]) -> list[str]:
    return [f'quantities["memory"] >= "{wish}"' if wish else ANY for wish in wishes]


@given(situations(), WISHES)
def test_first_fit_gives_what_trying_everything_in_order_gives(
    situation: Situation, wishes: list[int]
) -> None:
    before, after, used = situation
    for forest in (before, after):
        leaves = [pair for tree in forest for pair in walk(tree)]
        outcome = ask([slice_of(*forest)], *expressions(wishes), held=at(*used))
        expected = dumb(leaves, wishes, used)
        if expected is None:
            assert isinstance(outcome, Unsatisfiable)
        else:
            assert ids(outcome) == expected


@given(situations(), WISHES)
def test_best_fit_finds_something_whenever_there_is_something(
    situation: Situation, wishes: list[int]
) -> None:
    _, forest, used = situation
    sizes = dict(pair for tree in forest for pair in walk(tree))
    slices = [slice_of(*forest)]
    outcome = ask(slices, *expressions(wishes), held=at(*used), strategy=BEST_FIT)
    first = ask(slices, *expressions(wishes), held=at(*used), strategy=FIRST_FIT)
    assert isinstance(outcome, Allocated) == isinstance(first, Allocated)
    if isinstance(outcome, Allocated):
        chosen = ids(outcome)
        assert all(sizes[id] >= wish for id, wish in zip(chosen, wishes, strict=True))
        everything = used + chosen
        assert not any(
            in_conflict(one, other)
            for number, one in enumerate(everything)
            for other in everything[number + 1 :]
        )


@given(situations(), st.lists(WISHES, max_size=4), st.data())
def test_claims_that_come_and_go_leave_nothing_behind(
    situation: Situation,
    arrivals: list[list[int]],
    data: st.DataObject,
) -> None:
    forest, _, _ = situation
    slices = [slice_of(*forest)]
    leaves = [pair for tree in forest for pair in walk(tree)]
    held: list[str] = []
    for wishes in arrivals:
        outcome = ask(slices, *expressions(wishes), held=at(*held))
        if isinstance(outcome, Allocated):
            held += ids(outcome)
        leaving: list[str] = data.draw(st.lists(st.sampled_from(held), max_size=1)) if held else []
        held = [id for id in held if id not in leaving]
        assert (dumb(leaves, [0], held) is not None) == isinstance(
            ask(slices, ANY, held=at(*held)), Allocated
        )
    assert isinstance(ask(slices, ANY, held=at()), Allocated)


@given(situations(), WISHES, st.randoms(use_true_random=False))
def test_neither_the_order_of_slices_nor_how_trees_are_spread_over_them_matters(
    situation: Situation, wishes: list[int], random: Random
) -> None:
    forest, _, used = situation
    spread = [slice_of(tree, name=f"s{number}") for number, tree in enumerate(forest)]
    random.shuffle(spread)
    held = at(*used)
    together = ask([slice_of(*forest)], *expressions(wishes), held=held)
    apart = ask(spread, *expressions(wishes), held=held[::-1])
    assert type(together) is type(apart)
    if isinstance(apart, Allocated):
        assert ids(apart) == ids(together)
