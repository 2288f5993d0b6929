"""Jobs: pods that run until enough of them have succeeded, or too many have failed.

Each call counts (``job_tally.py``), reaches a verdict if it can (``job_status.py``), writes the result, and then acts on it:
it releases counted pods, deletes pods that must not run, and creates missing ones. The status is written before the action
that depends on it, so after a crash the action is repeated, but not the decision.

The following fields are not supported, and an event says so: podFailurePolicy, successPolicy, backoffLimitPerIndex. Restarts
of containers within a pod (OnFailure) do not count towards the backoff limit; failed pods do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from allotment.api.core import Pod
from allotment.api.label_selector import selector_of
from allotment.api.rights import READ
from allotment.api.status import NotFound
from allotment.client.client import Client
from allotment.client.form import Obj
from allotment.client.informer import Key
from allotment.client.recorder import EventType, Recorder
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers import conditions
from allotment.controllers.clock import Now, left, real_time
from allotment.controllers.controller import Again
from allotment.controllers.own_writes import OwnWrites
from allotment.controllers.ownership import controller_of, controller_reference
from allotment.controllers.workloads import made_pods
from allotment.controllers.workloads.adoption import Adoption
from allotment.controllers.workloads.completion_indexes import index_of, indexed
from allotment.controllers.workloads.growing_batches import in_growing_batches
from allotment.controllers.workloads.job_status import end_of, says, start_of, status_of
from allotment.controllers.workloads.job_tally import TRACKING, JobTally, pause, releasable, tally, tracked
from allotment.controllers.workloads.made_pods import (
    Offspring,
    from_template,
    random_suffix,
)
from allotment.controllers.workloads.surplus_pods import first_to_go
from allotment.controllers.workloads.workload_events import WorkloadEvents

GROUP, KIND = "batch/v1", "Job"
_NAME = "batch.kubernetes.io/job-name"
_TRACKED = "tracked-for-job"
BURST = 500
_OURS = "kubernetes.io/job-controller"
_UNSUPPORTED = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex")
MOST_INDEXES = 100_000
"""The maximal number of completions of an Indexed job; each is remembered by its number."""


def _job_of(pod: Pod) -> list[Key]:
    """The job that a pod belongs to or was created by. A pod whose reference was removed may still have the job's name as a
    label; a pod with only the finalizer is found under the name of no job, so that it is released too."""
    owner = controller_of(pod)
    if owner is not None and (owner.api_version, owner.kind) == (GROUP, KIND):
        return [(pod.metadata.namespace, owner.name)]
    name = pod.metadata.labels.get(_NAME, None if owner else "") if tracked(pod) else None
    return [] if name is None else [(pod.metadata.namespace, name)]


class Jobs:
    """The reconciler; its keys are namespace and name of a job."""

    name = "jobs"
    rights = (
        *made_pods.RIGHTS,
        f"delete,{READ}: batch: jobs",
        "patch: batch: jobs/status",
        "update: batch: jobs/finalizers",
    )

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        *,
        now: Now = real_time,
        suffix: Callable[[], str] = random_suffix,
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue()
        self._jobs = client.plain(GROUP, "jobs")
        self._seen = informers.plain(GROUP, "jobs")
        self._offspring = Offspring(client, informers, now, suffix)
        self._writes: OwnWrites[str] = OwnWrites(self._seen)
        self._pods = informers.of(Pod)
        self._pods.add_index(_TRACKED, _job_of)
        self._adoption = Adoption(
            (GROUP, KIND), self._jobs, self._seen, self._pods, self._offspring, mark=TRACKING
        )
        self._events = WorkloadEvents(recorder, GROUP, KIND)
        self._now = now
        self._seen.on_change(self._job_changed)
        self._pods.on_change(self._pod_changed)

    def _job_changed(self, old: Obj | None, new: Obj | None) -> None:
        job = new or old
        if job is None:
            return
        if new is None:
            self._offspring.forget(job["metadata"]["uid"])
        self.queue.add((job["metadata"]["namespace"], job["metadata"]["name"]))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            for key in () if pod is None else _job_of(pod):
                self.queue.add(key)
        for key in self._adoption.claimants(old, new):
            self.queue.add(key)

    # --- one job ---

    async def reconcile(self, key: Key) -> Again | None:
        job = self._seen.get(key[1], key[0])
        uid = "" if job is None else job["metadata"]["uid"]
        await self._writes.seen(uid)
        await self._offspring.settled(uid)
        if job is not None and _takes_over(job):
            await self._claim(job)
        await self._release_strays(key, uid)
        job = self._seen.get(key[1], key[0])
        if job is None or job["metadata"]["uid"] != uid or job["spec"].get("managedBy", _OURS) != _OURS:
            return None
        if (end := end_of(job)) is not None:
            await self._release(uid, [pod for pod in self._offspring.of(uid) if tracked(pod)])
            return await self._expire(job, end)
        if problem := _unsupported(job["spec"]):
            self._events.tell(job, EventType.WARNING, "NotSupported", f"The job is not run: {problem}")
            return None
        return await self._advance(job, uid)

    async def _advance(self, job: Obj, uid: str) -> Again | None:
        pods = self._offspring.of(uid)
        count = tally(job, pods, self._offspring.active(pods))
        job = await self._report(job, count)
        await self._release(uid, releasable(job, pods))
        told = (job.get("status") or {}).get("conditions")
        if end_of(job) is not None or conditions.holds(told, "SuccessCriteriaMet"):
            return None
        if conditions.holds(told, "FailureTarget"):
            await self._delete(job, list(count.active), counted=True)
            return None
        if job["metadata"].get("deletionTimestamp") is not None:
            return None
        if job["spec"].get("suspend"):
            await self._delete(job, list(count.active), counted=False)
            return None
        after = await self._resize(job, count, pods)
        waits = [each for each in (after, self._deadline(job)) if each is not None]
        return min(waits, key=lambda each: each.after, default=None)

    async def _claim(self, job: Obj) -> None:
        """Adopts the pods that match the selector and have no controller: those of a job that was deleted without them, or
        whose reference somebody removed. They count as if the job had created them."""
        selector = selector_of(job["spec"].get("selector"))
        if selector is not None:
            await self._adoption.claim(job, selector, lambda pod: True)
            await self._offspring.settled(job["metadata"]["uid"])

    async def _release_strays(self, key: Key, uid: str) -> None:
        """Releases pods that another job of this name created. Absence from the copy proves little: a pod may be seen before
        its job, and would then never be counted."""
        strays = [pod for pod in self._pods.by(_TRACKED, key) if tracked(pod) and not _made_by(pod, uid)]
        if any(controller_of(pod) is not None for pod in strays):
            there = await self._uid_at_server(key)
            strays = [pod for pod in strays if not _made_by(pod, there)]
        await self._release(uid, strays)

    async def _uid_at_server(self, key: Key) -> str | None:
        try:
            return str((await self._jobs.get(key[1], key[0]))["metadata"]["uid"])
        except NotFound:
            return None

    async def _release(self, owner: str, pods: list[Pod]) -> None:
        """Removes the finalizer from pods, so that they can be deleted."""
        for pod in pods:
            kept = [each for each in pod.metadata.finalizers if each != TRACKING]
            with suppress(NotFound):
                await self._offspring.patch(owner, pod, {"metadata": {"finalizers": kept or None}})

    async def _delete(self, job: Obj, pods: list[Pod], *, counted: bool) -> None:
        """Deletes pods; if they must not count as failed, it removes the finalizer first."""
        owner = job["metadata"]["uid"]

        async def one(number: int) -> None:
            pod = pods[number]
            if not counted and tracked(pod):
                await self._release(owner, [pod])
            if await self._offspring.delete(pod):
                self._events.deleted(job, pod.metadata.name)

        await in_growing_batches(min(len(pods), BURST), one, self._events.refused(job, "delet"))

    async def _resize(self, job: Obj, count: JobTally, pods: list[Pod]) -> Again | None:
        spec, active = job["spec"], list(count.active)
        wanted = wanted_pods(spec, count)
        surplus = _duplicates(active, spec, count) if count.indexes is not None else []
        if len(active) - len(surplus) > wanted:
            rest = [pod for pod in active if pod not in surplus]
            surplus += first_to_go(rest, rest)[: len(rest) - wanted]
        if surplus:
            await self._delete(job, surplus, counted=False)
            return None
        waiting = count.terminating if spec.get("podReplacementPolicy") == "Failed" else 0
        missing = wanted - len(active) - waiting
        if missing <= 0:
            return None
        after = pause(pods, self._now())
        if after > 0:
            return Again(after, "pods failed; the next one waits")
        await self._create(job, _next_indexes(active, spec, count, missing))
        return None

    async def _create(self, job: Obj, indexes: list[int | None]) -> None:
        """Creates a pod for each index; the index is None if pods have none."""
        meta = job["metadata"]
        pod = from_template(
            job["spec"]["template"], controller_reference(GROUP, KIND, meta["name"], meta["uid"])
        )
        finalizers = [*(each for each in pod["metadata"].get("finalizers", ()) if each != TRACKING), TRACKING]
        pod = {**pod, "metadata": {**pod["metadata"], "finalizers": finalizers}}

        async def one(number: int) -> None:
            index = indexes[number]
            body, prefix = pod, f"{meta['name']}-"
            if index is not None:
                body, prefix = indexed(pod, meta["name"], index), f"{meta['name']}-{index}-"
            name = await self._offspring.create(meta["uid"], body, prefix, meta["namespace"])
            if name is not None:
                self._events.created(job, name)

        await in_growing_batches(min(len(indexes), BURST), one, self._events.refused(job, "creat"))

    def _deadline(self, job: Obj) -> Again | None:
        seconds = job["spec"].get("activeDeadlineSeconds")
        if seconds is None:
            return None
        return Again(max(0.0, left(start_of(job), seconds, self._now())), "the job may take no longer")

    async def _expire(self, job: Obj, end: Obj) -> Again | None:
        """Deletes a job that ended long enough ago."""
        ttl, meta = job["spec"].get("ttlSecondsAfterFinished"), job["metadata"]
        if ttl is None or meta.get("deletionTimestamp") is not None:
            return None
        after = left(end.get("lastTransitionTime"), ttl, self._now())
        if after > 0:
            return Again(after, "the job is deleted then")
        with suppress(NotFound):
            await self._jobs.remove(job)
        return None

    # --- what is said ---

    async def _report(self, job: Obj, count: JobTally) -> Obj:
        """Writes the counts and the verdict; returns the job as it is stored."""
        wanted = status_of(job, count, self._now())
        if says(job.get("status") or {}, wanted):
            return job
        changed = await self._jobs.change(job, {"status": wanted}, subresource="status")
        self._writes.wrote(job["metadata"]["uid"], changed["metadata"]["resourceVersion"])
        self._announce(job, changed)
        return changed

    def _announce(self, before: Obj, job: Obj) -> None:
        """Events for new conditions."""
        old, new = ((each.get("status") or {}).get("conditions") for each in (before, job))
        for type_, reason in (("Complete", "Completed"), ("Suspended", "Suspended")):
            if conditions.holds(new, type_) and not conditions.holds(old, type_):
                self._events.tell(job, EventType.NORMAL, reason, f"Job {reason.lower()}")
        if conditions.holds(old, "Suspended") and not conditions.holds(new, "Suspended"):
            self._events.tell(job, EventType.NORMAL, "Resumed", "Job resumed")
        failure = conditions.found(new, "Failed")
        if failure is not None and conditions.found(old, "Failed") is None:
            self._events.tell(job, EventType.WARNING, failure["reason"], failure["message"])


def _unsupported(spec: Obj) -> str:
    """The unsupported fields of the job; empty if there are none."""
    for name in _UNSUPPORTED:
        if spec.get(name) is not None:
            return f"spec.{name} is not supported here; remove it"
    if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > MOST_INDEXES:
        return f"spec.completions of an Indexed job may be at most {MOST_INDEXES} here"
    return ""


def _takes_over(job: Obj) -> bool:
    """Whether a job is ours to run, has not ended and is not being deleted."""
    ours = job["spec"].get("managedBy", _OURS) == _OURS
    return ours and end_of(job) is None and job["metadata"].get("deletionTimestamp") is None


# --- how many pods, and which ---


def wanted_pods(spec: Obj, count: JobTally) -> int:
    """How many pods should run: no more than are still needed. Without a number of completions, the first success means that
    the work is done, and the running pods may end."""
    parallel: int = spec.get("parallelism", 1)
    completions: int | None = spec.get("completions")
    if completions is None:
        return len(count.active) if count.succeeded else parallel
    return max(0, min(completions - count.succeeded, parallel))


def _duplicates(active: list[Pod], spec: Obj, count: JobTally) -> list[Pod]:
    """Superfluous pods of an index: the index is completed, is not the job's, or has another pod; the best pod stays."""
    kept: set[int] = set(count.indexes or ())
    found = []
    for pod in reversed(first_to_go(active, active)):
        index = index_of(pod)
        if index is None or index >= spec["completions"] or index in kept:
            found.append(pod)
        else:
            kept.add(index)
    return found


def _next_indexes(active: list[Pod], spec: Obj, count: JobTally, missing: int) -> list[int | None]:
    if count.indexes is None:
        return [None] * min(missing, BURST)
    taken = count.indexes | {index_of(pod) for pod in active}
    free = (index for index in range(spec["completions"]) if index not in taken)
    return [index for index, _ in zip(free, range(min(missing, BURST)), strict=False)]


def _made_by(pod: Pod, uid: str | None) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner.uid == uid
