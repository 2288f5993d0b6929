"""Two claims on one device, and whoever wrote the second is gone: it is given back, unless somebody may be using it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.api.batch import PodGroup
from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim, ResourceClaimConsumerReference
from tests.allocator import build
from tests.builders.typed import claim, node, pod, slice_
from tests.scheduler.binding.test_pod_binding import gang
from tests.scheduler.devices.test_claims_in_flight import D0
from tests.scheduler.world import AHEAD, Seat, World, settle


def held(name: str, user: ResourceClaimConsumerReference | None) -> ResourceClaim:
    """A claim that has device d0 of node n."""
    made = claim(name)
    users = (user,) if user is not None else ()
    return replace(
        made,
        metadata=replace(made.metadata, annotations={} if users else {AHEAD: "1"}),
        status=replace(made.status, allocation=D0, reserved_for=users),
    )


def unchecked(*pods: Pod, devices: int = 1) -> World:
    """A server that does not check, where d0 is in claim ``first`` already."""
    slices = slice_("n", *[f"d{number}" for number in range(devices)])
    return World(build.class_(), node("n"), slices, held("first", None), gang(1), *pods, admits=False)


def reserve(world: World, resource: str = "pods") -> None:
    """Claim ``second`` is promised d0 as well, for pod p or its group."""
    meta = world.pod("p").metadata if resource == "pods" else world.of(PodGroup)["default/g"].metadata
    world.put(held("second", ResourceClaimConsumerReference(resource=resource, name=meta.name, uid=meta.uid)))


def promised(world: World) -> list[str]:
    return [name for name in ("first", "second") if world.claim(name).status.allocation is not None]


def test_a_claim_that_a_pod_cannot_use_is_given_back_although_it_fits_nowhere() -> None:
    world = unchecked(pod("p", cpu=100, claims=["second"]))
    reserve(world)

    Seat(world)
    settle(world)

    assert promised(world) == ["first"]


def test_and_the_pod_gets_another_device_if_there_is_one() -> None:
    world = unchecked(pod("p", claims=["second"]), devices=2)
    reserve(world)

    Seat(world)
    settle(world)

    assert world.pod("p").spec.node_name == "n"
    allocation = world.claim("second").status.allocation
    assert allocation is not None
    assert [each.device for each in allocation.devices.results] == ["d1"]


def test_a_claim_of_a_group_of_which_nobody_has_a_place_is_given_back() -> None:
    world = unchecked(pod("p", cpu=100, claims=["second"], group="g"))
    reserve(world, "podgroups")

    Seat(world)
    settle(world)

    assert promised(world) == ["first"]


KEPT = {
    "the pod is bound": pod("p", node="n", claims=["second"]),
    "another scheduler places the pod": pod("p", scheduler="other", claims=["second"]),
    "the pod is not known": None,
}


@pytest.mark.parametrize("of", KEPT.values(), ids=KEPT)
def test_a_claim_is_kept_that_is_not_ours_to_take_back(of: Pod | None) -> None:
    world = unchecked(*([of] if of is not None else []))
    if of is not None:
        reserve(world)
    else:
        world.put(held("second", ResourceClaimConsumerReference(resource="pods", name="p", uid="unknown")))
    seat = Seat(world)

    for _ in range(3):
        seat.catch_up()
        seat.turn()

    assert promised(world) == ["first", "second"]
    assert list(seat.core.cluster.claims.disputed) == ["default/second"]


def test_it_is_asked_for_once() -> None:
    world = unchecked(pod("p", cpu=100, claims=["second"]))
    reserve(world)
    seat = Seat(world)

    for _ in range(3):
        seat.turn()

    assert len([write for write in seat.writes if getattr(write, "name", "") == "second"]) == 1
