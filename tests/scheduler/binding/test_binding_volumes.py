"""Volumes on the way from the decision to the binding: what is written, what is awaited, and what is taken back when it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from allotment.api.core import ObjectReference, Pod
from allotment.api.meta import ApiStruct
from allotment.api.storage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    is_bound,
)
from allotment.scheduler.binding.pod_binding import BindingStage
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import DEFAULT, Configuration
from allotment.scheduler.core import Scheduler
from allotment.scheduler.dry_run import DryRun
from allotment.scheduler.event import Event, Tick
from allotment.scheduler.event_log import EventLog, replay
from allotment.scheduler.instruction import Instruction
from tests.allocator import build
from tests.builders import typed
from tests.builders.typed import node
from tests.scheduler.storage import DRIVER, MADE, claim, kind, pod, volume
from tests.scheduler.world import Fate, Seat, World, settle


def place(*objects: ApiStruct, seconds: float = 600.0) -> Seat:
    """Two nodes, and a scheduler that has seen everything."""
    world = World(node("a"), node("b"), kind(), kind(MADE, DRIVER), *objects)
    seat = Seat(world, Configuration(binding_seconds=seconds))
    seat.catch_up()
    return seat


def hear(seat: Seat) -> None:
    for kind_, news in seat.news.items():
        while news:
            seat.deliver(kind_)


def step(seat: Seat, fate: Fate = Fate.FINE) -> str:
    """The next write is carried out, and all is heard about it; returns which it was."""
    write = seat.writes[0]
    seat.perform(0, fate)
    seat.reply(len(seat.replies) - 1)
    hear(seat)
    return type(write).__name__


def shown_claim(seat: Seat, name: str = "c") -> PersistentVolumeClaim:
    return seat.world.of(PersistentVolumeClaim)[f"default/{name}"]


def shown_volume(seat: Seat, name: str = "v") -> PersistentVolume:
    return seat.world.of(PersistentVolume)[name]


def stage(seat: Seat, name: str = "p") -> BindingStage | None:
    binding = seat.core.bindings.get(f"default/{name}")
    return binding.stage if binding is not None else None


def controller(world: World) -> bool:
    """What the volume controller and a provisioner do for one claim; False if there is nothing to do."""
    for each in list(world.of(PersistentVolumeClaim).values()):
        selected = each.metadata.annotations.get(SELECTED_NODE, "")
        if is_bound(each):
            continue
        for one in world.of(PersistentVolume).values():
            ref = one.spec.claim_ref
            if ref is not None and ref.uid == each.metadata.uid:
                world.put(replace(one, status=replace(one.status, phase="Bound")))
                bind(world, each, one.metadata.name)
                return True
        if selected:
            made = volume(f"pvc-{each.metadata.name}", on=selected, storage_class=MADE, phase="Bound")
            meta = each.metadata
            ref = ObjectReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)
            world.put(replace(made, spec=replace(made.spec, claim_ref=ref)))
            bind(world, each, made.metadata.name)
            return True
    return False


def bind(world: World, each: PersistentVolumeClaim, to: str) -> None:
    notes = {**each.metadata.annotations, BIND_COMPLETED: "yes"}
    world.put(
        replace(
            each,
            metadata=replace(each.metadata, annotations=notes),
            spec=replace(each.spec, volume_name=to),
            status=replace(each.status, phase="Bound"),
        )
    )


def why(seat: Seat, name: str = "p") -> str:
    conditions = seat.world.pod(name).status.conditions
    return next((each.message or "" for each in conditions if each.type == "PodScheduled"), "")


def begin(seat: Seat, *pods: Pod) -> None:
    seat.world.put(*pods)
    hear(seat)
    seat.turn(len(pods))


def test_a_volume_is_given_its_claim_and_the_pod_bound_once_both_are_bound() -> None:
    seat = place(claim(), volume(on="b"))
    begin(seat, pod("p", "c"))
    assert step(seat) == "PatchVolume"
    ref = shown_volume(seat).spec.claim_ref
    assert ref is not None
    assert (ref.kind, ref.namespace, ref.name, ref.uid) == (
        "PersistentVolumeClaim",
        "default",
        "c",
        shown_claim(seat).metadata.uid,
    )
    assert shown_volume(seat).metadata.annotations[BOUND_BY_CONTROLLER] == "yes"
    assert stage(seat) is BindingStage.AWAITING
    assert not seat.writes
    controller(seat.world)
    hear(seat)
    assert step(seat) == "Bind"
    assert seat.world.pod("p").spec.node_name == "b"
    assert seat.core.cluster.storage.assumptions == 0


def test_a_claim_names_the_node_for_which_its_volume_is_made() -> None:
    seat = place(claim(storage_class=MADE))
    begin(seat, pod("p", "c", selector={"kubernetes.io/hostname": "b"}))
    assert step(seat) == "PatchVolumeClaim"
    assert shown_claim(seat).metadata.annotations[SELECTED_NODE] == "b"
    controller(seat.world)
    hear(seat)
    assert step(seat) == "Bind"


def test_a_pod_whose_volumes_are_bound_waits_for_nothing() -> None:
    seat = place(claim(bound="v"), volume(on="b"))
    begin(seat, pod("p", "c"))
    assert [type(each).__name__ for each in seat.writes] == ["Bind"]


@pytest.mark.parametrize("fate", [Fate.CONFLICT, Fate.LOST, Fate.TIMEOUT])
@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([claim(), volume(on="b")], id="given"),
        pytest.param([claim(storage_class=MADE)], id="made"),
    ],
)
def test_a_write_that_fails_for_now_is_repeated(objects: Sequence[ApiStruct], fate: Fate) -> None:
    seat = place(*objects)
    begin(seat, pod("p", "c"))
    step(seat, fate)
    settle(seat.world, idle=lambda: controller(seat.world))
    assert seat.world.pod("p").spec.node_name
    assert is_bound(shown_claim(seat))
    assert seat.core.cluster.storage.assumptions == 0


def _give_to_another(seat: Seat) -> None:
    ref = ObjectReference(namespace="default", name="other", uid="other")
    seat.world.put(replace(shown_volume(seat), spec=replace(shown_volume(seat).spec, claim_ref=ref)))


def _delete_pod(seat: Seat) -> None:
    seat.world.remove(seat.world.pod("p"))


def _wait_too_long(seat: Seat) -> None:
    seat.world.now += 31
    seat.tell(Tick(seat.world.now))


@pytest.mark.parametrize("harm", [_delete_pod, _wait_too_long])
def test_what_was_written_for_a_volume_is_taken_back(harm: Callable[[Seat], None]) -> None:
    seat = place(claim(), volume(on="b"), seconds=30)
    begin(seat, pod("p", "c"))
    step(seat)
    harm(seat)
    hear(seat)
    assert step(seat) == "PatchVolume"
    assert shown_volume(seat).spec.claim_ref is None
    assert BOUND_BY_CONTROLLER not in shown_volume(seat).metadata.annotations
    assert seat.core.cluster.storage.assumptions == 0
    assert stage(seat) is None


@pytest.mark.parametrize("harm", [_delete_pod, _wait_too_long])
def test_a_node_that_was_selected_is_taken_back(harm: Callable[[Seat], None]) -> None:
    seat = place(claim(storage_class=MADE), seconds=30)
    begin(seat, pod("p", "c"))
    step(seat)
    harm(seat)
    hear(seat)
    assert step(seat) == "PatchVolumeClaim"
    assert SELECTED_NODE not in shown_claim(seat).metadata.annotations


def test_a_binding_that_the_controller_has_completed_stays_when_the_pod_goes() -> None:
    seat = place(claim(), volume(on="b"))
    begin(seat, pod("p", "c"))
    step(seat)
    controller(seat.world)  # not heard yet
    _delete_pod(seat)
    settle(seat.world)
    assert is_bound(shown_claim(seat))
    assert shown_volume(seat).spec.claim_ref is not None


def test_two_pods_want_one_volume_and_the_second_waits() -> None:
    seat = place(claim("c"), claim("d"), volume(on="b"))
    begin(seat, pod("p", "c"), pod("q", "d"))
    settle(seat.world, idle=lambda: controller(seat.world))
    placed = [name for name in ("p", "q") if seat.world.pod(name).spec.node_name]
    assert len(placed) == 1
    other = "q" if placed == ["p"] else "p"
    assert why(seat, other) == "0/2 nodes: 2 didn't find available persistent volumes to bind"


def test_a_volume_that_another_got_meanwhile_is_left_to_them() -> None:
    seat = place(claim(), volume(on="b"))
    begin(seat, pod("p", "c"))
    _give_to_another(seat)
    settle(seat.world, idle=lambda: controller(seat.world))
    ref = shown_volume(seat).spec.claim_ref
    assert ref is not None
    assert ref.uid == "other"
    assert not seat.world.pod("p").spec.node_name


def test_a_provisioner_that_gives_a_node_back_has_the_pod_tried_again() -> None:
    seat = place(claim(storage_class=MADE))
    begin(seat, pod("p", "c"))
    step(seat)
    given_back = shown_claim(seat)
    seat.world.put(replace(given_back, metadata=replace(given_back.metadata, annotations={})))
    hear(seat)
    assert stage(seat) is None
    settle(seat.world, idle=lambda: controller(seat.world))
    assert seat.world.pod("p").spec.node_name


def test_a_volume_that_turns_out_to_be_elsewhere_is_followed_there() -> None:
    seat = place(claim(storage_class=MADE))
    begin(seat, pod("p", "c"))
    step(seat)
    chosen = shown_claim(seat).metadata.annotations[SELECTED_NODE]
    elsewhere = "b" if chosen == "a" else "a"
    seat.world.put(volume("pvc-c", on=elsewhere, storage_class=MADE, phase="Bound", claim="c"))
    bind(seat.world, shown_claim(seat), "pvc-c")
    settle(seat.world)
    assert seat.world.pod("p").spec.node_name == elsewhere


def test_pods_that_share_a_claim_are_both_bound_where_its_volume_is() -> None:
    seat = place(claim(storage_class=MADE, modes=["ReadWriteMany"]))
    begin(seat, pod("p", "c"), pod("q", "c"))
    settle(seat.world, idle=lambda: controller(seat.world))
    nodes = {seat.world.pod(name).spec.node_name for name in ("p", "q")}
    assert nodes in ({"a"}, {"b"})


def test_one_of_two_that_share_a_claim_goes_and_the_other_keeps_what_was_written() -> None:
    seat = place(claim(storage_class=MADE, modes=["ReadWriteMany"]))
    begin(seat, pod("p", "c"), pod("q", "c"))
    step(seat)
    while seat.writes:
        step(seat)
    _delete_pod(seat)
    hear(seat)
    while seat.writes:
        step(seat)
    assert SELECTED_NODE in shown_claim(seat).metadata.annotations
    settle(seat.world, idle=lambda: controller(seat.world))
    assert seat.world.pod("q").spec.node_name


def test_a_scheduler_that_was_killed_goes_on_with_what_it_had_written() -> None:
    seat = place(claim(), volume(on="b"))
    begin(seat, pod("p", "c"))
    step(seat)
    seat.crash()
    settle(seat.world, idle=lambda: controller(seat.world))
    assert seat.world.pod("p").spec.node_name == "b"
    assert is_bound(shown_claim(seat))


def test_a_pod_waits_for_its_claim_and_goes_on_when_it_comes() -> None:
    seat = place(volume(on="b"))
    begin(seat, pod("p", "c"))
    settle(seat.world)
    assert why(seat) == 'persistentvolumeclaim "c" not found'
    seat.world.put(claim())
    settle(seat.world, idle=lambda: controller(seat.world))
    assert seat.world.pod("p").spec.node_name == "b"


def test_devices_and_volumes_are_written_together() -> None:
    seat = place(claim(), volume(on="b"), typed.slice_("b", "d0"))
    seat.world.put(build.class_())
    seat.world.templates = {"one": typed.claim("t").spec}
    begin(seat, pod("p", "c", templates={"d": "one"}))
    settle(seat.world, idle=lambda: controller(seat.world))
    assert seat.world.pod("p").spec.node_name == "b"
    assert is_bound(shown_claim(seat))


def test_a_run_with_volumes_can_be_replayed() -> None:
    lines: list[str] = []
    log = EventLog(lines.append)
    seat = place(claim("c"), volume(on="b"), claim("d", storage_class=MADE))

    def hear_all(event: Event, instructions: list[Instruction]) -> None:
        log(event)
        for each in instructions:
            log(each)

    seat.heard = hear_all
    seat.crash()  # so that the log has the beginning too
    begin(seat, pod("p", "c"), pod("q", "d"))
    settle(seat.world, idle=lambda: controller(seat.world))
    assert any("PatchVolumeClaim" in line for line in lines)
    fresh = Scheduler(Cluster(), seat.configuration.rosters(), backoff=seat.configuration.backoff)
    assert replay(lines, fresh) is None


def test_a_dry_run_says_where_volumes_would_be_and_that_they_are_awaited() -> None:
    objects = [node("a"), node("b"), kind(), claim("c"), claim("d"), volume(on="b")]
    core = Scheduler(Cluster(), DEFAULT.rosters())
    decisions = DryRun(core, 1_700_000_000.0).run(
        [*objects, pod("p", "c"), pod("q", "d"), pod("r", "absent")]
    )
    core.validate()
    told = {each.name: (each.node, each.why) for each in decisions}
    assert told["p"] == ("b", "waits until its volumes are bound")
    assert told["q"] == ("", "0/2 nodes: 2 didn't find available persistent volumes to bind")
    assert told["r"] == ("", 'persistentvolumeclaim "absent" not found')
