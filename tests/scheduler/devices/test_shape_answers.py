"""What is said to be impossible on a node for good stays so, whatever is given back there."""

from __future__ import annotations

import random

import pytest

from allotment.allocator.fleet import NodePlace
from allotment.allocator.strategy import BEST_FIT
from allotment.scheduler.devices.shape_answers import ShapeAnswers
from allotment.scheduler.framework import Status
from tests.allocator.fleet_model import BUDGET, Rig


def lasting(rig: Rig) -> dict[tuple[int, NodePlace], Status]:
    """The refusals of all demands on all nodes that are said to be for good."""
    found: dict[tuple[int, NodePlace], Status] = {}
    for number, demand in enumerate(rig.demands):
        wish = ShapeAnswers(rig.fleet, demand, BEST_FIT, BUDGET, "devices")
        for place in rig.fleet.places.values():
            if wish.draft(place) is None and (status := wish.refusal(place)).lasting:
                found[number, place] = status
    return found


@pytest.mark.parametrize("batch", range(4))
def test_a_lasting_refusal_is_the_same_on_an_empty_node(batch: int) -> None:
    seen = 0
    for seed in range(batch * 25, (batch + 1) * 25):
        rig = Rig(random.Random(seed))
        for _ in range(12):
            rig.change()
        refused = lasting(rig)
        for claim in sorted(rig.fleet.ledger.claims()):
            rig.fleet.ledger.release(claim)
        empty = lasting(rig)
        assert refused.items() <= empty.items(), f"seed {seed}: {rig.story}"
        seen += len(refused)
    assert seen > 25, "hardly any refusal was lasting"
