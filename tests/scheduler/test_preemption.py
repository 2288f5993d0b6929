"""Who has to go so that a pod fits: those of least importance, as few as possible, and nobody in vain."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.api.batch import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct, LabelSelector, ObjectMeta
from allotment.scheduler.event import Tick
from allotment.scheduler.instruction import DeletePod, PatchPod
from allotment.scheduler.plugins.default_preemption import VICTIMS_AWAITED
from tests.allocator import build
from tests.builders import typed
from tests.builders.typed import claim, node, slice_
from tests.scheduler import storage
from tests.scheduler.world import Fate, Seat, World, settle


def device_pod(name: str, priority: int = 0, *, cpu: int = 1, device: bool = True, **more: Any) -> Pod:
    return typed.pod(
        name, cpu=cpu, priority=priority, **{"templates": {"d": "one"} if device else {}, **more}
    )


def budget(allowed: int, **labels: str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels)),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def full(*objects: ApiStruct, nodes: dict[str, int] | None = None, cpu: int = 16) -> Seat:
    """Nodes with so many devices each, on which these pods have found their places."""
    world = World(build.class_())
    world.templates = {"one": claim("t").spec, "two": claim("t", build.request(count=2)).spec}
    for name, count in (nodes or {"n": 2}).items():
        world.put(node(name, cpu=cpu), slice_(name, *[f"d{number}" for number in range(count)]))
    world.put(*objects)
    seat = Seat(world)
    settle(world)
    assert all(each.spec.node_name for each in world.pods.values())
    return seat


def evicted(seat: Seat, newcomer: Pod) -> list[str]:
    """Whom the newcomer drives out, before anybody has gone."""
    seat.world.put(newcomer)
    for kind, news in seat.news.items():
        while news:
            seat.deliver(kind)
    seat.turn(4)
    return sorted(each.name for each in seat.writes if isinstance(each, DeletePod))


def message(of: Pod) -> str:
    (condition,) = of.status.conditions
    return condition.message or ""


# --- who ---


def test_the_least_important_goes() -> None:
    assert evicted(full(device_pod("a", 3), device_pod("b", 1)), device_pod("new", 5)) == ["b"]


def test_nobody_of_the_same_importance_goes() -> None:
    assert evicted(full(device_pod("a", 5), device_pod("b", 5)), device_pod("new", 5)) == []


def test_no_more_go_than_are_needed() -> None:
    assert len(evicted(full(device_pod("a"), device_pod("b")), device_pod("new", 5))) == 1


def test_as_many_go_as_are_needed() -> None:
    assert evicted(full(device_pod("a"), device_pod("b")), device_pod("new", 5, templates={"d": "two"})) == [
        "a",
        "b",
    ]


def test_of_several_nodes_that_with_the_least_important_victims() -> None:
    seat = full(device_pod("a", 3), device_pod("b", 1), nodes={"m": 1, "n": 1})

    assert evicted(seat, device_pod("new", 5)) == ["b"]


def test_of_several_nodes_that_with_the_fewest_victims() -> None:
    seat = full(
        device_pod("a", device=False, cpu=8, selector={typed.HOSTNAME: "m"}),
        device_pod("b", device=False, cpu=8, selector={typed.HOSTNAME: "m"}),
        device_pod("c", device=False, cpu=16, selector={typed.HOSTNAME: "n"}),
        nodes={"m": 0, "n": 0},
    )

    assert evicted(seat, device_pod("new", 5, device=False, cpu=16)) == ["c"]


def test_who_frees_nothing_that_is_needed_stays() -> None:
    """The pod needs a device; one without devices is less important, and goes nowhere."""
    seat = full(device_pod("idle", 0, device=False), device_pod("a", 3), device_pod("b", 3))

    assert evicted(seat, device_pod("new", 5)) in (["a"], ["b"])


def test_where_no_going_helps_nobody_goes() -> None:
    assert evicted(full(device_pod("a"), nodes={"n": 1}), device_pod("new", 5, templates={"d": "two"})) == []


def test_a_pod_that_must_not_drive_out_others_does_not() -> None:
    assert (
        evicted(full(device_pod("a"), device_pod("b")), device_pod("new", 5, preemption_policy="Never")) == []
    )


# --- shared claims ---


def sharing(name: str, priority: int = 0) -> Pod:
    return device_pod(name, priority, templates={}, claims=["shared"])


def test_a_shared_claim_is_free_only_if_all_its_users_go() -> None:
    seat = full(claim("shared"), sharing("a"), sharing("b"), nodes={"n": 1})

    assert evicted(seat, device_pod("new", 5)) == ["a", "b"]


def test_if_one_user_of_a_shared_claim_cannot_go_none_does() -> None:
    seat = full(claim("shared"), sharing("a"), sharing("b", 9), nodes={"n": 1})

    assert evicted(seat, device_pod("new", 5)) == []


# --- volumes ---


def test_who_has_a_claim_for_one_pod_alone_goes_for_a_more_important_pod() -> None:
    """Also where another node would have room for the pod, but not for its claim's volume."""
    mine = storage.claim("c", bound="v", modes=["ReadWriteOncePod"])
    there = [mine, storage.taken(storage.volume("v", on="n"), mine), device_pod("idle", 1, device=False)]
    seat = full(*there, storage.pod("a", "c", priority=3), nodes={"m": 0, "n": 0})

    assert evicted(seat, storage.pod("same", "c", priority=3)) == []
    assert evicted(seat, storage.pod("new", "c", priority=5)) == ["a"]


def test_volumes_are_detached_for_a_more_important_pod_where_a_node_has_too_many() -> None:
    claims = [storage.claim(name, bound=f"v-{name}") for name in "abc"]
    volumes = [
        storage.taken(storage.volume(f"v-{each.metadata.name}", handle=each.metadata.name), each)
        for each in claims
    ]
    limit = storage.csi_node("n", {storage.DRIVER: 2})
    pods = [storage.pod("p", "a", priority=3), storage.pod("q", "b", priority=1)]
    seat = full(limit, *claims, *volumes, *pods, nodes={"n": 0})

    assert evicted(seat, storage.pod("new", "c", priority=5)) == ["q"]


# --- budgets ---


def test_a_budget_that_is_used_up_protects_its_pods() -> None:
    seat = full(budget(0, app="a"), device_pod("a", 0, labels={"app": "a"}), device_pod("b", 3))

    assert evicted(seat, device_pod("new", 5)) == ["b"]


def test_no_more_go_than_the_budget_allows() -> None:
    seat = full(
        budget(1, app="a"), device_pod("a", labels={"app": "a"}), device_pod("b", labels={"app": "a"})
    )

    assert evicted(seat, device_pod("new", 5, templates={"d": "two"})) == []


def test_a_budget_is_about_its_own_pods() -> None:
    assert evicted(full(budget(0, app="x"), device_pod("a"), device_pod("b", 3)), device_pod("new", 5)) == [
        "a"
    ]


def test_a_budget_that_goes_protects_nobody() -> None:
    blocking = budget(0, app="a")
    seat = full(blocking, device_pod("a", labels={"app": "a"}), device_pod("b", labels={"app": "a"}))
    seat.world.put(device_pod("new", 5))
    settle(seat.world)
    assert not seat.world.pod("new").spec.node_name
    assert message(seat.world.pod("new")) == (
        "0/1 nodes: 1 has every any in use. Preemption would make room on a node, "
        "but disruption budgets that are used up protect 2 pods there"
    )

    seat.world.delete(seat.world.of(PodDisruptionBudget)["default/b"])
    settle(seat.world)

    assert seat.world.pod("new").spec.node_name == "n"


def test_budgets_are_not_blamed_where_the_pods_that_they_protect_would_not_do() -> None:
    seat = full(budget(0, app="a"), device_pod("a", labels={"app": "a"}), device_pod("b", 7))
    seat.world.put(device_pod("new", 5, templates={"d": "two"}))
    settle(seat.world)
    assert message(seat.world.pod("new")) == "0/1 nodes: 1 has every any in use"


# --- what happens then ---


def test_the_pod_is_nominated_and_gets_the_place() -> None:
    seat = full(device_pod("a"), device_pod("b"))
    evicted(seat, device_pod("new", 5))
    assert any(
        isinstance(each, PatchPod) and each.patch["status"].get("nominatedNodeName") == "n"
        for each in seat.writes
    )

    settle(seat.world)

    assert seat.world.pod("new").spec.node_name == "n"
    assert len(seat.world.pods) == 2
    seat.world.check_nothing_leaked()


def test_room_that_was_made_is_not_given_to_who_comes_later() -> None:
    seat = full(device_pod("a"), device_pod("b"))
    evicted(seat, device_pod("new", 5))

    seat.world.put(device_pod("late", 5))
    settle(seat.world)

    assert seat.world.pod("new").spec.node_name == "n"


def test_nobody_else_is_evicted_while_victims_are_leaving() -> None:
    seat = full(device_pod("a"), device_pod("b"))
    first = evicted(seat, device_pod("new", 5))
    while seat.writes:
        seat.perform()
    seat.catch_up()  # the victim is leaving, and stays for a while
    for number in range(3):
        seat.world.put(node(f"useless{number}", cpu=0))  # a reason to look again
        seat.catch_up()
        seat.world.now += 2
        seat.tell(Tick(seat.world.now))
        seat.turn(4)

    assert sorted({each.name for each in seat.said if isinstance(each, DeletePod)}) == first


def test_nor_after_a_restart() -> None:
    seat = full(device_pod("a"), device_pod("b"))
    evicted(seat, device_pod("new", 5))
    while seat.writes:
        seat.perform()
    seat.crash()
    seat.turn(4)

    assert not any(isinstance(each, DeletePod) for each in seat.writes)
    settle(seat.world)
    assert seat.world.pod("new").spec.node_name == "n"
    assert len(seat.world.pods) == 2


@pytest.mark.parametrize("fate", [Fate.TIMEOUT, Fate.LOST])
def test_an_eviction_without_an_answer_is_repeated(fate: Fate) -> None:
    seat = full(device_pod("a"), device_pod("b"))
    evicted(seat, device_pod("new", 5))
    number = next(n for n, each in enumerate(seat.writes) if isinstance(each, DeletePod))
    seat.perform(number, fate)

    settle(seat.world)

    assert seat.world.pod("new").spec.node_name == "n"
    assert len(seat.world.pods) == 2


def test_a_pod_whose_victims_may_not_be_evicted_keeps_no_room() -> None:
    seat = full(device_pod("a"), device_pod("b"))
    evicted(seat, device_pod("new", 5))
    number = next(n for n, each in enumerate(seat.writes) if isinstance(each, DeletePod))

    seat.perform(number, Fate.REFUSED)
    while seat.catch_up():
        pass

    assert not seat.core.cluster.nominated
    assert seat.world.pod("new").status.nominated_node_name is None


def test_victims_that_do_not_go_are_not_waited_for_for_ever() -> None:
    seat = full(device_pod("a", 0), device_pod("b", 1))
    evicted(seat, device_pod("new", 5))
    while seat.writes:
        seat.perform()
    seat.catch_up()
    seat.world.now += VICTIMS_AWAITED + 1
    seat.tell(Tick(seat.world.now))

    seat.world.put(node("useless", cpu=0))
    for _ in range(3):  # it gives the room up, then looks for another
        seat.catch_up()
        seat.world.now += 2
        seat.tell(Tick(seat.world.now))
        seat.turn(4)

    assert [each.name for each in seat.said if isinstance(each, DeletePod)] == ["a", "b"]
