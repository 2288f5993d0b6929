"""Counting a job's pods: each once, in any order of writes, releases and deletions; and pauses after failures."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.core import Pod, PodCondition, PodSpec, PodStatus
from allotment.api.meta import ObjectMeta
from allotment.client.form import Obj
from allotment.controllers.pod_state import finished
from allotment.controllers.workloads.job_tally import TRACKING, JobTally, has_failed, pause, releasable, tally
from tests.controllers.workloads.workload_objects import Clock


def counted_pod(name: str, phase: str, *, held: bool = True, since: str | None = None, **more: Any) -> Pod:
    meta = ObjectMeta(name=name, uid=name, finalizers=(TRACKING,) if held else (), **more)
    conditions = (PodCondition(type="Ready", status="False", last_transition_time=since),)
    return Pod(metadata=meta, status=PodStatus(phase=phase, conditions=conditions))


def count(job: Obj, pods: list[Pod]) -> JobTally:
    return tally(job, pods, [each for each in pods if not finished(each)])


def stored(job: Obj, found: JobTally) -> Obj:
    waiting = {"succeeded": list(found.uncounted_succeeded), "failed": list(found.uncounted_failed)}
    numbers = {"succeeded": found.counted_succeeded, "failed": found.counted_failed}
    return {**job, "status": {**numbers, "uncountedTerminatedPods": waiting}}


STEPS = st.lists(
    st.tuples(st.sampled_from(["end", "fail", "count", "release", "delete"]), st.integers(0, 4)), max_size=60
)


@given(STEPS)
def test_each_pod_is_counted_once_whatever_happens_in_which_order(steps: list[tuple[str, int]]) -> None:
    """Releases may be done for some pods only, counts may be repeated, pods vanish as soon as nothing holds them."""
    job: Obj = {"spec": {}}
    pods = {number: counted_pod(str(number), "Running") for number in range(5)}
    ended = {"Succeeded": 0, "Failed": 0}
    for step, number in steps:
        each = pods.get(number)
        if step == "count":
            job = stored(job, count(job, list(pods.values())))
        elif each is None:
            continue
        elif step in ("end", "fail") and not finished(each):
            phase = "Succeeded" if step == "end" else "Failed"
            pods[number] = counted_pod(str(number), phase)
            ended[phase] += 1
        elif step == "release" and each in releasable(job, [each]):
            pods[number] = counted_pod(str(number), each.status.phase or "", held=False)
        elif step == "delete" and not each.metadata.finalizers:
            del pods[number]
        found = count(job, list(pods.values()))
        assert (found.succeeded, found.failed) == (ended["Succeeded"], ended["Failed"])


def test_many_that_run_do_not_hide_those_that_ended() -> None:
    running = [counted_pod(f"r{number}", "Running") for number in range(600)]
    assert count({"spec": {}}, [*running, counted_pod("end", "Succeeded")]).succeeded == 1


def test_only_so_many_uids_wait_at_a_time() -> None:
    over = [counted_pod(str(number), "Succeeded") for number in range(600)]
    assert len(count({"spec": {}}, over).uncounted_succeeded) == 500


@pytest.mark.parametrize(
    ("policy", "node", "expected"),
    [
        pytest.param("TerminatingOrFailed", "n", True, id="deleted is failed"),
        pytest.param("Failed", "n", False, id="the node still has to end it"),
        pytest.param("Failed", None, True, id="no node ever will"),
    ],
)
def test_a_pod_that_is_deleted_before_it_ended(policy: str, node: str | None, expected: bool) -> None:
    meta = ObjectMeta(name="p", uid="p", deletion_timestamp="2030-01-01T00:00:00Z")
    going = Pod(metadata=meta, spec=PodSpec(node_name=node), status=PodStatus(phase="Running"))
    assert has_failed(going, {"spec": {"podReplacementPolicy": policy}}) is expected


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        pytest.param([], 0, id="nothing failed"),
        pytest.param([("Failed", 0)], 10, id="the first failure"),
        pytest.param([("Failed", -20), ("Failed", -4)], 16, id="twice as long after the second"),
        pytest.param([("Failed", -20), ("Succeeded", -10)], 0, id="a success forgets"),
        pytest.param([("Failed", -20), ("Succeeded", -10), ("Failed", 0)], 10, id="and begins anew"),
        pytest.param([("Failed", 0)] * 50, 600, id="no longer than ten minutes"),
    ],
)
def test_the_pause_after_failures(ends: list[tuple[str, float]], expected: float) -> None:
    clock = Clock()
    pods = [counted_pod(str(number), phase, since=clock.stamp(at)) for number, (phase, at) in enumerate(ends)]
    assert max(0.0, pause(pods, clock())) == pytest.approx(expected)
