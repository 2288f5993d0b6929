"""The progress of a job, from its status and its pods. Pure. Each pod is counted once, even if it is deleted.

A pod that has ended must be counted, although anyone may delete it a moment later. So pods carry a finalizer, and are counted
in three steps, each of which may be repeated:

1. the uid of a pod that has ended goes into the status, as *uncounted*;
2. the finalizer is removed from the pods whose uids are in the stored status;
3. uids whose pod has no finalizer any more, or no longer exists, become numbers.

A completed index is in the status by its number, so its pod needs no uid there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from allotment.api.core import Pod
from allotment.api.timestamps import moment
from allotment.client.form import Obj
from allotment.controllers.pod_state import finished, is_ready
from allotment.controllers.workloads.completion_indexes import index_of, parsed

TRACKING = "batch.kubernetes.io/job-tracking"
_MOST_UNCOUNTED = 500
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 600.0
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class JobTally:
    """The content of a status. ``counted`` numbers do not include the uncounted pods; ``succeeded`` and ``failed`` do."""

    counted_succeeded: int
    counted_failed: int
    uncounted_succeeded: tuple[str, ...]
    uncounted_failed: tuple[str, ...]
    indexes: frozenset[int] | None  # the completed ones, of an Indexed job
    active: tuple[Pod, ...]
    terminating: int

    @property
    def succeeded(self) -> int:
        return (
            len(self.indexes)
            if self.indexes is not None
            else self.counted_succeeded + len(self.uncounted_succeeded)
        )

    @property
    def failed(self) -> int:
        return self.counted_failed + len(self.uncounted_failed)

    @property
    def ready(self) -> int:
        return sum(map(is_ready, self.active))

    @property
    def settled(self) -> bool:
        """Whether no pod runs, is ending or waits to be counted."""
        return not (self.active or self.terminating or self.uncounted_succeeded or self.uncounted_failed)


def tracked(pod: Pod) -> bool:
    return TRACKING in pod.metadata.finalizers


def tally(job: Obj, pods: list[Pod], active: list[Pod]) -> JobTally:
    """``pods`` are all of the job's; ``active`` are those that have neither ended nor are being deleted."""
    status, spec = job.get("status") or {}, job["spec"]
    waiting = status.get("uncountedTerminatedPods") or {}
    held = {pod.metadata.uid for pod in pods if tracked(pod)}
    succeeded, failed = list(waiting.get("succeeded") or ()), list(waiting.get("failed") or ())
    counted = {uid for uid in (*succeeded, *failed) if uid not in held}
    known = set(succeeded) | set(failed)
    indexes = _done(job)
    over = [pod for pod in pods if tracked(pod) and pod.metadata.uid not in known and _over(pod, job)]
    for pod in over[: max(0, _MOST_UNCOUNTED - len(known))]:
        if pod.status.phase != "Succeeded":
            failed.append(pod.metadata.uid)
        elif indexes is None:
            succeeded.append(pod.metadata.uid)
        elif (index := index_of(pod)) is not None and index < spec["completions"]:
            indexes.add(index)
    return JobTally(
        (status.get("succeeded") or 0) + sum(uid in counted for uid in succeeded),
        (status.get("failed") or 0) + sum(uid in counted for uid in failed),
        tuple(uid for uid in succeeded if uid not in counted),
        tuple(uid for uid in failed if uid not in counted),
        None if indexes is None else frozenset(indexes),
        tuple(active),
        sum(not finished(pod) for pod in pods) - len(active),
    )


def releasable(job: Obj, pods: list[Pod]) -> list[Pod]:
    """The pods that the stored status has counted, or will count without looking at them again."""
    waiting = (job.get("status") or {}).get("uncountedTerminatedPods") or {}
    stored = {*(waiting.get("succeeded") or ()), *(waiting.get("failed") or ())}
    done = _done(job) or set()
    return [
        pod
        for pod in pods
        if tracked(pod)
        and (pod.metadata.uid in stored or (pod.status.phase == "Succeeded" and index_of(pod) in done))
    ]


def has_failed(pod: Pod, job: Obj) -> bool:
    """A pod that is deleted before it has ended has failed, unless the job waits for the end; if no node has the pod, no end
    will come."""
    if pod.status.phase == "Failed":
        return True
    waits = job["spec"].get("podReplacementPolicy") == "Failed" and bool(pod.spec.node_name)
    return pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded" and not waits


def _over(pod: Pod, job: Obj) -> bool:
    return pod.status.phase == "Succeeded" or has_failed(pod, job)


def pause(pods: list[Pod], now: datetime) -> float:
    """Seconds to wait before the next pod: 10, 20, 40, … up to 600 from the last failure, doubling with each failure since
    the last success. Only existing pods count; a pod that was deleted before it ended is no failure of the program."""
    ends = {
        phase: [_end(pod) for pod in pods if pod.status.phase == phase] for phase in ("Succeeded", "Failed")
    }
    last_success = max(ends["Succeeded"], default=_LONG_AGO)
    failures = [end for end in ends["Failed"] if end > last_success]
    if not failures:
        return 0.0
    delay = min(_FIRST_PAUSE * 2.0 ** min(len(failures) - 1, 60), _LONGEST_PAUSE)
    return delay - (now - max(failures)).total_seconds()


def _end(pod: Pod) -> datetime:
    """When a pod ended, if its status says so."""
    ready = (each.last_transition_time for each in pod.status.conditions if each.type == "Ready")
    return moment(next(ready, None)) or moment(pod.metadata.creation_timestamp) or _LONG_AGO


def _done(job: Obj) -> set[int] | None:
    spec = job["spec"]
    if spec.get("completionMode") != "Indexed":
        return None
    return parsed((job.get("status") or {}).get("completedIndexes") or "", spec.get("completions") or 0)
