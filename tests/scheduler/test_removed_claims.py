"""A claim is removed while a pod runs with its devices: nobody else gets them, the pod is told, and its end gives them back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim
from allotment.scheduler.event import Tick
from allotment.scheduler.instruction import Tell
from allotment.scheduler.removed_claims import PATIENCE
from tests.allocator import build
from tests.scheduler.builders import claim, node, pod, slice_
from tests.scheduler.test_binding import hear
from tests.scheduler.world import Seat, World, settle


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
    """Somebody strips the finalizer and deletes the claim; its controller may make another one of the same name."""
    world.remove(world.claim("c"))
    if how == "made anew":
        world.put(replace(claim("c"), metadata=replace(claim("c").metadata, uid="another")))


@pytest.mark.parametrize("how", ["removed", "made anew"])
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


def test_the_pod_is_told_once_and_only_if_it_lasts() -> None:
    world, seat = running()
    world.remove(world.claim("c"))
    hear(seat)
    assert told(seat) == []
    assert (seat.core.next_time() or 0) <= seat.world.now + PATIENCE
    later(seat, PATIENCE + 1)
    later(seat, PATIENCE + 1)
    assert told(seat) == [
        "resource claim default/c was removed while this pod runs with its devices; "
        "they stay held until the pod ends: delete it to give them back"
    ]


def test_the_news_of_the_pods_end_may_come_after_that_of_its_claim() -> None:
    world, seat = running()
    world.remove(world.claim("c"))
    world.delete(world.pod("runs"))
    settle(world)
    later(seat, PATIENCE + 1)
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
