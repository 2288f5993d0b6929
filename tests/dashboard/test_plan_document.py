"""What the page shows of a plan: the sentence on top, what is put together, and that it stays small."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import msgspec
import pytest

from allotment.autoscaler.provision.plan import LeftOut, NewNode, Plan, PodPlace
from allotment.dashboard.plan_document import (
    GROUPS_LISTED,
    MACHINES_LISTED,
    PODS_LISTED,
    headline,
    plan_document,
    proof,
)
from allotment.dashboard.price import price
from tests.autoscaler.build import evaluated, pool, type_

LARGE, SMALL = evaluated(type_("large", {"a": "4.5"}), type_("small", {"b+": "0.125"}), pool("p")).machines
NOTHING = Plan((), (), (), Decimal(0), True)


def new(name: str, *pods: str, machine: object = LARGE) -> NewNode:
    chosen = SMALL if machine is SMALL else LARGE
    return NewNode(
        name, chosen, tuple(PodPlace(pod, name, (f"gpu.example.com/{name}/gpu-0",)) for pod in pods)
    )


def left(pod: str, why: str = "no", **types: str) -> LeftOut:
    return LeftOut(pod, why, types)


def plan(*nodes: NewNode, existing: int = 0, pending: int = 0) -> Plan:
    room = tuple(PodPlace(f"e-{number}", "old") for number in range(existing))
    out = tuple(left(f"p-{number}") for number in range(pending))
    return replace(NOTHING, nodes=nodes, existing=room, pending=out)


HEADLINES: dict[str, tuple[Plan, str]] = {
    "nothing waits": (NOTHING, "No pod waits for a node."),
    "one machine for all": (
        plan(new("n", "a", "b")),
        "1 machine, 4.50 per hour, would take 2 of 2 pending pods.",
    ),
    "some stay out": (
        plan(new("n", "a"), new("m", "b", machine=SMALL), pending=1),
        "2 machines, 4.625 per hour, would take 2 of 3 pending pods; 1 would stay pending.",
    ),
    "some have room already": (
        plan(new("n", "a"), existing=2, pending=1),
        "1 machine, 4.50 per hour, would take 1 of 4 pending pods; 2 have room on nodes that exist or are on their way; "
        "1 would stay pending.",
    ),
    "all have room already": (
        plan(existing=2),
        "No machine is needed: nodes that exist or are on their way have room for all 2 pending pods.",
    ),
    "the only one has": (
        plan(existing=1),
        "No machine is needed: nodes that exist or are on their way have room for the pending pod.",
    ),
    "nothing helps": (plan(pending=3), "No machine would help the 3 pending pods."),
    "nothing helps some": (
        plan(existing=1, pending=3),
        "No machine would help 3 of 4 pending pods; 1 has room on nodes that exist or are on their way.",
    ),
}


@pytest.mark.parametrize("case", HEADLINES)
def test_the_consequence_comes_first(case: str) -> None:
    made, words = HEADLINES[case]
    assert headline(made) == words
    assert plan_document(made)["headline"] == words


def test_how_far_from_the_cheapest_it_may_be() -> None:
    made = plan(new("n", "a"))
    assert proof(NOTHING) == ""
    assert proof(made) == "There is no cheaper plan."
    assert proof(replace(made, exact=False, bound=Decimal("4.5"))) == "No cheaper plan exists."
    assert (
        proof(replace(made, exact=False, bound=Decimal(4)))
        == "No plan costs less than 4.00 per hour: at most 11.1% could be saved."
    )


def test_machines_that_are_alike_are_told_together_the_dearest_first() -> None:
    told = plan_document(plan(new("s", "x", machine=SMALL), new("n", "a", "b"), new("m", "c")))
    large, small = told["machines"]
    assert (large["count"], large["type"], large["source"], large["zone"]) == (2, "large", "p", "a")
    assert (large["price"], large["together"], large["pods"]) == ("4.50", "9.00", 3)
    assert [(each["name"], [place["pod"] for place in each["pods"]]) for each in large["each"]] == [
        ("n", ["a", "b"]),
        ("m", ["c"]),
    ]
    assert large["each"][0]["pods"][0]["devices"] == ["gpu.example.com/gpu-0"]
    assert (small["count"], small["capacityType"], small["together"]) == (1, "spot", "0.125")


def test_pods_left_out_for_the_same_reasons_are_told_together_with_the_types_of_each_reason() -> None:
    out = (
        left("lone", "too large", large="no memory"),
        left("a", "no gpu", large="taint", small="no gpu", tiny="no gpu"),
        left("b", "no gpu", large="taint", small="no gpu", tiny="no gpu"),
    )
    first, second = plan_document(replace(NOTHING, pending=out))["left"]
    assert (first["count"], first["pods"], first["reason"]) == (2, ["a", "b"], "no gpu")
    assert first["types"] == [
        {"reason": "no gpu", "count": 2, "types": ["small", "tiny"]},
        {"reason": "taint", "count": 1, "types": ["large"]},
    ]
    assert second["pods"] == ["lone"]


def test_of_very_much_the_first_are_told_and_how_many_more_there_are() -> None:
    many = 10 * PODS_LISTED
    types = {f"type-{number}": f"reason {number} {'x' * 1000}" for number in range(many)}
    out = tuple(left(f"pod-{number}", f"why {number}", **types) for number in range(2 * GROUPS_LISTED))
    nodes = [
        new(f"n-{number}", *[f"p-{number}-{each}" for each in range(2 * PODS_LISTED)])
        for number in range(2 * MACHINES_LISTED)
    ]
    made = replace(plan(*nodes, existing=many), pending=out)
    told = plan_document(made, ["note"] * many)
    assert len(told["machines"][0]["each"]) == MACHINES_LISTED
    assert told["machines"][0]["count"] == 2 * MACHINES_LISTED
    assert len(told["machines"][0]["each"][0]["pods"]) == PODS_LISTED
    assert told["machines"][0]["each"][0]["count"] == 2 * PODS_LISTED
    assert (told["existing"]["count"], len(told["existing"]["pods"])) == (many, PODS_LISTED)
    assert (len(told["left"]), told["moreLeft"]) == (GROUPS_LISTED, GROUPS_LISTED)
    assert len(msgspec.json.encode(told)) < 3_000_000


PRICES = {
    "0": "0.00",
    "0.3": "0.30",
    "12.40": "12.40",
    "0.0621": "0.0621",
    "1200": "1,200.00",
    "1E+3": "1,000.00",
}


def test_prices_have_two_places_or_as_many_as_it_takes() -> None:
    assert {given: price(Decimal(given)) for given in PRICES} == PRICES
