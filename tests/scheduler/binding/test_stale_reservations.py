"""A scheduler that is killed at any moment: what it wrote for pods that it did not bind is completed by the next one, or given
back, whatever kind of claim it is and whether or not the pods still fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from allotment.api.batch import PodGroup
from allotment.api.core import Pod, PodResourceClaim
from allotment.api.meta import ApiStruct
from tests.allocator import build
from tests.allocator.trees import card, parameters, request, resource_class, slice_of
from tests.builders.typed import ZONE, claim, node, pod, slice_
from tests.scheduler.devices import test_semantic_fleet as semantic
from tests.scheduler.gang_builders import group, member
from tests.scheduler.world import Seat, World, settle

GPU = "example.com/gpu"
DEVICES = 4
HERE = {ZONE: "here"}


def world(*objects: ApiStruct) -> Seat:
    """One node with four devices and four cards, and a scheduler that has seen everything."""
    gpu = build.class_("gpu")
    gpu = replace(gpu, spec=replace(gpu.spec, extended_resource_name=GPU))
    made = World(gpu, node("n", cpu=64, zone="here"), slice_("n", *(f"d{n}" for n in range(DEVICES))))
    made.put(resource_class(), parameters("p", request(semantic.BIG)))
    made.put(slice_of(*(card(f"c{n}") for n in range(DEVICES)), on="n", name="cards"))
    made.templates = {"one": claim("t", build.request(class_name="gpu")).spec}
    made.put(*objects)
    seat = Seat(made)
    seat.catch_up()
    return seat


def gang(names: Sequence[str] = ("a", "b")) -> list[ApiStruct]:
    found: list[ApiStruct] = [group("gang", len(names))]
    for name in names:
        found += member(name, selector=HERE)
    return found


def shared() -> list[ApiStruct]:
    """Two pods of a gang that use one claim."""
    users = [pod(name, claims=["s"], group="gang", selector=HERE) for name in ("a", "b")]
    return [group("gang", 2), claim("s", build.request(class_name="gpu", count=2)), *users]


def of_the_group() -> list[ApiStruct]:
    """A claim that is reserved for the group, not for its pods."""
    entry = PodResourceClaim(name="s", resource_claim_name="s")
    users = [pod(name, claims=["s"], group="gang", selector=HERE) for name in ("a", "b")]
    return [group("gang", 2, claims=[entry]), claim("s", build.request(class_name="gpu", count=2)), *users]


def carried(mode: str | None = None) -> list[ApiStruct]:
    return [semantic.semantic_claim("c", mode=mode), pod("p", namespace="ns", claims=["c"], selector=HERE)]


def extended(group_: str | None = None) -> Pod:
    return pod("x" if group_ is None else f"x-{group_}", more={GPU: 2}, selector=HERE, group=group_)


CASES: dict[str, Callable[[], list[ApiStruct]]] = {
    "a pod with a claim": lambda: member("p", "", selector=HERE),
    "a pod with a claim from a template": lambda: [pod("p", templates={"d": "one"}, selector=HERE)],
    "a gang": gang,
    "a gang that shares a claim": shared,
    "a gang with a claim of its group": of_the_group,
    "a semantic claim": carried,
    "a semantic claim that is Immediate": lambda: carried("Immediate"),
    "extended resources": lambda: [extended()],
    "a gang of extended resources": lambda: [group("gang", 1), extended("gang")],
}


def crashed(case: str, writes: int) -> Seat | None:
    """A scheduler that was killed after so many of its writes took effect; None if there were not that many."""
    seat = world(*CASES[case]())
    for _ in range(writes):
        while not seat.writes and (seat.turn(16) or seat.writes):
            pass
        if not seat.writes:
            return None
        seat.perform()
        seat.reply()
        for kind, news in seat.news.items():
            while news:
                seat.deliver(kind)
    seat.crash()
    return seat


def crash_points(case: str) -> list[Seat]:
    found: list[Seat] = []
    while (seat := crashed(case, len(found))) is not None:
        found.append(seat)
    assert len(found) > 2
    return found


def kept(seat: Seat) -> dict[str, list[str]]:
    """Claims that hold devices, or are reserved, or were made by the scheduler; and for whom, as far as they wait."""
    waiting = {each.metadata.uid for each in seat.world.pods.values() if not each.spec.node_name}
    if len(waiting) == len(seat.world.pods):  # there is one group at most, and it waits as well
        waiting |= {each.metadata.uid for each in seat.world.of(PodGroup).values()}
    found = {}
    for key, each in seat.world.claims.items():
        users = [user.name for user in each.status.reserved_for if user.uid in waiting]
        bound = len(users) < len(each.status.reserved_for)
        if users or (each.status.allocation is not None and not bound):
            found[key] = users
    return found


@pytest.mark.parametrize("case", CASES)
def test_what_still_fits_is_completed(case: str) -> None:
    for seat in crash_points(case):
        settle(seat.world)
        assert all(each.spec.node_name for each in seat.world.pods.values())
        assert kept(seat) == {}


@pytest.mark.parametrize("case", CASES)
def test_what_no_longer_fits_is_given_back(case: str) -> None:
    for seat in crash_points(case):
        seat.world.put(node("n", cpu=64, zone="elsewhere"))
        settle(seat.world)
        waits = [each for each in seat.world.pods.values() if not each.spec.node_name]
        stays = waits and "Immediate" in case and _allocated(seat, "ns/c")
        assert kept(seat) == ({"ns/c": []} if stays else {})
        if waits and "semantic" not in case:
            free = DEVICES - _held(seat)
            seat.world.put(*member("rival", "", devices=free, priority=10))
            settle(seat.world)
            assert seat.world.pod("rival").spec.node_name == "n"


def _allocated(seat: Seat, key: str) -> bool:
    return seat.world.claims[key].status.allocation is not None


def _held(seat: Seat) -> int:
    """Devices that pods have which were bound before the crash."""
    claims = [each.status.allocation for each in seat.world.claims.values()]
    return sum(len(each.devices.results) for each in claims if each is not None)


def test_a_gang_that_is_no_longer_whole_gives_its_devices_back() -> None:
    """Its gate is closed, so it is never tried."""
    for seat in crash_points("a gang"):
        if seat.world.pod("b").spec.node_name or seat.world.pod("a").spec.node_name:
            continue
        seat.world.delete(seat.world.pod("b"))
        settle(seat.world)
        assert kept(seat) == {}


def test_a_pod_whose_gate_is_closed_gives_its_devices_back() -> None:
    for seat in crash_points("a pod with a claim"):
        there = seat.world.pod("p")
        if there.spec.node_name:
            continue
        entries = (*there.spec.resource_claims, PodResourceClaim(name="e", resource_claim_name="missing"))
        seat.world.put(replace(there, spec=replace(there.spec, resource_claims=entries)))
        settle(seat.world)
        assert kept(seat) == {}


def test_a_shared_claim_stays_with_the_pod_that_runs() -> None:
    seat = world(claim("s", build.request(class_name="gpu")), pod("a", claims=["s"]))
    settle(seat.world)
    seat.world.put(pod("b", claims=["s"], selector=HERE))
    seat.catch_up()
    seat.turn()
    seat.perform()
    seat.crash()
    assert len(seat.world.claim("s").status.reserved_for) == 2
    seat.world.put(node("n", cpu=64, zone="elsewhere"))
    settle(seat.world)
    assert [user.name for user in seat.world.claim("s").status.reserved_for] == ["a"]
    assert _allocated(seat, "default/s")


@pytest.mark.parametrize(
    ("whose", "scheduler", "bound"),
    [("another scheduler's", "other", ""), ("a pod's that is bound", "default-scheduler", "n")],
)
def test_what_others_may_rely_on_stays(whose: str, scheduler: str, bound: str) -> None:
    seat = crashed("a pod with a claim", 2)
    assert seat is not None
    there = seat.world.pod("p")
    spec = replace(there.spec, scheduler_name=scheduler, node_name=bound)
    seat.world.put(replace(there, spec=spec), node("n", cpu=64, zone="elsewhere"))
    settle(seat.world)
    assert [user.name for user in seat.world.claim("p-d").status.reserved_for] == ["p"], whose


def test_what_is_given_back_has_stood_for_a_while() -> None:
    """Another replica that lost its lease may still have a binding on its way."""
    seat = crashed("a pod with a claim", 2)
    assert seat is not None
    seat.world.put(
        replace(seat.world.pod("p"), spec=replace(seat.world.pod("p").spec, node_selector={"x": "y"}))
    )
    seat.catch_up()
    began = seat.world.now
    settle(seat.world)
    assert kept(seat) == {}
    assert seat.world.now - began >= 5.0
