"""A deployment's status: how many pods of which kind, and the progress of the rollout. Pure.

``Progressing`` depends on the status before: its last update is when something last moved, and if that is longer ago than the
deadline, the rollout is stuck. A rollout that was once complete stays complete; pods that come and go later are no rollout.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from allotment.api.timestamps import timestamp
from allotment.client.form import Obj
from allotment.controllers import conditions
from allotment.controllers.clock import left
from allotment.controllers.workloads.revision import HISTORY, REVISION, annotations_of
from allotment.controllers.workloads.rollout import bounds

_NO_DEADLINE = 2**31 - 1
DONE, STUCK, PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"


def counts_of(deployment: Obj, new: Obj | None, old: list[Obj]) -> Obj:
    sets = [each for each in (new, *old) if each is not None]

    def total(name: str) -> int:
        return sum(_status(each).get(name) or 0 for each in sets)

    wanted = sum(each["spec"].get("replicas", 1) for each in sets)
    updated = _status(new or {}).get("replicas") or 0
    return {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": total("replicas"),
        "updatedReplicas": updated,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": total("availableReplicas"),
        "unavailableReplicas": max(0, wanted - total("availableReplicas")),
    }


def complete(deployment: Obj, counts: Obj) -> bool:
    wanted = deployment["spec"].get("replicas", 1)
    names = ("updatedReplicas", "replicas", "availableReplicas")
    seen = (counts.get("observedGeneration") or 0) >= deployment["metadata"].get("generation", 0)
    return seen and all((counts.get(name) or 0) == wanted for name in names)


@dataclass(frozen=True, slots=True)
class RolloutState:
    """A deployment with its sets and counts, at a time. ``refused`` is the reason if the server refuses the new set."""

    deployment: Obj
    counts: Obj
    new: Obj | None
    old: list[Obj]
    now: datetime
    refused: str = ""

    def conditions(self) -> list[Obj]:
        told = list((self.deployment.get("status") or {}).get("conditions") or ())
        told = self._availability(told)
        told = self._progress(told)
        return self._failure(told)

    def seconds_left(self, condition: Obj) -> float:
        """How long a pause without progress may last before the rollout counts as stuck."""
        seconds = self.deployment["spec"]["progressDeadlineSeconds"]
        return left(condition.get("lastUpdateTime"), seconds, self.now)

    def _availability(self, told: list[Obj]) -> list[Obj]:
        if self.counts["availableReplicas"] >= bounds(self.deployment["spec"]).least:
            reason, message = "MinimumReplicasAvailable", "Deployment has minimum availability."
            return self._put(told, "Available", "True", reason, message)
        reason, message = "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
        return self._put(told, "Available", "False", reason, message)

    def _failure(self, told: list[Obj]) -> list[Obj]:
        """A failure of a set is also the deployment's; that of the new set comes first."""
        sets = [each for each in (self.new, *self.old) if each is not None]
        failures = (conditions.found(_status(each).get("conditions"), "ReplicaFailure") for each in sets)
        failure = next((each for each in failures if each is not None), None)
        if failure is None:
            return conditions.without(told, "ReplicaFailure")
        reason, message = failure.get("reason", ""), failure.get("message", "")
        return self._put(told, "ReplicaFailure", failure.get("status", ""), reason, message)

    def _progress(self, told: list[Obj]) -> list[Obj]:
        spec = self.deployment["spec"]
        if spec.get("progressDeadlineSeconds") in (None, _NO_DEADLINE):
            return conditions.without(told, "Progressing")
        reason = (conditions.found(told, "Progressing") or {}).get("reason")
        if self.refused:
            return self._put(told, "Progressing", "False", "ReplicaSetCreateError", self.refused)
        if spec.get("paused"):
            if reason == STUCK:
                return told
            return self._put(told, "Progressing", "Unknown", PAUSED, "Deployment is paused")
        if reason == PAUSED:
            return self._put(told, "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")
        return told if self.new is None else self._rollout(told, self.new)

    def _rollout(self, told: list[Obj], new: Obj) -> list[Obj]:
        """The progress of the rollout of the new set."""
        current = conditions.found(told, "Progressing") or {}
        reason, name, noted = current.get("reason"), new["metadata"]["name"], annotations_of(new)
        if noted.get(REVISION) != annotations_of(self.deployment).get(REVISION):  # it has just begun
            if HISTORY in noted:
                message = f'Found new replica set "{name}"'
                return self._put(told, "Progressing", "True", "FoundNewReplicaSet", message)
            message = f'Created new replica set "{name}"'
            return self._put(told, "Progressing", "True", "NewReplicaSetCreated", message)
        if reason == DONE and self.counts["replicas"] == self.counts["updatedReplicas"]:
            return told
        if complete(self.deployment, self.counts):
            message = f'ReplicaSet "{name}" has successfully progressed.'
            return self._put(told, "Progressing", "True", DONE, message)
        if _advanced(_status(self.deployment), self.counts):
            message = f'ReplicaSet "{name}" is progressing.'
            return self._put(told, "Progressing", "True", "ReplicaSetUpdated", message, moved=True)
        if current and reason != DONE and self.seconds_left(current) <= 0:
            message = f'ReplicaSet "{name}" has timed out progressing.'
            return self._put(told, "Progressing", "False", STUCK, message)
        return told

    def _put(
        self, told: list[Obj], type_: str, status: str, reason: str, message: str, *, moved: bool = False
    ) -> list[Obj]:
        """Writes a reason unless it is there already; ``moved`` writes it again, with a new time."""
        old, now = conditions.found(told, type_), timestamp(self.now)
        if old is not None and not moved and (old.get("status"), old.get("reason")) == (status, reason):
            return told
        condition = {"type": type_, "status": status, "lastUpdateTime": now, "reason": reason}
        return conditions.put(told, {**condition, "message": message}, now)


def _advanced(before: Obj, counts: Obj) -> bool:
    """Whether the rollout has advanced: more new, ready or available pods, or fewer old ones."""
    more = ("updatedReplicas", "readyReplicas", "availableReplicas")
    old_before = (before.get("replicas") or 0) - (before.get("updatedReplicas") or 0)
    return counts["replicas"] - counts["updatedReplicas"] < old_before or any(
        counts[name] > (before.get(name) or 0) for name in more
    )


def _status(obj: Obj) -> Obj:
    return obj.get("status") or {}
