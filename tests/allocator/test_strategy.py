"""Best-fit gives away first what is least missed; first-fit keeps upstream's order."""

import pytest

from allotment.allocator.strategy import BEST_FIT, FIRST_FIT, arrange
from allotment.api.resource import Device, ResourceSlice
from tests.allocator.build import (
    allocate,
    claim,
    counter_set,
    device,
    draw,
    either,
    given,
    held,
    mine,
    pools,
    refused,
    request,
    slice_,
    sub,
)


def order(slices: list[ResourceSlice], strategy: str = BEST_FIT, *used: str, shared: str = "") -> list[str]:
    in_use = held(*used, shared={shared: {}} if shared else {})
    return [each.spec.name for each in arrange(pools(slices), strategy, in_use)]


def card(number: int) -> list[Device]:
    """A GPU whole, in halves and in quarters, all drawing on the same four slots."""
    return [
        device(f"c{number}-{name}", draws=[draw(f"card-{number}", slots=slots)])
        for name, slots in (("full", "4"), ("half0", "2"), ("half1", "2"), ("q0", "1"), ("q1", "1"))
    ]


def cards(count: int) -> list[ResourceSlice]:
    specs = [spec for number in range(count) for spec in card(number)]
    sets = [counter_set(f"card-{number}", slots="4") for number in range(count)]
    return [slice_(*specs, of=2), slice_(name="z-counters", of=2, counters=sets)]


def test_first_fit_is_the_order_of_publication() -> None:
    assert order([slice_(device("b"), device("a"))], FIRST_FIT) == ["b", "a"]


def test_equals_stay_in_the_order_of_publication() -> None:
    assert order([slice_(device("b"), device("a"), device("c"))]) == ["b", "a", "c"]


def test_small_before_large() -> None:
    specs = [device("large", capacity={"m": "80Gi"}), device("small", capacity={"m": "40Gi"})]
    assert order([slice_(*specs)]) == ["small", "large"]


def test_parts_before_the_whole() -> None:
    assert order(cards(1)) == ["c0-q0", "c0-q1", "c0-half0", "c0-half1", "c0-full"]


def test_parts_of_a_broken_card_before_those_of_an_unbroken_one() -> None:
    """Of the second card a quarter is in use, so its other parts come first among their like."""
    assert order(cards(2), BEST_FIT, "c1-q0")[:4] == ["c1-q0", "c1-q1", "c0-q0", "c0-q1"]


def test_a_device_that_is_already_shared_comes_first() -> None:
    specs = [device("free", shared=True), device("begun", shared=True)]
    assert order([slice_(*specs)], BEST_FIT, shared="begun") == ["begun", "free"]


def test_plentiful_before_scarce() -> None:
    """The scarce model differs in a capacity that does not make it larger."""
    specs = [
        device("rare", capacity={"a": "1", "b": "3"}),
        device("common0", capacity={"a": "2", "b": "2"}),
        device("common1", capacity={"a": "2", "b": "2"}),
    ]
    assert order([slice_(*specs)]) == ["common0", "common1", "rare"]


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown strategy 'worst-fit'; known are first-fit, best-fit"):
        order([slice_(device("d"))], "worst-fit")


# --- what that is good for ---


def test_best_fit_leaves_the_whole_card_for_who_needs_it() -> None:
    small = [claim(request("r"), name=f"c{number}") for number in range(2)]
    best = allocate(cards(2), *small, strategy=BEST_FIT)
    assert given(best) == ["r=c0-q0", "r=c0-q1"]  # the second card is untouched
    first = allocate(cards(2), *small)
    assert given(first) == ["r=c0-full", "r=c1-full"]


def test_best_fit_still_finds_what_only_waste_can_serve() -> None:
    """The only solution gives the large device to the request that could have been content with the small one."""
    specs = [device("large", capacity={"m": "9"}, kind="x"), device("small", capacity={"m": "1"}, kind="y")]
    wanted = claim(request("any"), request("small-only", f"{mine('kind')} == 'y'"))
    assert given(allocate([slice_(*specs)], wanted, strategy=BEST_FIT)) == ["any=large", "small-only=small"]


def test_best_fit_keeps_the_order_of_alternatives() -> None:
    """Which alternative is preferred is the claim's business; which device serves it, the strategy's."""
    specs = [device("large", capacity={"m": "9"}), device("small", capacity={"m": "1"})]
    wanted = claim(either("r", sub("large", capacity={"m": "5"}), sub("any")))
    assert given(allocate([slice_(*specs)], wanted, strategy=BEST_FIT)) == ["r/large=large"]


def test_what_does_not_fit_does_not_fit_in_any_order() -> None:
    for strategy in (FIRST_FIT, BEST_FIT):
        refused(allocate(cards(1), claim(request("r", count=5)), strategy=strategy))
