"""Which gangs are left out when there is not room for all: against trying all, with attempts that are arithmetic."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.autoscaler.provision.gang_selection import (
    EXHAUSTIVE_GANGS,
    SECOND_CHANCES,
    GangSelection,
    best_attempt,
)


def in_a_row(sizes: dict[str, int], places: int, without: frozenset[str]) -> GangSelection[int]:
    """Places go to one gang after another; one that gets too few is broken, and has them all the same."""
    left, broken, served = places, {}, 0
    for gang, size in sizes.items():
        if gang in without:
            continue
        if size > left > 0:
            broken[gang] = "too few"
        elif size <= left:
            served += size
        left = max(0, left - size)
    return GangSelection(left, without, broken, (served,))


def most(sizes: dict[str, int], places: int) -> int:
    choices = [each for count in range(len(sizes) + 1) for each in combinations(sizes.values(), count)]
    return max(sum(each) for each in choices if sum(each) <= places)


problems = st.tuples(st.lists(st.integers(1, 5), min_size=1, max_size=SECOND_CHANCES), st.integers(0, 15))


@settings(max_examples=100, deadline=None)
@given(problems, st.booleans())
def test_no_gang_is_broken_and_what_could_be_taken_back_is(
    problem: tuple[list[int], int], thorough: bool
) -> None:
    sizes, places = {f"g{number}": size for number, size in enumerate(problem[0])}, problem[1]
    found = best_attempt(list(sizes), lambda without: in_a_row(sizes, places, without), thorough=thorough)
    assert not found.broken
    if thorough and len(sizes) <= EXHAUSTIVE_GANGS:
        assert found.merit == (most(sizes, places),)
    for gang in found.without:
        again = in_a_row(sizes, places, found.without - {gang})
        assert again.broken or again.merit <= found.merit


def test_nothing_is_left_out_where_all_have_room() -> None:
    found = best_attempt(["a", "b"], lambda without: in_a_row({"a": 1, "b": 2}, 3, without), thorough=True)
    assert not found.without
