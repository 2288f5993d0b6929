"""A device that is in use in part is neither available nor used up: how many there are, and what is left of them."""

from __future__ import annotations

from allotment.api.quantity import Quantity
from allotment.usage.device import DeviceUsage
from allotment.usage.partly_free import PartlyFree, partly_free
from allotment.usage.summary import DeviceState, count

PARTLY, WHOLE, FREE = DeviceState.PARTIALLY_ALLOCATED, DeviceState.ALLOCATED, DeviceState.AVAILABLE


def card(state: DeviceState, left: str | None = None, of: str = "100G") -> DeviceUsage:
    total = {"bandwidth": Quantity.parse(of)} if left is not None else {}
    return DeviceUsage(
        name="eth",
        state=state,
        total_capacity=total,
        available_capacity={"bandwidth": Quantity.parse(left)} if left is not None else {},
    )


def test_a_card_with_60_of_100_left() -> None:
    cards = [card(PARTLY, "60G")]
    assert str(partly_free(cards)) == "1 (bandwidth 60G of 100G left)"
    assert count(each.state for each in cards).available == 0


def test_only_devices_in_use_in_part_count() -> None:
    cards = [card(PARTLY, "60G"), card(PARTLY, "15G", of="50G"), card(FREE, "100G"), card(WHOLE, "0")]
    assert str(partly_free(cards)) == "2 (bandwidth 75G of 150G left)"


def test_devices_without_capacities_and_none_at_all() -> None:
    assert str(partly_free([card(PARTLY)])) == "1"
    assert partly_free([]) == PartlyFree()
