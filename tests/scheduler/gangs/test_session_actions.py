"""Who goes and who stays when a gang needs room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.api.batch import PodDisruptionBudget, PodGroup, VolcanoPodGroup
from allotment.api.meta import ApiStruct
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.disruption_budgets import Budgets
from allotment.scheduler.event import Tick
from allotment.scheduler.gangs.gang import gang_of, key_of
from allotment.scheduler.gangs.session import Session
from allotment.scheduler.gangs.session_actions import Clearing, SessionActions
from allotment.scheduler.placement import Placer
from tests.allocator import build
from tests.builders.typed import claim, cluster, near, node, pod, pod_affinity
from tests.scheduler.gang_builders import (
    GPU,
    budget,
    gpu_node,
    group,
    holding,
    member,
    members,
    nodes_of,
    placed,
    queue,
    reason_of,
    volcano_group,
    world,
)
from tests.scheduler.world import settle
from tests.thoroughness import examples

GPUS = "deviceclass/gpu"
Objects = Sequence[ApiStruct]


def seen(*objects: ApiStruct | Objects) -> Cluster:
    return cluster(
        GPU, *(each for some in objects for each in ([some] if isinstance(some, ApiStruct) else some))
    )


def cleared(made: Cluster, of: PodGroup | VolcanoPodGroup) -> Clearing | None:
    """What preempt and reclaim say for a gang that waits; nothing of it is left behind."""
    gang = gang_of(key_of(of), of)
    assert gang is not None
    mine = made.members[gang.key].values()
    waiting = sorted((each for each in mine if not each.node), key=lambda each: each.key)
    placer = Placer(made, DEFAULT.rosters())
    actions = SessionActions(made, placer, Session(made, placer))
    before = _taken(made)
    held = {claim: made.fleet.ledger.holdings(claim) for claim in made.fleet.ledger.claims()}

    need = gang.need([each for each in mine if each.node])
    clearing = actions.clear(gang, waiting, need, now=0.0)

    made.validate()
    actions.queues.validate()
    assert not made.assumed
    assert not made.claims.flights
    assert _taken(made) == before
    assert {claim: made.fleet.ledger.holdings(claim) for claim in made.fleet.ledger.claims()} == held
    return clearing


def _taken(made: Cluster) -> dict[str, dict[str, int]]:
    return {
        name: {resource: amount for resource, amount in info.taken.items() if amount}
        for name, info in made.nodes.items()
    }


def victims(clearing: Clearing | None) -> list[str]:
    """Of which kind those are who go; equals are called ``old-0``, ``old-1``, …"""
    return sorted(each.name.partition("-")[0] for each in clearing.victims) if clearing is not None else []


# --- preempt, Kubernetes' gangs ---


@dataclass
class Case:
    there: list[Objects]
    go: list[str]
    gang: PodGroup = field(default_factory=lambda: group("new", 2, priority=5))
    pods: Objects = field(default_factory=lambda: members(2, "new", priority=5))
    nodes: Objects = field(default_factory=lambda: gpu_node("a", 4))


def alone(count: int, first: int = 0, prefix: str = "old", **more: object) -> Objects:
    """Pods without a group on node a, with a device each."""
    return placed(members(count, "", prefix, **more), "a", first)


def ganged(count: int, minimum: int, first: int = 0, name: str = "old", **more: object) -> Objects:
    """A gang that is placed on node a."""
    return [group(name, minimum), *placed(members(count, name, **more), "a", first)]  # type: ignore[arg-type]  # passed on


CASES = {
    "nobody is there to go": Case([], []),
    "as few as it takes": Case([alone(4)], ["old", "old"]),
    "nobody while there is room for some": Case([alone(3)], ["old"]),
    "the least important": Case(
        [alone(2, prefix="low"), alone(2, 2, prefix="mid", priority=3)], ["low", "low"]
    ),
    "nobody of equal priority": Case([alone(4, priority=5)], []),
    "nobody if that is not enough": Case([alone(1), alone(3, 1, prefix="high", priority=9)], []),
    "nobody who has no devices": Case([alone(4), [pod("idle", node="a", cpu=1)]], ["old", "old"]),
    "nobody who goes already": Case([alone(2, leaving=True), alone(2, 2, prefix="low")], ["low", "low"]),
    "a gang goes whole": Case([ganged(4, 4)], ["old", "old", "old", "old"]),
    "of a gang those above its minimum": Case([ganged(4, 2)], ["old", "old"]),
    "of a gang those above its minimum, then all": Case([ganged(4, 3)], ["old", "old", "old", "old"]),
    "single pods rather than a gang": Case(
        [ganged(2, 2, priority=1), alone(2, 2, prefix="low", priority=0)], ["low", "low"]
    ),
    "no gang with a member that must stay": Case(
        [
            [
                group("old", 4),
                *placed(members(3, "old"), "a"),
                *placed(member("boss", "old", priority=9), "a", 3),
            ]
        ],
        [],
    ),
    "the members of a group that is no gang": Case(
        [[group("loose", None), *placed(members(4, "loose"), "a")]], ["loose", "loose"]
    ),
    "those without a budget": Case(
        [[budget({"app": "db"}, 0)], alone(2, prefix="db", labels={"app": "db"}), alone(2, 2)],
        ["old", "old"],
    ),
    "as many as budgets allow": Case([[budget({"app": "db"}, 1)], alone(4, labels={"app": "db"})], []),
    "no gang that a budget keeps a member of": Case(
        [
            [budget({"app": "db"}, 0), group("old", 4), *placed(members(3, "old"), "a")],
            placed(member("db", "old", labels={"app": "db"}), "a", 3),
        ],
        [],
    ),
    "nobody, for a group that never preempts": Case(
        [alone(4)], [], gang=group("new", 2, priority=5, policy="Never")
    ),
    "nobody, for pods that never preempt": Case(
        [alone(4)], [], pods=members(2, "new", priority=5, preemption_policy="Never")
    ),
    "no more than the minimum is worth": Case([alone(4)], ["old", "old"], pods=members(4, "new", priority=5)),
    "who is in the way by an amount": Case(
        [[pod("fat", node="a", cpu=8), pod("thin", node="a", cpu=1)]],
        ["fat"],
        pods=members(2, "new", priority=5, devices=0, cpu=4),
        nodes=gpu_node("a", 0, cpu=9),
    ),
    "who is in the way by a port": Case(
        [[pod("port", node="a", ports=[80]), pod("other", node="a", ports=[81])]],
        ["port"],
        gang=group("new", 1, priority=5),
        pods=members(1, "new", priority=5, devices=0, ports=[80]),
    ),
    "who is in the way as a neighbour": Case(
        [[pod("foe", node="a", labels={"app": "foe"}), pod("friend", node="a", labels={"app": "friend"})]],
        ["foe"],
        gang=group("new", 1, priority=5),
        pods=members(
            1,
            "new",
            priority=5,
            devices=0,
            affinity=pod_affinity(apart=[near({"app": "foe"}, "kubernetes.io/hostname")]),
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_who_goes_for_a_gang_of_kubernetes(name: str) -> None:
    case = CASES[name]
    made = seen(case.nodes, *case.there, case.gang, case.pods)

    clearing = cleared(made, case.gang)

    assert victims(clearing) == case.go
    if clearing is not None:
        policy = case.gang.spec.scheduling_policy.gang
        assert policy is not None
        assert len(clearing.places) == policy.min_count


def shared(*users: str) -> Objects:
    """Pods on node a that use one claim, of all four devices."""
    common = claim("common", build.request(class_name="gpu", count=4))
    pods = [pod(name, claims={"d": "common"}, node="a") for name in users]
    return [holding(common, "a", ["d0", "d1", "d2", "d3"], *users), *pods]


def test_a_shared_claim_is_free_only_if_all_its_users_go() -> None:
    made = seen(
        gpu_node("a", 4), shared("one", "two"), group("new", 2, priority=5), members(2, "new", priority=5)
    )

    assert victims(cleared(made, group("new", 2, priority=5))) == ["one", "two"]


def test_nobody_goes_for_a_claim_that_somebody_keeps() -> None:
    mine = members(2, "new", priority=5)
    objects = [*shared("one", "two"), pod("boss", claims={"d": "common"}, node="a", priority=9)]
    common = claim("common", build.request(class_name="gpu", count=4))
    objects[0] = holding(common, "a", ["d0", "d1", "d2", "d3"], "one", "two", "boss")
    made = seen(gpu_node("a", 4), objects, group("new", 2, priority=5), mine)

    assert cleared(made, group("new", 2, priority=5)) is None


# --- Volcano's gangs ---


@dataclass
class QueueCase:
    queues: Objects
    there: dict[str, tuple[str, int]]  # group → its queue and how many pods it has, each a gang of one
    go: int  # how many of them
    minimum: int = 2
    priority: int = 0
    old_priority: int = 0
    gang_minimum: int = 1  # of those that are there
    cpu: int | None = None  # that every pod asks for besides; the node has 64


EVEN = [queue("mine"), queue("theirs")]
QUEUE_CASES = {
    "preempt: lower priority in the same queue": QueueCase(EVEN, {"old": ("mine", 8)}, 2, priority=1),
    "preempt: not in another queue, which has its due": QueueCase(
        [queue("mine", weight=1), queue("theirs", weight=99)], {"old": ("theirs", 8)}, 0, priority=1
    ),
    "reclaim: of a queue that has more than its half": QueueCase(EVEN, {"old": ("theirs", 8)}, 2),
    "reclaim: whatever the priority": QueueCase(EVEN, {"old": ("theirs", 8)}, 2, old_priority=9),
    "reclaim: not of one that says no": QueueCase(
        [queue("mine"), queue("theirs", reclaimable=False)], {"old": ("theirs", 8)}, 0
    ),
    "reclaim: not beyond one's own due": QueueCase(EVEN, {"old": ("theirs", 8)}, 0, minimum=5),
    "reclaim: all that is due": QueueCase(EVEN, {"old": ("theirs", 8)}, 4, minimum=4),
    "reclaim: not below what they deserve": QueueCase(
        [queue("mine", deserved={GPUS: 4}), queue("theirs", deserved={GPUS: 7})], {"old": ("theirs", 8)}, 0
    ),
    "reclaim: down to what they deserve": QueueCase(
        [queue("mine", deserved={GPUS: 4}), queue("theirs", deserved={GPUS: 6})], {"old": ("theirs", 8)}, 2
    ),
    "reclaim: no gang that would have to go whole, below the due": QueueCase(
        EVEN, {"old": ("theirs", 8)}, 0, gang_minimum=8
    ),
    "reclaim: of the one queue that has too much": QueueCase(
        [*EVEN, queue("modest")], {"old": ("theirs", 6), "few": ("modest", 2)}, 2
    ),
    # what the pods ask for besides, of which there is enough for all, changes nothing
    "reclaim: also cpu, which is not contended": QueueCase(EVEN, {"old": ("theirs", 8)}, 2, cpu=1),
    "reclaim: also cpu, and only devices are deserved": QueueCase(
        [queue("mine", deserved={GPUS: 4}), queue("theirs", deserved={GPUS: 4})],
        {"old": ("theirs", 8)},
        4,
        minimum=4,
        cpu=1,
    ),
    "reclaim: cpu is deserved too, and not exceeded": QueueCase(
        [queue("mine", deserved={GPUS: 2, "cpu": 2}), queue("theirs", deserved={GPUS: 6, "cpu": 60})],
        {"old": ("theirs", 8)},
        2,
        cpu=1,
    ),
    "reclaim: not beyond the devices that are deserved": QueueCase(
        [queue("mine", deserved={GPUS: 1}), queue("theirs")], {"old": ("theirs", 8)}, 0, cpu=1
    ),
    "reclaim: what others deserve is not parted again": QueueCase(
        [queue("mine", deserved={GPUS: 6}), queue("theirs")], {"old": ("theirs", 8)}, 6, minimum=6, cpu=1
    ),
    "reclaim: for what is guaranteed": QueueCase(
        [queue("mine", kept={GPUS: 2}), queue("theirs", deserved={GPUS: 6})], {"old": ("theirs", 8)}, 2, cpu=1
    ),
    "reclaim: more than what is guaranteed, by weight": QueueCase(
        [queue("mine", kept={GPUS: 1}), queue("theirs")], {"old": ("theirs", 8)}, 4, minimum=4
    ),
    "reclaim: also cpu, of which a little is guaranteed": QueueCase(
        [queue("mine", kept={"cpu": 1}), queue("theirs")], {"old": ("theirs", 8)}, 2, cpu=1
    ),
    "reclaim: devices are deserved, and a little cpu guaranteed": QueueCase(
        [queue("mine", deserved={GPUS: 4}, kept={"cpu": 1}), queue("theirs")],
        {"old": ("theirs", 8)},
        2,
        cpu=1,
    ),
    "reclaim: not of one that has its half, a part of it guaranteed": QueueCase(
        [queue("mine"), queue("theirs", kept={GPUS: 1})], {"old": ("theirs", 4), "more": ("mine", 4)}, 0
    ),
    "reclaim: nothing that is guaranteed to the whole": QueueCase(
        [queue("mine"), queue("org", kept={"cpu": 8}), queue("theirs", parent="org")],
        {"old": ("theirs", 8)},
        0,
        cpu=1,
    ),
    "reclaim: not of one whose parent is gone": QueueCase(
        [queue("mine"), queue("theirs", parent="gone")], {"old": ("theirs", 4), "more": ("mine", 4)}, 0
    ),
    "reclaim: not of one whose parents lead in a circle": QueueCase(
        [queue("mine"), queue("theirs", parent="other"), queue("other", parent="theirs")],
        {"old": ("theirs", 8)},
        0,
    ),
    "reclaim: nothing that is guaranteed": QueueCase(
        [queue("mine", deserved={GPUS: 4}), queue("theirs", deserved={GPUS: 4}, kept={"cpu": 7})],
        {"old": ("theirs", 8)},
        0,
        cpu=1,
    ),
    "reclaim: between parts of one queue": QueueCase(
        [queue("all", deserved={GPUS: 8}), queue("mine", parent="all"), queue("theirs", parent="all")],
        {"old": ("theirs", 8)},
        4,
        minimum=4,
    ),
    "reclaim: not beyond one's part of what the whole deserves": QueueCase(
        [
            queue("one", deserved={GPUS: 4}),
            queue("mine", parent="one"),
            queue("sister", parent="one"),
            queue("theirs", deserved={GPUS: 4}),
        ],
        {"old": ("theirs", 4), "few": ("sister", 4)},
        0,
        minimum=3,
    ),
}


@pytest.mark.parametrize("name", QUEUE_CASES)
def test_who_goes_for_a_gang_of_volcano(name: str) -> None:
    """Eight devices, all in use."""
    case = QUEUE_CASES[name]
    objects: list[ApiStruct] = [*gpu_node("a", 8), *case.queues]
    first = 0
    for gang, (where, count) in case.there.items():
        objects.append(volcano_group(gang, case.gang_minimum, where))
        old = members(count, gang, volcano=True, priority=case.old_priority, cpu=case.cpu)
        objects += placed(old, "a", first)
        first += count
    wanted = volcano_group("new", case.minimum, "mine")
    new = members(case.minimum, "new", volcano=True, priority=case.priority, cpu=case.cpu)
    made = seen(objects, wanted, new)

    gone = victims(cleared(made, wanted))

    assert len(gone) == case.go
    assert all(each.startswith("old") for each in gone)


def test_a_quota_that_is_used_up_is_freed_by_lower_priority_in_the_queue() -> None:
    """There are devices enough, but the queue may not have more."""
    wanted = volcano_group("new", 2, "q")
    made = seen(
        gpu_node("a", 8),
        queue("q", most={GPUS: 4}),
        volcano_group("old", 1, "q"),
        placed(members(4, "old", volcano=True), "a"),
        wanted,
        members(2, "new", volcano=True, priority=1),
    )

    assert victims(cleared(made, wanted)) == ["old", "old"]


# --- whatever is there ---


@st.composite
def crowds(draw: st.DrawFn) -> tuple[Objects, int]:
    """Nodes full of single pods and gangs of several priorities, and how many pods the new gang has."""
    objects: list[ApiStruct] = []
    for number in range(draw(st.integers(1, 3))):
        name, first = f"n{number}", 0
        objects += gpu_node(name, 4)
        while first < 4 and draw(st.booleans()):
            size = draw(st.integers(1, 4 - first))
            gang = f"g{number}-{first}"
            if draw(st.booleans()):
                objects.append(group(gang, draw(st.integers(1, size))))
                made = members(size, gang, priority=draw(st.integers(0, 6)))
            else:
                made = members(size, "", gang, priority=draw(st.integers(0, 6)))
            objects += placed(made, name, first)
            first += size
    return objects, draw(st.integers(1, 6))


@settings(max_examples=examples(60), deadline=None)
@given(crowds())
def test_whoever_goes_is_less_important_needed_and_no_gang_is_broken(crowd: tuple[Objects, int]) -> None:
    objects, count = crowd
    wanted = group("new", count, priority=3)
    made = seen(objects, wanted, members(count, "new", priority=3))

    clearing = cleared(made, wanted)

    if clearing is None:
        return
    gone = {each.key for each in clearing.victims}
    assert all(each.priority < 3 for each in clearing.victims)
    for key, there in made.members.items():
        gang = gang_of(key, made.groups[key])
        left = [name for name, each in there.items() if each.node and name not in gone]
        had = [name for name, each in there.items() if each.node]
        assert gang is None or not left or len(left) >= min(gang.minimum, len(had)), f"{key} is broken"
    free = 4 * len(made.nodes) - sum(bool(each.node) for each in made.pods.values())
    assert free < count, "somebody goes though there is room"
    assert free + len(gone) >= count
    singles = [each for each in clearing.victims if not each.pod.spec.scheduling_group]
    assert not singles or free + len(gone) - 1 < count, "somebody goes for nothing"


def test_a_budget_is_spent_by_all_or_none() -> None:
    made = seen(
        gpu_node("a"), [budget({"app": "db"}, 1)], alone(2, labels={"app": "db"}), alone(1, 2, "free")
    )
    one, two, free = (made.pods[f"default/{name}"] for name in ("old-0", "old-1", "free-0"))
    budgets = Budgets(made)

    assert not budgets.spend(one, two)
    assert budgets.spend(one, free)
    assert not budgets.spend(two)
    assert budgets.spend(free)


# --- in the life of a cluster ---


def test_a_gang_of_higher_priority_gets_the_devices_of_others_once_they_are_gone() -> None:
    made = world(gpu_node("a", 4), members(4, "", "old"))
    settle(made)
    assert len(nodes_of(made)) == 4

    made.put(group("new", 3, priority=5), *members(3, "new", priority=5))
    settle(made)

    assert {f"new-{n}" for n in range(3)} <= set(nodes_of(made))
    assert len([name for name in nodes_of(made) if name.startswith("old")]) == 1
    made.check_nothing_leaked()


def test_a_queue_gets_its_share_back() -> None:
    made = world(gpu_node("a", 4), EVEN, volcano_group("old", 1, "theirs"), members(4, "old", volcano=True))
    settle(made)
    assert len(nodes_of(made)) == 4

    made.put(volcano_group("new", 2, "mine"), *members(2, "new", volcano=True))
    settle(made)

    assert sorted(nodes_of(made)) == [
        "new-0",
        "new-1",
        *sorted(n for n in nodes_of(made) if n.startswith("old")),
    ]
    assert len(nodes_of(made)) == 4


def test_a_gang_says_that_it_waits_for_others_to_go() -> None:
    made = world(gpu_node("a", 2), members(2, "", "old"))
    settle(made)
    made.put(group("new", 2, priority=5), *members(2, "new", priority=5))
    seat = made.seats[0]

    while not any("make room" in reason_of(made, f"new-{n}") for n in range(2)):
        seat.catch_up()
        seat.turn()

    assert "2 pods go to make room for the gang" in reason_of(made, "new-0")
    assert not any("old" in reason_of(made, f"new-{n}") for n in range(2))  # counts, no names


def test_a_gang_is_told_that_budgets_are_in_its_way_and_goes_on_when_they_are_gone() -> None:
    made = world(gpu_node("a", 2), budget({"app": "db"}, 1), members(2, "", "old", labels={"app": "db"}))
    settle(made)
    made.put(group("new", 2, priority=5), *members(2, "new", priority=5))
    settle(made)
    assert reason_of(made, "new-0").endswith(
        "Preemption would make room, but disruption budgets that are used up protect a pod that is in the way"
    )

    for kept in list(made.of(PodDisruptionBudget).values()):
        made.delete(kept)
    settle(made)

    assert {"new-0", "new-1"} <= set(nodes_of(made))


def test_a_node_that_is_gone_makes_nobody_go() -> None:
    made = seen([node("b", cpu=1)], placed(members(2, "", "old"), "gone"), group("new", 2, priority=5))
    for each in members(2, "new", priority=5):
        made.change(None, each)

    assert cleared(made, group("new", 2, priority=5)) is None


def test_nobody_else_goes_while_what_was_freed_is_still_to_be_given_back() -> None:
    """The pods are gone before the claim controller has given their devices back."""
    made = world(gpu_node("a", 4), members(4, "", "old"))
    settle(made)
    made.put(group("new", 2, priority=5), *members(2, "new", priority=5))
    seat = made.seats[0]

    for _ in range(40):
        seat.catch_up()
        for each in list(made.pods.values()):
            if each.metadata.deletion_timestamp is not None:
                made.remove(each)  # and the claims stay as they are
        made.now += 1.0
        seat.tell(Tick(made.now))
        seat.turn(16)
    assert len([name for name in nodes_of(made) if name.startswith("old")]) == 2

    settle(made)
    assert {"new-0", "new-1"} <= set(nodes_of(made))
