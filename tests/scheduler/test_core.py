"""The machine as a whole: pods come, wait, learn why, and are woken by what helps them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.api.batch import PodGroup
from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import ResourceClaim
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.event import Tick
from allotment.scheduler.instruction import Bind, PatchClaim, PatchPod
from allotment.scheduler.queue import GATED, PARKED
from tests.allocator import build
from tests.builders.typed import claim, near, node, pod, pod_affinity, slice_
from tests.scheduler.binding.test_pod_binding import allocated, gang, hear, place, step
from tests.scheduler.world import Fate, Seat, World, settle


def conditions(seat: Seat, name: str = "p") -> list[str]:
    """What was written into the pod's condition, in order."""
    return [
        each.patch["status"]["conditions"][0]["message"]
        for each in seat.said
        if isinstance(each, PatchPod) and each.name == name and "conditions" in each.patch["status"]
    ]


def entry_place(seat: Seat, key: str = "default/p") -> str:
    entry = seat.core.queue.get(key)
    return entry.place if entry is not None else ""


def bound(seat: Seat) -> list[str]:
    return [name.partition("/")[2] for name, each in seat.world.pods.items() if each.spec.node_name]


# --- what conditions and events say ---


def test_the_same_is_said_once() -> None:
    seat = place(pod("p", cpu=100))
    for number in range(4):
        settle(seat.world)
        seat.world.put(node(f"more{number}", cpu=1))
        seat.world.delete(seat.world.of(Node)[f"more{number}"])

    assert conditions(seat) == ["0/1 nodes: 1 has less cpu than 100 in all"]
    assert [tell.reason for tell in seat.told] == ["FailedScheduling"]


def test_something_else_is_said_again() -> None:
    seat = place(pod("p", cpu=100))
    settle(seat.world)

    seat.world.put(node("m", cpu=200, cordoned=True))
    settle(seat.world)

    assert conditions(seat) == [
        "0/1 nodes: 1 has less cpu than 100 in all",
        "0/2 nodes: 1 is cordoned; 1 has less cpu than 100 in all",
    ]


def test_what_passes_does_not_take_the_place_of_the_reason() -> None:
    """Whatever is in flight when a pod is tried: why it waits stays what its condition says."""
    seat = place(pod("p", cpu=100))
    settle(seat.world)
    told = conditions(seat)

    info = seat.core.cluster.pods["default/p"]
    seat.core.outbox.say_unschedulable(info, NoNode("a claim is in flight", frozenset(), passing=True))
    assert not seat.core.outbox.take()
    assert conditions(seat) == told


def test_a_node_that_is_gone_is_not_counted_among_the_nodes() -> None:
    """A pod is still on it, and the claim can be used nowhere else."""
    seat = place(pod("old", claims=["c"]), claim("c"))
    settle(seat.world)

    seat.world.put(node("m"), pod("p", claims=["c"]))
    seat.world.remove(seat.world.of(Node)["n"])
    hear(seat)
    seat.turn()

    assert conditions(seat) == ["0/1 nodes: 1 is ruled out by the pod's claims or node names"]


def test_a_gate_is_mentioned_only_if_it_lasts() -> None:
    seat = place(pod("p", claims=["late"]))
    seat.tell(Tick(seat.world.now + 1))
    assert conditions(seat) == []

    seat.tell(Tick(seat.world.now + 3))

    assert conditions(seat) == ["the pod's resource claim default/late does not exist"]


def test_of_scheduling_gates_only_the_api_server_speaks() -> None:
    """It has written the reason SchedulingGated; Unschedulable in its place would have autoscalers add nodes."""
    seat = place(pod("p", gates=["example.com/quota"]))

    seat.tell(Tick(seat.world.now + 60))

    assert conditions(seat) == []
    assert entry_place(seat, "default/p") == GATED


def test_a_claim_that_comes_in_time_is_not_mentioned() -> None:
    seat = place(pod("p", claims=["late"]))

    seat.world.put(claim("late"))
    settle(seat.world)

    assert conditions(seat) == []
    assert bound(seat) == ["p"]


# --- who is woken ---


def test_no_node_at_all_then_one() -> None:
    seat = place(pod("p", cpu=1))
    seat.world.delete(seat.world.of(Node)["n"])
    settle(seat.world)
    assert conditions(seat) == ["0/0 nodes: there are none in the cluster"]

    seat.world.put(node("m"))
    settle(seat.world)

    assert bound(seat) == ["p"]


def test_what_a_failed_binding_gives_back_wakes_others() -> None:
    """The first had the only device, in memory alone; nothing on the server tells that it has given it up."""
    seat = place(
        pod("first", claims=["a"]), pod("second", claims=["b"]), claim("a"), claim("b"), devices=["d0"]
    )
    seat.turn(2)
    assert entry_place(seat, "default/second") == PARKED

    seat.world.delete(seat.world.pod("first"))
    settle(seat.world)

    assert bound(seat) == ["second"]


def test_a_pod_that_comes_wakes_who_must_be_near_it() -> None:
    """Also if it is this scheduler that placed it, and so knew of it before the server showed it there."""
    seat = place(pod("p", affinity=pod_affinity(near=[near({"app": "x"}, "kubernetes.io/hostname")])))
    settle(seat.world)
    assert entry_place(seat) == PARKED

    seat.world.put(pod("x", labels={"app": "x"}))
    settle(seat.world)

    assert sorted(bound(seat)) == ["p", "x"]


NEWS: dict[str, tuple[Pod, ApiStruct]] = {
    # a pod that can run nowhere, and what lets it
    "another slice": (pod("p", claims=["two"]), slice_("n", "d0", "d1", generation=2)),
    "another node": (pod("p", cpu=9), node("m", cpu=16)),
    "another claim by the same name": (pod("p", claims=["two"]), claim("two")),
}


@pytest.mark.parametrize(("waiting", "news"), NEWS.values(), ids=NEWS)
def test_pods_and_claims_that_go_do_not_wake_who_can_run_nowhere_but_what_helps_does(
    waiting: Pod, news: ApiStruct
) -> None:
    two = claim("two", build.request("r", count=2))
    seat = place(pod("old", claims=["c"]), claim("c"), two, waiting, devices=["d0"])
    settle(seat.world)
    assert entry_place(seat) == PARKED
    tried = seat.core.decided

    seat.world.delete(seat.world.pod("old"))
    settle(seat.world)
    assert (entry_place(seat), seat.core.decided) == (PARKED, tried)

    if isinstance(news, ResourceClaim):
        seat.world.delete(seat.world.claim("two"))
        settle(seat.world)
    seat.world.put(news)
    settle(seat.world)
    assert bound(seat) == ["p"]


def test_a_pod_whose_own_claim_was_allocated_does_not_wait_for_others_of_its_kind() -> None:
    """Two equal pods wait, and the claim of the one that is not first in line is allocated by hand."""
    seat = place(
        pod("holder", claims=["held"]),
        pod("p1", claims=["a"], labels={"n": "1"}),
        pod("p2", claims=["b"], labels={"n": "2"}),
        claim("held"),
        claim("a"),
        claim("b"),
        devices=["d0"],
    )
    settle(seat.world)
    assert bound(seat) == ["holder"]
    seat.world.put(slice_("n", "d0", "d1", generation=2))
    seat.turn(0)
    outcome = seat.world.fresh().fleet.allocate("n", [seat.world.claim("b")])
    results = outcome.results  # type: ignore[union-attr]  # there is a device
    mine = seat.world.claim("b")
    seat.world.put(replace(mine, status=replace(mine.status, allocation=results[0])))
    for news in (seat.news[ResourceClaim], seat.news[Pod]):  # of the claim alone
        while news:
            seat.tell(news.popleft())
    seat.tell(Tick(seat.world.now + 5))
    seat.turn(4)

    assert any(isinstance(each, PatchClaim) and each.name == "b" for each in seat.writes)


def test_pods_wait_for_their_group() -> None:
    seat = place(pod("p", group="g"))
    settle(seat.world)
    assert entry_place(seat) == GATED
    assert conditions(seat) == ["the pod's group default/g does not exist"]

    seat.world.put(gang(1))
    settle(seat.world)
    assert bound(seat) == ["p"]


def test_a_group_that_goes_leaves_its_pods_at_the_gate() -> None:
    seat = place(gang(2), pod("p", group="g"))
    seat.turn()

    seat.world.delete(seat.world.of(PodGroup)["default/g"])
    hear(seat)

    assert entry_place(seat) == GATED
    assert "gang:default/g" not in seat.core.queue


# --- restarts ---


def test_a_scheduler_that_starts_in_the_middle_goes_on() -> None:
    """After each write in turn the scheduler is thrown away."""
    writes = 0
    while True:
        seat = place(pod("p", claims=["a", "b"]), claim("a"), claim("b"))
        seat.turn()
        for _ in range(writes):
            if seat.writes:
                step(seat)
        done = bool(bound(seat))
        seat.crash()
        settle(seat.world)
        assert bound(seat) == ["p"]
        assert len(allocated(seat)) == 2
        seat.world.check_nothing_leaked()
        if done:
            break
        writes += 1
    assert writes == 5


def test_a_write_that_took_effect_without_an_answer_before_a_crash() -> None:
    seat = place(pod("p", claims=["a"]), claim("a"))
    seat.turn()
    step(seat)
    seat.perform(0, Fate.LOST)

    seat.crash()
    settle(seat.world)

    assert bound(seat) == ["p"]
    assert sum(isinstance(each, Bind) for each in seat.said) == 1


def test_a_pod_that_waits_for_anothers_write_is_not_said_to_be_unschedulable() -> None:
    """Two pods share a claim: the second waits for the first one's write, and soon follows it."""
    world = World(node("n"), build.ANY, slice_("n", "d0"), claim("shared"))
    seat = Seat(world)
    world.put(pod("one", claims=["shared"]))
    world.put(pod("two", claims=["shared"]))

    settle(world)

    assert not [each for each in seat.told if each.reason == "FailedScheduling"]
    assert all(each.spec.node_name == "n" for each in world.of(Pod).values())
    seat.core.validate()
