"""A claim is removed while a pod runs with its devices: nobody else gets them, the pod is told, a stand-in has them, and the pod's end gives
them back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.api.claim_marks import FINALIZER, STANDS_IN_FOR
from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus
from allotment.scheduler.devices.removed_claims import WARN_AFTER
from allotment.scheduler.event import Tick
from allotment.scheduler.instruction import CreateClaim, Tell
from tests.allocator import build
from tests.allocator.trees import card, parameters, request, resource_class, slice_of
from tests.builders.typed import claim, node, pod, slice_
from tests.scheduler.binding.test_pod_binding import hear
from tests.scheduler.devices import test_semantic_fleet as semantic
from tests.scheduler.world import Fate, Seat, World, settle


def running() -> tuple[World, Seat]:
    """Pod ``runs`` has the only device there is, with claim ``c``."""
    world = World(
        build.class_(), node("n"), slice_("n", "d0"), claim("c"), claim("d"), pod("runs", claims=["c"])
    )
    seat = Seat(world)
    settle(world)
    assert world.pod("runs").spec.node_name == "n"
    return world, seat


def placed(world: World, name: str) -> bool:
    return bool(world.pod(name).spec.node_name)


def later(seat: Seat, seconds: float) -> None:
    seat.world.now += seconds
    seat.tell(Tick(seat.world.now))


def told(seat: Seat) -> list[str]:
    return [each.message for each in seat.said if isinstance(each, Tell) and each.reason == "ClaimRemoved"]


def lose(world: World, how: str) -> None:
    """Somebody strips the finalizer and deletes the claim, of whose name its controller may make another; or clears its status."""
    if how == "deallocated":
        world.put(replace(world.claim("c"), status=ResourceClaimStatus()))
        return
    world.remove(world.claim("c"))
    if how == "made anew":
        world.put(replace(claim("c"), metadata=replace(claim("c").metadata, uid="another")))


@pytest.mark.parametrize("how", ["removed", "made anew", "deallocated"])
def test_its_device_is_given_to_nobody_while_the_pod_runs(how: str) -> None:
    world, seat = running()
    lose(world, how)
    settle(world)
    world.put(pod("wants", claims=["d"]))
    settle(world)
    assert not placed(world, "wants")
    seat.core.validate()

    world.delete(world.pod("runs"))
    settle(world)
    assert placed(world, "wants")
    seat.core.validate()


@pytest.mark.parametrize("how", ["removed", "deallocated"])
def test_the_pod_is_told_once_and_only_if_it_lasts(how: str) -> None:
    world, seat = running()
    lose(world, how)
    hear(seat)
    assert told(seat) == []
    assert (seat.core.next_time() or 0) <= seat.world.now + WARN_AFTER
    later(seat, WARN_AFTER + 1)
    later(seat, WARN_AFTER + 1)
    assert told(seat) == [
        f"resource claim default/c was {how} while this pod runs with its devices; "
        "they stay held until the pod ends: delete it to give them back"
    ]


@pytest.mark.parametrize("how", ["removed", "deallocated"])
def test_the_news_of_the_pods_end_may_come_after_that_of_its_claim(how: str) -> None:
    world, seat = running()
    lose(world, how)
    world.delete(world.pod("runs"))
    settle(world)
    later(seat, WARN_AFTER + 1)
    assert told(seat) == []
    world.put(pod("wants", claims=["d"]))
    settle(world)
    assert placed(world, "wants")


def test_a_pod_that_only_names_a_claim_keeps_nothing_from_others() -> None:
    """A tenant says that it runs with a claim that was reserved for somebody else."""
    world, seat = running()
    world.put(replace(pod("liar", claims=["c"], node="n")))
    settle(world)
    world.delete(world.pod("runs"))
    there: ResourceClaim | None = world.of(ResourceClaim).get("default/c")
    if there is not None:
        world.remove(there)
    settle(world)
    world.put(pod("wants", claims=["d"]))
    settle(world)
    assert placed(world, "wants")
    assert isinstance(world.pod("liar"), Pod)
    seat.core.validate()


def test_a_pod_that_is_just_being_bound_runs_with_the_device_too() -> None:
    """The claim goes before the scheduler hears that the pod is bound."""
    world = World(
        build.class_(), node("n"), slice_("n", "d0"), claim("c"), claim("d"), pod("runs", claims=["c"])
    )
    seat = Seat(world)
    while not world.pod("runs").spec.node_name:
        seat.turn()
        if seat.writes:
            seat.perform()
        while seat.replies:
            seat.reply()
        if not world.pod("runs").spec.node_name:
            hear(seat)
    world.put(pod("wants", claims=["d"]))
    world.remove(world.claim("c"))
    while seat.news[ResourceClaim]:
        seat.deliver(ResourceClaim)
    seat.deliver(Pod)
    seat.turn(2)
    settle(world)
    assert not placed(world, "wants")
    assert devices(stand_in(world)) == ["d0"]


def test_somebody_who_took_the_device_meanwhile_keeps_it_and_the_pod_has_it_again_after_that() -> None:
    """No scheduler did that; a user may write allocations."""
    world, _ = running()
    taken = world.claim("c").status.allocation
    world.remove(world.claim("c"))
    world.put(replace(claim("d"), status=ResourceClaimStatus(allocation=taken)))
    settle(world)
    assert stand_ins(world) == []

    world.put(claim("d"))
    world.put(pod("wants", claims=["d"]))
    settle(world)
    assert devices(stand_in(world)) == ["d0"]
    assert not placed(world, "wants")


def test_an_allocation_that_is_written_again_holds_the_device_itself() -> None:
    world, seat = running()
    before = world.claim("c").status
    lose(world, "deallocated")
    hear(seat)
    world.put(replace(world.claim("c"), status=before))
    settle(world)
    assert not seat.core._removed
    assert stand_ins(world) == []
    other_gets_it_only_after(world)


# --- the stand-in ---


def stand_ins(world: World) -> list[ResourceClaim]:
    return [each for each in world.claims.values() if STANDS_IN_FOR in each.metadata.annotations]


def stand_in(world: World) -> ResourceClaim:
    (found,) = stand_ins(world)
    return found


def devices(claim: ResourceClaim) -> list[str]:
    allocation = claim.status.allocation
    return [result.device for result in allocation.devices.results] if allocation is not None else []


def other_gets_it_only_after(world: World) -> None:
    """Nobody else is given the device before pod ``runs`` ends; then somebody is, and no stand-in is left."""
    world.put(pod("wants", claims=["d"]))
    settle(world)
    assert not placed(world, "wants")
    world.delete(world.pod("runs"))
    settle(world)
    assert placed(world, "wants")
    assert stand_ins(world) == []
    for seat in world.seats:
        assert not seat.core._removed
        seat.core.validate()


@pytest.mark.parametrize("how", ["removed", "made anew", "deallocated"])
def test_a_stand_in_has_the_device_for_the_pod_and_goes_with_it(how: str) -> None:
    world, _ = running()
    lose(world, how)
    settle(world)
    found = stand_in(world)
    uid = world.pod("runs").metadata.uid
    assert devices(found) == ["d0"]
    assert found.status.reserved_for == (
        ResourceClaimConsumerReference(resource="pods", name="runs", uid=uid),
    )
    assert [(owner.kind, owner.uid, owner.controller) for owner in found.metadata.owner_references] == [
        ("Pod", uid, True)
    ]
    assert found.metadata.annotations == {STANDS_IN_FOR: "c"}
    assert found.metadata.finalizers == (FINALIZER,)
    other_gets_it_only_after(world)


@pytest.mark.parametrize("mode", [None, "Immediate"])
def test_instances_of_a_claim_of_the_semantic_are_held_by_a_stand_in_too(mode: str | None) -> None:
    """Once more after a scheduler's start; one that is Immediate does not keep them when the pod has ended."""
    world = World(resource_class(), parameters("p", request(semantic.BIG)), node("n"))
    world.put(slice_of(card("c0"), on="n", name="cards"))
    world.put(semantic.semantic_claim("c", mode=mode), pod("runs", namespace="ns", claims=["c"]))
    seat = Seat(world)
    settle(world)
    lost = world.claims["ns/c"]
    assert lost.status.allocation is not None
    world.remove(lost)
    settle(world)
    found = stand_in(world)
    assert found.status.allocation == lost.status.allocation
    seat.crash()
    world.put(semantic.semantic_claim("d"), pod("wants", namespace="ns", claims=["d"]))
    settle(world)
    wants = world.pods["ns/wants"]
    assert not wants.spec.node_name
    world.delete(world.pods["ns/runs"])
    settle(world)
    assert world.pods["ns/wants"].spec.node_name == "n"


def test_a_scheduler_that_starts_again_knows_of_the_device() -> None:
    world, seat = running()
    world.remove(world.claim("c"))
    settle(world)
    seat.crash()
    other_gets_it_only_after(world)


def test_a_stand_in_that_is_removed_gets_a_stand_in() -> None:
    world, seat = running()
    world.remove(world.claim("c"))
    settle(world)
    seat.crash()
    first = stand_in(world)
    world.remove(first)
    settle(world)
    assert stand_in(world).metadata.uid != first.metadata.uid
    assert devices(stand_in(world)) == ["d0"]
    other_gets_it_only_after(world)


def test_two_schedulers_make_one_stand_in_and_one_may_finish_what_the_other_began() -> None:
    world, seat = running()
    second = Seat(world)
    settle(world)
    world.remove(world.claim("c"))
    for each in (seat, second):
        hear(each)
        later(each, WARN_AFTER + 1)
    seat.perform()  # created; then it dies
    seat.crash()
    settle(world)
    assert devices(stand_in(world)) == ["d0"]
    other_gets_it_only_after(world)


@pytest.mark.parametrize("fate", list(Fate))
@pytest.mark.parametrize("number", [0, 1], ids=["creation", "allocation"])
def test_a_write_of_the_stand_in_that_fails_is_tried_again(fate: Fate, number: int) -> None:
    world, seat = running()
    world.remove(world.claim("c"))
    hear(seat)
    later(seat, WARN_AFTER + 1)
    if number:
        seat.perform()
        hear(seat)
        later(seat, 0)
    assert len(seat.writes) == 1
    seat.perform(fate=fate)
    settle(world)
    assert devices(stand_in(world)) == ["d0"]
    other_gets_it_only_after(world)


def test_a_stranger_who_took_the_name_of_the_stand_in_gets_no_device_by_it() -> None:
    world, seat = running()
    world.remove(world.claim("c"))
    hear(seat)
    later(seat, WARN_AFTER + 1)
    (write,) = seat.writes
    assert isinstance(write, CreateClaim)
    name = write.claim["metadata"]["name"]
    world.put(claim(name), pod("stranger", claims=[name]))
    settle(world)
    assert not placed(world, "stranger")
    assert devices(world.claim(name)) == []

    world.put(slice_("m", "d1"), node("m"))
    settle(world)
    assert devices(world.claim(name)) == ["d1"]
    assert seat.core._removed

    world.delete(world.pod("stranger"))
    settle(world)
    world.remove(world.claim(name))
    settle(world)
    assert devices(stand_in(world)) == ["d0"]
    assert not seat.core._removed


def test_nothing_is_made_for_a_pod_that_has_ended() -> None:
    world, seat = running()
    world.remove(world.claim("c"))
    hear(seat)
    world.delete(world.pod("runs"))
    settle(world)
    assert stand_ins(world) == []
    assert not any(isinstance(each, CreateClaim) for each in seat.said)
