"""Faults of other schedulers that hand out devices, each with a test that we do not have it."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.api.batch import GangSchedulingPolicy, PodGroup, PodGroupSchedulingPolicy, PodGroupSpec
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct, ObjectMeta
from allotment.scheduler.instruction import Bind, CreateClaim, DeletePod
from tests.allocator import build
from tests.builders import typed
from tests.builders.typed import claim, node, slice_
from tests.scheduler.binding.test_pod_binding import GPU, gang, hear, place, step
from tests.scheduler.world import Fate, Seat, World, settle


def cluster(*objects: ApiStruct, **devices: int) -> Seat:
    """Nodes by name, with so many devices each."""
    world = World(build.class_())
    world.templates = {"one": claim("t").spec}
    for name, count in devices.items():
        world.put(node(name), slice_(name, *[f"d{number}" for number in range(count)]))
    world.put(*objects)
    return Seat(world)


def device_pod(name: str, **more: Any) -> Pod:
    return typed.pod(name, **{"templates": {"d": "one"}, **more})


def test_a_pod_with_claims_but_no_cpu_or_memory_is_not_counted_as_ready_unplaced() -> None:
    """It asks for nothing but a device: of a gang of two, where only one device is, none is bound."""
    seat = cluster(gang(2), device_pod("a", group="g"), device_pod("b", group="g"), n=1)

    settle(seat.world)

    assert not any(each.spec.node_name for each in seat.world.pods.values())
    assert not any(each.status.allocation for each in seat.world.claims.values())


def test_nobody_is_evicted_who_frees_no_devices() -> None:
    seat = cluster(device_pod("idle", templates={}, cpu=1), device_pod("busy", cpu=1, priority=1), n=1)
    settle(seat.world)

    seat.world.put(device_pod("new", cpu=1, priority=5))
    settle(seat.world)

    assert [each.name for each in seat.said if isinstance(each, DeletePod)] == ["busy"]
    assert seat.world.pod("new").spec.node_name == "n"


def test_pods_with_extended_resources_do_not_skip_what_comes_before_the_binding() -> None:
    seat = place(device_pod("p", templates={}, more={GPU: 1}))
    settle(seat.world)

    kinds = [type(each) for each in seat.said]
    assert kinds.index(CreateClaim) < kinds.index(Bind)
    (made,) = seat.world.claims.values()
    assert [user.name for user in made.status.reserved_for] == ["p"]


@pytest.mark.parametrize("failing", [0, 1], ids=["the finalizer", "the status"])
def test_what_comes_before_the_binding_is_rolled_back_when_it_fails(failing: int) -> None:
    """Of two claims one fails: the other, which was written, is given back; and other pods go on."""
    seat = place(device_pod("p", templates={}, claims=["a", "b"]), claim("a"), claim("b"))
    seat.world.put(device_pod("other", templates={}))
    hear(seat)
    seat.turn(2)
    (bind,) = [number for number, each in enumerate(seat.writes) if isinstance(each, Bind)]
    step(seat, number=bind)
    for _ in range(2):
        step(seat)  # a: its finalizer, or that of b
    for _ in range(failing):
        step(seat)

    step(seat, Fate.REFUSED)
    while len(seat.core.bindings):
        step(seat)

    assert not any(each.status.allocation or each.status.reserved_for for each in seat.world.claims.values())
    assert seat.world.pod("other").spec.node_name == "n"


def test_no_device_is_leaked_when_a_later_step_fails() -> None:
    """The claim is written, and then the binding is refused."""
    seat = cluster(device_pod("p"), n=1)
    seat.catch_up()
    seat.turn()
    step(seat)
    step(seat)

    step(seat, Fate.REFUSED)
    while len(seat.core.bindings):
        step(seat)

    assert not any(each.status.allocation for each in seat.world.claims.values())
    assert len(seat.core.cluster.fleet.ledger) == 0


def test_a_shared_claim_s_node_holds_for_the_second_pod_too() -> None:
    """Also within one gang, where the claim is only decided yet: with more room elsewhere, the second goes to its node."""
    shared = {"templates": {}, "claims": ["shared"]}
    group = PodGroup(
        metadata=ObjectMeta(name="g", namespace="default"),
        spec=PodGroupSpec(scheduling_policy=PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=2))),
    )
    for members in ({}, {"group": "g"}):
        seat = cluster(
            group,
            claim("shared"),
            device_pod("a", **shared, **members),
            device_pod("b", cpu=4, **shared, **members),
            m=1,
            n=0,
            o=1,
        )

        settle(seat.world)

        nodes = {each.spec.node_name for each in seat.world.pods.values()}
        allocation = seat.world.claim("shared").status.allocation
        assert allocation is not None
        assert nodes == {result.pool for result in allocation.devices.results}
