"""Tenants share the scheduler evenly: an expensive decision goes on in many turns, and the pods of others go between.

Nothing here looks at a clock: turns and steps are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.allocator.effort import Effort, Paused
from allotment.allocator.fleet import Fleet
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import ResourceClaim
from allotment.scheduler import core
from allotment.scheduler.fair_order import FairOrder
from allotment.scheduler.pod import PodInfo
from allotment.scheduler.queue import QueueEntry, Rank
from tests.allocator import build
from tests.builders.typed import claim, node, pod, slice_
from tests.scheduler import storage
from tests.scheduler.gang_builders import gpu_node, group, members, nodes_of, world
from tests.scheduler.world import Seat, World, settle

TURN = 50


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "TURN_STEPS", TURN)


def maze(number: int = 0, spec: str = "hard") -> ResourceClaim:
    """A claim for nine devices that have none of three attributes in common: there are none, which takes 1,013 steps to find
    out. Each number is a claim of its own shape."""
    wishes = [build.request(f"r{number}-{each}") for each in range(9)]
    apart = tuple(build.distinct(each) for each in "abc")
    return build.claim(*wishes, name=f"{spec}{number}", namespace="default", constraints=apart)


def labyrinth(name: str = "n") -> list[ApiStruct]:
    random = Random(4)
    devices = [
        build.device(f"d{n}", attributes={each: random.randrange(10) for each in "abc"}) for n in range(24)
    ]
    return [node(name, cpu=64), slice_(name, *devices)]


STEPS = 1_013


def hard(number: int, **more: object) -> list[ApiStruct]:
    return [maze(number), pod(f"hard{number}", claims={"d": f"hard{number}"}, cpu=1 + number, **more)]  # type: ignore[arg-type]  # options by name


def simple(name: str, namespace: str = "other") -> list[ApiStruct]:
    return [claim(name, namespace=namespace), pod(name, namespace=namespace, claims=[name])]


def seated(*objects: ApiStruct) -> Seat:
    made = World(build.class_(), *labyrinth(), *objects)
    seat = Seat(made, validates=False)  # who validates asks everything to its end
    seat.catch_up()
    return seat


def steps_until_placed(seat: Seat, name: str) -> int:
    """How many steps the scheduler takes before it binds or reserves for a pod; each turn keeps to its limit."""
    began = seat.core.steps
    while not any(getattr(each, "name", "") == name for each in seat.writes):
        before = seat.core.steps
        assert seat.turn(), f"{name} is never placed"
        assert seat.core.steps - before <= 2 * TURN
    return seat.core.steps - began


# --- a simple pod beside expensive ones ---


def test_a_simple_pod_waits_for_one_slice_however_many_expensive_ones_came_first() -> None:
    for count in (1, 12):
        crowd = [each for number in range(count) for each in hard(number)]
        seat = seated(*crowd, *simple("simple"))
        assert steps_until_placed(seat, "simple") <= 3 * TURN


def test_one_that_comes_later_does_not_wait_longer() -> None:
    seat = seated(*[each for number in range(12) for each in hard(number)])
    for _ in range(20):
        seat.turn()
    seat.world.put(*simple("simple"))
    seat.catch_up()
    assert steps_until_placed(seat, "simple") <= 3 * TURN


def test_in_its_own_namespace_it_waits_for_a_slice_of_each_shape_that_came_first() -> None:
    crowd = [each for number in range(6) for each in hard(number)]
    seat = seated(*crowd, *simple("simple", "default"))
    assert steps_until_placed(seat, "simple") <= 2 * 7 * TURN


def test_pods_of_a_shape_that_is_known_to_be_expensive_go_behind() -> None:
    """Twelve pods of one shape cost the namespace one slice, not twelve."""
    seat = seated()
    seat.world.templates = {"hard": maze().spec}
    seat.world.put(
        *[pod(f"hard{n}", templates={"d": "hard"}) for n in range(12)], *simple("simple", "default")
    )
    seat.catch_up()
    assert steps_until_placed(seat, "simple") <= 3 * TURN


def test_a_pod_with_many_volumes_is_charged_for_them_on_every_node() -> None:
    made = World(
        storage.kind(),
        *[node(f"n{number}") for number in range(20)],
        *[storage.volume(f"v{number:02}") for number in range(40)],
        *[storage.claim(f"c{number}") for number in range(48)],
        storage.pod("greedy", *[f"c{number}" for number in range(48)]),
    )
    seat = Seat(made, validates=False)
    seat.catch_up()
    while seat.turn():
        pass
    assert not nodes_of(made)
    assert seat.core.steps >= 20 * (1 + 48 // 16)


def test_simple_pods_do_not_starve_an_expensive_one() -> None:
    """It has its answer when the simple ones took about as many steps as it did."""
    seat = seated(*hard(0))
    taken = 0
    for number in range(100_000):
        seat.world.put(pod(f"s{number}", namespace="other", selector={"no": "such"}, cpu=1 + number))
        seat.catch_up()
        seat.turn()
        taken = seat.core.steps
        if seat.world.pod("hard0").status.conditions:
            break
    assert STEPS < taken <= 3 * STEPS


# --- the same answers ---


def verdict(seat: Seat) -> dict[str, str]:
    settle(seat.world)
    return {
        name: each.spec.node_name or "".join(c.message or "" for c in each.status.conditions)
        for name, each in seat.world.pods.items()
    }


@pytest.mark.parametrize("turn", [1, 7, 100_000])
def test_slices_of_any_size_lead_to_the_same_answer(turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "TURN_STEPS", turn)
    monkeypatch.setattr(core, "MOST_DECISION_STEPS", 10**9)
    seat = seated(*hard(0))
    assert "have no devices" not in verdict(seat)["default/hard0"]
    assert seat.core.cluster.fleet.effort.limit is None
    assert "gave up" not in verdict(seat)["default/hard0"]


def questions(seed: int) -> Iterator[tuple[Fleet, ResourceClaim]]:
    random = Random(seed)
    devices = [
        build.device(f"d{n}", attributes={each: random.randrange(4) for each in "ab"}) for n in range(9)
    ]
    fleet = Fleet([node("n")], [slice_("n", *devices)], [build.class_()])
    yield (
        fleet,
        claim(
            "c",
            *[build.request(f"r{n}") for n in range(4)],
            constraints=(build.distinct("a"), build.match("b")),
        ),
    )


@given(st.integers(0, 10_000), st.integers(1, 9))
@settings(max_examples=40)
def test_a_search_that_was_paused_finds_what_it_would_have_found(seed: int, slice_of: int) -> None:
    ((fleet, wanted),) = questions(seed)
    ((other, _),) = questions(seed)
    whole = other.fit("n", [wanted])
    answer = None
    for _ in range(10_000):
        fleet.effort.begin(slice_of)
        try:
            answer = fleet.fit("n", [wanted])
            break
        except Paused:
            continue
    assert answer == whole


# --- gangs ---


def crowded(size: int = 8) -> World:
    """Every device is in use by pods that a gang may drive out."""
    made = world(*[gpu_node(f"n{n}", 4) for n in range(size // 4)])
    made.put(*members(size, "", prefix="old", priority=1))
    settle(made)
    assert len(nodes_of(made)) == size
    return made


@pytest.mark.parametrize("turn", [2, 10])
def test_a_gang_that_makes_room_does_so_in_slices(turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "TURN_STEPS", turn)
    monkeypatch.setattr(core, "STEPS_A_MEMBER", 1)
    made = crowded()
    (seat,) = made.seats
    made.put(group("gang", 3), *members(3, "gang", priority=10))
    seat.catch_up()
    paused = 0
    while seat.turn():
        paused += seat.core.paused
    assert paused
    settle(made)
    assert {"gang-0", "gang-1", "gang-2"} <= nodes_of(made).keys()


def test_a_gang_whose_world_changes_between_slices_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "TURN_STEPS", 4)
    monkeypatch.setattr(core, "STEPS_A_MEMBER", 1)
    made = crowded()
    (seat,) = made.seats
    made.put(group("gang", 3), *members(3, "gang", priority=10))
    seat.catch_up()
    seat.turn()
    assert seat.core.paused
    made.put(*gpu_node("new", 4))
    settle(made)
    assert {nodes_of(made)[f"gang-{n}"] for n in range(3)} == {"new"}
    assert len(nodes_of(made)) == 11, "nobody had to go"


def test_what_is_never_found_out_is_given_up_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "MOST_DECISION_STEPS", 500)
    seat = seated(*hard(0))
    while seat.turn():
        seat.catch_up()
    (condition,) = seat.world.pod("hard0").status.conditions
    assert (condition.message or "").startswith("gave up after 500 steps")
    assert condition.reason == "Unschedulable"


# --- the order ---


class Waiting:
    """Entries by number, which are served when they are next."""

    def __init__(self) -> None:
        self.entries: dict[int, QueueEntry] = {}
        self.order = FairOrder(self._find)

    def _find(self, rank: Rank) -> QueueEntry | None:
        return self.entries.get(rank[2])

    def add(self, number: int, tenant: str, priority: int = 0) -> None:
        rank = (-priority, 0.0, number, str(number))
        made: Pod = pod(str(number), namespace=tenant)
        self.entries[number] = QueueEntry(str(number), priority, (PodInfo(made),), 0.0, rank=rank)
        self.order.add(tenant, rank)

    def serve(self, steps: int = 1) -> str:
        found = self.order.first()
        assert found is not None
        del self.entries[found.rank[2]]
        self.order.charge(found.tenant, steps)
        return found.tenant


def test_tenants_take_turns_and_priority_comes_first() -> None:
    queue = Waiting()
    for number in range(4):
        queue.add(number, "a")
    queue.add(4, "b")
    queue.add(5, "b")
    queue.add(6, "c", priority=1)
    assert [queue.serve() for _ in range(7)] == ["c", "a", "b", "a", "b", "a", "a"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50)), min_size=30, max_size=120))
def test_while_tenants_have_something_waiting_their_costs_stay_close(asked: list[tuple[str, int]]) -> None:
    queue, spent, left = Waiting(), dict.fromkeys("abc", 0), dict.fromkeys("abc", 0)
    for number, (tenant, _) in enumerate(asked):
        queue.add(number, tenant)
        left[tenant] += 1
    for _, steps in asked:
        if not all(left.values()):
            break
        served = queue.serve(steps)
        spent[served] += steps
        left[served] -= 1
        assert max(spent.values()) - min(spent.values()) <= 2 * 50


def test_who_was_idle_saved_nothing_up() -> None:
    queue = Waiting()
    for number in range(10):
        queue.add(number, "a")
    for _ in range(5):
        queue.serve(100)
    queue.add(10, "b")
    queue.add(11, "b")
    assert [queue.serve(100) for _ in range(3)].count("b") <= 2


def test_effort_without_a_limit_never_pauses() -> None:
    effort = Effort()
    effort.take(10**9)
    effort.begin(1)
    effort.take(5)
    with pytest.raises(Paused):
        effort.take()


# --- expressions that are expensive to evaluate ---


def pairs(number: int) -> str:
    """An expression that costs some 9,000 units, which are 90 steps, on each device anew."""
    ones = f"[{','.join('1' * 35)}]"
    return (
        f"{ones}.all(x, {ones}.all(y, x + y > 0)) && device.attributes['gpu.example.com'].a != {number + 100}"
    )


def choosy(number: int) -> list[ApiStruct]:
    wish = build.request("r", pairs(number))
    name = f"choosy{number}"
    return [
        build.claim(wish, name=name, namespace="default"),
        pod(name, claims={"d": name}, cpu=1 + number),
    ]


def expensive_world(*objects: ApiStruct) -> Seat:
    devices = [build.device(f"d{n}", attributes={"a": n}) for n in range(24)]
    made = World(build.class_(), node("n", cpu=64), slice_("n", *devices), *objects)
    seat = Seat(made, validates=False)
    seat.catch_up()
    return seat


def test_an_expensive_expression_is_evaluated_in_slices_and_others_go_between() -> None:
    seat = expensive_world(*[each for number in range(12) for each in choosy(number)], *simple("simple"))
    began, longest, placed = seat.core.steps, 0, 0
    while True:
        before = seat.core.steps
        if not seat.turn():
            break
        longest = max(longest, seat.core.steps - before)
        if not placed and any(getattr(each, "name", "") == "simple" for each in seat.writes):
            placed = seat.core.steps - began
    assert 0 < placed <= 3 * longest + TURN, "it waits for a few evaluations of others"
    assert longest <= 3 * TURN, "24 devices in one go"
    assert seat.core.steps - began > 12 * 24 * 30, "evaluations have their price"
    assert len({getattr(each, "name", "") for each in seat.writes}) == 13, "each pod got its device"
