"""The arithmetic of rollouts: upstream's rounding, its examples, and that every rollout ends within its bounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.controllers.workloads.rollout import (
    RolloutBounds,
    Size,
    bounds,
    grown,
    rescaled,
    rolled,
    shrunk,
)
from allotment.controllers.workloads.share_of_pods import share


def rolling(replicas: int, surge: Any, unavailable: Any) -> dict[str, Any]:
    update = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": update}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(rolling(10, "25%", "25%"), RolloutBounds(10, 3, 2), id="surge up, unavailable down"),
        pytest.param(rolling(1, "25%", "25%"), RolloutBounds(1, 1, 0), id="of one pod"),
        pytest.param(
            rolling(3, "0%", "10%"), RolloutBounds(3, 0, 1), id="both nothing would be a standstill"
        ),
        pytest.param(rolling(2, 1, 5), RolloutBounds(2, 1, 2), id="no more unavailable than there are"),
        pytest.param(rolling(0, "25%", "25%"), RolloutBounds(0, 0, 0), id="none wanted"),
        pytest.param(
            {"replicas": 4, "strategy": {"type": "Recreate"}}, RolloutBounds(4, 0, 0), id="recreate"
        ),
    ],
)
def test_bounds_of_a_deployment(spec: dict[str, Any], expected: RolloutBounds) -> None:
    assert bounds(spec) == expected


@pytest.mark.parametrize("value", [None, "", "%", "x%", "5", "-5%", "5%%"])
def test_what_is_no_share_is_none(value: str | None) -> None:
    assert share(value, 10, round_up=True) == 0


def test_upstream_s_example_of_a_rollout_that_crashes() -> None:
    """10 replicas, surge 3, unavailable 2; the new pods never serve, and old ones must not go further down."""
    allowed = RolloutBounds(10, 3, 2)
    assert grown(allowed, 0, 10) == 3
    assert shrunk(allowed, Size("new", 3), [Size("old", 10, 10)]) == {"old": 8}
    assert grown(allowed, 3, 8) == 5
    assert shrunk(allowed, Size("new", 5), [Size("old", 8, 7)]) == {}  # one old pod fails: 13 - 8 - 5 = 0
    assert shrunk(allowed, Size("old", 8, 7), [Size("new", 5, 0)]) == {"new": 1}  # rolled back: 4 of 5 go


@pytest.mark.parametrize(
    ("allowed", "new", "old", "expected"),
    [
        pytest.param(RolloutBounds(7), Size("new", 3, 3), [], {"new": 7}, id="the only set takes all"),
        pytest.param(
            RolloutBounds(7),
            None,
            [Size("old", 3, 3), Size("older", 0)],
            {"old": 7},
            id="the active one does",
        ),
        pytest.param(
            RolloutBounds(7),
            None,
            [Size("newer", 0, age=("2", "")), Size("older", 0, age=("1", ""))],
            {"newer": 7},
            id="the latest does where none is active",
        ),
        pytest.param(RolloutBounds(7), None, [], {}, id="nothing there"),
        pytest.param(
            RolloutBounds(5, 1),
            Size("new", 5, 5),
            [Size("old", 1, 1)],
            {"old": 0},
            id="the new set has all it needs",
        ),
        pytest.param(
            RolloutBounds(20, 3),
            Size("new", 5, 5),
            [Size("old", 8, 8)],
            {"old": 14, "new": 9},
            id="in proportion",
        ),
        pytest.param(
            RolloutBounds(0, 0),
            Size("new", 5, 5),
            [Size("old", 8, 8)],
            {"old": 0, "new": 0},
            id="down to nothing",
        ),
    ],
)
def test_rescaling(
    allowed: RolloutBounds, new: Size | None, old: list[Size], expected: dict[str, int]
) -> None:
    assert rescaled(allowed, new, old) == expected


sizes = st.integers(0, 12)
amounts = st.one_of(st.integers(0, 5), st.integers(0, 100).map(lambda part: f"{part}%"))


@given(sizes, amounts, amounts, st.lists(sizes, max_size=3), sizes, st.randoms(use_true_random=False))
def test_every_rollout_ends_and_stays_within_its_bounds(
    replicas: int, surge: Any, unavailable: Any, others: list[int], start: int, random: Any
) -> None:
    """Sets follow their sizes; new pods serve after a while, in any order; nothing is lost on the way."""
    allowed = bounds(rolling(replicas, surge, unavailable))
    wanted = {"new": start, **{f"old{number}": size for number, size in enumerate(others)}}
    serving = dict(wanted)
    least, most = min(sum(wanted.values()), allowed.least), max(sum(wanted.values()), allowed.most)

    def size(name: str) -> Size:
        return Size(name, wanted[name], serving[name], (name, ""))

    for _ in range(300):
        step = rolled(allowed, size("new"), [size(name) for name in wanted if name != "new"])
        wanted |= step
        serving = {name: min(serving[name], wanted[name]) for name in wanted}
        assert sum(wanted.values()) <= most
        assert sum(serving.values()) >= least
        waiting = [name for name in wanted if serving[name] < wanted[name]]
        if waiting:
            serving[random.choice(waiting)] += 1
        elif not step:
            break
    assert wanted["new"] == serving["new"] == replicas
    assert sum(wanted.values()) == replicas


@given(st.integers(1, 20), sizes, st.lists(st.integers(1, 9), min_size=2, max_size=4))
def test_proportions_add_up(replicas: int, surge: int, present: list[int]) -> None:
    old = [Size(str(number), size, 0) for number, size in enumerate(present)]
    found = rescaled(RolloutBounds(replicas, surge), None, old)
    assert sum(found.values()) == replicas + surge
    assert all(size >= 0 for size in found.values())
