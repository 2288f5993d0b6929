"""A job's status: how many pods have ended, with which result, and the verdict. Pure.

A verdict is final: ``SuccessCriteriaMet`` or ``FailureTarget``. The job is ``Complete`` or ``Failed`` when after the verdict
no pod runs, is ending, or waits to be counted.
"""

from __future__ import annotations

from datetime import datetime

from allotment.api.timestamps import timestamp
from allotment.client.form import Obj
from allotment.controllers import conditions
from allotment.controllers.clock import left
from allotment.controllers.workloads.completion_indexes import written
from allotment.controllers.workloads.job_tally import JobTally

_ENDS = ("Complete", "Failed")


def end_of(job: Obj) -> Obj | None:
    """The condition that says that the job is over; None if it is not."""
    told = (job.get("status") or {}).get("conditions")
    return next((each for type_ in _ENDS if (each := conditions.true(told, type_)) is not None), None)


def says(status: Obj, wanted: Obj) -> bool:
    """Whether a status already has these fields; absent is the same as zero or empty."""
    return all(_same(status.get(name), value) for name, value in wanted.items())


def status_of(job: Obj, count: JobTally, time: datetime) -> Obj:
    """The fields of the status as they should be at a time."""
    now, suspended = timestamp(time), bool(job["spec"].get("suspend"))
    told = list((job.get("status") or {}).get("conditions") or ())
    resumed = conditions.holds(told, "Suspended") and not suspended
    wanted: Obj = {
        "succeeded": count.counted_succeeded if count.indexes is None else len(count.indexes),
        "failed": count.counted_failed,
        "active": len(count.active),
        "ready": count.ready,
        "terminating": count.terminating,
        "uncountedTerminatedPods": {
            "succeeded": list(count.uncounted_succeeded) or None,
            "failed": list(count.uncounted_failed) or None,
        },
        "startTime": now if resumed else start_of(job) or (None if suspended else now),
    }
    if count.indexes is not None:
        wanted["completedIndexes"] = written(count.indexes) or None
    told = _judge({**job, "status": {**(job.get("status") or {}), **wanted}}, count, told, time)
    if not _judged(told):
        told = _suspension(told, suspended, now)
        if suspended:
            wanted["startTime"] = None
    elif count.settled and conditions.holds(told, "SuccessCriteriaMet"):
        told = _end(told, "SuccessCriteriaMet", "Complete", now)
        wanted["completionTime"] = now
    elif count.settled:
        told = _end(told, "FailureTarget", "Failed", now)
    wanted["conditions"] = told
    return wanted


def _judge(job: Obj, count: JobTally, told: list[Obj], now: datetime) -> list[Obj]:
    """The conditions with the verdict, if one is due and there is none yet."""
    if _judged(told):
        return told
    spec = job["spec"]
    deadline = spec.get("activeDeadlineSeconds")
    late = deadline is not None and not spec.get("suspend") and left(start_of(job), deadline, now) <= 0
    if count.failed > spec.get("backoffLimit", 6):
        verdict = ("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    elif late:
        verdict = ("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
    elif not count.active and count.succeeded >= _enough(spec):
        verdict = (
            "SuccessCriteriaMet",
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        )
    else:
        return told
    return _with(told, verdict[0], "True", verdict[1], verdict[2], timestamp(now))


def _enough(spec: Obj) -> int:
    completions: int | None = spec.get("completions")
    return 1 if completions is None else completions


def _judged(told: list[Obj]) -> bool:
    return conditions.holds(told, "SuccessCriteriaMet") or conditions.holds(told, "FailureTarget")


def _end(told: list[Obj], verdict: str, type_: str, now: str) -> list[Obj]:
    reason = conditions.found(told, verdict) or {}
    return _with(told, type_, "True", reason.get("reason", ""), reason.get("message", ""), now)


def _suspension(told: list[Obj], suspended: bool, now: str) -> list[Obj]:
    if conditions.holds(told, "Suspended") == suspended:
        return told
    if suspended:
        return _with(told, "Suspended", "True", "JobSuspended", "Job suspended", now)
    return _with(told, "Suspended", "False", "JobResumed", "Job resumed", now)


def _with(told: list[Obj], type_: str, status: str, reason: str, message: str, now: str) -> list[Obj]:
    condition = {"type": type_, "status": status, "lastProbeTime": now, "reason": reason, "message": message}
    return conditions.put(told, condition, now)


def start_of(job: Obj) -> str | None:
    start: str | None = (job.get("status") or {}).get("startTime")
    return start


def _same(old: object, new: object) -> bool:
    if isinstance(new, dict):
        before = old if isinstance(old, dict) else {}
        return all(_same(before.get(name), value) for name, value in new.items())
    return (old or None) == (new or None)
