"""Devices through whole cycles of the core, from the pod to its binding: what is written, in which order, and what a crash
between any two writes leaves behind."""

from __future__ import annotations

import pytest

from allotment.api.core import Pod
from allotment.api.meta import ApiStruct
from allotment.scheduler.event import Changed
from tests.allocator import build
from tests.allocator.trees import card, parameters, request, resource_class, slice_of
from tests.builders.typed import claim, node, pod, slice_
from tests.scheduler.devices.test_extended_resources import GPU, gpu_class
from tests.scheduler.devices.test_node_allocatable import bearing, mapping
from tests.scheduler.devices.test_semantic_fleet import BIG, SMALL
from tests.scheduler.devices.test_semantic_fleet import semantic_claim as carried
from tests.scheduler.plugins.device_world import fleet
from tests.scheduler.world import KINDS, Seat, World, settle


def message(of: Pod) -> str:
    return "".join(each.message or "" for each in of.status.conditions)


def where(world: World) -> dict[str, str | None]:
    return {each.metadata.name: each.spec.node_name for each in world.pods.values()}


def given(world: World) -> dict[str, list[str]]:
    """The devices of each claim that has some."""
    return {
        each.metadata.name: [result.device for result in each.status.allocation.devices.results]
        for each in world.claims.values()
        if each.status.allocation is not None
    }


def test_extended_resources_fill_nodes_one_after_another() -> None:
    objects: list[ApiStruct] = [gpu_class(), *fleet("n1", "n2")]
    world = World(*objects, *[pod(f"p{number}", more={GPU: 1}) for number in range(5)])
    Seat(world)
    settle(world)
    assert where(world) == {"p0": "n1", "p1": "n1", "p2": "n2", "p3": "n2", "p4": None}
    assert message(world.pod("p4")) == "0/2 nodes: 2 have every gpu in use"
    for each in world.pods.values():
        told = each.status.extended_resource_claim_status
        assert (told is not None) == (each.metadata.name != "p4")
        if told is not None:
            (user,) = world.claim(told.resource_claim_name).status.reserved_for
            assert user.uid == each.metadata.uid
    assert len(world.claims) == 4


def test_pods_of_one_shape_are_each_told_of_claims_by_their_own_names_for_them() -> None:
    fails = build.request("r", 'device.attributes["gpu.example.com"].model == "a100"')
    pods = [pod("p0", claims={"big": "a"}), pod("p1", claims={"small": "b"})]
    world = World(build.class_(), *fleet("n1", "n2"), claim("a", fails), claim("b", fails), *pods)
    Seat(world)
    settle(world)
    for name, entry in (("p0", "big"), ("p1", "small")):
        assert message(world.pod(name)).startswith(
            f"0/2 nodes: 2 cannot judge the pod's claims: claim {entry}: selector #0: CEL runtime error"
        )


@pytest.mark.parametrize("writes", range(1, 6))
def test_a_crash_between_two_writes_leaves_one_claim_and_one_binding(writes: int) -> None:
    world = World(gpu_class(), *fleet("n1"), pod("p", more={GPU: 1}))
    seat = Seat(world)
    while writes:
        if seat.writes:
            seat.perform(0)
            writes -= 1
        elif seat.replies:
            seat.reply(0)
        elif not any(_delivered(seat, kind) for kind in KINDS):
            seat.turn()
    seat.crash()
    settle(world)
    assert where(world) == {"p": "n1"}
    told = world.pod("p").status.extended_resource_claim_status
    assert told is not None
    assert given(world) == {told.resource_claim_name: ["d0"]}


def _delivered(seat: Seat, kind: type[ApiStruct]) -> bool:
    if not seat.news[kind]:
        return False
    seat.deliver(kind)
    return True


def test_cpus_that_devices_take_are_gone_for_others_until_the_pod_goes() -> None:
    cores = [bearing(f"d{number}", cpu=mapping(deviceMultiplier="2")) for number in range(2)]
    world = World(build.class_(), node("n1", cpu=4), slice_("n1", *cores), claim("a"), claim("b"))
    world.put(pod("first", cpu=1, claims=["a"]))
    Seat(world)
    settle(world)
    world.put(pod("second", cpu=1, claims=["b"]))
    settle(world)
    assert where(world) == {"first": "n1", "second": None}
    assert "too little cpu for the pod and what its devices take" in message(world.pod("second"))
    world.delete(world.pod("first"))
    settle(world)
    assert where(world) == {"second": "n1"}


def test_seed_0_claims_split_cards_and_say_why_not() -> None:
    world = World(node("n1"), node("n2"))
    seat = Seat(world)
    for each in (
        resource_class(),
        parameters("p", request(BIG)),
        parameters("s", request(SMALL)),
        slice_of(card("a"), on="n1", name="s1"),
        slice_of(card("a"), on="n2", name="s2"),
    ):
        seat.tell(Changed(None, each))
    for number, wish in enumerate(["p", "s", "s", "p"]):
        world.put(carried(f"c{number}", wish))
        world.put(pod(f"p{number}", namespace="ns", claims=[f"c{number}"]))
        settle(world)
    assert where(world) == {"p0": "n1", "p1": "n2", "p2": "n2", "p3": None}
    last = next(each for each in world.pods.values() if each.metadata.name == "p3")
    assert (
        message(last) == "0/2 nodes: 1 has every cards split another way; 1 has every matching cards in use"
    )
    world.delete(next(each for each in world.pods.values() if each.metadata.name == "p0"))
    settle(world)
    assert where(world)["p3"] == "n1"
