"""From the decision to the binding: each stage, what fails in it, and what is taken back then; gangs whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from allotment.api.batch import GangSchedulingPolicy, PodGroup, PodGroupSchedulingPolicy, PodGroupSpec
from allotment.api.codec import decode
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct, Condition, ObjectMeta, OwnerReference
from allotment.api.resource import AllocatedDeviceStatus, Device, ResourceClaim
from allotment.scheduler.binding.pod_binding import BindingStage
from allotment.scheduler.config.configuration import Configuration
from allotment.scheduler.event import Tick
from allotment.scheduler.gangs.gang_lifecycle import INCOMPLETE
from allotment.scheduler.instruction import Bind, CreateClaim, DeletePod, PatchClaim, PatchPod
from tests.allocator import build
from tests.builders import typed
from tests.builders.typed import claim, node, slice_
from tests.scheduler.world import Fate, Seat, World, settle

GPU = "example.com/gpu"


def conditioned(name: str) -> Device:
    """A device that has to be attached before a pod can be bound."""
    return replace(
        build.device(name),
        binding_conditions=("attached",),
        binding_failure_conditions=("broken",),
        binds_to_node=True,
    )


def place(*objects: ApiStruct, devices: Sequence[Device | str] = ("d0", "d1", "d2"), **options: Any) -> Seat:
    """One node with these devices, and a scheduler that has seen everything."""
    gpu = build.class_("gpu")
    gpu = replace(gpu, spec=replace(gpu.spec, extended_resource_name=GPU))
    world = World(build.class_(), gpu, node("n"), slice_("n", *devices))
    world.templates = {"one": claim("t").spec}
    world.put(*objects)
    seat = Seat(world, Configuration(**options))
    seat.catch_up()
    return seat


def device_pod(name: str = "p", *, owned: bool = False, **more: Any) -> Pod:
    made = typed.pod(name, cpu=1, **{"templates": {"d": "one"}, **more})
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="r", uid="r", controller=True)
    return replace(made, metadata=replace(made.metadata, owner_references=(owner,))) if owned else made


def gang(minimum: int = 2) -> PodGroup:
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=minimum))
    return PodGroup(
        metadata=ObjectMeta(name="g", namespace="default"), spec=PodGroupSpec(scheduling_policy=policy)
    )


def step(seat: Seat, fate: Fate = Fate.FINE, number: int = 0) -> str:
    """The next write is carried out, and all is heard about it; returns which it was."""
    write = seat.writes[number]
    seat.perform(number, fate)
    seat.reply(len(seat.replies) - 1)
    hear(seat)
    return type(write).__name__


def hear(seat: Seat) -> None:
    for kind, news in seat.news.items():
        while news:
            seat.deliver(kind)


def allocated(seat: Seat) -> list[str]:
    return [key for key, each in seat.world.claims.items() if each.status.allocation is not None]


def at_rest(seat: Seat) -> None:
    settle(seat.world)
    seat.world.check_nothing_leaked()
    assert not len(seat.core.bindings)
    assert not seat.core.cluster.claims.flights
    assert not seat.core.cluster.assumed


# --- one pod ---


def test_the_way_of_a_pod() -> None:
    seat = place(device_pod())
    seat.turn()

    assert step(seat) == "PatchClaim"
    assert step(seat) == "PatchClaim"
    assert step(seat) == "Bind"

    assert seat.world.pod("p").spec.node_name == "n"
    (told,) = seat.told
    assert (told.reason, told.message) == ("Scheduled", "Successfully assigned default/p to n")
    at_rest(seat)


def test_nothing_is_bound_before_the_claim_is_seen_written() -> None:
    seat = place(device_pod())
    seat.turn()
    step(seat)
    seat.perform()
    seat.reply()

    assert not seat.writes
    hear(seat)

    assert isinstance(seat.writes[0], Bind)


def test_a_pod_is_not_bound_before_its_status_names_its_claims() -> None:
    """The claim controller makes the claim first and names it then; a kubelet finds it only by that name."""
    seat = place(device_pod())
    named = seat.world.pod("p")
    seat.world.put(replace(named, status=replace(named.status, resource_claim_statuses=())))
    hear(seat)
    seat.turn()
    assert [step(seat), step(seat)] == ["PatchClaim", "PatchClaim"]
    assert not seat.writes

    unnamed = seat.world.pod("p")
    seat.world.put(replace(unnamed, status=named.status))
    hear(seat)

    assert [type(write).__name__ for write in seat.writes] == ["Bind"]


def test_the_status_of_a_pod_names_the_claim_for_its_extended_resources_before_it_is_bound() -> None:
    seat = place(device_pod(templates={}, more={GPU: 1}))
    seat.turn()
    while not isinstance(seat.writes[0], Bind):
        step(seat)
    told = seat.world.pod("p").status.extended_resource_claim_status
    assert told is not None
    assert f"default/{told.resource_claim_name}" in allocated(seat)


@pytest.mark.parametrize("fate", [Fate.CONFLICT, Fate.LOST, Fate.TIMEOUT])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["finalizer", "status", "binding"])
def test_what_can_still_succeed_is_repeated(which: int, fate: Fate) -> None:
    seat = place(device_pod())
    seat.turn()
    for _ in range(which):
        step(seat)

    step(seat, fate)
    at_rest(seat)

    assert seat.world.pod("p").spec.node_name == "n"
    assert sum(isinstance(each, Bind) for each in seat.said) <= 2
    assert [tell.reason for tell in seat.told] == ["Scheduled"]


@pytest.mark.parametrize("which", [0, 1, 2], ids=["finalizer", "status", "binding"])
def test_what_is_refused_is_taken_back_and_tried_again_later(which: int) -> None:
    seat = place(device_pod())
    seat.turn()
    for _ in range(which):
        step(seat)

    step(seat, Fate.REFUSED)
    while seat.core.bindings.get("default/p") is not None:
        step(seat)

    assert allocated(seat) == []
    assert "binding to n failed" in _said(seat)[-1].message
    assert "not allowed" in _said(seat)[-1].message
    assert not seat.turn(), "it rests first"
    at_rest(seat)
    assert seat.world.pod("p").spec.node_name == "n"


def _said(seat: Seat) -> list[Condition]:
    writes = [each for each in seat.said if isinstance(each, PatchPod)]
    return [Condition(message=each.patch["status"]["conditions"][0]["message"]) for each in writes]


def test_a_pod_that_is_always_refused_rests_longer_and_longer() -> None:
    seat = place(device_pod(templates={}))
    rests = []
    for _ in range(4):
        seat.turn()
        step(seat, Fate.REFUSED)
        while seat.writes:
            step(seat)
        due = seat.core.next_time()
        assert due is not None
        rests.append(round(due - seat.world.now, 2))
        seat.world.now = due
        seat.tell(Tick(due))

    assert rests == [0.1, 0.2, 0.4, 0.8]


@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_pod_that_goes_leaves_nothing(done: int) -> None:
    seat = place(device_pod())
    seat.turn()
    for _ in range(done):
        step(seat)

    seat.world.delete(seat.world.pod("p"))

    at_rest(seat)
    assert allocated(seat) == []


def test_a_pod_that_is_being_deleted_is_not_waited_for() -> None:
    seat = place(device_pod())
    seat.turn()
    step(seat)
    step(seat)
    made = seat.world.pod("p")

    seat.world.put(replace(made, metadata=replace(made.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))
    hear(seat)

    at_rest(seat)
    assert allocated(seat) == []


def test_another_pod_of_the_same_name_waits_until_all_is_taken_back() -> None:
    seat = place(device_pod(templates={}, claims=["c"]), claim("c"))
    seat.turn()
    step(seat)
    seat.perform()  # the status is written, and the reply is still to come
    first = seat.world.pod("p")
    seat.world.delete(first)
    seat.world.put(device_pod(templates={}, claims=["c"]))
    hear(seat)

    at_rest(seat)

    assert seat.world.pod("p").metadata.uid != first.metadata.uid
    assert seat.world.pod("p").spec.node_name == "n"
    (user,) = seat.world.claim("c").status.reserved_for
    assert user.uid == seat.world.pod("p").metadata.uid


def test_a_device_that_was_taken_meanwhile_is_not_insisted_on() -> None:
    seat = place(device_pod(), claim("rival"))
    seat.turn()
    step(seat)
    (mine,) = [each for each in seat.writes if isinstance(each, PatchClaim)]
    results = mine.patch["status"]["allocation"]
    rival = seat.world.claim("rival")
    stolen = replace(rival, metadata=replace(rival.metadata, annotations={"allocated-ahead": "1"}))
    seat.world.put(replace(stolen, status=_decoded(results)))

    step(seat)  # 409: taken
    at_rest(seat)

    assert seat.world.pod("p").spec.node_name == "n"


def _decoded(allocation: dict[str, Any]) -> Any:
    return decode(ResourceClaim, {"metadata": {"name": "x"}, "status": {"allocation": allocation}}).status


def test_an_older_state_of_a_bound_pod_does_not_queue_it_again() -> None:
    seat = place(device_pod(templates={}))
    told = seat.world.pod("p")
    seat.turn()
    seat.world.put(replace(told, metadata=replace(told.metadata, labels={"late": "news"})))
    seat.perform()
    seat.reply()
    (late, bound) = seat.news[Pod]

    seat.tell(late)
    assert not seat.turn()
    seat.tell(bound)

    assert not seat.core.cluster.assumed


# --- another scheduler binds the pod ---


@pytest.mark.parametrize("done", [0, 1, 2])
@pytest.mark.parametrize("where", ["n", "elsewhere"])
def test_what_a_pod_has_that_another_scheduler_bound_stays(done: int, where: str) -> None:
    seat = place(device_pod(), node("elsewhere", cpu=2))
    seat.turn()
    for _ in range(done):
        step(seat)
    bound = seat.world.pod("p")
    seat.world.put(replace(bound, spec=replace(bound.spec, node_name=where)))
    before = allocated(seat)

    hear(seat)
    at_rest(seat)

    assert set(before) <= set(allocated(seat))
    assert seat.world.pod("p").spec.node_name == where
    assert not any(isinstance(each, Bind) for each in seat.said[-1:]) or done == 2


# --- conditions of devices ---


def report(seat: Seat, word: str) -> None:
    (made,) = [each for each in seat.world.claims.values() if each.status.allocation is not None]
    assert made.status.allocation is not None
    (result,) = made.status.allocation.devices.results
    condition = Condition(type=word, status="True")
    told = AllocatedDeviceStatus(
        driver=result.driver, pool=result.pool, device=result.device, conditions=(condition,)
    )
    seat.world.put(replace(made, status=replace(made.status, devices=(told,))))
    hear(seat)


def waiting() -> Seat:
    seat = place(device_pod(), devices=[conditioned("d0")], binding_seconds=30.0)
    seat.turn()
    step(seat)
    step(seat)
    return seat


def test_a_binding_waits_for_its_devices() -> None:
    seat = waiting()
    binding = seat.core.bindings.get("default/p")
    assert binding is not None
    assert binding.stage is BindingStage.AWAITING
    assert not seat.writes

    report(seat, "attached")

    assert step(seat) == "Bind"


def test_a_device_that_failed_to_get_ready_is_given_back() -> None:
    seat = waiting()

    report(seat, "broken")

    assert step(seat) == "PatchClaim"
    assert allocated(seat) == []


def test_devices_are_waited_for_until_a_deadline() -> None:
    seat = waiting()
    due = seat.core.bindings.next_time()
    assert due == seat.world.now + 30.0
    seat.tell(Tick(due - 1))
    assert not seat.writes

    seat.tell(Tick(due))

    assert step(seat) == "PatchClaim"
    assert allocated(seat) == []
    assert "within 30 s" in _said(seat)[-1].message


def test_after_a_restart_devices_are_still_waited_for() -> None:
    seat = waiting()
    seat.crash()
    seat.turn()
    assert step(seat) == "PatchClaim", "it takes over what it did not write itself"
    assert not seat.writes

    report(seat, "attached")

    assert step(seat) == "Bind"


def test_a_claim_that_is_taken_back_while_its_device_gets_ready() -> None:
    seat = waiting()
    (made,) = seat.world.claims.values()

    seat.world.put(replace(made, status=replace(made.status, allocation=None, reserved_for=())))
    hear(seat)

    assert not any(isinstance(each, Bind) for each in seat.said)


def test_devices_of_a_claim_that_went_before_it_was_written_are_free_for_others() -> None:
    seat = place(device_pod("p"), device_pod("q"), devices=["d0"])
    seat.turn(2)
    step(seat, Fate.TIMEOUT)  # it rests before it looks again
    (mine,) = [each for key, each in seat.world.claims.items() if key.startswith("default/p-")]

    seat.world.remove(seat.world.pod("p"))
    seat.world.remove(mine)
    at_rest(seat)

    assert seat.world.pod("q").spec.node_name == "n"


# --- extended resources ---


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.TIMEOUT, Fate.FINE, Fate.REFUSED])
@pytest.mark.parametrize("which", range(5))
def test_extended_resources_get_a_claim_whatever_fails(which: int, fate: Fate) -> None:
    seat = place(device_pod(templates={}, more={GPU: 2}))
    seat.turn()
    assert isinstance(seat.writes[0], CreateClaim)
    for _ in range(which):
        step(seat)

    step(seat, fate)
    at_rest(seat)

    bound = seat.world.pod("p")
    assert bound.spec.node_name == "n"
    (made,) = seat.world.claims.values()
    assert bound.status.extended_resource_claim_status is not None
    assert bound.status.extended_resource_claim_status.resource_claim_name == made.metadata.name
    assert made.status.allocation is not None
    assert len(made.status.allocation.devices.results) == 2


# --- gangs ---


def started(*members: Pod, minimum: int = 2, devices: Sequence[Device | str] = ("d0", "d1", "d2")) -> Seat:
    seat = place(gang(minimum), *members, devices=devices)
    seat.turn(len(members))
    assert len(seat.core.bindings) == len(members)
    return seat


def members(count: int = 2, **more: Any) -> list[Pod]:
    return [device_pod(f"p{number}", group="g", **more) for number in range(count)]


def write_claims(seat: Seat, *names: str) -> None:
    """Has the claims of these pods written, and nothing else."""
    while True:
        numbers = [
            number
            for number, each in enumerate(seat.writes)
            if isinstance(each, PatchClaim) and each.name.split("-")[0] in names
        ]
        if not numbers:
            return
        step(seat, number=numbers[0])


def bindings(seat: Seat) -> list[str]:
    return [each.name for each in seat.writes if isinstance(each, Bind)]


def test_no_member_is_bound_before_the_claims_of_the_minimum_are_written() -> None:
    seat = started(*members(3), minimum=2)

    write_claims(seat, "p0")
    assert bindings(seat) == []
    write_claims(seat, "p2")
    assert bindings(seat) == ["p0", "p2"]
    write_claims(seat, "p1")
    assert bindings(seat) == ["p0", "p2", "p1"]


def test_when_a_member_fails_before_any_is_bound_all_release_everything() -> None:
    seat = started(*members(2))
    write_claims(seat, "p0")
    number = next(n for n, each in enumerate(seat.writes) if isinstance(each, PatchClaim))

    step(seat, Fate.REFUSED, number)
    assert bindings(seat) == []
    while len(seat.core.bindings):
        step(seat)

    assert allocated(seat) == []
    at_rest(seat)
    assert all(each.spec.node_name for each in seat.world.pods.values()), "and it is tried again"


def test_a_member_beyond_the_minimum_may_fail_alone() -> None:
    seat = started(*members(3), minimum=2)
    write_claims(seat, "p0", "p1")
    number = next(n for n, each in enumerate(seat.writes) if isinstance(each, PatchClaim))

    step(seat, Fate.REFUSED, number)

    assert bindings(seat) == ["p0", "p1"]


def half_bound(*, owned: bool) -> Seat:
    """Of two members one is bound, and the other's binding is refused for good."""
    seat = started(*members(2, owned=owned))
    write_claims(seat, "p0", "p1")
    assert bindings(seat) == ["p0", "p1"]
    step(seat)
    step(seat, Fate.REFUSED)
    return seat


def test_when_a_binding_can_never_succeed_bound_members_are_evicted_if_a_controller_owns_them() -> None:
    seat = half_bound(owned=True)

    (evicted,) = [each for each in seat.writes if isinstance(each, DeletePod)]

    assert evicted.name == "p0"
    assert "could not be bound whole" in evicted.why
    assert not any(
        each.patch["status"].get("conditions", [{}])[0].get("type") == INCOMPLETE for each in _patches(seat)
    )


def test_and_kept_with_a_condition_that_says_so_if_none_does() -> None:
    seat = half_bound(owned=False)

    assert not any(isinstance(each, DeletePod) for each in seat.said)
    told = [each for each in _patches(seat) if each.patch["status"]["conditions"][0]["type"] == INCOMPLETE]
    assert [each.name for each in told] == ["p0"]
    assert "could not be bound whole" in told[0].patch["status"]["conditions"][0]["message"]


def _patches(seat: Seat) -> list[PatchPod]:
    return [each for each in seat.said if isinstance(each, PatchPod)]


def test_a_member_that_may_be_bound_already_keeps_what_it_has() -> None:
    """Its binding had no answer: it is asked again, and found bound, and goes the way of the others."""
    seat = started(*members(2, owned=True))
    write_claims(seat, "p0", "p1")
    for fate in (Fate.LOST, Fate.REFUSED):  # and the watch is slow
        seat.perform(0, fate)
        seat.reply()

    assert any(key.startswith("default/p0-") for key in allocated(seat))
    binding = seat.core.bindings.get("default/p0")
    assert binding is not None
    assert binding.stage is BindingStage.BINDING
    hear(seat)
    assert [each.name for each in seat.said if isinstance(each, DeletePod)] == ["p0"]


def test_a_failed_binding_is_repeated_on_the_same_node() -> None:
    seat = started(*members(2))
    write_claims(seat, "p0", "p1")

    step(seat, Fate.TIMEOUT)
    at_rest(seat)

    asked = [each for each in seat.said if isinstance(each, Bind) and each.name == "p0"]
    assert [each.node for each in asked] == ["n", "n"]


def test_a_member_that_waits_for_its_gang_must_keep_its_claims() -> None:
    seat = started(*members(2))
    write_claims(seat, "p0")
    (mine,) = [each for key, each in seat.world.claims.items() if key.startswith("default/p0-")]

    seat.world.put(replace(mine, status=replace(mine.status, allocation=None, reserved_for=())))
    hear(seat)
    write_claims(seat, "p1")

    assert bindings(seat) == []


def test_members_that_share_a_claim_do_not_wait_for_one_that_went() -> None:
    """The first brings the allocation, the second waits to add itself: if the first goes, the second starts anew."""
    shared = {"templates": {}, "claims": ["c"]}
    seat = place(gang(1), claim("c"), *members(2, **shared))
    seat.turn(2)
    assert len(seat.core.bindings) == 2

    seat.world.delete(seat.world.pod("p0"))
    at_rest(seat)

    assert seat.world.pod("p1").spec.node_name == "n"
    assert [user.name for user in seat.world.claim("c").status.reserved_for] == ["p1"]


def test_a_member_that_was_deleted_is_not_placed() -> None:
    seat = place(gang(2), *members(2))
    seat.world.delete(seat.world.pod("p0"))
    hear(seat)

    seat.turn(2)

    assert not len(seat.core.bindings)
    seat.tell(Tick(seat.world.now + 5))
    assert "waits for 1 more pod of its gang" in _said(seat)[-1].message


def test_members_under_way_do_not_count_on_one_that_went() -> None:
    """Its place was part of the minimum when they were placed."""
    seat = place(gang(2), *members(2))
    settle(seat.world)
    seat.world.remove(seat.world.pod("p0"))
    seat.world.put(*members(3)[2:])
    hear(seat)
    seat.turn()
    assert step(seat) == "PatchClaim", "the finalizer; p1 and this one are enough"

    seat.world.remove(seat.world.pod("p1"))
    at_rest(seat)

    assert not seat.world.pod("p2").spec.node_name
    assert allocated(seat) == []


def test_a_member_that_joins_others_under_way_waits_for_them_if_it_must() -> None:
    seat = place(gang(2), *members(2))
    settle(seat.world)
    seat.world.remove(seat.world.pod("p0"))
    seat.world.put(*members(3)[2:])
    hear(seat)
    seat.turn()

    seat.world.remove(seat.world.pod("p1"))
    seat.world.put(typed.pod("free", cpu=1, group="g"))  # has no claims, so it is ready at once
    hear(seat)
    seat.turn(8)

    assert bindings(seat) == []
    at_rest(seat)
    assert seat.world.pod("free").spec.node_name
    assert seat.world.pod("p2").spec.node_name


def test_a_member_that_somebody_else_bound_stands_in_for_one_that_went() -> None:
    seat = started(*members(2))
    write_claims(seat, "p0")
    seat.world.put(typed.pod("other", cpu=1, group="g", node="n"))
    hear(seat)
    assert bindings(seat) == [], "the second may still make it"

    seat.world.remove(seat.world.pod("p1"))
    hear(seat)
    write_claims(seat, "p1")

    assert bindings(seat) == ["p0"]


def test_the_last_of_those_who_share_a_claim_gives_its_devices_back() -> None:
    """One brought them and one joined it; both go before they are bound."""
    world = World(
        build.class_(),
        typed.node("n"),
        typed.slice_("n", "d0"),
        typed.claim("s"),
        typed.pod("brings", cpu=1, claims=["s"]),
    )
    seat = Seat(world)
    for name in ("brings", "joins"):
        if name == "joins":
            world.put(typed.pod("joins", cpu=1, claims=["s"]))
        hear(seat)
        seat.turn()
        while not any(user.name == name for user in world.claim("s").status.reserved_for):
            seat.perform([isinstance(write, PatchClaim) for write in seat.writes].index(True))
            seat.reply()
            hear(seat)
    seat.writes = [write for write in seat.writes if not isinstance(write, Bind)]
    for name in ("brings", "joins"):
        world.remove(world.pod(name))
    while seat.catch_up():
        pass
    assert allocated(seat) == []
