"""Which overlay says what about which machine: matching, prices, capacity, devices, conflicts, conditions."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.autoscaling import NodeOverlay
from allotment.api.quantity import Quantity
from allotment.autoscaler.catalogue.overlay_status import conditions
from allotment.autoscaler.catalogue.overlays import OverlaidCatalogue, evaluate
from tests.autoscaler.build import (
    GPU,
    NIC,
    catalogue,
    device,
    devices,
    evaluated,
    gpus,
    group,
    is_type,
    machine,
    origins,
    overlay,
    pool,
    template,
    type_,
    where,
)

ZONE, SORT = "topology.kubernetes.io/zone", "karpenter.sh/capacity-type"
LARGE = type_("large", {"a": "8", "b": "9", "b+": "3"}, labels={"cpu": "64", "family": "m"})
SMALL = type_("small", {"a": "1"}, labels={"cpu": "8"})

MATCHES: dict[str, tuple[list[Any], list[str]]] = {
    "no requirement": (
        [],
        ["/large/a/on-demand", "/large/b/on-demand", "/large/b/spot", "/small/a/on-demand"],
    ),
    "a type": ([is_type("large")], ["/large/a/on-demand", "/large/b/on-demand", "/large/b/spot"]),
    "a zone": ([where(ZONE, "NotIn", "b")], ["/large/a/on-demand", "/small/a/on-demand"]),
    "a capacity type": ([where(SORT, "In", "spot")], ["/large/b/spot"]),
    "more than": ([where("cpu", "Gt", "8")], ["/large/a/on-demand", "/large/b/on-demand", "/large/b/spot"]),
    "at most": ([where("cpu", "Lte", "8")], ["/small/a/on-demand"]),
    "a label that is there": (
        [where("family", "Exists")],
        ["/large/a/on-demand", "/large/b/on-demand", "/large/b/spot"],
    ),
    "a label that is not": ([where("family", "DoesNotExist")], ["/small/a/on-demand"]),
    "not a label that is not there": ([where("family", "NotIn", "m")], ["/small/a/on-demand"]),
    "a label of nobody": ([where("example.com/x", "In", "y")], []),
    "a pool where there is none": ([where("karpenter.sh/nodepool", "In", "p")], []),
    "two that cannot both be": ([is_type("large"), is_type("small")], []),
}


@pytest.mark.parametrize(("requirements", "expected"), MATCHES.values(), ids=MATCHES)
def test_which_machines_an_overlay_applies_to(requirements: list[Any], expected: list[str]) -> None:
    found = evaluated(LARGE, SMALL, overlay("o", *requirements, price="7"))
    assert found.findings["o"].applies == expected
    assert [each.name for each in found.machines if each.price == 7] == expected


def test_pools_offer_what_they_want_and_label_it() -> None:
    found = evaluated(
        LARGE,
        SMALL,
        pool("second", where("cpu", "Gte", "16"), where(ZONE, "In", "b")),
        pool("first", is_type("small"), labels={"team": "x"}, weight=5),
        overlay("mine", where("team", "In", "x"), price="7"),
        overlay("by-pool", where("karpenter.sh/nodepool", "In", "second"), capacity={"example.com/f": "1"}),
    )
    assert [each.name for each in found.machines] == [
        "first/small/a/on-demand",  # the heavier pool comes first
        "second/large/b/on-demand",
        "second/large/b/spot",
    ]
    assert found.machines[0].labels["team"] == "x"
    assert found.findings["mine"].applies == ["first/small/a/on-demand"]
    assert found.findings["by-pool"].applies == ["second/large/b/on-demand", "second/large/b/spot"]


def test_a_label_that_other_types_have_is_not_for_a_pool_to_give() -> None:
    found = evaluated(
        LARGE, SMALL, pool("p", where("family", "In", "m"), where("example.com/new", "In", "v"))
    )
    assert {each.type for each in found.machines} == {"large"}
    assert {each.labels["example.com/new"] for each in found.machines} == {"v"}  # nobody else has it


def test_a_pool_whose_labels_contradict_a_type_does_not_offer_it() -> None:
    assert evaluated(SMALL, pool("p", labels={"cpu": "9"})).machines == ()


def test_a_group_is_a_machine_of_its_own() -> None:
    made = group("rack", {ZONE: "a"}, price="2", dynamicResources=gpus(2))
    found = evaluated(
        SMALL, pool("p", is_type("none")), made, overlay("o", where(ZONE, "In", "a"), priceAdjustment="+50%")
    )
    [rack] = found.machines
    assert (rack.name, rack.price, rack.group, rack.pool) == ("rack/rack/a/on-demand", Decimal(3), made, None)
    assert rack.labels["allotment.dev/nodegroup"] == "rack"
    assert list(rack.devices) == [GPU]


# --- prices and capacity ---


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"price": "2.5"}, "2.5"),
        ({"priceAdjustment": "+10%"}, "1.1"),
        ({"priceAdjustment": "-0.1"}, "0.9"),
        ({"priceAdjustment": "-5"}, "0"),  # never less than nothing
        ({"priceAdjustment": "-100%"}, "0"),
        ({}, "1"),
    ],
)
def test_price(change: dict[str, str], expected: str) -> None:
    assert machine(SMALL, overlay("o", **change)).price == Decimal(expected)


def test_the_heavier_overlay_sets_the_price_and_each_resource() -> None:
    made = machine(
        SMALL,
        overlay("light", price="2", capacity={"example.com/f": "1", "example.com/g": "1"}),
        overlay("heavy", weight=5, capacity={"example.com/f": "9"}),
        overlay("heaviest", weight=6, price="3"),
    )
    assert made.price == 3
    assert {name: str(made.allocatable[name]) for name in ("example.com/f", "example.com/g", "cpu")} == {
        "example.com/f": "9",
        "example.com/g": "1",
        "cpu": "8",
    }
    assert made.capacity["example.com/f"] == Quantity.parse("9")


def test_equal_weights_on_a_price_leave_out_the_earlier_name() -> None:
    found = evaluated(
        LARGE,
        overlay("one", where(ZONE, "In", "b"), price="5", capacity={"example.com/f": "1"}),
        overlay("two", where(SORT, "In", "spot"), price="6"),
    )
    assert [str(each.price) for each in found.machines] == ["8", "9", "6"]
    assert "example.com/f" not in found.machines[1].capacity  # not in part either
    assert [str(each) for each in found.findings["one"].conflicts] == [
        "large: price: overlay two has the same weight"
    ]
    assert found.findings["two"].conflicts == []


def test_prices_in_different_places_are_no_conflict() -> None:
    found = evaluated(
        LARGE,
        overlay("one", where(ZONE, "In", "a"), price="5"),
        overlay("two", where(ZONE, "In", "b"), price="6"),
    )
    assert [str(each.price) for each in found.machines] == ["5", "6", "6"]
    assert not any(each.conflicts for each in found.findings.values())


# --- devices ---


def test_the_heavier_overlay_says_all_that_a_driver_publishes() -> None:
    nic = devices(template("nics", NIC, device("nic-0")))
    both = devices(template("gpus", GPU, device("other")), template("nics", NIC, device("nic-1")))
    found = evaluated(
        type_("t", dynamicResources=gpus(1)),
        overlay("light", dynamicResources=nic),
        overlay("heavy", weight=1, dynamicResources=both),
    )
    assert origins(found.machines) == {"/t/a/on-demand": {GPU: "heavy", NIC: "heavy"}}


def test_an_overlay_replaces_the_types_own_devices_by_driver() -> None:
    own = devices(template("gpus", GPU, device("gpu-0")), template("nics", NIC, device("nic-0")))
    found = evaluated(type_("t", dynamicResources=own), overlay("o", dynamicResources=gpus(2)))
    assert origins(found.machines) == {"/t/a/on-demand": {GPU: "o", NIC: ""}}


def test_an_overlay_that_changes_only_the_price_keeps_the_devices() -> None:
    found = evaluated(
        type_("t"), overlay("devices", dynamicResources=gpus(1)), overlay("price", weight=9, price="3")
    )
    assert origins(found.machines) == {"/t/a/on-demand": {GPU: "devices"}}
    assert found.machines[0].price == 3


def test_equal_weights_on_a_driver_leave_it_out_and_tell_both() -> None:
    mine = devices(template("gpus", GPU, device("a")), template("nics", NIC, device("nic-0")))
    found = evaluated(
        LARGE,
        SMALL,
        overlay("one", is_type("large"), weight=3, dynamicResources=mine),
        overlay("two", weight=3, dynamicResources=gpus(1)),
        overlay("light", dynamicResources=gpus(4)),  # does not step in
    )
    assert origins(found.machines) == {
        "/large/a/on-demand": {NIC: "one"},
        "/large/b/on-demand": {NIC: "one"},
        "/large/b/spot": {NIC: "one"},
        "/small/a/on-demand": {GPU: "two"},
    }
    told = {name: conditions(each)[0] for name, each in found.findings.items()}
    assert (told["one"].status, told["one"].reason) == ("False", "Conflict")
    assert told["one"].message == f"large: driver {GPU}: overlay two has the same weight"
    assert told["two"].message == f"large: driver {GPU}: overlay one has the same weight"
    assert (told["light"].status, told["light"].reason) == ("True", "ValidationSucceeded")


def test_of_many_overlays_in_conflict_each_is_told_of_a_few() -> None:
    found = evaluated(SMALL, *(overlay(f"o{number}", dynamicResources=gpus(1)) for number in range(9)))
    for name, each in found.findings.items():
        assert len(each.conflicts) == 3
        assert name not in {conflict.other for conflict in each.conflicts}


def test_a_driver_in_conflict_is_left_out_though_the_type_has_its_own() -> None:
    found = evaluated(
        type_("t", dynamicResources=gpus(1)),
        overlay("one", dynamicResources=gpus(2)),
        overlay("two", dynamicResources=gpus(4)),
    )
    assert origins(found.machines) == {"/t/a/on-demand": {}}


def test_a_label_of_the_host_that_is_not_certain_leaves_the_driver_out() -> None:
    zonal = devices(
        template("t", GPU, device("d"), nodeSelector={"nodeSelectorTerms": [{"matchLabelKeys": ["rack"]}]})
    )
    found = evaluated(
        type_("known", labels={"rack": "r1"}),
        type_("unsure", requirements=[where("rack", "In", "r1", "r2")]),
        type_("own", dynamicResources=zonal),
        overlay("o", is_type("known", "unsure"), dynamicResources=zonal),
    )
    assert origins(found.machines) == {
        "/known/a/on-demand": {GPU: "o"},
        "/own/a/on-demand": {},
        "/unsure/a/on-demand": {},
    }
    condition = conditions(found.findings["o"])[0]
    assert (condition.status, condition.reason) == ("False", "UnknownLabel")
    assert "unsure: driver gpu.example.com: matchLabelKeys names rack" in condition.message
    assert [note.partition(":")[0] for note in found.notes] == ["own"]


def test_an_overlay_that_is_not_valid_does_not_count_and_says_why() -> None:
    found = evaluated(SMALL, overlay("o", weight=0, price="5"))
    assert found.machines[0].price == 1
    valid, ready = conditions(found.findings["o"])
    assert (valid.status, valid.reason) == ("False", "RuntimeValidation")
    assert valid.message.startswith("spec.weight: must be 1 to 10000")
    assert (ready.type, ready.status) == ("Ready", "False")


def test_a_long_list_of_conflicts_is_counted() -> None:
    types = [type_(f"t{number:02}") for number in range(15)]
    found = evaluated(*types, overlay("one", price="1"), overlay("two", price="2"))
    assert conditions(found.findings["one"])[0].message.endswith("; and 5 more")


def test_overlays_of_a_cluster_take_the_place_of_the_files() -> None:
    found = evaluate(catalogue(SMALL, overlay("o", price="5")), [overlay("o", price="6")])
    assert found.machines[0].price == 6


def _summary(found: OverlaidCatalogue) -> Any:
    return (
        [(each.name, each.price, dict(each.capacity)) for each in found.machines],
        origins(found.machines),
        {name: (each.applies, each.conflicts) for name, each in found.findings.items()},
    )


@st.composite
def _overlays(draw: st.DrawFn) -> list[NodeOverlay]:
    made = []
    for number in range(draw(st.integers(2, 5))):
        requirements = draw(
            st.lists(
                st.sampled_from([is_type("large"), where(ZONE, "In", "b"), where("cpu", "Lt", "9")]),
                max_size=1,
            )
        )
        said: dict[str, Any] = draw(
            st.sampled_from(
                [{"price": "2"}, {"capacity": {"example.com/f": "1"}}, {"dynamicResources": gpus(1)}]
            )
        )
        weight: dict[str, int] = draw(st.sampled_from([{}, {"weight": 1}, {"weight": 2}]))
        made.append(overlay(f"o{number}", *requirements, **said, **weight))
    return made


@given(_overlays(), st.randoms(use_true_random=False))
def test_the_order_of_overlays_does_not_matter(made: list[NodeOverlay], order: random.Random) -> None:
    shuffled = list(made)
    order.shuffle(shuffled)
    assert _summary(evaluate(catalogue(LARGE, SMALL), made)) == _summary(
        evaluate(catalogue(LARGE, SMALL), shuffled)
    )
