"""Rules for the status of a job and its changes: a verdict is final, counts do not fall, the end has a time.

Other controllers may run jobs (``spec.managedBy``), so the server enforces the rules for all of them. A rule applies only
to changed fields: a status that already breaks a rule can still be corrected in its other parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import chain, pairwise
from typing import Any

from allotment.api.fields import FieldError
from allotment.apiserver.registry.conditions import condition, is_true
from allotment.apiserver.registry.status_rules import STATUS, not_negative
from allotment.apiserver.store.record import Obj

_CONDITIONS = STATUS.child("conditions")
_PART = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", re.ASCII)


class _State:
    """The parts of a job's status that the rules read."""

    def __init__(self, job: Obj) -> None:
        self.spec: Obj = job["spec"]
        self.status: Obj = job.get("status") or {}
        self.complete, self.failed = is_true(job, "Complete"), is_true(job, "Failed")
        self.targeted, self.succeeded = is_true(job, "FailureTarget"), is_true(job, "SuccessCriteriaMet")
        self.finished = self.complete or self.failed
        self.suspended = (condition(job, "Suspended") or {}).get("status")

    def count(self, name: str) -> int:
        return self.status.get(name) or 0

    def time(self, name: str) -> datetime | None:
        text = self.status.get(name)
        return datetime.fromisoformat(text) if text else None

    @property
    def waiting(self) -> list[tuple[str, int, str]]:
        """The uids of pods that ended and are not counted yet: in which list, where, and which."""
        lists = self.status.get("uncountedTerminatedPods") or {}
        found = ((name, list(enumerate(lists.get(name) or ()))) for name in ("succeeded", "failed"))
        return [(name, index, uid) for name, uids in found for index, uid in uids]


def check_job_status(job: Obj, old: Obj) -> Iterator[FieldError]:
    now, was = _State(job), _State(old)
    yield from not_negative(now.status, "active", "succeeded", "failed", "ready", "terminating")
    yield from _waiting_errors(now)
    yield from _verdict_errors(now, was)
    yield from _time_errors(now, was)
    yield from _end_errors(now, was)
    yield from _index_errors(now, was)
    yield from _change_errors(now, was)


def _waiting_errors(now: _State) -> Iterator[FieldError]:
    seen = set()
    for name, index, uid in now.waiting:
        here = STATUS.child("uncountedTerminatedPods", name).index(index)
        if not uid:
            yield here.invalid("must not be empty", uid)
        elif uid in seen:
            yield here.duplicate(uid)
        seen.add(uid)


def _verdict_errors(now: _State, was: _State) -> Iterator[FieldError]:
    completed, failed = now.complete != was.complete, now.failed != was.failed
    succeeded, targeted = now.succeeded != was.succeeded, now.targeted != was.targeted
    for asked, broken, told in (
        (completed or failed, now.complete and now.failed, "cannot set Complete=True and Failed=true conditions"),
        (completed or targeted, now.complete and now.targeted,
         "cannot set Complete=True and FailureTarget=true conditions"),
        (failed or targeted or _changed("failedIndexes", now, was), now.failed and not now.targeted,
         "cannot set Failed=True condition without the FailureTarget=true condition"),
        (completed or succeeded, now.complete and not now.succeeded,
         "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"),
    ):  # fmt: skip
        if asked and broken:
            yield _CONDITIONS.invalid(told)


def _time_errors(now: _State, was: _State) -> Iterator[FieldError]:
    start, end = now.time("startTime"), now.time("completionTime")
    ended = now.complete != was.complete or _changed("completionTime", now, was)
    path = STATUS.child("completionTime")
    if ended and end is not None and not now.complete:
        told = "cannot set completionTime when there is no Complete=True condition"
        yield path.invalid(told, now.status["completionTime"])
    if ended and end is None and now.complete:
        yield path.required("completionTime is required for Complete jobs")
    moved = _changed("startTime", now, was) or _changed("completionTime", now, was)
    if moved and start is not None and end is not None and end < start:
        yield path.invalid("must be equal to or after `startTime`", now.status["completionTime"])


def _end_errors(now: _State, was: _State) -> Iterator[FieldError]:
    finished = now.finished != was.finished
    idle = now.spec.get("suspend") and now.spec.get("completions") == 0
    began = (finished or _changed("startTime", now, was)) and not idle
    if began and now.finished and now.time("startTime") is None:
        yield STATUS.child("startTime").required("startTime is required for finished job")
    for name in ("active", "terminating"):
        if (finished or _changed(name, now, was)) and now.finished and now.count(name) > 0:
            yield STATUS.child(name).invalid(f"{name}>0 is invalid for finished job", now.count(name))
    if (finished or _changed("uncountedTerminatedPods", now, was)) and now.finished and now.waiting:
        yield STATUS.child("uncountedTerminatedPods").invalid("must be empty for finished job", "…")
    counted = _changed("ready", now, was) or _changed("active", now, was)
    if counted and now.count("ready") > now.count("active"):
        yield STATUS.child("ready").invalid("cannot set more ready pods than active", now.count("ready"))


def _index_errors(now: _State, was: _State) -> Iterator[FieldError]:
    done, failed = now.status.get("completedIndexes") or "", now.status.get("failedIndexes")
    completions = now.spec.get("completions")
    if _changed("completedIndexes", now, was):
        path = STATUS.child("completedIndexes")
        if completions is not None and (problem := _intervals(done, completions)[1]):
            yield path.invalid(f"error parsing completedIndexes: {problem}", done)
        if done and now.spec.get("completionMode") != "Indexed":
            yield path.invalid("cannot set non-empty completedIndexes when non-indexed completion mode", done)
    if failed is None:
        return
    path = STATUS.child("failedIndexes")
    if failed != was.status.get("failedIndexes"):
        if now.spec.get("backoffLimitPerIndex") is None:
            yield path.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null", failed)
        elif completions is not None and (problem := _intervals(failed, completions)[1]):
            yield path.invalid(f"error parsing failedIndexes: {problem}", failed)
    if completions is not None:
        both = sorted(chain(_intervals(done, completions)[0], _intervals(failed, completions)[0]))
        if any(before[1] >= after[0] for before, after in pairwise(both)):
            yield path.invalid("failedIndexes and completedIndexes overlap", failed)


def _intervals(text: str, completions: int) -> tuple[list[tuple[int, int]], str]:
    """The intervals of ``1,3-5``, each with its first and last index; and what is wrong with them, if something is."""
    found: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        match = _PART.fullmatch(part)
        if match is None:
            return found, f"cannot convert string to integer for index: {part[:20]!r}"
        first, last = int(match[1]), int(match[2] or match[1])
        if last >= completions:
            return found, f"too large index: {part!r}"
        if last < first or (match[2] and last == first) or (found and first <= found[-1][1]):
            return (
                found,
                f"non-increasing order, previous: {found[-1][1] if found else first}, current: {part}",
            )
        found.append((first, last))
    return found, ""


def _change_errors(now: _State, was: _State) -> Iterator[FieldError]:
    for name in ("Failed", "Complete", "FailureTarget"):
        attribute = {"Failed": "failed", "Complete": "complete", "FailureTarget": "targeted"}[name]
        if getattr(was, attribute) and not getattr(now, attribute):
            yield _CONDITIONS.invalid(f"cannot disable the terminal {name}=True condition")
    if was.succeeded and not now.succeeded:
        yield _CONDITIONS.invalid("cannot disable the SuccessCriteriaMet=True condition")
    if was.complete and not was.succeeded and now.succeeded:
        told = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield _CONDITIONS.invalid(told)
    indexed = now.spec.get("completionMode") == "Indexed"
    scaled = indexed and now.spec.get("completions") == now.spec.get("parallelism")
    for name in ("failed",) if scaled else ("failed", "succeeded"):
        if now.count(name) < was.count(name):
            yield STATUS.child(name).invalid(f"cannot decrease the {name} counter", now.count(name))
    end, ended = now.time("completionTime"), was.time("completionTime")
    if end is not None and ended is not None and end != ended:
        yield STATUS.child("completionTime").invalid("field is immutable", now.status["completionTime"])
    resumes = was.suspended == "True" and now.suspended == "False"
    start, started = now.time("startTime"), was.time("startTime")
    if started is not None and start != started and not resumes and not now.spec.get("suspend"):
        told = "field is immutable for unsuspended job once set"
        yield STATUS.child("startTime").invalid(told, now.status.get("startTime"))


def _changed(name: str, now: _State, was: _State) -> bool:
    return bool(_plain(now.status.get(name)) != _plain(was.status.get(name)))


def _plain(value: Any) -> Any:
    """A value as it is compared: what is empty is absent."""
    if isinstance(value, dict):
        return {name: inner for name, inner in value.items() if inner} or None
    return value or None
