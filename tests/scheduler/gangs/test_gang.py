"""Gangs in the life of a cluster: whole or not at all, whatever comes and goes while they wait."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.api.batch import GangSchedulingPolicy, PodGroup, PodGroupSchedulingPolicy
from allotment.api.core import Pod, PodResourceClaim
from allotment.api.meta import ApiStruct
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.core import Scheduler
from allotment.scheduler.event import Changed, Turn
from allotment.scheduler.gangs.gang import GangNeed, gang_of, key_of
from allotment.scheduler.instruction import Bind
from allotment.scheduler.pod import PodInfo, group_key
from tests.allocator import build
from tests.builders.typed import ZONE, claim, node, pod, slice_
from tests.scheduler.gang_builders import (
    gpu_node,
    group,
    member,
    members,
    nodes_of,
    reason_of,
    volcano_group,
    world,
)
from tests.scheduler.world import World, settle

# --- which gang a pod is of, and what it needs ---


@pytest.mark.parametrize(
    ("annotations", "in_spec", "key"),
    [
        ({}, None, ""),
        ({}, "g", "default/g"),
        ({"scheduling.k8s.io/group-name": "g"}, None, "volcano:default/g"),
        ({"scheduling.volcano.sh/group-name": "g"}, None, "volcano:default/g"),
        ({"scheduling.k8s.io/group-name": ""}, None, ""),
        ({"scheduling.k8s.io/group-name": "other"}, "g", "default/g"),
    ],
)
def test_a_pod_names_its_group(annotations: dict[str, str], in_spec: str | None, key: str) -> None:
    assert group_key(pod(annotations=annotations, group=in_spec)) == key


def test_groups_of_both_kinds_may_have_one_name() -> None:
    assert key_of(group("g")) != key_of(volcano_group("g"))


def test_a_group_without_a_gang_policy_is_no_gang() -> None:
    assert gang_of("default/g", group("g", None)) is None


def pods_of(*tasks: str) -> list[PodInfo]:
    made = (
        each for n, task in enumerate(tasks) for each in member(f"p{n}", volcano=True, task=task, devices=0)
    )
    return [PodInfo(each) for each in made if isinstance(each, Pod)]


@pytest.mark.parametrize(
    ("minimum", "tasks", "there", "done", "need"),
    [
        (3, {}, (), 0, GangNeed(3)),
        (3, {}, ("", ""), 0, GangNeed(1)),
        (3, {}, ("", "", "", ""), 0, GangNeed(0)),
        (3, {}, ("",), 1, GangNeed(1)),  # who has done its work had its place
        (3, {"ps": 1, "worker": 2}, ("worker",), 0, GangNeed(2, {"ps": 1, "worker": 1})),
        (3, {"ps": 1}, ("ps", "ps"), 0, GangNeed(1)),
        (
            2,
            {"ps": 1, "worker": 2},
            (),
            0,
            GangNeed(2),
        ),  # Volcano: minimums of tasks above the whole do not count
        (None, {}, (), 0, GangNeed(1)),
    ],
)
def test_what_a_gang_still_needs(
    minimum: int | None, tasks: dict[str, int], there: tuple[str, ...], done: int, need: GangNeed
) -> None:
    gang = gang_of("volcano:default/g", volcano_group("g", minimum, tasks=tasks))
    assert gang is not None

    assert gang.need(pods_of(*there), done) == need


@pytest.mark.parametrize(
    ("need", "pods", "met"),
    [
        (GangNeed(0), (), False),  # to place nobody is nothing to be committed
        (GangNeed(0), ("",), True),
        (GangNeed(2), ("",), False),
        (GangNeed(2, {"ps": 1}), ("worker", "worker"), False),
        (GangNeed(2, {"ps": 1}), ("worker", "ps"), True),
    ],
)
def test_when_a_need_is_met(need: GangNeed, pods: tuple[str, ...], met: bool) -> None:
    assert need.met_by(pods_of(*pods)) is met


# --- whole or not at all ---


def test_a_gang_is_placed_whole() -> None:
    made = world(gpu_node("a"), gpu_node("b"), group(minimum=8), members(8))

    settle(made)

    assert len(nodes_of(made)) == 8
    made.check_bound()


def test_a_gang_that_does_not_fit_waits_whole_and_comes_when_there_is_room() -> None:
    made = world(gpu_node("a", 3), group(minimum=4), members(4))

    settle(made)
    assert nodes_of(made) == {}
    assert "only 3 of 4 pods that it needs fit" in reason_of(made, "gang-0")
    assert all(each.status.allocation is None for each in made.claims.values())

    made.put(*gpu_node("b", 1))
    settle(made)
    assert len(nodes_of(made)) == 4


def test_pods_wait_for_others_of_their_gang() -> None:
    made = world(gpu_node("a"), group(minimum=3), members(2))

    settle(made)
    assert nodes_of(made) == {}
    assert reason_of(made, "gang-0") == "waits for 1 more pod of its gang, which needs 3"

    made.put(*member("gang-2"))
    settle(made)
    assert len(nodes_of(made)) == 3


def test_a_smaller_minimum_lets_a_gang_start() -> None:
    made = world(gpu_node("a", 2), group(minimum=3), members(3))
    settle(made)
    assert nodes_of(made) == {}

    [there] = made.of(PodGroup).values()
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=2))
    made.put(replace(there, spec=replace(there.spec, scheduling_policy=policy)))
    settle(made)

    assert len(nodes_of(made)) == 2


def test_pods_wait_for_their_group() -> None:
    made = world(gpu_node("a"), members(2))

    settle(made)
    assert nodes_of(made) == {}
    assert reason_of(made, "gang-0") == "the pod's group default/gang does not exist"

    made.put(group(minimum=2))
    settle(made)
    assert len(nodes_of(made)) == 2


def test_the_pods_of_a_group_that_is_no_gang_go_on_their_own() -> None:
    made = world(gpu_node("a", 1), group(minimum=None), members(2))

    settle(made)

    assert len(nodes_of(made)) == 1


def test_without_gangs_the_pods_of_a_group_go_on_their_own() -> None:
    core = Scheduler(Cluster(), DEFAULT.rosters(), gangs=False)
    for each in (node("a", cpu=1), group(minimum=2), *members(2, devices=0, cpu=1)):
        core.handle(Changed(None, each))

    out = core.handle(Turn(2))

    assert [each.name for each in out if isinstance(each, Bind)] == ["gang-0"]


def test_a_gang_is_tried_again_when_something_helps_any_of_its_members() -> None:
    """Of three members two are needed; one waits for cpus, the other for devices, and devices come."""
    made = world(gpu_node("a", 0, cpu=4), group(minimum=2))
    made.put(
        *member("fits", devices=0, cpu=1), *member("a-large", devices=0, cpu=9), *member("device", cpu=1)
    )
    settle(made)
    assert nodes_of(made) == {}

    made.put(slice_("a", "d0"))
    settle(made)

    assert set(nodes_of(made)) == {"fits", "device"}


def test_of_two_gangs_that_want_the_same_devices_one_gets_all() -> None:
    made = world(gpu_node("a", 3), group("one", 3), group("two", 3))
    for first, second in zip(members(3, "one"), members(3, "two"), strict=True):
        made.put(first, second)

    settle(made)

    assert set(nodes_of(made)) in ({f"one-{n}" for n in range(3)}, {f"two-{n}" for n in range(3)})
    made.check_nothing_leaked()


def test_a_gang_of_higher_priority_goes_first() -> None:
    made = world(gpu_node("a", 2), group("low", 2), group("high", 2))
    made.put(*members(2, "low", priority=1), *members(2, "high", priority=2))

    settle(made)

    assert set(nodes_of(made)) == {"high-0", "high-1"}


# --- members come and go ---


def test_a_member_that_comes_late_is_placed_on_its_own() -> None:
    made = world(gpu_node("a", 3), group(minimum=2), members(2))
    settle(made)

    made.put(*member("late"))
    settle(made)

    assert set(nodes_of(made)) == {"gang-0", "gang-1", "late"}


def test_a_member_that_comes_late_and_does_not_fit_waits_alone() -> None:
    made = world(gpu_node("a", 2), group(minimum=2), members(2))
    settle(made)

    made.put(*member("late"))
    settle(made)

    assert set(nodes_of(made)) == {"gang-0", "gang-1"}
    assert "gang default/gang" in reason_of(made, "late")


def test_a_member_that_is_deleted_while_the_gang_waits_is_not_placed() -> None:
    made = world(gpu_node("a", 2), group(minimum=2), members(3))
    made.delete(made.pod("gang-0"))

    settle(made)

    assert set(nodes_of(made)) == {"gang-1", "gang-2"}


def test_a_gang_falls_below_its_minimum_while_it_waits() -> None:
    made = world(gpu_node("a", 1), group(minimum=2), members(2))
    settle(made)

    made.delete(made.pod("gang-0"))
    settle(made)

    assert nodes_of(made) == {}
    assert reason_of(made, "gang-1") == "waits for 1 more pod of its gang, which needs 2"


def test_a_group_that_is_deleted_leaves_its_pods_waiting() -> None:
    made = world(gpu_node("a", 1), group(minimum=2), members(2))
    settle(made)

    made.delete(group())
    made.put(*gpu_node("b", 4))
    settle(made)

    assert nodes_of(made) == {}
    assert reason_of(made, "gang-0") == "the pod's group default/gang does not exist"


def finish(made: World, name: str, phase: str) -> None:
    there = made.pod(name)
    made.put(replace(there, status=replace(there.status, phase=phase)))


@pytest.mark.parametrize(("phase", "bound"), [("Succeeded", True), ("Failed", False)])
def test_members_that_have_done_their_work_count_for_the_minimum(phase: str, bound: bool) -> None:
    """Else a pod that takes the place of a failed one would wait for ever."""
    made = world(gpu_node("a", 4), group(minimum=3), members(3))
    settle(made)
    finish(made, "gang-0", phase)
    finish(made, "gang-1", "Failed")
    made.put(*member("again"))

    settle(made)

    assert ("again" in nodes_of(made)) is bound


def test_a_pod_that_changes_its_group_is_a_member_of_the_new_one() -> None:
    made = world(gpu_node("a", 4), volcano_group("one", 2), volcano_group("two", 2))
    made.put(*member("p", "one", volcano=True), *member("q", "two", volcano=True))
    there = made.pod("p")
    notes = {"scheduling.k8s.io/group-name": "two"}

    made.put(replace(there, metadata=replace(there.metadata, annotations=notes)))
    settle(made)

    assert set(nodes_of(made)) == {"p", "q"}


# --- topology, claims of the group ---


def test_a_late_member_goes_where_its_gang_is() -> None:
    east, west = gpu_node("a", 2, zone="east"), gpu_node("b", 4, zone="west")
    made = world(east, group(minimum=2, topology=(ZONE,)), members(2))
    settle(made)
    made.put(*west, *member("late"))

    settle(made)
    assert set(nodes_of(made)) == {"gang-0", "gang-1"}

    made.put(*gpu_node("c", 1, zone="east"))
    settle(made)
    assert nodes_of(made)["late"] == "c"


def test_a_gang_is_tried_again_when_something_helps_in_any_domain() -> None:
    """In the east cpus are missing, in the west devices, and devices come to the west."""
    made = world(gpu_node("a", 4, zone="east", cpu=1), gpu_node("b", 1, zone="west", cpu=8))
    made.put(group(minimum=2, topology=(ZONE,)), *members(2, cpu=2))
    settle(made)
    assert nodes_of(made) == {}

    made.put(slice_("b", "d0", "d1"))
    settle(made)

    assert set(nodes_of(made).values()) == {"b"}


def shared_members(count: int, cpu: int = 1) -> list[ApiStruct]:
    return [pod(f"p{n}", cpu=cpu, claims={"common": "common"}, group="gang") for n in range(count)]


def test_a_claim_of_the_group_is_reserved_once_and_for_the_group() -> None:
    entry = PodResourceClaim(name="common", resource_claim_name="common")
    made = world(gpu_node("a"), group(minimum=3, claims=[entry]))
    made.put(claim("common", build.request(class_name="gpu")), *shared_members(3))

    settle(made)

    assert set(nodes_of(made).values()) == {"a"}
    assert len(nodes_of(made)) == 3
    [user] = made.claim("common").status.reserved_for
    assert (user.resource, user.name) == ("podgroups", "gang")


@pytest.mark.parametrize("owned", [True, False], ids=["of the group", "shared by the pods"])
def test_later_members_go_where_the_shared_claim_can_be_used(owned: bool) -> None:
    """Elsewhere its node selector was ignored for the second pod."""
    entry = PodResourceClaim(name="common", resource_claim_name="common")
    made = world(gpu_node("a", 1, cpu=2), gpu_node("b", 0, cpu=64))
    made.put(group(minimum=2, claims=[entry] if owned else []))
    made.put(claim("common", build.request(class_name="gpu")), *shared_members(2))
    settle(made)
    assert set(nodes_of(made).values()) == {"a"}

    made.put(pod("late", cpu=1, claims={"common": "common"}, group="gang"))
    settle(made)

    assert "late" not in nodes_of(made)  # there is room on b, but not for the claim


def test_a_gang_over_a_pool_that_several_nodes_reach_is_placed_whole() -> None:
    """Two nodes reach one pool of two devices, one has a device of its own besides; three pods need all of them."""
    fabric = build.slice_(*build.devices(2, "f"), name="fabric", pool="fabric", on=None, everywhere=True)
    made = world(
        [node("a", cpu=8), node("b", cpu=8), fabric, slice_("a", "d0")], group(minimum=3), members(3)
    )

    settle(made)

    assert len(nodes_of(made)) == 3
