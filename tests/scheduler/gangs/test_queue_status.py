"""What Volcano's queues are told about themselves, when, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from allotment.api.batch import Queue, QueueStatus
from allotment.api.codec import to_builtins
from allotment.scheduler.event import Failed, WriteFailure
from allotment.scheduler.gangs.queue_status import PERIOD_SECONDS, queue_status
from allotment.scheduler.instruction import PatchQueue
from tests.builders.typed import amounts
from tests.scheduler.gang_builders import gpu_node, members, queue, volcano_group, world
from tests.scheduler.world import Fate, Seat, World, settle

_ONE = 10**9
NOTHING = {"cpu": "0", "memory": "0"}

# the status that is there, phases of groups, what is used, what is written
CASES: dict[str, tuple[QueueStatus, dict[str, int], dict[str, int], dict[str, Any] | None]] = {
    "a new queue": (QueueStatus(), {}, {}, {"state": "Open", "allocated": NOTHING}),
    "nothing new": (QueueStatus(state="Open", allocated=amounts({"cpu": 0, "memory": 0})), {}, {}, None),
    "groups in all phases": (
        QueueStatus(state="Open", pending=3, running=1, allocated=amounts({"cpu": 0, "memory": 0})),
        {"Pending": 1, "Inqueue": 2, "Running": 1, "Unknown": 4, "Completed": 5},
        {},
        {"pending": 1, "inqueue": 2, "unknown": 4, "completed": 5},
    ),
    "groups that went": (
        QueueStatus(state="Open", running=2, allocated=amounts({"cpu": 0, "memory": 0})),
        {},
        {},
        {"running": 0},
    ),
    "a phase that nobody knows": (
        QueueStatus(state="Open", allocated=amounts({"cpu": 0, "memory": 0})),
        {"": 1, "Strange": 1},
        {},
        None,
    ),
    "what pods take": (
        QueueStatus(state="Open", allocated=amounts({"cpu": 1, "memory": 0})),
        {},
        {"cpu": _ONE // 2, "memory": 2**30 * _ONE, "pods": 2 * _ONE, "deviceclass/gpu": 2 * _ONE},
        {"allocated": {"cpu": "500m", "memory": "1Gi", "pods": "2", "deviceclass/gpu": "2"}},
    ),
    "what they take no longer": (
        QueueStatus(state="Open", allocated=amounts({"cpu": 1, "memory": "1Gi", "deviceclass/gpu": 2})),
        {},
        {"cpu": _ONE, "memory": 0, "deviceclass/gpu": 0},
        {"allocated": {"cpu": "1", "memory": "0", "deviceclass/gpu": None}},
    ),
    "closing with groups": (
        QueueStatus(state="Closing", running=1, allocated=amounts({"cpu": 0, "memory": 0})),
        {"Running": 1},
        {},
        None,
    ),
    "closing without": (
        QueueStatus(state="Closing", allocated=amounts({"cpu": 0, "memory": 0})),
        {},
        {},
        {"state": "Closed"},
    ),
    "closed stays closed": (
        QueueStatus(state="Closed", allocated=amounts({"cpu": 0, "memory": 0})),
        {},
        {},
        None,
    ),
}


@pytest.mark.parametrize(("there", "phases", "used", "written"), CASES.values(), ids=CASES)
def test_what_is_written(
    there: QueueStatus, phases: Mapping[str, int], used: dict[str, int], written: dict[str, Any] | None
) -> None:
    found = queue_status(Queue(status=there), phases, sum(phases.values()), used)
    assert found == written


# --- in a cluster ---


def status_of(made: World, name: str = "q") -> dict[str, Any]:
    """What is said, zeros left out."""
    said = to_builtins(made.of(Queue)[name].status)
    said["allocated"] = {key: amount for key, amount in said.get("allocated", {}).items() if amount != "0"}
    return {key: value for key, value in said.items() if value}


def writes_of(made: World) -> list[PatchQueue]:
    return [each for each in made.seats[0].said if isinstance(each, PatchQueue)]


def test_the_life_of_a_queue() -> None:
    made = world(gpu_node("a", 4), queue("q"), queue("other"), volcano_group("gang", 2, "q"))
    settle(made)
    assert status_of(made) == {"state": "Open", "inqueue": 1}

    made.put(*members(2, volcano=True, devices=2))
    settle(made)
    taken = {"deviceclass/gpu": "4", "pods": "2"}
    found = status_of(made)
    assert taken.items() <= found.pop("allocated").items()
    assert found == {"state": "Open", "running": 1}
    assert status_of(made, "other") == {"state": "Open"}

    for number in range(2):
        made.delete(made.pod(f"gang-{number}"))
    made.delete(volcano_group("gang"))
    settle(made)
    assert status_of(made) == {"state": "Open"}


def test_a_queue_that_closes_is_closed_when_its_last_group_goes() -> None:
    made = world(queue("q", state="Closing"), volcano_group("gang", 2, "q"))
    settle(made)
    assert status_of(made)["state"] == "Closing"

    made.delete(volcano_group("gang"))
    settle(made)

    assert status_of(made)["state"] == "Closed"


def test_nothing_is_written_without_queues_and_nothing_twice() -> None:
    made = world(gpu_node("a", 2), volcano_group("gang", 2), *members(2, volcano=True))
    settle(made)
    assert writes_of(made) == []

    made.put(queue("q"))
    settle(made)
    assert len(writes_of(made)) == 1


def test_many_changes_at_once_are_one_write_in_a_while() -> None:
    made = world(gpu_node("a", 8), queue("q"), volcano_group("gang", 8, "q"))
    settle(made)
    seen, began = len(writes_of(made)), made.now
    made.put(*members(8, volcano=True))
    settle(made)

    assert len(writes_of(made)) - seen <= 1 + (made.now - began) / PERIOD_SECONDS


def written(seat: Seat) -> int:
    """Goes on until a queue's status is to be written; the number of that write."""
    while True:
        found = [number for number, each in enumerate(seat.writes) if isinstance(each, PatchQueue)]
        if found:
            return found[0]
        seat.turn()


@pytest.mark.parametrize("fate", [Fate.TIMEOUT, Fate.LOST])
def test_a_write_without_an_answer_is_repeated(fate: Fate) -> None:
    made = world(queue("q"))
    seat = made.seats[0]

    seat.perform(written(seat), fate)
    settle(made)

    assert status_of(made) == {"state": "Open"}


@pytest.mark.parametrize("why", [WriteFailure.REFUSED, WriteFailure.GONE])
def test_a_write_that_is_refused_is_not_repeated(why: WriteFailure) -> None:
    made = world(queue("q"))
    seat = made.seats[0]
    write = seat.writes.pop(written(seat))

    seat.tell(Failed(write.id, why))
    settle(made)

    assert len(writes_of(made)) == 1


def test_a_write_that_came_too_late_is_followed_by_another() -> None:
    made = world(queue("q"))
    written(made.seats[0])
    there = made.of(Queue)["q"]
    made.put(replace(there, spec=replace(there.spec, weight=3)))

    settle(made)

    assert status_of(made) == {"state": "Open"}
    assert len(writes_of(made)) == 2


def test_who_says_something_else_of_the_same_is_not_contradicted_for_ever() -> None:
    made = world(queue("q"))
    settle(made)
    for _ in range(3):
        there = made.of(Queue)["q"]
        made.put(replace(there, status=replace(there.status, running=7)))
        settle(made)

    assert len(writes_of(made)) == 1


def test_what_is_counted_in_a_queue_wakes_no_gang() -> None:
    made = world(gpu_node("a", 2), queue("q", most={"deviceclass/gpu": 1}), volcano_group("gang", 2, "q"))
    made.put(*members(2, volcano=True))
    settle(made)
    core = made.seats[0].core
    tried, there = core.decided, made.of(Queue)["q"]

    made.put(replace(there, status=replace(there.status, running=7)))
    settle(made)
    assert core.decided == tried

    made.put(queue("q"))
    settle(made)
    assert core.decided > tried
