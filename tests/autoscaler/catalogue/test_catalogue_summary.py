"""What there is to choose from, in as few lines as tell it."""

from __future__ import annotations

from decimal import Decimal

from allotment.autoscaler.catalogue.catalogue_summary import assortment, money, says
from tests.autoscaler.build import (
    GPU,
    NIC,
    device,
    devices,
    evaluated,
    gpus,
    is_type,
    overlay,
    pool,
    template,
    type_,
    where,
)

LARGE = type_("large", {"a": "8", "b": "9", "b+": "3"})
LISTED = (Decimal(3), Decimal(9))
SPOT = where("karpenter.sh/capacity-type", "In", "spot")


def test_offerings_that_differ_only_in_their_place_are_one_line() -> None:
    [line] = assortment(evaluated(LARGE, pool("p")))
    assert (line.zones, line.capacity_types) == (["a", "b"], ["on-demand", "spot"])
    assert (line.prices, line.listed, line.sold_out) == (LISTED, LISTED, False)
    assert len(assortment(evaluated(LARGE, pool("p")), apart=True)) == 3


def test_what_an_overlay_changes_of_some_is_a_line_of_its_own() -> None:
    usual, spot = assortment(evaluated(LARGE, overlay("fuse", SPOT, capacity={"example.com/fuse": "1"})))
    assert (usual.overlays, spot.overlays) == ((), ("fuse",))
    assert [each.offering.capacity_type for each in spot.machines] == ["spot"]


def test_prices_are_those_that_overlays_make_and_those_before() -> None:
    [line] = assortment(evaluated(LARGE, overlay("half", priceAdjustment="-50%")))
    assert (line.prices, line.listed) == ((Decimal("1.5"), Decimal("4.5")), LISTED)


def test_devices_are_counted_with_who_says_so() -> None:
    nics = devices(template("nics", NIC, device("nic-0"), device("nic-1")))
    own = type_("large", {"a": "1"}, dynamicResources=gpus(4))
    [line] = assortment(evaluated(own, overlay("nics", is_type("large"), dynamicResources=nics)))
    assert list(line.devices()) == [(GPU, 4, ""), (NIC, 2, "nics")]


def test_a_type_that_is_nowhere_to_be_had_is_sold_out() -> None:
    offering = {"zone": "a", "capacityType": "spot", "price": "1", "available": False}
    [line] = assortment(evaluated(type_("large", offerings=[offering])))
    assert line.sold_out


def test_an_overlay_in_a_few_words() -> None:
    words = overlay(
        "o", price="1.50", capacity={"example.com/b": "1", "example.com/a": "2"}, dynamicResources=gpus(1)
    )
    assert list(says(words)) == ["price 1.50", "example.com/a: 2", "example.com/b: 1", f"{GPU}: 1 device"]
    assert list(says(overlay("adjusted", priceAdjustment="+10%"))) == ["price +10%"]
    assert list(says(overlay("nothing"))) == []


def test_prices_are_written_without_noughts_at_the_end() -> None:
    assert [money(Decimal(each)) for each in ("1.50", "10", "0.0", "1E+2")] == ["1.5", "10", "0", "100"]
