"""Which changes wake a pod that could not get its devices."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.api.batch import PodGroup
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct, Condition, ObjectMeta
from allotment.api.resource import DeviceTaintRule, DeviceTaintRuleStatus, ResourceClaim
from allotment.scheduler.devices.wake_ups import released
from tests.allocator import build
from tests.builders.typed import claim, node, pod, slice_
from tests.scheduler.plugins.device_world import World, allocated, noted, owned, user

WAITING = noted(pod("p", claims=["shared"], templates={"gpu": "t"}), gpu="mine")
MINE = owned(claim("mine"), WAITING)
OTHERS = owned(claim("others"), pod("q"))
SHARED = claim("shared")
UNSCHEDULABLE = Condition(type="PodScheduled", status="False", message="0/3 nodes: 3 are cordoned")

Change = tuple[ApiStruct | None, ApiStruct | None, bool]

CHANGES: dict[str, Change] = {
    "its claim is made": (None, MINE, True),
    "another's claim is made": (None, OTHERS, False),
    "a claim that it names is made": (None, SHARED, True),
    "a claim of the name in another namespace": (None, claim("shared", namespace="other"), False),
    "another's claim is allocated": (OTHERS, allocated(OTHERS, "d0"), False),
    "another's claim is released": (allocated(OTHERS, "d0"), OTHERS, True),
    "another's claim shrinks": (allocated(OTHERS, "d0", "d1"), allocated(OTHERS, "d1"), True),
    "another's claim is reserved": (
        allocated(OTHERS, "d0"),
        allocated(OTHERS, "d0", users=[user(WAITING)]),
        False,
    ),
    "another's allocated claim is gone": (allocated(OTHERS, "d0"), None, True),
    "another's claim without devices is gone": (OTHERS, None, False),
    "the shared claim is allocated": (SHARED, allocated(SHARED, "d0"), True),
    "a share is released": (
        allocated(OTHERS, "d0", share_id="s"),
        allocated(OTHERS, "d0", share_id="t"),
        True,
    ),
    "its own status names its claim": (pod("p"), WAITING, True),
    "another pod's status": (pod("q"), pod("q", phase="Running"), False),
    "a slice appears": (None, slice_("n1", "d0"), True),
    "a slice changes": (slice_("n1", "d0"), slice_("n1", "d0", "d1"), True),
    "a slice goes": (slice_("n1", "d0"), None, False),
    "a class appears": (None, build.class_("gpu"), True),
    "a node comes": (None, node("n1"), True),
    "a node goes": (node("n1"), None, False),
    "a taint rule goes": (DeviceTaintRule(metadata=ObjectMeta(name="r")), None, True),
    "a group that is not its own": (
        None,
        PodGroup(metadata=ObjectMeta(name="team", namespace="default")),
        False,
    ),
}


def woken(of: Pod, old: ApiStruct | None, new: ApiStruct | None) -> bool:
    world = World().show(of)
    info = world.cluster.pods["default/p"]
    return world.plugin.helps_anyone(old, new) and world.plugin.helps(info, old, new, world.cluster)


@pytest.mark.parametrize(("old", "new", "helps"), CHANGES.values(), ids=CHANGES)
def test_a_pod_is_woken_by_what_can_help_it(
    old: ApiStruct | None, new: ApiStruct | None, helps: bool
) -> None:
    assert woken(WAITING, old, new) == helps


def test_a_pod_of_a_group_is_woken_by_its_group() -> None:
    team = PodGroup(metadata=ObjectMeta(name="team", namespace="default"))
    assert woken(pod("p", templates={"gpu": "t"}, group="team"), None, team)


NOBODY: dict[str, tuple[ApiStruct | None, ApiStruct | None]] = {
    "a finalizer": (MINE, replace(MINE, metadata=replace(MINE.metadata, finalizers=("f",)))),
    "a node's heartbeat": (
        node("n1", version=1),
        replace(node("n1"), metadata=replace(node("n1").metadata, annotations={"beat": "2"})),
    ),
    "a pod that goes": (pod("q"), None),
    "what is said about a pod": (
        WAITING,
        replace(WAITING, status=replace(WAITING.status, conditions=(UNSCHEDULABLE,))),
    ),
    "a slice that is published again": (slice_("n1", "d0"), slice_("n1", "d0")),
    "how far the eviction of a taint rule is": (
        DeviceTaintRule(metadata=ObjectMeta(name="r")),
        DeviceTaintRule(
            metadata=ObjectMeta(name="r"),
            status=DeviceTaintRuleStatus(conditions=(Condition(type="EvictionInProgress", status="True"),)),
        ),
    ),
}


@pytest.mark.parametrize(("old", "new"), NOBODY.values(), ids=NOBODY)
def test_what_helps_nobody_is_seen_at_once(old: ApiStruct | None, new: ApiStruct | None) -> None:
    assert not World().plugin.helps_anyone(old, new)


def test_gates_are_opened_for_the_users_of_a_claim_only() -> None:
    world = World().show(WAITING, pod("q", claims=["shared"]), pod("r", claims=["other"]))

    def concerned(old: ApiStruct | None, new: ApiStruct | None) -> set[str] | None:
        found = world.plugin.concerns(old, new, world.cluster)
        return set(found) if found is not None else None

    assert concerned(None, SHARED) == {"default/p", "default/q"}
    assert concerned(None, MINE) == {"default/p"}
    assert concerned(None, owned(claim("unnamed"), pod("r"))) == {"default/r"}, "not noted in its status yet"
    assert concerned(None, WAITING) == {"default/p"}
    assert concerned(None, node("n1")) == set()
    assert concerned(None, PodGroup(metadata=ObjectMeta(name="team"))) is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (OTHERS, allocated(OTHERS, "d0"), False),
        (allocated(OTHERS, "d0"), allocated(OTHERS, "d0", "d1"), False),
        (allocated(OTHERS, "d0"), allocated(OTHERS, "d1"), True),
        (OTHERS, None, False),
    ],
    ids=["allocated", "grown", "moved", "never allocated"],
)
def test_what_counts_as_released(old: ResourceClaim, new: ResourceClaim | None, expected: bool) -> None:
    assert released(old, new) == expected
