"""When a condition says that the claim of a pod has not been made: soon, but not while whoever makes claims is busy making them."""

from __future__ import annotations

import pytest

from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import DEFAULT, DEFAULT_SCHEDULER
from allotment.scheduler.core import Scheduler
from allotment.scheduler.event import Changed, Tick
from allotment.scheduler.gate import GATE_LONGEST, GATE_PATIENCE
from allotment.scheduler.instruction import PatchPod
from tests.builders import typed as b

START = 1000.0


def told_after(*, claims_until: float) -> float:
    """Seconds until the pod's condition says that its claim is missing, where another claim appears each second for so
    long."""
    core = Scheduler(Cluster(), DEFAULT.rosters())
    core.handle(Tick(START))
    core.handle(Changed(None, b.pod("p", templates={"gpu": "one"}, scheduler=DEFAULT_SCHEDULER)))
    for second in range(1, 60):
        instructions = core.handle(Tick(START + second))
        if any(isinstance(each, PatchPod) and each.name == "p" for each in instructions):
            return second
        if second <= claims_until:
            core.handle(Changed(None, b.claim(name=f"other-{second}")))
        core.validate()
    raise AssertionError("the pod is never told")


@pytest.mark.parametrize(
    ("claims_until", "told"),
    [
        pytest.param(0, GATE_PATIENCE, id="nobody makes claims"),
        pytest.param(5, 8, id="others were made until a while ago"),
        pytest.param(60, GATE_LONGEST, id="others are made for ever"),
    ],
)
def test_a_pod_is_told_of_its_missing_claim(claims_until: float, told: float) -> None:
    assert told_after(claims_until=claims_until) == told
