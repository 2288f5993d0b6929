"""The cheapest machines for a demand, against brute force."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.autoscaler.solver.covering import SolverEffort, cover, covers
from allotment.autoscaler.solver.covering_problem import (
    Cover,
    CoveringProblem,
    drawn_by,
    price_of,
    served_by,
    undominated,
)
from tests.autoscaler.solver.covering_problems import an_offer, brute_force, small_yards


def check(problem: CoveringProblem, plan: Cover) -> None:
    """A plan is what it says: its patterns hold, limits are kept, sums are right."""
    served = served_by(plan.machines, len(problem.demand))
    assert [a + b for a, b in zip(served, plan.missing, strict=True)] == list(problem.demand)
    assert min(plan.missing, default=0) >= 0
    assert price_of(plan.machines, problem.offers) == plan.price
    drawn = drawn_by(plan.machines, problem.offers, len(problem.limits))
    assert all(a <= b for a, b in zip(drawn, problem.limits, strict=True))
    for each in plan.machines:
        assert problem.offers[each.offer].admits(each.pattern)
        assert problem.holds(each.offer, each.pattern)


@settings(max_examples=150, deadline=None)
@given(small_yards())
def test_a_small_problem_is_solved_exactly(problem: CoveringProblem) -> None:
    plan = cover(problem)
    check(problem, plan)
    assert plan.exact
    assert (sum(plan.missing), plan.price) == brute_force(problem)


@settings(max_examples=100, deadline=None)
@given(small_yards())
def test_every_stage_is_a_plan_and_its_bound_is_never_above_the_optimum(problem: CoveringProblem) -> None:
    missing, price = brute_force(problem)
    for plan in covers(
        problem, SolverEffort(steps=0)
    ):  # without branch and bound, which would hide a wrong bound
        check(problem, plan)
        assert plan.bound <= plan.price
        if sum(plan.missing) == missing and not problem.limits:
            assert plan.bound <= price <= plan.price


@settings(max_examples=60, deadline=None)
@given(small_yards(), st.randoms(use_true_random=False))
def test_the_order_of_offers_does_not_matter_for_the_price(
    problem: CoveringProblem, random: st.DataObject
) -> None:
    order = list(range(len(problem.offers)))
    random.shuffle(order)  # type: ignore[attr-defined]  # hypothesis' type of randoms() is that of random.Random
    turned = CoveringProblem(
        problem.demand,
        [problem.offers[each] for each in order],
        problem.limits,
        lambda n, pattern: problem.holds(order[n], pattern),
    )
    assert (
        cover(turned).price
        == cover(CoveringProblem(problem.demand, problem.offers, problem.limits, problem.holds)).price
    )


def test_the_same_problem_gives_the_same_plan() -> None:
    yards = [_two_hundred_pods() for _ in range(2)]
    first, second = map(cover, yards)
    assert first == second
    assert first.gap < 0.05


def _two_hundred_pods() -> CoveringProblem:
    needs = [(2, 3), (5, 1), (1, 8), (3, 3)]
    offers = [an_offer(7 + 10 * size, (8 * size, 9 * size), needs) for size in (1, 2, 4, 8)]
    return CoveringProblem((60, 50, 50, 40), offers)


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        ((10, 25), {0: 2}),  # two small machines are cheaper than one that holds both pods
        ((10, 19), {1: 1}),
        ((10, 20), {1: 1}),  # the same price: fewer machines
    ],
)
def test_pods_share_a_machine_where_that_is_cheaper(
    prices: tuple[int, int], expected: dict[int, int]
) -> None:
    small, large = prices
    plan = cover(CoveringProblem((2,), [an_offer(small, (1,), [(1,)]), an_offer(large, (4,), [(1,)])]))
    assert {each.offer: each.count for each in plan.machines} == expected


def test_what_fits_on_no_offer_is_missing_and_the_rest_is_served() -> None:
    plan = cover(CoveringProblem((1, 2), [an_offer(3, (4,), [(9,), (2,)])]))
    assert plan.missing == (1, 0)
    assert (plan.price, plan.bound) == (3, 3)


def test_a_limit_leaves_out_as_few_pods_as_can_be() -> None:
    """Two machines may be bought: the large one twice holds all, though small ones are cheaper for a pod."""
    needs = [(1,)]
    offers = [an_offer(1, (1,), needs, draws=(1,)), an_offer(50, (3,), needs, draws=(1,))]
    plan = cover(CoveringProblem((6,), offers, (2,)))
    assert plan.missing == (0,)
    assert plan.price == 100


def test_a_refused_pattern_is_not_bought() -> None:
    """The rooms would let four pods in, the machine really holds three."""
    problem = CoveringProblem(
        (12,), [an_offer(10, (4,), [(1,)])], (), lambda offer, pattern: pattern[0][1] <= 3
    )
    plan = cover(problem)
    check(problem, plan)
    assert plan.price == 40


def test_the_same_machine_at_a_higher_price_is_not_looked_at() -> None:
    needs = [(1,), (2,)]
    offers = [
        an_offer(9, (4,), needs, kind="m"),
        an_offer(5, (4,), needs, kind="m", never=(1,)),
        an_offer(6, (4,), needs, kind="m"),
        an_offer(7, (4,), needs, kind="m"),
    ]
    assert undominated(offers, (0, 1)) == [1, 2]
    assert undominated(offers, (0,)) == [1]
    dear = [replace(offer, draws=(number,)) for number, offer in enumerate(offers)]
    assert undominated(dear, (0,)) == [1, 0]  # dearer, but takes less of the limit
