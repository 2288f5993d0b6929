"""What groups are told about themselves, when, and how often."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from allotment.api.batch import PodGroup, PodGroupStatus, VolcanoPodGroup, VolcanoPodGroupStatus
from allotment.api.meta import Condition
from allotment.scheduler.event import Failed, WriteFailure
from allotment.scheduler.gangs.group_status import (
    GangHindrance,
    MemberCounts,
    kubernetes_status,
    volcano_status,
)
from allotment.scheduler.instruction import PatchGroup
from tests.scheduler.gang_builders import gpu_node, group, member, members, queue, volcano_group, world
from tests.scheduler.world import Fate, World, settle

NOW = 1_000_000_000.0
THEN = "2001-01-01T00:00:00Z"
FULL = GangHindrance("only 1 of 2 pods that it needs fit")
FEW = GangHindrance("waits for 1 more pod", incomplete=True)
BROKEN = GangHindrance("something broke", error=True)


# --- Kubernetes ---


def told(status: str, reason: str, message: str = "") -> Condition:
    return Condition(
        type="PodGroupInitiallyScheduled",
        status=status,
        reason=reason,
        message=message,
        last_transition_time=THEN,
    )


OTHER = Condition(type="DisruptionTarget", status="False", reason="No", message="", last_transition_time=THEN)
UNSCHEDULABLE = told("False", "Unschedulable", FULL.words)


@pytest.mark.parametrize(
    ("before", "found", "verdict", "said"),
    [
        pytest.param((), MemberCounts(), None, None, id="nothing is known yet"),
        pytest.param((), MemberCounts(bound=1), FULL, ("False", "Unschedulable", FULL.words), id="refused"),
        pytest.param((), MemberCounts(), BROKEN, ("False", "SchedulerError", BROKEN.words), id="broken"),
        pytest.param((), MemberCounts(), FEW, None, id="too few pods are no verdict about room"),
        pytest.param((), MemberCounts(bound=2), None, ("True", "Scheduled", ""), id="the minimum is bound"),
        pytest.param(
            (), MemberCounts(bound=1, succeeded=1), None, ("True", "Scheduled", ""), id="one is done already"
        ),
        pytest.param((), MemberCounts(bound=1, failed=1), None, None, id="one has failed"),
        pytest.param((UNSCHEDULABLE,), MemberCounts(), FULL, None, id="that was said already"),
        pytest.param(
            (UNSCHEDULABLE,), MemberCounts(bound=2), None, ("True", "Scheduled", ""), id="room came"
        ),
        pytest.param((told("True", "Scheduled"),), MemberCounts(), FULL, None, id="true for ever"),
        pytest.param((told("True", "Scheduled"),), MemberCounts(bound=2), None, None, id="true already"),
    ],
)
def test_kubernetes(
    before: tuple[Condition, ...],
    found: MemberCounts,
    verdict: GangHindrance | None,
    said: tuple[str, str, str] | None,
) -> None:
    there = replace(group(minimum=2), status=PodGroupStatus(conditions=before))

    status = kubernetes_status(there, 2, found, verdict, NOW)

    if said is None:
        assert status is None
    else:
        assert status is not None
        [condition] = status["conditions"]
        assert (condition["status"], condition["reason"], condition["message"]) == said


def test_other_conditions_stay() -> None:
    there = replace(group(), status=PodGroupStatus(conditions=(OTHER,)))

    status = kubernetes_status(there, 2, MemberCounts(bound=2), None, NOW)

    assert status is not None
    assert [each["type"] for each in status["conditions"]] == [
        "DisruptionTarget",
        "PodGroupInitiallyScheduled",
    ]


def test_the_time_of_a_condition_changes_with_its_status_only() -> None:
    there = replace(group(), status=PodGroupStatus(conditions=(told("False", "Unschedulable", "other"),)))

    again = kubernetes_status(there, 2, MemberCounts(), FULL, NOW)
    scheduled = kubernetes_status(there, 2, MemberCounts(bound=2), None, NOW)

    assert again is not None
    assert scheduled is not None
    assert again["conditions"][0]["lastTransitionTime"] == THEN
    assert scheduled["conditions"][0]["lastTransitionTime"] == "2001-09-09T01:46:40Z"


# --- Volcano ---


@pytest.mark.parametrize(
    ("before", "found", "verdict", "admitted", "phase"),
    [
        pytest.param(None, MemberCounts(), None, False, "Pending", id="its queue cannot take it"),
        pytest.param(
            None, MemberCounts(), None, True, "Inqueue", id="its queue takes it, before there are pods"
        ),
        pytest.param("Pending", MemberCounts(), FULL, True, "Inqueue", id="let in, but there is no room"),
        pytest.param("Inqueue", MemberCounts(), FULL, False, "Inqueue", id="let in once"),
        pytest.param("Inqueue", MemberCounts(bound=1), None, True, "Inqueue", id="on its way"),
        pytest.param("Inqueue", MemberCounts(bound=2), None, True, "Running", id="bound"),
        pytest.param(
            "Running", MemberCounts(bound=1, running=1, succeeded=1), None, True, "Running", id="one is done"
        ),
        pytest.param("Running", MemberCounts(succeeded=2), None, True, "Completed", id="all are done"),
        pytest.param(
            "Running", MemberCounts(succeeded=1, failed=1), None, True, "Completed", id="one has failed"
        ),
        pytest.param(
            "Running", MemberCounts(bound=1, running=1), FULL, True, "Unknown", id="some run, others cannot"
        ),
        pytest.param("Running", MemberCounts(), None, True, "Inqueue", id="all its pods are gone"),
    ],
)
def test_the_phase_of_a_volcano_group(
    before: str | None, found: MemberCounts, verdict: GangHindrance | None, admitted: bool, phase: str
) -> None:
    there = volcano_group(minimum=2, phase=before)

    status = volcano_status(there, found, verdict, NOW, admitted=admitted)

    assert (status or {}).get("phase", before) == phase


def volcano_conditions(
    there: VolcanoPodGroup, found: MemberCounts, verdict: GangHindrance | None
) -> list[Any] | None:
    status = volcano_status(there, found, verdict, NOW, admitted=True) or {}
    return status.get("conditions")


@pytest.mark.parametrize(
    ("found", "verdict", "said"),
    [
        (MemberCounts(), FULL, [("Unschedulable", "True", "NotEnoughResources", FULL.words)]),
        (MemberCounts(), FEW, [("Unschedulable", "True", "NotEnoughTasks", FEW.words)]),
        (
            MemberCounts(bound=2),
            None,
            [("Scheduled", "True", "tasks in gang are ready to be scheduled", None)],
        ),
    ],
)
def test_the_conditions_of_a_volcano_group(
    found: MemberCounts, verdict: GangHindrance | None, said: list[tuple[str, str, str, str | None]]
) -> None:
    conditions = volcano_conditions(volcano_group(), found, verdict)

    assert conditions is not None
    keys = ("type", "status", "reason", "message")
    assert [tuple(each.get(key) for key in keys) for each in conditions] == said
    assert all(each["transitionID"] and each["lastTransitionTime"] for each in conditions)


def test_a_volcano_group_that_found_room_is_not_unschedulable_any_more() -> None:
    refused = volcano_conditions(volcano_group(), MemberCounts(), FULL)
    assert refused is not None
    there = replace(volcano_group(), status=VolcanoPodGroupStatus(conditions=tuple(refused)))

    conditions = volcano_conditions(there, MemberCounts(bound=2), None)

    assert conditions is not None
    assert {each["type"]: each["status"] for each in conditions} == {
        "Unschedulable": "False",
        "Scheduled": "True",
    }


def test_a_volcano_status_that_is_right_is_not_written() -> None:
    found = MemberCounts(bound=2, running=2)
    status = volcano_status(volcano_group(), found, None, NOW, admitted=True)
    assert status is not None
    there = replace(
        volcano_group(),
        status=VolcanoPodGroupStatus(
            phase=status["phase"], running=status["running"], conditions=tuple(status["conditions"])
        ),
    )

    assert volcano_status(there, found, None, NOW, admitted=True) is None


# --- written ---


def condition_of(made: World) -> tuple[str, str] | None:
    [there] = made.of(PodGroup).values()
    return next(((each.status, each.reason) for each in there.status.conditions), None)


def test_a_group_is_told_first_that_it_cannot_then_that_it_is_placed() -> None:
    made = world(gpu_node("a", 1), group(), members(2))
    settle(made)
    assert condition_of(made) == ("False", "Unschedulable")

    made.put(*gpu_node("b", 1))
    settle(made)
    assert condition_of(made) == ("True", "Scheduled")

    made.delete(made.pod("gang-0"))
    made.put(*member("again", devices=4))
    settle(made)
    assert condition_of(made) == ("True", "Scheduled")


def writes_of(made: World) -> list[PatchGroup]:
    return [each for each in made.seats[0].said if isinstance(each, PatchGroup)]


def test_a_status_is_written_once() -> None:
    made = world(gpu_node("a", 2), group(), members(2))

    settle(made)

    assert len(writes_of(made)) == 1


@pytest.mark.parametrize("fate", [Fate.TIMEOUT, Fate.LOST])
def test_a_write_without_an_answer_is_repeated(fate: Fate) -> None:
    made = world(gpu_node("a", 1), group(), members(2))
    seat = made.seats[0]
    while not any(isinstance(each, PatchGroup) for each in seat.writes):
        seat.turn()
    [number] = [n for n, each in enumerate(seat.writes) if isinstance(each, PatchGroup)]

    seat.perform(number, fate)
    settle(made)

    assert condition_of(made) == ("False", "Unschedulable")


@pytest.mark.parametrize("why", [WriteFailure.REFUSED, WriteFailure.GONE])
def test_a_write_that_is_refused_is_not_repeated(why: WriteFailure) -> None:
    made = world(gpu_node("a", 1), group(), members(2))
    seat = made.seats[0]
    while not any(isinstance(each, PatchGroup) for each in seat.writes):
        seat.turn()
    [write] = [each for each in seat.writes if isinstance(each, PatchGroup)]
    seat.writes.remove(write)

    seat.tell(Failed(write.id, why))
    settle(made)

    assert len(writes_of(made)) == 1


def test_a_write_that_came_too_late_is_followed_by_one_on_the_newer_group() -> None:
    made = world(gpu_node("a", 1), group(), members(2))
    seat = made.seats[0]
    while not any(isinstance(each, PatchGroup) for each in seat.writes):
        seat.turn()
    [there] = made.of(PodGroup).values()
    made.put(replace(there, metadata=replace(there.metadata, labels={"somebody": "else"})))

    settle(made)

    assert condition_of(made) == ("False", "Unschedulable")
    assert len(writes_of(made)) == 2


def volcano_status_of(made: World, name: str = "gang") -> VolcanoPodGroupStatus:
    return made.of(VolcanoPodGroup)[f"default/{name}"].status


def run(made: World, name: str, phase: str) -> None:
    there = made.pod(name)
    made.put(replace(there, status=replace(there.status, phase=phase)))


def test_the_life_of_a_volcano_group() -> None:
    made = world(gpu_node("a", 2), volcano_group(minimum=2))
    settle(made)
    assert volcano_status_of(made).phase == "Inqueue"

    made.put(*members(2, volcano=True))
    settle(made)
    assert (volcano_status_of(made).phase, volcano_status_of(made).running) == ("Running", None)

    for n in range(2):
        run(made, f"gang-{n}", "Running")
    settle(made)
    assert volcano_status_of(made).running == 2

    run(made, "gang-0", "Succeeded")
    run(made, "gang-1", "Failed")
    settle(made)
    status = volcano_status_of(made)
    assert (status.phase, status.running, status.succeeded, status.failed) == ("Completed", 0, 1, 1)


def test_a_queue_takes_only_as_many_groups_as_it_can_give_the_least_they_need() -> None:
    made = world(
        gpu_node("a", 8),
        queue("q", most={"deviceclass/gpu": 4}),
        volcano_group("one", 2, "q", least={"deviceclass/gpu": 3}),
        volcano_group("two", 2, "q", least={"deviceclass/gpu": 2}),
    )

    settle(made)
    assert volcano_status_of(made, "one").phase == "Inqueue"
    assert volcano_status_of(made, "two").phase == "Pending"
    [condition] = volcano_status_of(made, "two").conditions
    assert (
        "may use 4 of deviceclass/gpu, uses 0, others wait for 3, and this needs 2 more"
        in condition["message"]
    )

    made.delete(volcano_group("one"))
    settle(made)
    assert volcano_status_of(made, "two").phase == "Inqueue"


def test_a_group_is_let_in_when_pods_leave_its_queue() -> None:
    made = world(gpu_node("a", 8), queue("q", most={"deviceclass/gpu": 4}), volcano_group("one", 2, "q"))
    made.put(*members(2, "one", volcano=True, devices=2))
    settle(made)
    made.put(volcano_group("two", 1, "q", least={"deviceclass/gpu": 2}))
    settle(made)
    assert volcano_status_of(made, "two").phase == "Pending"

    made.delete(made.pod("one-0"))
    settle(made)

    assert volcano_status_of(made, "two").phase == "Inqueue"
