"""The search: its order, when it turns back, what it does not try, and what it says when it cannot."""

import pytest

from allotment.allocator.features import Features
from allotment.allocator.outcome import Allocated, GaveUp, InvalidInput, Outcome, Unsatisfiable
from allotment.api.resource import Device as DeviceSpec
from allotment.api.resource import DeviceRequest, ResourceClaim, ResourceSlice
from tests.allocator.build import (
    DRIVER,
    allocate,
    claim,
    counter_set,
    device,
    devices,
    distinct,
    draw,
    either,
    given,
    held,
    match,
    mine,
    refused,
    request,
    slice_,
    sub,
    taint,
)


def error(outcome: Outcome) -> str:
    assert isinstance(outcome, InvalidInput), f"{outcome}"
    return str(outcome.error)


def in_slot(*slots: int) -> str:
    return f"{mine('slot')} in {list(slots)}"


def slots(count: int) -> list[ResourceSlice]:
    return [slice_(*[device(f"d{number}", slot=number) for number in range(count)])]


# --- order ---


def test_claims_requests_and_devices_are_served_in_order() -> None:
    outcome = allocate(
        [slice_(*devices(6))], claim(request("a", count=2), request("b")), claim(request("c"), name="second")
    )
    assert given(outcome) == ["a=d0", "a=d1", "b=d2", "c=d3"]


def test_the_first_fit_is_taken_even_if_it_wastes() -> None:
    outcome = allocate(slots(3), claim(request("picky", in_slot(2)), request("easy")))
    assert given(outcome) == ["picky=d2", "easy=d0"]


def test_devices_in_use_are_passed_over() -> None:
    assert given(allocate([slice_(*devices(3))], claim(request(count=2)), held=held("d0"))) == [
        "r=d1",
        "r=d2",
    ]


def test_nothing_wanted_is_a_yes() -> None:
    assert given(allocate([], claim(request(count=0)))) == []
    assert given(allocate([])) == []


# --- turning back ---


def test_an_earlier_request_gives_way() -> None:
    outcome = allocate(slots(2), claim(request("easy"), request("picky", in_slot(0))))
    assert given(outcome) == ["easy=d1", "picky=d0"]


def test_an_earlier_claim_gives_way() -> None:
    outcome = allocate(slots(2), claim(request("easy")), claim(request("picky", in_slot(0)), name="second"))
    assert given(outcome) == ["easy=d1", "picky=d0"]


def test_a_chain_of_requests_moves_up() -> None:
    outcome = allocate(
        slots(4),
        claim(
            request("a"), request("b", in_slot(0, 1)), request("c", in_slot(1, 2)), request("d", in_slot(0))
        ),
    )
    assert given(outcome) == ["a=d3", "b=d1", "c=d2", "d=d0"]


def test_a_constraint_makes_the_first_device_wrong() -> None:
    roots = [device("d0", root="x"), device("d1", root="y"), device("d2", root="y")]
    outcome = allocate([slice_(*roots)], claim(request(count=2), constraints=[match("root")]))
    assert given(outcome) == ["r=d1", "r=d2"]


def test_counters_make_the_first_device_wrong() -> None:
    specs = [
        device("full", size=7, draws=[draw("gpu", slots="7")]),
        *[device(f"part{n}", size=3, draws=[draw("gpu", slots="3")]) for n in range(2)],
    ]
    slices = [slice_(*specs, of=2), slice_(name="counters", of=2, counters=[counter_set("gpu", slots="7")])]
    assert given(allocate(slices, claim(request(count=2)))) == ["r=part0", "r=part1"]


def test_a_constraint_spans_the_requests_of_its_claim_only() -> None:
    roots = [device(f"d{n}", root="x" if n < 2 else "y") for n in range(4)]
    one = claim(request("a"), request("b"), constraints=[match("root")])
    other = claim(request("c", count=2), name="second", constraints=[match("root")])
    assert given(allocate([slice_(*roots)], one, other)) == ["a=d0", "b=d1", "c=d2", "c=d3"]


def test_distinct_and_match_together() -> None:
    specs = [device(f"d{n}", root=n // 3, slot=n % 2) for n in range(6)]
    outcome = allocate(
        [slice_(*specs)],
        claim(request(count=2), constraints=[match("root"), distinct("slot")]),
        held=held("d1"),
    )
    assert given(outcome) == ["r=d3", "r=d4"]


# --- alternatives ---

BIG = sub("big", f"{mine('size')} > 5")
SMALL = sub("small", count=2)
SIZED = [slice_(device("d0", size=1), device("d1", size=9), device("d2", size=1))]


def test_the_first_alternative_that_can_be_had() -> None:
    assert given(allocate(SIZED, claim(either("r", BIG, SMALL)))) == ["r/big=d1"]
    assert given(allocate(SIZED, claim(either("r", BIG, SMALL)), held=held("d1"))) == [
        "r/small=d0",
        "r/small=d2",
    ]


def test_an_alternative_is_dropped_when_it_leaves_later_requests_short() -> None:
    outcome = allocate(SIZED, claim(either("r", BIG, SMALL), request("needs-big", f"{mine('size')} > 5")))
    assert given(outcome) == ["r/small=d0", "r/small=d2", "needs-big=d1"]


def test_the_first_request_keeps_its_preference_and_the_second_gives_way() -> None:
    pick = [sub("one", in_slot(0)), sub("two", in_slot(1))]
    outcome = allocate(slots(2), claim(either("a", *pick), either("b", *pick)))
    assert given(outcome) == ["a/one=d0", "b/two=d1"]


def test_a_constraint_may_bind_one_alternative() -> None:
    specs = [
        device("d0", root="x", kind="a"),
        device("d1", root="y", kind="b"),
        device("d2", root="y", kind="b"),
    ]
    wanted = claim(
        either("r", sub("near", f"{mine('kind')} == 'a'"), sub("any")),
        request("other", f"{mine('kind')} == 'b'"),
        constraints=[match("root", "r/near", "other")],
    )
    assert given(allocate([slice_(*specs)], wanted)) == ["r/any=d0", "other=d1"]


# --- all devices ---


def test_all_takes_every_device_that_matches() -> None:
    specs = [device("d0", model="a"), device("d1", model="b"), device("d2", model="a")]
    outcome = allocate([slice_(*specs)], claim(request("r", f"{mine('model')} == 'a'", all=True)))
    assert given(outcome) == ["r=d0", "r=d2"]


@pytest.mark.parametrize(
    ("specs", "used"),
    [
        pytest.param([], (), id="none matches"),
        pytest.param(devices(3), ("d1",), id="one is in use"),
        pytest.param([device("d0"), device("d1", taints=[taint("t")])], (), id="one is tainted"),
    ],
)
def test_all_needs_every_device_and_at_least_one(specs: list[DeviceSpec], used: tuple[str, ...]) -> None:
    refused(allocate([slice_(*specs)], claim(request(all=True)), held=held(*used)))


def test_all_leaves_out_devices_that_are_too_small() -> None:
    specs = [device("d0", capacity={"m": "1"}), device("d1", capacity={"m": "4"})]
    assert given(allocate([slice_(*specs)], claim(request(all=True, capacity={"m": "2"})))) == ["r=d1"]


@pytest.mark.parametrize(
    ("slices", "complaint"),
    [
        ([slice_(device("d"), of=2)], "is currently being updated"),
        ([slice_(device("d"), device("d"))], "is currently invalid"),
    ],
)
def test_all_of_a_pool_that_cannot_be_counted_is_an_error(
    slices: list[ResourceSlice], complaint: str
) -> None:
    assert complaint in error(allocate(slices, claim(request(all=True))))


def test_all_that_breaks_a_constraint_is_an_error_and_not_a_no() -> None:
    specs = [device("d0", root="x"), device("d1", root="y")]
    outcome = allocate([slice_(*specs)], claim(request(all=True), constraints=[match("root")]))
    assert "a claim constraint would not be satisfied" in error(outcome)


def test_all_asks_every_device_at_once_so_a_broken_one_is_an_error() -> None:
    specs = [device("d0", model="a"), device("d1")]
    wanted = request("r", f"{mine('model')} == 'a'", all=True)
    assert "no such key: model" in error(allocate([slice_(*specs)], claim(wanted), held=held("d1")))


# --- at most 32 ---


@pytest.mark.parametrize(
    ("requests", "outcome"),
    [
        pytest.param([request(count=32)], 32, id="just 32"),
        pytest.param([request(count=33)], "adding 33 devices exceeds the claim limit of 32", id="33"),
        pytest.param(
            [request("a", count=20), request("b", count=13)], "with 20 already accounted for", id="together"
        ),
        pytest.param(
            [request("a", count=20), either("b", sub("s", count=13), sub("t", count=12))], 32, id="or less"
        ),
        pytest.param([either("a", sub("s", count=33), sub("t"))], 1, id="the other alternative"),
    ],
)
def test_a_claim_holds_32_devices_at_most(requests: list[DeviceRequest], outcome: int | str) -> None:
    found = allocate([slice_(*devices(70))], claim(*requests))
    if isinstance(outcome, int):
        assert len(given(found)) == outcome
    else:
        assert outcome in error(found)


def test_two_claims_may_hold_more_together() -> None:
    found = allocate(
        [slice_(*devices(64))], claim(request(count=32)), claim(request(count=32), name="second")
    )
    assert len(given(found)) == 64


def test_alternatives_that_are_each_possible_but_too_many_together_are_a_no() -> None:
    """At least 1 + 1 are needed, so that is no error beforehand; what could be had are 30 + 10, which is too many."""
    wanted = claim(
        either("a", sub("many", count=30), sub("few", "false", count=1)),
        either("b", sub("many", count=10), sub("few", "false", count=1)),
    )
    few_steps(allocate([slice_(*devices(64))], wanted), 50)


# --- errors are lazy ---

MODEL = f"{mine('model')} == 'a'"
FINE, FAULTY = device("fine", model="a"), device("faulty")


def test_a_faulty_device_after_the_fit_is_never_asked() -> None:
    assert given(allocate([slice_(FINE, FAULTY)], claim(request("r", MODEL)))) == ["r=fine"]


def test_a_faulty_device_before_the_fit_is_an_error() -> None:
    assert "no such key: model" in error(allocate([slice_(FAULTY, FINE)], claim(request("r", MODEL))))


def test_a_faulty_device_in_use_is_not_asked() -> None:
    assert given(allocate([slice_(FAULTY, FINE)], claim(request("r", MODEL)), held=held("faulty"))) == [
        "r=fine"
    ]


def test_a_request_that_cannot_be_met_comes_before_the_error_of_the_next() -> None:
    refused(allocate([slice_(FAULTY)], claim(request("never", "false"), request("r", MODEL))))


def test_the_error_of_an_earlier_request_comes_first() -> None:
    assert "model" in error(allocate([slice_(FAULTY)], claim(request("r", MODEL), request("never", "false"))))


def test_turning_back_reaches_a_faulty_device() -> None:
    """The first choice leads nowhere, so the search goes on to the device that raises."""
    specs = [device("d0", model="a", slot=0), FAULTY]
    outcome = allocate(
        [slice_(*specs)], claim(request("r", MODEL), request("s", "has(" + mine("slot") + ")"))
    )
    assert "no such key: model" in error(outcome)


def test_more_is_wanted_than_there_is_but_the_search_meets_the_error_first() -> None:
    """Counting would say no at once; upstream asks the devices in order and stumbles."""
    assert "model" in error(allocate([slice_(FINE, FAULTY)], claim(request("r", MODEL, count=9))))


def test_a_derived_attribute_that_fails_is_an_error_where_a_constraint_wants_it() -> None:
    derives = {f"{DRIVER}/x": mine("missing")}
    bound = claim(request("r", derives=derives), constraints=[match("x")])
    assert "derived attribute" in error(allocate([slice_(device("d"))], bound))
    assert given(allocate([slice_(device("d"))], claim(request("r", derives=derives)))) == ["r=d"]


# --- admin access ---


def test_admin_access_ignores_use_by_others() -> None:
    assert given(allocate([slice_(device("d"))], claim(request(admin=True)), held=held("d"))) == ["r=d"]


def test_within_one_call_an_admin_device_counts_as_taken_for_others() -> None:
    outcome = allocate([slice_(*devices(2))], claim(request("admin", admin=True), request("user")))
    assert given(outcome) == ["admin=d0", "user=d1"]


def test_admins_of_different_claims_may_have_the_same_device() -> None:
    wanted = [claim(request(admin=True), name=name) for name in "ab"]
    assert given(allocate([slice_(device("d"))], *wanted)) == ["r=d", "r=d"]
    refused(allocate([slice_(device("d"))], claim(request("x", admin=True), request("y", admin=True))))


def test_admin_access_honours_taints() -> None:
    refused(allocate([slice_(device("d", taints=[taint("t")]))], claim(request(admin=True))))


# --- shares ---

NIC = device("nic", shared=True, capacity={"bw": "10"})


@pytest.mark.parametrize(
    ("wanted", "used", "fits"),
    [
        (["4", "6"], "0", True),
        (["4", "7"], "0", False),
        (["4"], "6", True),
        (["4"], "7", False),
        (["10"], "0", True),
        (["0", "10"], "0", True),
    ],
)
def test_shares_fit_into_the_capacity_together(wanted: list[str], used: str, fits: bool) -> None:
    requests = [request(f"r{number}", capacity={"bw": amount}) for number, amount in enumerate(wanted)]
    outcome = allocate([slice_(NIC)], claim(*requests), held=held(shared={"nic": {"bw": used}}))
    assert isinstance(outcome, Allocated if fits else Unsatisfiable)


def test_one_request_gets_shares_of_different_devices() -> None:
    wanted = claim(request(count=2, capacity={"bw": "1"}))
    refused(allocate([slice_(NIC)], wanted))
    other = device("nic2", shared=True, capacity={"bw": "10"})
    assert given(allocate([slice_(NIC, other)], wanted)) == ["r=nic", "r=nic2"]


def test_without_the_feature_a_shared_device_is_exclusive() -> None:
    two = claim(request("a"), request("b"))
    off = Features(ConsumableCapacity=False)
    refused(allocate([slice_(NIC)], two, features=off))


def test_a_further_share_draws_no_counters() -> None:
    part = device("part", shared=True, draws=[draw("gpu", slots="1")])
    slices = [slice_(part, of=2), slice_(name="c", of=2, counters=[counter_set("gpu", slots="1")])]
    assert given(allocate(slices, claim(request("a"), request("b")))) == ["a=part", "b=part"]
    assert given(allocate(slices, claim(request("a")), held=held(shared={"part": {}}))) == ["a=part"]


def test_equal_values_of_a_shared_device_stay_equal_when_devices_are_told_apart() -> None:
    """Both devices hold values that nobody else has; but only the second derives what it publishes, so that two shares
    of it match."""
    specs = [
        device("d0", tag="p", other="q", shared=True),
        device("d1", tag="x", other="x", shared=True),
    ]
    wanted = claim(
        request("one", derives={f"{DRIVER}/tag": mine("other")}), request("two"), constraints=[match("tag")]
    )
    assert given(allocate([slice_(*specs)], wanted)) == ["one=d1", "two=d1"]


# --- not trying in vain: steps are counted, never time ---


def few_steps(outcome: Outcome, most: int) -> Unsatisfiable:
    no = refused(outcome)
    assert no.steps <= most, f"{no.steps} steps"
    return no


def test_21_of_20() -> None:
    no = few_steps(allocate([slice_(*devices(20))], claim(request(count=21))), 50)
    assert no.shortage is not None
    assert (no.shortage.needed, no.shortage.available) == (21, 20)


@pytest.mark.parametrize(("requests", "available"), [(10, 9), (31, 30)])
def test_many_requests_on_one_device_too_few(requests: int, available: int) -> None:
    wanted = claim(*[request(f"r{number}") for number in range(requests)])
    no = few_steps(allocate([slice_(*devices(available))], wanted), 3 * requests)
    assert no.shortage is not None
    assert no.shortage.holds()


def test_requests_that_differ_but_compete() -> None:
    """Nine devices suit any of ten requests, though none suits all: found by matching, not by trying."""
    wanted = claim(*[request(f"r{n}", in_slot(*range(n % 3, 9))) for n in range(10)])
    no = few_steps(allocate(slots(9), wanted), 60)
    assert no.shortage is not None


def test_equal_devices_are_tried_once() -> None:
    """Counters allow six of twelve equal devices; which of them does not matter."""
    specs = [device(f"d{n}", draws=[draw("gpu", slots="1")]) for n in range(12)]
    slices = [slice_(*specs, of=2), slice_(name="c", of=2, counters=[counter_set("gpu", slots="6")])]
    few_steps(allocate(slices, claim(*[request(f"r{n}") for n in range(7)])), 500)


def test_a_constraint_without_hope_is_seen_soon() -> None:
    """Ten roots of two devices each, and three with one root are wanted."""
    specs = [device(f"d{n}", root=n // 2) for n in range(20)]
    few_steps(allocate([slice_(*specs)], claim(request(count=3), constraints=[match("root")])), 200)


def test_too_few_different_values_are_seen_soon() -> None:
    specs = [device(f"d{n}", root=n % 5) for n in range(20)]
    few_steps(allocate([slice_(*specs)], claim(request(count=6), constraints=[distinct("root")])), 300)


# --- the budget ---


def hard() -> tuple[list[ResourceSlice], ResourceClaim]:
    """Each device is alone with its uuid, so symmetry does not help, and it takes some steps to serve all."""
    specs = [device(f"d{n}", slot=n, root=n % 4) for n in range(12)]
    return [slice_(*specs)], claim(
        request(count=3), request("s", in_slot(1, 5, 9)), constraints=[match("root")]
    )


def test_a_budget_that_runs_out_is_said_plainly() -> None:
    slices, wanted = hard()
    outcome = allocate(slices, wanted, budget=3)
    assert isinstance(outcome, GaveUp)
    assert outcome.steps > 3


def test_a_budget_that_suffices_changes_nothing() -> None:
    slices, wanted = hard()
    free = allocate(slices, wanted)
    assert isinstance(free, Unsatisfiable | Allocated)
    bounded = allocate(slices, wanted, budget=free.steps)
    assert type(bounded) is type(free)


def test_any_smaller_budget_gives_up_or_answers_the_same() -> None:
    slices, wanted = hard()
    free = allocate(slices, wanted)
    for budget in range(40):
        bounded = allocate(slices, wanted, budget=budget)
        assert isinstance(bounded, GaveUp) or type(bounded) is type(free)


# --- sets of all devices that nothing can serve ---

HARD = [request(f"r{number}", in_slot(*range(12)), count=2) for number in range(4)]
"""Before the request for all: with many ways to be served, none of which helps."""


def spares(count: int) -> list[DeviceSpec]:
    return [device(f"d{number}", slot=number, root="r") for number in range(count)]


def behind_others(last: DeviceSpec, *used: str) -> Outcome:
    asked = claim(*HARD, the_last())
    return allocate([slice_(*spares(12), last)], asked, held=held(*used), budget=200)


def the_last() -> DeviceRequest:
    return request("all", in_slot(98, 99), all=True)


def test_a_device_in_use_makes_all_impossible_at_once() -> None:
    refused(behind_others(device("last", slot=99), "last"))


def test_a_tainted_device_makes_all_impossible_at_once() -> None:
    refused(behind_others(device("last", slot=99, taints=[taint("t")])))


@pytest.mark.parametrize("used", ["a", "b"])
def test_all_that_would_break_its_constraint_is_a_no_once_a_device_is_in_use(used: str) -> None:
    """And an error otherwise, which comes as late as the search comes to the device that differs."""
    specs = [*spares(12), device("a", slot=98, root="x"), device("b", slot=99, root="y")]
    asked = claim(*HARD, the_last(), constraints=[match("root", "all")])
    refused(allocate([slice_(*specs)], asked, held=held(used), budget=200))
    broken = allocate([slice_(*specs)], asked, budget=200)
    assert "a claim constraint would not be satisfied" in error(broken)


def test_all_under_a_constraint_that_an_earlier_request_shares_is_searched() -> None:
    """Which device the earlier one has decides whether it is an error."""
    specs = [device("d", slot=0, root="z"), device("a", slot=98, root="x"), device("b", slot=99, root="x")]
    asked = claim(request("r", in_slot(0)), the_last(), constraints=[match("root")])
    assert "a claim constraint would not be satisfied" in error(
        allocate([slice_(*specs)], asked, held=held("b"), budget=200)
    )


UNALIKE = [
    request(f"r{n}", f"{mine('slot')} * {2 * n + 3} % {7 + 2 * n} < {4 + n} && {mine('slot')} < 50", count=3)
    for n in range(4)
]
"""Before what cannot be served: no two devices are alike to these."""
BOTH = [device("a", slot=98, root="x"), device("b", slot=99, root="x")]

TOO_LITTLE = {
    "two requests for all with a device in common": [the_last(), request("too", in_slot(99), all=True)],
    "all behind a request for one of them": [request("one", in_slot(98, 99)), the_last()],
    "all before a request for one of them": [the_last(), request("one", in_slot(98, 99))],
    "alternatives of which none is left": [
        either("f", sub("more", in_slot(98, 99), count=3), sub("none", in_slot(1000), all=True))
    ],
}


@pytest.mark.parametrize("rest", TOO_LITTLE.values(), ids=TOO_LITTLE)
def test_requests_that_leave_too_little_for_all_are_impossible_at_once(rest: list[DeviceRequest]) -> None:
    refused(allocate([slice_(*spares(24), *BOTH)], claim(*UNALIKE, *rest), budget=200))


def test_a_request_for_too_many_before_one_for_all_is_refused_at_once() -> None:
    """Although that for all might be an error if it came to it."""
    asked = claim(
        *UNALIKE, request("more", in_slot(98), count=2), the_last(), constraints=[match("root", "all")]
    )
    refused(allocate([slice_(*spares(24), *BOTH)], asked, budget=200))


def test_all_whose_first_device_is_in_use_is_refused_whatever_shares_its_constraint() -> None:
    """A device that is in use is not asked for its values. The second is, once the first was."""
    asked = claim(*UNALIKE, the_last(), constraints=[match("root")])
    refused(allocate([slice_(*spares(24), *BOTH)], asked, held=held("a"), budget=200))
    apart = [device("a", slot=98, root="x"), device("b", slot=99, root="y")]
    assert "a claim constraint would not be satisfied" in error(
        allocate([slice_(*spares(24), *apart)], asked, held=held("b"), budget=200)
    )


def test_a_faulty_device_in_use_hides_no_proof() -> None:
    specs = [*spares(24), device("broken"), device("last", slot=99)]
    asked = claim(*UNALIKE, request("more", in_slot(99), count=2))
    refused(allocate([slice_(*specs)], asked, held=held("broken"), budget=200))
    assert "no such key" in error(allocate([slice_(*specs)], asked, budget=200))


GUARDED = [
    request(
        f"r{n}",
        f"has({mine('slot')}) && {mine('slot')} * {2 * n + 3} % {7 + 2 * n} < {4 + n} && {mine('slot')} < 50",
        count=3,
    )
    for n in range(4)
]
"""As UNALIKE, but a device without a slot is no error to them."""


def test_what_could_be_an_error_is_searched_and_what_comes_after_it_is_not() -> None:
    """The error of the first request surfaces, which comes once all its other devices led nowhere."""
    specs = [*spares(24), device("last", slot=99), device("broken")]
    last = request("all", f"has({mine('slot')}) && {mine('slot')} == 99", all=True)
    asked = claim(request("faulty", in_slot(*range(24))), *GUARDED, last)
    assert "no such key" in error(allocate([slice_(*specs)], asked, held=held("last"), budget=200))


def test_all_that_keeps_its_constraint_hides_no_proof_about_another() -> None:
    """It could be an error only if its own devices differed."""
    pair = [device("p0", slot=60, root="x"), device("p1", slot=61, root="x")]
    last = device("last", slot=99)
    asked = claim(
        request("pair", in_slot(60, 61), all=True), *UNALIKE, the_last(), constraints=[match("root", "pair")]
    )
    refused(allocate([slice_(*spares(24), *pair, last)], asked, held=held("last"), budget=200))
    broken = [*spares(24), pair[0], device("p1", slot=61, root="y"), last]
    assert "a claim constraint would not be satisfied" in error(
        allocate([slice_(*broken)], asked, held=held("last"), budget=200)
    )


def test_a_constraint_that_all_devices_meet_together_keeps_all_from_no_proof() -> None:
    """Although the requests before share it; if one of their devices differs, it might be an error, and is searched."""
    alike = [device(f"d{n}", slot=n, root="x") for n in range(24)]
    asked = claim(*UNALIKE, the_last(), constraints=[match("root")])
    refused(allocate([slice_(*alike, *BOTH)], asked, held=held("b"), budget=200))
    other = [device(f"d{n}", slot=n, root="y") for n in range(24)]
    assert "a claim constraint would not be satisfied" in error(
        allocate([slice_(*other, *BOTH)], asked, held=held("b"), budget=200)
    )


def test_an_error_before_all_is_met_first() -> None:
    specs = [*spares(3), device("broken"), device("last", slot=99)]
    asked = claim(request("r", in_slot(2, 3), count=2), the_last())
    assert "no such key" in error(allocate([slice_(*specs)], asked, held=held("last"), budget=200))
