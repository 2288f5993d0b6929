"""Queues: what they use, may use, and whose turn it is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.api.batch import Queue, VolcanoPodGroup
from allotment.api.codec import decode
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct
from allotment.scheduler.absence import without
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.core import Scheduler
from allotment.scheduler.event import Changed
from allotment.scheduler.gangs.tenant_queues import TenantQueues, demand_of, parted, queue_of, told
from allotment.scheduler.instruction import Bind, PatchClaim, Tell
from allotment.scheduler.pod import FINISHED
from tests.allocator import build
from tests.builders.typed import Amount, amounts, claim, cluster, node, pod
from tests.scheduler.gang_builders import (
    GPU,
    gpu_node,
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
from tests.scheduler.world import KINDS, Fate, World, settle

GPUS = "deviceclass/gpu"
ONE = 10**9


def nanos(given: dict[str, Amount]) -> dict[str, int]:
    return {name: amount.nanos for name, amount in amounts(given).items()}


def seen(*objects: ApiStruct | Sequence[ApiStruct]) -> Cluster:
    return cluster(
        GPU, *(each for some in objects for each in ([some] if isinstance(some, ApiStruct) else some))
    )


def nonzero(used: dict[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in used.items() if amount}


# --- demand ---


def demand(*objects: ApiStruct) -> dict[str, int]:
    made = seen(*objects)
    return nonzero(demand_of(made.pods.values(), made))


def with_claims(*names: str, name: str = "p", **more: object) -> Pod:
    return pod(name, claims={each: each for each in names}, **more)  # type: ignore[arg-type]  # passed on


EXTENDED = replace(GPU, spec=replace(GPU.spec, extended_resource_name="example.com/gpu"))


@pytest.mark.parametrize(
    ("objects", "takes"),
    [
        pytest.param([pod()], {"pods": 1}, id="a pod that asks for nothing"),
        pytest.param(
            [pod(cpu="500m", memory="1Gi")], {"cpu": "500m", "memory": "1Gi", "pods": 1}, id="amounts"
        ),
        pytest.param(
            [claim("c", build.request(class_name="gpu", count=2)), with_claims("c")],
            {"pods": 1, GPUS: 2},
            id="devices",
        ),
        pytest.param(
            [
                claim("c", build.request(class_name="gpu")),
                with_claims("c", name="p"),
                with_claims("c", name="q"),
            ],
            {"pods": 2, GPUS: 1},
            id="a shared claim counts once",
        ),
        pytest.param(
            [claim("c", build.request(class_name="gpu", admin=True)), with_claims("c")],
            {"pods": 1},
            id="who only looks takes nothing",
        ),
        pytest.param(
            [
                claim(
                    "c",
                    build.either("r", build.sub("big", class_name="large"), build.sub("x", class_name="gpu")),
                ),
                with_claims("c"),
            ],
            {"pods": 1, "deviceclass/large": 1},
            id="of alternatives the first",
        ),
        pytest.param(
            [claim("c", build.request(class_name="gpu", all=True)), with_claims("c")],
            {"pods": 1},
            id="all devices are not known before there are any",
        ),
        pytest.param(
            [
                holding(claim("c", build.request(class_name="gpu", all=True)), "a", ["d0", "d1", "d2"], "p"),
                with_claims("c"),
            ],
            {"pods": 1, GPUS: 3},
            id="all devices",
        ),
        pytest.param(
            [
                claim("c", build.request(class_name="gpu", count=2, capacity={"memory": "10Gi"})),
                with_claims("c"),
            ],
            {"pods": 1, GPUS: 2, "memory.deviceclass/gpu": "20Gi"},
            id="capacity of devices",
        ),
        pytest.param(
            [EXTENDED, pod(more={"example.com/gpu": 2})],
            {"pods": 1, "example.com/gpu": 2, GPUS: 2},
            id="an extended resource that a class serves",
        ),
        pytest.param(
            [EXTENDED, node("a", more={"example.com/gpu": 4}), pod(more={"example.com/gpu": 2}, node="a")],
            {"pods": 1, "example.com/gpu": 2},
            id="an extended resource that a node serves itself",
        ),
    ],
)
def test_what_pods_take_of_a_queue(objects: list[ApiStruct], takes: dict[str, Amount]) -> None:
    assert demand(*objects) == nanos(takes)


@pytest.mark.parametrize(
    ("amount", "resource", "words"),
    [(4 * ONE, GPUS, "4"), (ONE // 2, "cpu", "500m"), (2**31 * ONE, "memory", "2Gi"), (0, "cpu", "0")],
)
def test_amounts_are_told_as_people_write_them(amount: int, resource: str, words: str) -> None:
    assert told(amount, resource) == words


# --- what is used ---


def test_the_queue_of_a_pod_is_that_of_its_volcano_group() -> None:
    made = seen(volcano_group("g", queue="q"), volcano_group("h"))
    [mine], [others] = members(1, "g", devices=0, volcano=True), members(1, "h", devices=0, volcano=True)
    assert isinstance(mine, Pod)
    assert isinstance(others, Pod)

    assert queue_of(mine, made) == "q"
    assert queue_of(others, made) == "default"
    assert queue_of(pod(group="g"), made) == ""
    assert queue_of(pod(annotations={"scheduling.k8s.io/group-name": "unknown"}), made) == ""


def test_what_is_used_follows_pods_that_come_go_and_are_away_in_thought() -> None:
    two = placed(members(2, "g", volcano=True), "a")
    made = seen(gpu_node("a"), volcano_group("g", queue="q"), two)
    queues = TenantQueues(made)

    assert nonzero(queues.used["q"]) == {"pods": 2 * ONE, GPUS: 2 * ONE}
    with without(made, [made.pods["default/g-0"]]):
        assert queues.used["q"][GPUS] == ONE
        queues.validate()
    assert queues.used["q"][GPUS] == 2 * ONE

    gone = made.pods["default/g-0"].pod
    made.change(gone, None)
    assert queues.used["q"][GPUS] == ONE
    queues.validate()


def test_pods_of_a_group_that_comes_after_them_are_counted() -> None:
    made = seen(gpu_node("a"), placed(members(1, "g", volcano=True), "a"))
    queues = TenantQueues(made)
    assert queues.used == {}

    made.change(None, volcano_group("g", queue="q"))
    queues.reset()

    assert queues.used["q"][GPUS] == ONE


@pytest.mark.parametrize(
    ("there", "name", "words"),
    [
        ([], "default", ""),
        ([], "q", "there is no queue q"),
        ([queue("q")], "q", ""),
        ([queue("q", state="Open")], "q", ""),
        ([queue("q", state="Closed")], "q", "the queue q is Closed"),
        ([queue("q", state="Closing")], "q", "the queue q is Closing"),
    ],
)
def test_whether_a_queue_takes_anything(there: list[ApiStruct], name: str, words: str) -> None:
    assert TenantQueues(seen(there)).closed(name) == words


@pytest.mark.parametrize(
    ("most", "more", "words"),
    [
        ({}, {GPUS: 100}, ""),
        ({GPUS: 4}, {GPUS: 2}, ""),
        ({GPUS: 4}, {GPUS: 3}, f"queue q may use 4 of {GPUS}, uses 2, and this needs 3 more"),
        ({GPUS: 1}, {"cpu": 3}, ""),  # what it has too much of is not wanted
        ({GPUS: 0}, {GPUS: 1}, f"queue q may use 0 of {GPUS}, uses 2, and this needs 1 more"),
    ],
)
def test_what_is_beyond_a_queue(most: dict[str, Amount], more: dict[str, Amount], words: str) -> None:
    two = placed(members(2, "g", volcano=True), "a")
    made = seen(gpu_node("a"), queue("q", most=most), volcano_group("g", queue="q"), two)

    assert TenantQueues(made).beyond("q", nanos(more)) == words


# --- whose turn it is ---


@pytest.mark.parametrize(
    ("queues", "first"),
    [
        pytest.param([queue("x"), queue("y")], "y", id="y uses less"),
        pytest.param(
            [queue("x", weight=4), queue("y")], "x", id="x uses less of what it may expect by weight"
        ),
        pytest.param(
            [queue("x", deserved={GPUS: 8}), queue("y", deserved={GPUS: 2})], "x", id="by what they deserve"
        ),
        pytest.param([queue("x", priority=1), queue("y")], "x", id="a queue of higher priority"),
    ],
)
def test_whose_turn_it_is(queues: list[Queue], first: str) -> None:
    """x uses two devices and y one."""
    made = seen(
        gpu_node("a", 8),
        queues,
        volcano_group("gx", queue="x"),
        volcano_group("gy", queue="y"),
        placed(members(2, "gx", volcano=True), "a"),
        placed(members(1, "gy", volcano=True), "a", first=2),
    )
    asked = TenantQueues(made)

    assert min("xy", key=asked.turn) == first


def test_what_is_due() -> None:
    """y waits for more than its half; z wants little, and what it does not want is for the others."""
    made = seen(
        gpu_node("a", 8),
        queue("x"),
        queue("y"),
        queue("z"),
        *(volcano_group(f"g{name}", queue=name) for name in "xyz"),
        placed(members(6, "gx", volcano=True), "a"),
        placed(members(2, "gz", volcano=True), "a", first=6),
        members(9, "gy", volcano=True),
    )

    due = TenantQueues(made).due([GPUS])

    assert {name: amounts[GPUS] // ONE for name, amounts in due.items()} == {"x": 3, "y": 3, "z": 2}


queue_names = st.sampled_from("abcd")


@given(
    st.integers(0, 1000),
    st.dictionaries(queue_names, st.tuples(st.integers(0, 500), st.integers(1, 5)), min_size=1),
)
def test_a_total_is_parted_fairly(total: int, queues: dict[str, tuple[int, int]]) -> None:
    wanted = {name: amount for name, (amount, _) in queues.items()}
    weights = {name: weight for name, (_, weight) in queues.items()}

    parts = parted(total, wanted, weights)

    assert all(parts.get(name, 0) <= amount for name, amount in wanted.items())
    assert sum(parts.values()) <= total
    if sum(wanted.values()) <= total:
        assert {name: amount for name, amount in wanted.items() if amount} == parts
    else:
        assert total - sum(parts.values()) <= len(queues)  # roundings
    for name in wanted:  # who wants more has as much for its weight as anybody, up to roundings
        if parts.get(name, 0) < wanted[name]:
            each = parts.get(name, 0) / weights[name]
            assert all(part / weights[other] <= each + 1 for other, part in parts.items())


def test_a_total_is_parted_by_weight_above_what_is_kept() -> None:
    """c has more by what is kept for it than by weight; a and b share what that leaves."""
    even = dict.fromkeys("abc", 1)
    assert parted(9, dict.fromkeys("abc", 9), even, {"b": 1, "c": 5}) == {"a": 2, "b": 2, "c": 5}
    assert parted(9, {"a": 9, "b": 9, "c": 0}, even, {"c": 5}) == {"a": 2, "b": 2, "c": 5}


# --- in the life of a cluster ---


def test_a_quota_of_devices_holds_a_gang_back_until_somebody_leaves_the_queue() -> None:
    made = world(
        gpu_node("a", 8),
        queue("q", most={GPUS: 3}),
        volcano_group("one", 2, "q"),
        volcano_group("two", 2, "q"),
        members(2, "one", volcano=True),
    )
    settle(made)
    made.put(*members(2, "two", volcano=True))
    settle(made)
    assert set(nodes_of(made)) == {"one-0", "one-1"}
    assert f"queue q may use 3 of {GPUS}, uses 2, and this needs 2 more" in reason_of(made, "two-0")

    made.delete(made.pod("one-0"))
    settle(made)
    assert {"two-0", "two-1"} <= set(nodes_of(made))


def test_a_quota_in_volcanos_own_words() -> None:
    two = placed(members(2, "g", volcano=True), "a")
    made = seen(gpu_node("a"), queue("q", devices={"gpu": 2}), volcano_group("g", queue="q"), two)

    assert (
        TenantQueues(made).beyond("q", {GPUS: ONE})
        == f"queue q may use 2 of {GPUS}, uses 2, and this needs 1 more"
    )


def test_a_larger_quota_lets_a_gang_in() -> None:
    made = world(gpu_node("a", 8), queue("q", most={GPUS: 1}), volcano_group("g", 2, "q"))
    made.put(*members(2, "g", volcano=True))
    settle(made)
    assert nodes_of(made) == {}

    made.put(queue("q", most={GPUS: 2}))
    settle(made)
    assert len(nodes_of(made)) == 2


def test_a_queue_that_opens_lets_its_gangs_in() -> None:
    made = world(gpu_node("a", 8), queue("q", state="Closed"), volcano_group("g", 2, "q"))
    made.put(*members(2, "g", volcano=True))
    settle(made)
    assert nodes_of(made) == {}
    assert "the queue q is Closed" in reason_of(made, "g-0")

    made.put(queue("q", state="Open"))
    settle(made)
    assert len(nodes_of(made)) == 2


def test_more_than_the_minimum_is_placed_as_far_as_the_quota_goes() -> None:
    made = world(gpu_node("a", 8), queue("q", most={GPUS: 3}), volcano_group("g", 2, "q"))
    made.put(*members(5, "g", volcano=True))

    settle(made)

    assert len(nodes_of(made)) == 3


def test_members_that_ask_for_nothing_are_not_held_back_by_a_quota_of_devices() -> None:
    made = world(gpu_node("a", 8), queue("q", most={GPUS: 2}), volcano_group("g", 2, "q"))
    made.put(*members(3, "g", volcano=True), *member("idle", "g", volcano=True, devices=0))

    settle(made)

    assert len(nodes_of(made)) == 3
    assert "idle" in nodes_of(made)


def test_a_pod_with_claims_and_no_amounts_is_not_ready_before_it_is_placed() -> None:
    """Elsewhere it counted as one that asks for nothing, and the gang as complete."""
    made = world(gpu_node("a", 1), volcano_group("g", 2))
    made.put(
        *member("has-cpu", "g", volcano=True, devices=0, cpu=1), *member("p", "g", volcano=True, devices=2)
    )

    settle(made)

    assert nodes_of(made) == {}


def test_the_gang_of_the_queue_with_less_goes_first() -> None:
    """Devices for one more gang come free; the queue that has nothing gets them, though its gang came last."""
    made = world(
        gpu_node("a", 4),
        queue("rich"),
        queue("poor"),
        volcano_group("first", 2, "rich"),
        members(2, "first", volcano=True),
    )
    settle(made)
    made.put(volcano_group("second", 4, "rich"), *members(4, "second", volcano=True))
    made.put(volcano_group("third", 4, "poor"), *members(4, "third", volcano=True))
    settle(made)
    assert set(nodes_of(made)) == {"first-0", "first-1"}

    made.put(*gpu_node("b", 2))
    settle(made)

    assert {f"third-{n}" for n in range(4)} <= set(nodes_of(made))


def test_a_minimum_of_tasks_is_kept() -> None:
    made = world(gpu_node("a", 2), volcano_group("g", 2, tasks={"ps": 1}))
    made.put(
        *members(3, "g", volcano=True, task="worker"),
        *member("z-ps", "g", volcano=True, task="ps", devices=2),
    )

    settle(made)
    assert nodes_of(made) == {}  # two workers would fit, but not the parameter server too

    made.put(*gpu_node("b", 1))
    settle(made)
    assert "z-ps" in nodes_of(made)


def test_nobody_is_bound_when_the_only_member_of_a_task_cannot_be() -> None:
    pods = [*members(3, "g", volcano=True, task="worker"), *member("ps", "g", volcano=True, task="ps")]
    made = world(gpu_node("a", 4), volcano_group("g", 2, tasks={"ps": 1}), pods)
    seat = made.seats[0]
    assert seat.turn(16)

    while any(isinstance(each, PatchClaim) for each in seat.writes):
        [number, *_] = [n for n, each in enumerate(seat.writes) if isinstance(each, PatchClaim)]
        write = seat.writes[number]
        refused = isinstance(write, PatchClaim) and write.name == "ps-d"
        seat.perform(number, Fate.REFUSED if refused else Fate.FINE)
        for kind in KINDS:
            while seat.news[kind]:
                seat.deliver(kind)
        while seat.replies:
            seat.reply()

    assert not any(isinstance(each, Bind) for each in seat.said)


def test_pods_that_name_volcanos_scheduler_are_taken_by_a_profile_of_that_name() -> None:
    made = world(gpu_node("a", 2), volcano_group("g", 2))
    made.put(*members(2, "g", volcano=True, scheduler="volcano"))

    settle(made)

    assert len(nodes_of(made)) == 2


# --- whatever comes and goes ---


def used_of(made: World, name: str) -> int:
    """Devices that the bound pods of a queue's groups hold."""
    groups = {each.metadata.name for each in made.of(VolcanoPodGroup).values() if each.spec.queue == name}
    total = 0
    for each in made.pods.values():
        mine = each.metadata.annotations.get("scheduling.k8s.io/group-name") in groups
        if mine and each.spec.node_name and each.status.phase not in FINISHED:
            total += sum(
                len(claim.status.allocation.devices.results)
                for claim in made.claims_of(each)
                if claim.status.allocation
            )
    return total


def check(made: World) -> None:
    """No queue has more than it may, and no gang is bound in part that never had a member go."""
    for each in made.of(Queue).values():
        assert used_of(made, each.metadata.name) <= int(str(each.spec.capability[GPUS])), each.metadata.name
    for group in made.of(VolcanoPodGroup).values():
        pods = [
            p
            for p in made.pods.values()
            if p.metadata.annotations["scheduling.k8s.io/group-name"] == group.metadata.name
        ]
        bound = sum(bool(each.spec.node_name) for each in pods)
        whole = len(pods) == int(group.metadata.labels["pods"])
        assert not whole or bound == 0 or bound >= (group.spec.min_member or 1), (
            f"{bound} of {group.metadata.name}"
        )


@pytest.mark.parametrize("seed", range(4))
def test_whatever_comes_and_goes_quotas_hold_and_gangs_are_whole(seed: int) -> None:
    rng, most = random.Random(seed), 5
    made = world(gpu_node("a", 4), gpu_node("b", 4))
    made.put(queue("x", most={GPUS: most}), queue("y", most={GPUS: 4}, weight=2))
    for number in range(14):
        match rng.choice(("come", "come", "come", "go", "end", "grow")):
            case "come":
                count, name = rng.randint(1, 4), f"g{number}"
                came = volcano_group(name, rng.randint(1, count), rng.choice("xy"))
                made.put(replace(came, metadata=replace(came.metadata, labels={"pods": str(count)})))
                made.put(*members(count, name, volcano=True, priority=rng.randint(0, 1)))
            case "go" if made.pods:
                made.delete(rng.choice(list(made.pods.values())))
            case "end" if nodes_of(made):
                there = made.pod(rng.choice(sorted(nodes_of(made))))
                made.put(replace(there, status=replace(there.status, phase="Succeeded")))
            case "grow":
                most += rng.randint(0, 2)
                made.put(queue("x", most={GPUS: most}))
        if rng.random() < 0.6:
            settle(made, seconds=600.0)
            check(made)
            made.check_nothing_leaked()
    settle(made, seconds=600.0)
    check(made)


# --- what is not read ---


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        (
            {"guarantee": {"resource": {"memory.deviceclass/gpu": "2Gi"}}},
            "guarantee of memory.deviceclass/gpu",
        ),
        (
            {"dra": {"guarantee": {"gpu": {"capacity": {"memory": "1Gi"}}}}},
            "guarantee of memory.deviceclass/gpu",
        ),
        ({"guarantee": {"resource": {"cpu": "2"}}}, ""),
        ({"parent": "root", "dra": {"guarantee": {"gpu": {"count": 1}}}}, ""),
        ({"weight": 2, "capability": {"cpu": "8"}}, ""),
    ],
)
def test_a_queue_is_told_which_of_its_wishes_nobody_reads(spec: dict[str, Any], fields: str) -> None:
    asking = decode(Queue, {"metadata": {"name": "q", "uid": "u"}, "spec": spec})
    core = Scheduler(Cluster(), DEFAULT.rosters())
    told = [each.message for each in core.handle(Changed(None, asking)) if isinstance(each, Tell)]
    assert [words.partition(": ")[0] for words in told] == ([fields] if fields else [])
    again = replace(asking, metadata=replace(asking.metadata, resource_version="2"))
    assert core.handle(Changed(asking, again)) == []
