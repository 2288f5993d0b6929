"""The picture that people with the same rights share."""

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
from allotment.dashboard.fleet import HOLDERS, Fleet
from allotment.dashboard.rights import EVERYTHING, FleetRights, Namespaces
from allotment.usage.summary import count
from tests.allocator.build import DRIVER, device, slice_
from tests.usage.build import holder, part, rule

POOL = PoolID(DRIVER, "pool")
VIEWER = FleetRights(slices=True, node_slices=True, rules=True, pools=True)


def in_some(*namespaces: str, **rights: bool) -> FleetRights:
    named = {"slices": True, "rules": True, "pools": True, "node_slices": True, **rights}
    return FleetRights(**named, claims=Namespaces(names=frozenset(namespaces)))


def fleet_of(rights: FleetRights, *objects: ApiStruct) -> Fleet:
    fleet = Fleet(rights)
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


def told(fleet: Fleet) -> list[Any]:
    return [json.loads(bytes(each)) for each in asyncio.run(fleet.all_told())]


MINE, THEIRS = holder("mine", "a", namespace="team-a"), holder("theirs", "b", namespace="team-b")
WORLD = (gpus("a", "b", "c"), MINE, THEIRS, counted(3, 2))

# rights: what is told of each device (name, state, node, claims), and how many devices hidden claims hold
SIGHT: dict[str, tuple[FleetRights, list[tuple[str, int, list[str]]], int | None]] = {
    "everything": (EVERYTHING, [("a", 1, ["team-a/mine"]), ("b", 1, ["team-b/theirs"]), ("c", 0, [])], 0),
    "claims of one namespace": (
        in_some("team-a"),
        [("a", 1, ["team-a/mine"]), ("b", 4, []), ("c", 4, [])],
        1,
    ),
    "no claims": (VIEWER, [("a", 4, []), ("b", 4, []), ("c", 4, [])], 2),
    "no claims and no counts": (in_some(pools=False), [("a", 4, []), ("b", 4, []), ("c", 4, [])], None),
    "counts alone": (FleetRights(pools=True), [], 2),
    # who sees claims but no slices must not learn of devices through them
    "claims and counts": (in_some("team-a", slices=False), [], 2),
}


@pytest.mark.parametrize("case", SIGHT)
def test_everybody_is_told_what_they_may_know(case: str) -> None:
    rights, devices, hidden = SIGHT[case]
    [pool] = told(fleet_of(rights, *WORLD))
    assert [(name, state, (rest[1:2] or [[]])[0]) for name, state, *rest in pool["devices"]] == devices
    assert pool["hidden"] == hidden
    assert pool["counts"]["total"] == 3
    assert ("theirs" in json.dumps(pool)) == (rights == EVERYTHING)


def test_without_slices_and_counts_there_is_nothing() -> None:
    assert told(fleet_of(FleetRights(claims=Namespaces(everywhere=True)), *WORLD)) == []


def test_a_device_is_told_with_its_words_and_its_own_node_only_if_the_pool_has_none() -> None:
    fleet = fleet_of(EVERYTHING, gpus("a"), rule("r", pool="pool"))
    [pool] = told(fleet)
    [[name, state, node, claims, message]] = pool["devices"]
    assert (name, state, node, claims) == ("a", 3, "", [])
    assert "taint" in message


def test_of_many_claims_on_a_device_some_are_named_and_the_rest_counted() -> None:
    admins = [holder(f"c{n:02}", part("a", admin=True)) for n in range(HOLDERS + 5)]
    [pool] = told(fleet_of(EVERYTHING, gpus("a"), *admins))
    claims = pool["devices"][0][3]
    assert len(claims) == HOLDERS + 1
    assert claims[0] == "ns/c00 (admin access)"
    assert claims[-1] == "5 more"


def test_viewers_hear_of_the_pools_that_a_change_touches_and_of_no_others() -> None:
    fleet = fleet_of(in_some("team-a"), gpus("a", "b"))
    heard: list[PoolID] = []
    fleet.viewers.add(heard.append)
    fleet.change(None, THEIRS)
    assert heard == []
    fleet.change(None, MINE)
    assert heard == [POOL]
    fleet.change(gpus("a", "b"), None)
    assert heard == [POOL, POOL]
    assert fleet.told(POOL) is None


Step = tuple[str, str | None]
STEPS = st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from([None, "a", "b", "c"])), max_size=20)


@given(STEPS, st.sampled_from([EVERYTHING, in_some("ns"), VIEWER]))
def test_kept_up_is_as_made_anew_and_the_count_is_of_all_pools(
    steps: list[Step], rights: FleetRights
) -> None:
    fleet, claims = fleet_of(rights, gpus("a", "b", "c")), dict[str, ResourceClaim]()
    for name, held in steps:
        before = claims.pop(name, None)
        if held is not None:
            claims[name] = holder(name, held)
        fleet.change(before, claims.get(name))
        told(fleet)  # what was told once must not stay
    assert told(fleet) == told(fleet_of(rights, gpus("a", "b", "c"), *claims.values()))
    pool = fleet.pool(POOL)
    assert pool is not None
    assert asyncio.run(fleet.count()) == count([each.state for each in pool.devices])
    fleet.change(gpus("a", "b", "c"), None)
    assert asyncio.run(fleet.count()).total == 0
