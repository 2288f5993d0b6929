"""Which pods of a group go when somebody needs room: each alone, or all together, as its ``disruptionMode`` says."""

from __future__ import annotations

import pytest

from allotment.api.core import Pod
from allotment.scheduler.instruction import DeletePod
from tests.builders.typed import node, pod
from tests.scheduler.gang_builders import budget, group, nodes_of, world
from tests.scheduler.world import World, settle

MODES = {  # which of the victims' group, three pods of which two are its minimum, make room for one more pod
    "all": ["v-0", "v-1", "v-2"],
    "single": ["v-0"],
    "": ["v-0"],
}


def victims(**labels: str) -> list[Pod]:
    return [pod(f"v-{number}", cpu=4, group="victims", labels=labels) for number in range(3)]


def full(minimum: int | None, mode: str, *more: Pod) -> World:
    """Two nodes of two places each: three pods of the group, and another that keeps the last place."""
    made = world([node(name, cpu=8) for name in ("n0", "n1")], group("victims", minimum, mode=mode))
    made.put(*victims(app="v"), *more)
    settle(made)
    assert len(nodes_of(made)) == 3 + len(more)
    return made


def going(made: World) -> list[str]:
    """Who is evicted next."""
    (seat,) = made.seats
    for news in seat.news.values():
        while news:
            seat.tell(news.popleft())
    seat.turn(16)
    return sorted({each.name for each in seat.said if isinstance(each, DeletePod)})


@pytest.mark.parametrize("minimum", [None, 2], ids=["basic", "gang"])
@pytest.mark.parametrize("mode", MODES)
def test_a_pod_makes_room(mode: str, minimum: int | None) -> None:
    made = full(minimum, mode, pod("other", cpu=4, priority=20))
    made.put(pod("new", cpu=4, priority=10))
    assert len(going(made)) == len(MODES[mode])
    settle(made)
    assert "new" in nodes_of(made)


@pytest.mark.parametrize("minimum", [None, 2], ids=["basic", "gang"])
@pytest.mark.parametrize("mode", MODES)
def test_a_gang_makes_room(mode: str, minimum: int | None) -> None:
    made = full(minimum, mode, pod("other", cpu=4, priority=20))
    made.put(group("new", 1), pod("new", cpu=4, priority=10, group="new"))
    assert len(going(made)) == len(MODES[mode])
    settle(made)
    assert "new" in nodes_of(made)


def test_a_gang_takes_single_pods_of_a_group_below_its_minimum() -> None:
    for mode, count in {"single": 1, "all": 3, "": 3}.items():
        made = full(3, mode, pod("other", cpu=4, priority=20))
        made.put(group("new", 1), pod("new", cpu=4, priority=10, group="new"))
        assert len(going(made)) == count, mode


def test_none_goes_where_one_of_them_may_not() -> None:
    """A member of higher priority, or whose disruption budget is used up, keeps all."""
    made = full(None, "all", pod("v-high", cpu=4, priority=20, group="victims"))
    made.put(pod("new", cpu=4, priority=10))
    assert going(made) == []

    made = full(None, "all", pod("other", cpu=4, priority=20))
    made.put(budget({"app": "v"}, 2), pod("new", cpu=4, priority=10))
    assert going(made) == []
