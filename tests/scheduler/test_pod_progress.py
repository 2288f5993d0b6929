"""What the scheduler's parts may ask about a pod, and that they need not ask the core."""

from __future__ import annotations

from types import MethodType

import pytest

from allotment.api.core import Pod
from allotment.scheduler.binding.stale_reservations import ReservationState
from allotment.scheduler.pod import PodInfo
from tests.builders.typed import node, pod
from tests.scheduler.binding.test_pod_binding import place
from tests.scheduler.world import settle

BUSY, OTHER, WAITS = ReservationState.BUSY, ReservationState.OTHER, ReservationState.WAITS


@pytest.mark.parametrize(
    ("asked", "waits", "reservation"),
    [
        pytest.param(pod(), True, WAITS, id="it was never queued"),
        pytest.param(pod(node="n"), False, OTHER, id="it is bound"),
        pytest.param(pod(scheduler="another"), False, OTHER, id="it is another scheduler's"),
        pytest.param(pod(leaving=True), False, WAITS, id="it is being deleted"),
    ],
)
def test_a_pod_by_itself(asked: Pod, waits: bool, reservation: ReservationState) -> None:
    progress = place(pod("q")).core.progress
    assert progress.waits(PodInfo(asked)) is waits
    assert progress.reservation(PodInfo(asked)) is reservation


def test_a_pod_on_its_way() -> None:
    """It may use its claim until it was tried in vain, and again while it is being bound."""
    seat = place(pod("p", cpu=100))
    settle(seat.world)
    progress, waiting = seat.core.progress, seat.core.cluster.pods["default/p"]
    assert (progress.waits(waiting), progress.reservation(waiting)) == (True, WAITS)

    seat.world.put(node("large", cpu=200))
    for kind in seat.news:
        while seat.news[kind]:
            seat.deliver(kind)
    seat.core.clock.advance(seat.core.clock.now + 100)
    seat.turn(4)
    placed = seat.core.cluster.pods["default/p"]
    assert (progress.waits(placed), progress.reservation(placed)) == (False, BUSY)


def test_no_part_calls_the_core() -> None:
    core = place(pod()).core
    parts = [part for part in vars(core).values() if type(part).__module__.startswith("allotment.scheduler")]
    assert len(parts) > 10
    held = [value for part in parts for value in getattr(part, "__dict__", {}).values()]
    assert [each for each in held if each is core] == []
    assert [each for each in held if isinstance(each, MethodType) and each.__self__ is core] == []
