"""Who holds how much, and who has to let go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.http.holdings import BufferHoldings

STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 60)), max_size=40)


@given(STEPS, st.integers(0, 100), st.integers(0, 100))
def test_the_sums_are_right_and_once_the_excess_is_dropped_no_bound_is_exceeded(
    steps: list[tuple[str, int, int]], most: int, most_each: int
) -> None:
    holdings: BufferHoldings[tuple[str, int]] = BufferHoldings(most, most_each)
    model: dict[tuple[str, int], int] = {}
    for owner, thing, size in steps:
        if size > 50:
            holdings.drop(owner, (owner, thing))
            model.pop((owner, thing), None)
        else:
            holdings.hold(owner, (owner, thing), size)
            model[owner, thing] = size
        holdings.validate()
        assert holdings.total == sum(model.values())
    excess = holdings.excess()
    assert bool(excess) == any(holdings.exceeds(owner) for owner in "abc")
    kept = dict(model)
    for owner, thing in excess:
        own = {each: size for each, size in kept.items() if each[0] == owner}
        assert kept[owner, thing] == max(own.values()), "a larger one of the same owner is kept"
        del kept[owner, thing]
        holdings.drop(owner, (owner, thing))
    assert sum(kept.values()) <= most
    assert all(not holdings.exceeds(owner) for owner in "abc")
    if excess:  # not one more than needed
        owner, thing = excess[-1]
        holdings.hold(owner, (owner, thing), model[owner, thing])
        assert holdings.exceeds(owner)


def test_who_holds_most_lets_go_first() -> None:
    holdings: BufferHoldings[str] = BufferHoldings(100, 80)
    for owner, thing, size in (("a", "a1", 30), ("a", "a2", 40), ("b", "b1", 35)):
        holdings.hold(owner, thing, size)
    assert holdings.excess() == ["a2"]  # and not b's, which is larger than what a has left
