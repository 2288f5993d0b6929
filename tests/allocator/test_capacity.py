"""How much of a capacity a request takes, by the device's policy. Checked beside an independent implementation."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given as suppose
from hypothesis import settings
from hypothesis import strategies as st

from allotment.allocator.capacity import consumption
from allotment.allocator.errors import ClaimError
from allotment.api.codec import decode
from allotment.api.resource import CapacityRequirements, Device, DeviceCapacity
from tests.allocator.build import offer, policed, quantity
from tests.bruteforce import capacity as oracle
from tests.bruteforce.pools import Fatal
from tests.thoroughness import examples

Json = dict[str, Any]
GI = "1Gi"


def taken(wanted: str | None, capacity: DeviceCapacity, *, fractional: bool = True) -> str | None:
    """What of the capacity ``m`` is taken; None if the device does not serve the request."""
    requests = {} if wanted is None else {"m": quantity(wanted)}
    amounts = consumption(requests, {"m": capacity}, fractional=fractional)
    return None if amounts is None else str(amounts["m"])


@pytest.mark.parametrize(
    ("wanted", "capacity", "amount"),
    [
        # no request: the default, else all of it
        (None, offer("40Gi"), "40Gi"),
        (None, policed("40Gi", "5Gi"), "5Gi"),
        (None, policed("40Gi", "3", min="1", max="2"), "3"),  # a default need not keep its own policy
        # no policy: as asked, however much; whether there is room is the search's business
        ("7Gi", offer("40Gi"), "7Gi"),
        ("99Gi", offer("40Gi"), "99Gi"),
        ("0", offer("40Gi"), "0"),
        ("7Gi", policed("40Gi", "5Gi"), "7Gi"),
        # valid values: the next larger one
        ("1Gi", policed("40Gi", "2Gi", "2Gi", "5Gi"), "2Gi"),
        ("2Gi", policed("40Gi", "2Gi", "2Gi", "5Gi"), "2Gi"),
        ("3Gi", policed("40Gi", "2Gi", "2Gi", "5Gi"), "5Gi"),
        ("6Gi", policed("40Gi", "2Gi", "2Gi", "5Gi"), None),  # beyond the largest
        ("2048Mi", policed("40Gi", "2Gi", "2Gi", "5Gi"), "2Gi"),  # equal, in other words
        # a range: at least min, at most max
        ("512Mi", policed("40Gi", GI, min="1Gi", max="3Gi"), "1Gi"),
        ("1536Mi", policed("40Gi", GI, min="1Gi", max="3Gi"), "1536Mi"),
        ("3Gi", policed("40Gi", GI, min="1Gi", max="3Gi"), "3Gi"),
        ("4Gi", policed("40Gi", GI, min="1Gi", max="3Gi"), None),
        ("100Gi", policed("40Gi", GI, min="1Gi"), "100Gi"),  # no max: up to the search
        # with steps: up to min + k·step
        ("2Gi", policed("40Gi", GI, min="1Gi", step="2Gi"), "3Gi"),
        ("3Gi", policed("40Gi", GI, min="1Gi", step="2Gi"), "3Gi"),
        ("4Gi", policed("40Gi", GI, min="1Gi", max="4Gi", step="2Gi"), None),  # rounded to 5Gi, past max
        ("1100m", policed("4", "1", min="500m", step="250m"), "1250m"),
        ("1250m", policed("4", "1", min="500m", step="250m"), "1250m"),
        ("1", policed("4", "1", min="500m", step="250m"), "1"),
        ("0", policed("4", "0", min="0", step="1"), "0"),
    ],
)
def test_what_a_request_takes(wanted: str | None, capacity: DeviceCapacity, amount: str | None) -> None:
    assert taken(wanted, capacity) == amount


def test_without_the_feature_ranges_are_rounded_in_whole_units() -> None:
    halves = policed("4", "1", min="1", max="3", step="500m")
    assert taken("1200m", halves) == "1500m"
    assert taken("1200m", halves, fractional=False) == "2"


def test_the_amount_is_written_in_the_form_of_the_step() -> None:
    assert taken("2147483648", policed("40Gi", GI, min="1Gi", step="1Gi")) == "2Gi"
    assert taken("1500M", policed("40G", "1G", min="1G", step="1G")) == "2G"


def test_a_capacity_that_the_device_lacks_rules_it_out() -> None:
    assert consumption({"n": quantity("0")}, {"m": offer("1")}, fractional=True) is None


def test_a_capacity_that_nobody_asked_for_is_taken_too() -> None:
    amounts = consumption(
        {"m": quantity("1")}, {"m": offer("4"), "n": policed("4", "2"), "o": offer("3")}, fractional=True
    )
    assert amounts is not None
    assert {name: str(amount) for name, amount in amounts.items()} == {"m": "1", "n": "2", "o": "3"}


@pytest.mark.parametrize(
    ("wanted", "capacity", "complaint"),
    [
        ("-1", offer("4"), 'capacity "m": capacity value is negative: -1'),
        (None, policed("4", "-2"), 'capacity "m": capacity value is negative: -2'),
        ("1u", policed("4", "1", min="0", step="1m"), "is not a whole number of thousandths"),
        ("9223372036854775807", policed("9E", "1", min="0", step="1"), "thousandths"),
        # The bounds are no whole thousandths, so it is counted in units; 64 bits hold the request but not the next step.
        ("9223372036854775807", policed("9E", "1", min="1u", step="4"), "rounding .* passes 64 bits"),
        ("1e30", policed("9E", "1", min="1u", step="1"), "more than 64 bits hold"),
        ("2", policed("9", "1", min="1", step="0"), "the step of the range is zero"),
    ],
)
def test_what_cannot_be_represented_is_an_error(
    wanted: str | None, capacity: DeviceCapacity, complaint: str
) -> None:
    with pytest.raises(ClaimError, match=complaint):
        taken(wanted, capacity)


def test_a_default_is_exempt_from_the_policy_only_in_its_own_form() -> None:
    """Upstream compares the default as it is written; an equal amount in another form is held to the policy."""
    odd = policed("10Gi", "3Gi", "1Gi", "5Gi")
    assert taken(None, odd) == "3Gi"
    assert taken("3Gi", odd) == "5Gi"  # asked for, it is rounded like any other


AMOUNTS = st.sampled_from(
    [
        "0",
        "1",
        "2",
        "3",
        "500m",
        "750m",
        "1100m",
        "1Gi",
        "1536Mi",
        "3Gi",
        "5Gi",
        "10Gi",
        "1u",
        "9E",
        "1e30",
        "-1",
    ]
)
BOUNDS = st.fixed_dictionaries(
    {"min": st.sampled_from(["0", "1", "500m", "1Gi"])},
    optional={
        "max": st.sampled_from(["2", "3", "5Gi", "8Gi"]),
        "step": st.sampled_from(["1", "250m", "300m", "1Gi", "512Mi", "3"]),
    },
)
POLICIES = st.one_of(
    st.none(),
    st.fixed_dictionaries({"default": AMOUNTS}),
    st.fixed_dictionaries(
        {"default": AMOUNTS, "validValues": st.lists(AMOUNTS, min_size=1, max_size=3, unique=True)}
    ),
    st.fixed_dictionaries({"default": AMOUNTS, "validRange": BOUNDS}),
)


@settings(max_examples=examples(400), deadline=None)
@suppose(wanted=st.none() | AMOUNTS, value=AMOUNTS, policy=POLICIES, fractional=st.booleans())
def test_agrees_with_the_other_implementation(
    wanted: str | None, value: str, policy: Json | None, fractional: bool
) -> None:
    plain: Json = {"value": value, **({"requestPolicy": policy} if policy else {})}
    device: Json = {"name": "d", "capacity": {"m": plain}}
    ask: Json = {"capacity": {"requests": {"m": wanted}}} if wanted is not None else {}
    assert _ours(ask, device, fractional) == _theirs(ask, device, fractional)


def _ours(ask: Json, device: Json, fractional: bool) -> Fraction | str | None:
    wanted = decode(CapacityRequirements, ask.get("capacity") or {})
    try:
        amounts = consumption(wanted.requests, decode(Device, device).capacity, fractional=fractional)
    except ClaimError:
        return "error"
    return None if amounts is None else Fraction(amounts["m"].nanos, 10**9)


def _theirs(ask: Json, device: Json, fractional: bool) -> Fraction | str | None:
    try:
        amounts = oracle.taken(ask, device, fractional)
    except Fatal:
        return "error"
    assert amounts is not None
    policy = device["capacity"]["m"].get("requestPolicy")
    return amounts["m"].value if oracle.allowed(amounts["m"], policy, fractional) else None
