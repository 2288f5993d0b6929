"""All devices as the page reads them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.allocator.pool import PoolID
from allotment.api.meta import ApiStruct, ObjectMeta
from allotment.api.pools import ResourcePool, ResourcePoolSpec, ResourcePoolStatus, ResourcePoolSummary
from allotment.api.resource import ResourceClaim, ResourceSlice
from allotment.dashboard.fleet import HOLDERS_NAMED, FleetPicture
from tests.allocator.build import DRIVER, device, slice_
from tests.usage.build import holder, part, rule

POOL = PoolID(DRIVER, "pool")


def fleet_of(
    *objects: ApiStruct, slices: bool = True, all_claims: bool = True, heard: list[PoolID] | None = None
) -> FleetPicture:
    fleet = FleetPicture(
        slices=slices, all_claims=all_claims, touched=(heard if heard is not None else []).append
    )
    for obj in objects:
        fleet.change(None, obj)
    return fleet


def gpus(*names: str) -> ResourceSlice:
    return slice_(*[device(name) for name in names])


def counted(total: int, allocated: int) -> ResourcePool:
    summary = ResourcePoolSummary(
        total_devices=total, allocated_devices=allocated, available_devices=total - allocated
    )
    return ResourcePool(
        metadata=ObjectMeta(name="pool"),
        spec=ResourcePoolSpec(driver=DRIVER, pool_name="pool"),
        status=ResourcePoolStatus(summary=summary),
    )


def told(fleet: FleetPicture) -> list[Any]:
    return [json.loads(bytes(each)) for each in asyncio.run(fleet.all_told())]


MINE, THEIRS = holder("mine", "a", namespace="team-a"), holder("theirs", "b", namespace="team-b")
GPUS, COUNTS = gpus("a", "b", "c"), counted(3, 2)

# the fleet that a person's objects make: what is told of each device (name, state, claims), and how many hidden claims hold
SIGHT: dict[str, tuple[FleetPicture, list[tuple[str, int, list[str]]], int | None]] = {
    "everything": (
        fleet_of(GPUS, MINE, THEIRS),
        [("a", 1, ["team-a/mine"]), ("b", 1, ["team-b/theirs"]), ("c", 0, [])],
        0,
    ),
    "claims of one namespace": (
        fleet_of(GPUS, MINE, COUNTS, all_claims=False),
        [("a", 1, ["team-a/mine"]), ("b", 4, []), ("c", 4, [])],
        1,
    ),
    "no claims": (
        fleet_of(GPUS, COUNTS, all_claims=False),
        [("a", 4, []), ("b", 4, []), ("c", 4, [])],
        2,
    ),
    "no claims and no counts": (
        fleet_of(GPUS, all_claims=False),
        [("a", 4, []), ("b", 4, []), ("c", 4, [])],
        None,
    ),
    "counts alone": (fleet_of(COUNTS, slices=False, all_claims=False), [], 2),
}


@pytest.mark.parametrize("case", SIGHT)
def test_everybody_is_told_what_follows_from_what_they_see(case: str) -> None:
    fleet, devices, hidden = SIGHT[case]
    [pool] = told(fleet)
    assert [(name, state, (rest[1:2] or [[]])[0]) for name, state, *rest in pool["devices"]] == devices
    assert pool["hidden"] == hidden
    assert pool["counts"]["total"] == 3


def test_without_slices_and_counts_there_is_nothing() -> None:
    assert told(fleet_of(slices=False)) == []


def test_a_device_is_told_with_its_words_and_its_own_node_only_if_the_pool_has_none() -> None:
    [pool] = told(fleet_of(gpus("a"), rule("r", pool="pool")))
    [[name, state, node, claims, message]] = pool["devices"]
    assert (name, state, node, claims) == ("a", 3, "", [])
    assert "taint" in message


def test_of_many_claims_on_a_device_some_are_named_and_the_rest_counted() -> None:
    admins = [holder(f"c{n:02}", part("a", admin=True)) for n in range(HOLDERS_NAMED + 5)]
    [pool] = told(fleet_of(gpus("a"), *admins))
    claims = pool["devices"][0][3]
    assert len(claims) == HOLDERS_NAMED + 1
    assert claims[0] == "ns/c00 (admin access)"
    assert claims[-1] == "5 more"


def test_pools_that_a_change_touches_are_named_and_no_others() -> None:
    heard: list[PoolID] = []
    fleet = fleet_of(gpus("a", "b"), heard=heard)
    heard.clear()
    fleet.change(None, holder("asks", namespace="team-a"))
    assert heard == []
    fleet.change(None, MINE)
    assert heard == [POOL]
    fleet.change(gpus("a", "b"), None)
    assert heard == [POOL, POOL]
    assert fleet.told(POOL) is None


def test_counts_that_change_or_go_are_told_again() -> None:
    fleet = fleet_of(COUNTS, slices=False)
    assert told(fleet)[0]["counts"]["allocated"] == 2
    fleet.change(COUNTS, counted(3, 1))
    assert told(fleet)[0]["counts"]["allocated"] == 1
    fleet.change(counted(3, 1), None)
    assert told(fleet) == []


Step = tuple[str, str | None]
STEPS = st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from([None, "a", "b", "c"])), max_size=20)


@given(STEPS, st.booleans())
def test_kept_up_is_as_made_anew(steps: list[Step], all_claims: bool) -> None:
    fleet, claims = fleet_of(GPUS, all_claims=all_claims), dict[str, ResourceClaim]()
    for name, held in steps:
        before = claims.pop(name, None)
        if held is not None:
            claims[name] = holder(name, held)
        if before is not None or held is not None:
            fleet.change(before, claims.get(name))
        told(fleet)  # what was told once must not stay
    assert told(fleet) == told(fleet_of(GPUS, *claims.values(), all_claims=all_claims))
