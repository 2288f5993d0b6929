"""The search over bundles, against trying everything."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.scheduler.gangs.member_placement import Assignments, Bundle, SearchCutOff, frontier


def within(small: Bundle, large: Bundle) -> bool:
    return all(a <= b for a, b in zip(small, large, strict=True))


def bundles(limit: Bundle) -> list[Bundle]:
    return list(product(*[range(count + 1) for count in limit]))


@st.composite
def problems(draw: st.DrawFn) -> tuple[Bundle, list[list[Bundle]]]:
    """How many members of each class there are, and for each node a few largest bundles."""
    classes = draw(st.integers(1, 3))
    bundle = st.tuples(*[st.integers(0, 3)] * classes)
    nodes = st.lists(st.lists(bundle, min_size=1, max_size=3), min_size=1, max_size=4)
    return draw(bundle), draw(nodes)


@given(problems())
def test_a_frontier_is_the_largest_bundles_that_fit(problem: tuple[Bundle, list[list[Bundle]]]) -> None:
    counts, nodes = problem
    for capacities in nodes:
        fitting = [each for each in bundles(counts) if any(within(each, capacity) for capacity in capacities)]
        largest = [
            each for each in fitting if not any(each != other and within(each, other) for other in fitting)
        ]

        def fits(bundle: Bundle, capacities: list[Bundle] = capacities) -> bool:
            return any(within(bundle, capacity) for capacity in capacities)

        assert sorted(frontier(counts, fits)) == sorted(largest)


@given(problems(), st.integers(0, 6))
def test_as_many_members_are_placed_as_trying_everything_places(
    problem: tuple[Bundle, list[list[Bundle]]], need: int
) -> None:
    counts, nodes = problem
    fitting = [[b for b in bundles(counts) if any(within(b, c) for c in capacities)] for capacities in nodes]
    whole = [choice for choice in product(*fitting) if within(_sum(choice), counts)]
    most = max(sum(map(sum, choice)) for choice in whole)
    frontiers = [frontier(counts, lambda b, f=f: b in f) for f in fitting]  # type: ignore[misc]  # mypy and lambda defaults

    assignments = Assignments(counts, frontiers, need, budget=100_000)

    assert assignments.most() == most
    assert set(assignments) == {choice for choice in whole if sum(map(sum, choice)) >= need}


def _sum(choice: tuple[Bundle, ...]) -> Bundle:
    return tuple(map(sum, zip(*choice, strict=True)))


def test_a_search_that_is_too_long_says_so() -> None:
    assignments = Assignments((9, 9, 9), [[(1, 0, 0), (0, 1, 0), (0, 0, 1)]] * 20, need=20, budget=50)

    with pytest.raises(SearchCutOff):
        assignments.most()
