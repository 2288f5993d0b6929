"""Queues that are part of others, and what is kept for queues that do not use it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.api.batch import Queue
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceRequest, ResourceClaim
from allotment.scheduler.gangs.queue_tree import QueueTree
from allotment.scheduler.gangs.tenant_queues import TenantQueues
from allotment.scheduler.pod import GROUP_ANNOTATIONS as GROUP
from tests.allocator import build
from tests.builders.typed import claim, cluster, node, pod, slice_
from tests.scheduler.gang_builders import (
    GPU,
    gpu_node,
    holding,
    members,
    nodes_of,
    placed,
    queue,
    reason_of,
    volcano_group,
    world,
)
from tests.scheduler.world import World, settle

GPUS = "deviceclass/gpu"


def tree(**parents: str | None) -> QueueTree:
    return QueueTree({name: queue(name, parent=parent) for name, parent in parents.items()})


def test_the_path_of_a_queue_begins_at_the_top() -> None:
    found = tree(a=None, b="a", c="b", d="root")
    assert found.path("c") == ["a", "b", "c"]
    assert found.path("d") == ["d"]
    assert found.path("unknown") == ["unknown"]
    assert tree(root=None, a=None, b="a").path("b") == ["root", "a", "b"]


def test_all_below_a_queue() -> None:
    found = tree(a=None, b="a", c="b", d="a", e=None)
    assert sorted(found.below("a")) == ["a", "b", "c", "d"]
    assert found.children("") == ["a", "e"]


@pytest.mark.parametrize(
    ("parents", "name", "words"),
    [
        ({"a": None}, "a", ""),
        ({"a": None, "b": "a"}, "b", ""),
        ({"a": None, "b": "a"}, "a", "the queue a has others below it, and only those take groups: b"),
        ({"b": "nobody"}, "b", "there is no queue nobody, which is the parent of b"),
        ({"c": "b", "b": "nobody"}, "c", "there is no queue nobody, which is the parent of b"),
        ({"a": "c", "b": "a", "c": "a"}, "b", "the parents of the queue b lead in a circle, by c"),
    ],
)
def test_queues_that_take_no_groups_say_why(parents: dict[str, str | None], name: str, words: str) -> None:
    assert tree(**parents).fault(name) == words


def test_a_circle_is_told_once_and_walked_once() -> None:
    found = tree(a="b", b="a", c="b")
    assert len(found.path("c")) == 3
    assert sorted(found.below("a")) == ["a", "b", "c"]


# --- limits ---


def gangs(name: str, where: str, count: int) -> list[ApiStruct]:
    """Pods of a gang of one each, so that as many start as may."""
    return [volcano_group(name, 1, where), *members(count, name, volcano=True)]


def started(made: World) -> dict[str, int]:
    """How many pods of each gang have a node."""
    settle(made)
    names = [name.rpartition("-")[0] for name in nodes_of(made)]
    return {name: names.count(name) for name in dict.fromkeys(names)}


def test_a_queue_stays_below_the_capability_of_those_that_it_is_part_of() -> None:
    made = world(
        gpu_node("n", 8), queue("org", most={GPUS: 3}), queue("a", parent="org"), queue("b", parent="org")
    )
    made.put(*gangs("x", "a", 2), *gangs("y", "b", 2))
    assert sum(started(made).values()) == 3
    waiting = next(name for name in ("x-0", "x-1", "y-0", "y-1") if name not in nodes_of(made))
    assert "queue org may use 3 of deviceclass/gpu, uses 3" in reason_of(made, waiting)


def test_what_is_guaranteed_is_not_lent() -> None:
    made = world(gpu_node("n", 8), queue("a"), queue("b"), queue("kept", kept={GPUS: 3}))
    made.put(*gangs("x", "a", 4), *gangs("y", "b", 4))
    assert sum(started(made).values()) == 5, "three stay free, though nobody wants them"
    made.put(*gangs("z", "kept", 4))
    assert started(made)["z"] == 3


def test_the_words_say_for_whom_it_is_kept() -> None:
    made = world(gpu_node("n", 4), queue("a"), queue("kept", kept={GPUS: 3}))
    made.put(*gangs("x", "a", 2))
    assert started(made) == {"x": 1}
    waiting = "x-1" if "x-0" in nodes_of(made) else "x-0"
    assert "of 4 there are, other queues use or have guaranteed 3" in reason_of(made, waiting)


def test_a_guarantee_within_a_guarantee_counts_once() -> None:
    org = [queue("org", kept={GPUS: 4}), queue("in", parent="org", kept={GPUS: 3}), queue("out")]
    made = world(gpu_node("n", 8), *org)
    made.put(*gangs("x", "out", 8))
    assert started(made) == {"x": 4}


def test_a_queue_that_has_others_below_it_takes_no_gangs() -> None:
    made = world(gpu_node("n", 4), queue("org"), queue("a", parent="org"))
    made.put(*gangs("x", "org", 1))
    assert started(made) == {}
    assert "only those take groups: a" in reason_of(made, "x-0")


def test_capacity_of_devices_is_limited() -> None:
    """Two pods that ask for 40Gi each where the queue may have 50Gi of the class."""
    devices = [build.device(f"d{n}", capacity={"memory": "80Gi"}) for n in range(2)]
    made = world(node("n", cpu=8), slice_("n", *devices), build.class_())
    made.put(queue("q", most={"memory.deviceclass/any": "50Gi"}), volcano_group("g", 1, "q"))
    for name in ("a", "b"):
        made.put(claim(f"{name}-d", build.request(capacity={"memory": "40Gi"})))
        made.put(pod(name, claims={"d": f"{name}-d"}, annotations={GROUP[0]: "g"}))
    settle(made)
    (placed_,) = nodes_of(made)
    words = reason_of(made, "b" if placed_ == "a" else "a")
    assert "queue q may use 50Gi of memory.deviceclass/any, uses 40Gi, and this needs 40Gi more" in words


# --- what claims got, where they do not say it themselves ---


EITHER = build.either("r", build.sub("big", class_name="large"), build.sub("many", class_name="gpu", count=3))
OPEN_ENDED = {
    "all devices of a node": build.request(class_name="gpu", all=True),
    "an alternative that is not the first": EITHER,
}


def wanting(wish: DeviceRequest) -> list[ApiStruct]:
    notes = {GROUP[0]: "g"}
    return [volcano_group("g", 1, "q"), claim("c", wish), pod("p", claims={"d": "c"}, annotations=notes)]


@pytest.mark.parametrize("wish", OPEN_ENDED.values(), ids=OPEN_ENDED)
@pytest.mark.parametrize(
    ("queues", "words"),
    [
        pytest.param([queue("q", most={GPUS: 2})], "queue q may use 2 of deviceclass/gpu", id="capability"),
        pytest.param(
            [queue("org", most={GPUS: 2}), queue("q", parent="org")],
            "queue org may use 2 of deviceclass/gpu",
            id="capability of the whole",
        ),
        pytest.param(
            [queue("q"), queue("kept", kept={GPUS: 2})],
            "of 4 there are, other queues use or have guaranteed 2",
            id="kept for others",
        ),
    ],
)
def test_no_claim_gets_more_than_its_queue_may_have(
    wish: DeviceRequest, queues: list[Queue], words: str
) -> None:
    made = world(gpu_node("n", 4), build.class_("large", "false"), queues, wanting(wish))
    settle(made)
    assert nodes_of(made) == {}
    assert words in reason_of(made, "p")
    assert "with what its claims got" in reason_of(made, "p")


def test_all_devices_are_taken_where_they_are_no_more_than_the_queue_may_have() -> None:
    wish = OPEN_ENDED["all devices of a node"]
    made = world(gpu_node("big", 4), gpu_node("small", 2), queue("q", most={GPUS: 2}), wanting(wish))
    settle(made)
    assert nodes_of(made) == {"p": "small"}


def test_devices_are_counted_when_the_claim_is_shown_after_its_pod() -> None:
    """As another scheduler's decision is."""
    group, asked, user = wanting(OPEN_ENDED["all devices of a node"])
    assert isinstance(asked, ResourceClaim)
    assert isinstance(user, Pod)
    user = replace(user, spec=replace(user.spec, node_name="n"))
    made = cluster(GPU, *gpu_node("n", 4), queue("q"), group, user)
    found = TenantQueues(made)
    assert not found.used["q"].get(GPUS)
    given = holding(asked, "n", ["d0", "d1", "d2"], "p")
    for shown, devices in ((asked, 0), (given, 3), (asked, 0)):
        made.change(made.claims.objects.get("default/c"), shown)
        assert found.used["q"].get(GPUS) == devices * 10**9
        found.validate()
    made.change(asked, None)
    assert not found.used["q"].get(GPUS)
    found.validate()


# --- whose turn it is ---


def test_of_queues_in_queues_the_one_in_the_poorer_half_goes_first() -> None:
    queues = [
        queue("rich"),
        queue("poor"),
        queue("r1", parent="rich"),
        queue("p1", parent="poor"),
        queue("r2", parent="rich"),
    ]
    made = cluster(
        GPU,
        *gpu_node("n", 8),
        *queues,
        volcano_group("a", 1, "r1"),
        *placed(members(4, "a", volcano=True), "n"),
        volcano_group("b", 1, "p1"),
        *placed(members(2, "b", "b", volcano=True), "n", 4),
    )
    found = TenantQueues(made)
    order = sorted(("r1", "p1", "r2"), key=found.turn)
    assert order == ["p1", "r2", "r1"]
    found.validate()
