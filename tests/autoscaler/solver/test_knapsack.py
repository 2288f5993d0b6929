"""The most valuable pattern for a machine, against trying all of them."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.autoscaler.solver.covering_problem import Offer, Pattern, pattern_of
from allotment.autoscaler.solver.knapsack import PreparedOffer, Refusals, sacks_of
from tests.autoscaler.solver.covering_problems import an_offer


@st.composite
def sacks(draw: st.DrawFn) -> tuple[Offer, list[float], list[int], Refusals]:
    shapes = draw(st.integers(1, 4))
    needs = [(draw(st.integers(1, 6)), draw(st.integers(0, 5))) for _ in range(shapes)]
    offer = an_offer(1, (draw(st.integers(0, 20)), draw(st.integers(0, 15))), needs)
    values = [draw(st.integers(0, 9)) / 2 for _ in range(shapes)]
    caps = [draw(st.integers(0, 4)) for _ in range(shapes)]
    few = st.dictionaries(st.integers(0, shapes - 1), st.integers(1, 3), min_size=1, max_size=2)
    return offer, values, caps, draw(st.lists(few, max_size=2))


def best_of_all(offer: Offer, values: list[float], caps: list[int], refusals: Refusals) -> float:
    patterns = (pattern_of(enumerate(counts)) for counts in product(*[range(cap + 1) for cap in caps]))
    return max(worth(each, values) for each in patterns if offer.admits(each) and not refused(each, refusals))


def a_sack(offer: Offer) -> PreparedOffer:
    return sacks_of([offer], [0], len(offer.most))[0]


def worth(pattern: Pattern, values: list[float]) -> float:
    return sum(values[shape] * count for shape, count in pattern)


def refused(pattern: Pattern, refusals: Refusals) -> bool:
    counts = dict(pattern)
    return any(all(counts.get(shape, 0) >= n for shape, n in each.items()) for each in refusals)


@settings(max_examples=100, deadline=None)
@given(sacks())
def test_the_search_finds_the_best_and_the_ceilings_are_above_it(
    given: tuple[Offer, list[float], list[int], Refusals],
) -> None:
    offer, values, caps, refusals = given
    sack = a_sack(offer)
    best = best_of_all(offer, values, caps, ())
    quick, mix = sack.fill(values, caps), sack.sharpen(values, caps)
    assert min(quick.ceiling, mix.ceiling) >= best - 1e-6
    assert quick.value <= best + 1e-6
    found, _ = sack.search(mix, values, caps, 0.0, 100_000)
    assert abs(found.value - best) < 1e-6
    assert abs(worth(found.pattern, values) - best) < 1e-6
    within, _ = sack.search(mix, values, caps, 0.0, 100_000, refusals)
    assert abs(within.value - best_of_all(offer, values, caps, refusals)) < 1e-6


@settings(max_examples=80, deadline=None)
@given(sacks())
def test_every_pattern_fits_and_includes_nothing_that_is_refused(
    given: tuple[Offer, list[float], list[int], Refusals],
) -> None:
    offer, values, caps, refusals = given
    sack = a_sack(offer)
    mix = sack.sharpen(values, caps)
    for filling in (sack.fill(values, caps, refusals), sack.complete(mix, values, caps, refusals)):
        assert offer.admits(filling.pattern)
        assert all(count <= caps[shape] for shape, count in filling.pattern)
        assert not refused(filling.pattern, refusals)
        assert abs(filling.value - worth(filling.pattern, values)) < 1e-6


def test_a_search_that_may_not_go_on_keeps_the_ceiling_of_the_mix() -> None:
    offer = an_offer(1, (50, 50), [(7, 3), (5, 6), (3, 8), (4, 4)])
    sack, values, caps = a_sack(offer), [7.0, 6.0, 5.0, 4.1], [9, 9, 9, 9]
    mix = sack.sharpen(values, caps)
    found, steps = sack.search(mix, values, caps, 0.0, 3)
    assert steps == 3
    assert found.ceiling == mix.ceiling
