"""The status of a group, for Kubernetes' PodGroups and for Volcano's.

The status follows from the members, their progress, and the latest result for the gang (``GangHindrance``). The scheduler
computes it again whenever something about the group changed and writes it if it differs, one write at a time for each group.
Conditions are a list that must be written whole, so a write names the version that it is based on. The server refuses a write
that comes too late, and the change that was in its way triggers the next.

* Kubernetes: the condition PodGroupInitiallyScheduled. Once true, it stays true, whatever happens to the pods.
* Volcano: phase, counts, and the conditions Scheduled and Unschedulable. A group is Pending until its queue can take the least
  that it needs (``minResources``); then it is Inqueue. Volcano's job controller waits for that before it creates any pods. A
  group is Running when its minimum is bound, and Completed when all those pods have ended. Unknown means that some run and the
  others find no place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_OID, uuid5

from allotment.api.batch import PodGroup, VolcanoPodGroup
from allotment.api.codec import to_builtins
from allotment.api.timestamps import timestamp
from allotment.scheduler.event import WriteFailure
from allotment.scheduler.gangs.gang import gang_of
from allotment.scheduler.gangs.tenant_queues import INQUEUE, queue_name
from allotment.scheduler.instruction import PatchGroup
from allotment.scheduler.resource_requests import Amounts

if TYPE_CHECKING:
    from allotment.scheduler.binding.claim_writer import Draft
    from allotment.scheduler.clock import Clock
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.event import Done, Failed
    from allotment.scheduler.gangs.tenant_queues import TenantQueues

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
PENDING, RUNNING, COMPLETED, UNKNOWN = "Pending", "Running", "Completed", "Unknown"
READY = "tasks in gang are ready to be scheduled"
"""Volcano's reason for its condition Scheduled."""
STATUS_REST = 1.0
"""Seconds to wait after a write without an answer."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GangHindrance:
    """Why a gang is not placed."""

    words: str
    error: bool = False  # something is broken, as opposed to full
    incomplete: bool = False  # there are not enough pods


@dataclass(frozen=True, slots=True)
class MemberCounts:
    """How many members of a group have reached each stage."""

    bound: int = 0  # and not finished
    running: int = 0
    succeeded: int = 0
    failed: int = 0


def tally(key: str, cluster: Cluster) -> MemberCounts:
    members = cluster.members.get(key, {}).values()
    ended = list(cluster.finished.get(key, {}).values())
    return MemberCounts(
        sum(bool(pod.pod.spec.node_name) for pod in members),
        sum(pod.pod.status.phase == "Running" for pod in members),
        ended.count("Succeeded"),
        ended.count("Failed"),
    )


# --- Kubernetes ---


def kubernetes_status(
    group: PodGroup, minimum: int, found: MemberCounts, verdict: GangHindrance | None, now: float
) -> Json | None:
    """The status that has to be written; None if it says it already."""
    there = {condition.type: condition for condition in group.status.conditions}
    before = there.get(INITIALLY_SCHEDULED)
    if before is not None and before.status == "True":
        return None
    if found.bound + found.succeeded >= max(1, minimum):
        status, reason, message = "True", "Scheduled", ""
    elif verdict is not None and not verdict.incomplete:
        reason = "SchedulerError" if verdict.error else "Unschedulable"
        status, message = "False", verdict.words
    else:
        return None
    if before is not None and (before.status, before.reason, before.message) == (status, reason, message):
        return None
    same = before is not None and before.status == status
    condition: Json = {
        "type": INITIALLY_SCHEDULED,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": before.last_transition_time if same and before is not None else timestamp(now),
    }
    if group.metadata.generation is not None:
        condition["observedGeneration"] = group.metadata.generation
    others = [to_builtins(each) for kind, each in there.items() if kind != INITIALLY_SCHEDULED]
    return {"conditions": [*others, condition]}


# --- Volcano ---


def volcano_status(
    group: VolcanoPodGroup, found: MemberCounts, verdict: GangHindrance | None, now: float, *, admitted: bool
) -> Json | None:
    """The status that has to be written; None if it says it already."""
    minimum = group.spec.min_member or 1
    ready = found.bound + found.succeeded >= minimum
    status: Json = {}
    wanted = {
        "phase": _phase(
            group, minimum, found, unschedulable=verdict is not None and not ready, admitted=admitted
        ),
        "running": found.running,
        "succeeded": found.succeeded,
        "failed": found.failed,
    }
    there = group.status
    shown = {
        "phase": there.phase,
        "running": there.running or 0,
        "succeeded": there.succeeded or 0,
        "failed": there.failed or 0,
    }
    status = {name: value for name, value in wanted.items() if value != shown[name]}
    conditions = _volcano_conditions(group, verdict, ready=ready, now=now)
    if conditions is not None:
        status["conditions"] = conditions
    return status or None


def _phase(
    group: VolcanoPodGroup, minimum: int, found: MemberCounts, *, unschedulable: bool, admitted: bool
) -> str:
    if found.running and unschedulable:
        return UNKNOWN
    placed = found.bound + found.succeeded + found.failed
    if placed >= minimum:
        return RUNNING if found.bound else COMPLETED
    return INQUEUE if admitted or group.status.phase == INQUEUE else PENDING


def _volcano_conditions(
    group: VolcanoPodGroup, verdict: GangHindrance | None, *, ready: bool, now: float
) -> list[Json] | None:
    """All conditions as they should be; None if they are so already."""
    there: list[Json] = [each for each in group.status.conditions if isinstance(each, dict)]
    wanted: list[tuple[str, str, str, str]] = []  # type, status, reason, message
    if ready:
        wanted.append(("Scheduled", "True", READY, ""))
        wanted += [
            ("Unschedulable", "False", str(each.get("reason", "")), "")
            for each in there
            if each.get("type") == "Unschedulable"
        ]
    elif verdict is not None:
        reason = "NotEnoughTasks" if verdict.incomplete else "NotEnoughResources"
        wanted.append(("Unschedulable", "True", reason, verdict.words))
    made = {each.get("type"): each for each in there}
    changed = False
    for kind, status, reason, message in wanted:
        known = made.get(kind, {})
        if (known.get("status"), known.get("reason"), known.get("message", "")) != (status, reason, message):
            changed = True
            made[kind] = {
                "type": kind,
                "status": status,
                "reason": reason,
                **({"message": message} if message else {}),
                "lastTransitionTime": timestamp(now),
                "transitionID": _transition(group),
            }
    return list(made.values()) if changed else None


def _transition(group: VolcanoPodGroup) -> str:
    """A new id for each change of a group. The same events give the same id."""
    return str(uuid5(NAMESPACE_OID, f"{group.metadata.uid}/{group.metadata.resource_version}"))


# --- writing ---


class GroupStatuses:
    """Keeps the statuses of groups current. ``look`` marks a group; ``update`` writes what the statuses of marked groups lack."""

    def __init__(
        self, clock: Clock, cluster: Cluster, send: Callable[[Draft], int], queues: TenantQueues
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._send = send
        self._queues = queues
        self._verdicts: dict[str, GangHindrance] = {}
        self._marked: dict[str, None] = {}
        self._held_back: set[str] = set()  # Volcano groups that their queue cannot admit yet
        self._writing: dict[int, str] = {}
        self._opinions: dict[int, object] = {}  # of those writes: what they say, times aside
        self._said: dict[str, object] = {}  # group → the last status of ours that the server accepted
        # group → its version for which the server refused our status
        self._refused: dict[str, str] = {}
        self._written: dict[str, int] = {}  # group → the version that our last write gave it
        self._rests: dict[str, float] = {}

    def look(self, key: str) -> None:
        """Marks a changed group."""
        self._marked[key] = None

    def refused(self, key: str, verdict: GangHindrance) -> None:
        self._verdicts[key] = verdict
        self.look(key)

    def placed(self, key: str) -> None:
        self._verdicts.pop(key, None)
        self.look(key)

    def gone(self, key: str) -> None:
        """Forgets a deleted group."""
        for known in (self._verdicts, self._marked, self._written, self._rests, self._refused, self._said):
            known.pop(key, None)
        self._held_back.discard(key)

    def stir(self) -> None:
        """Looks again at held-back groups: queues may admit more now."""
        self._marked.update(dict.fromkeys(sorted(self._held_back)))

    def next_time(self) -> float | None:
        return min(self._rests.values(), default=None)

    def done(self, event: Done) -> bool:
        """Handles a write that took effect. Returns False if the write was none of ours."""
        key = self._writing.pop(event.id, None)
        said = self._opinions.pop(event.id, None)
        if key is not None and key in self._cluster.groups:
            self._written[key] = event.version
            self._said[key] = said
        return key is not None

    def failed(self, event: Failed) -> bool:
        """Handles a failed write. Returns False if the write was none of ours. After a conflict, the change that was in the way
        will mark the group, or has marked it already."""
        key = self._writing.pop(event.id, None)
        self._opinions.pop(event.id, None)
        group = self._cluster.groups.get(key) if key is not None else None
        if key is not None and group is not None:
            if event.why is WriteFailure.UNKNOWN:
                self._rests[key] = self._clock.now + STATUS_REST
            elif event.why is not WriteFailure.CONFLICT:
                self._refused[key] = group.metadata.resource_version
        return key is not None

    def update(self) -> None:
        """Writes the statuses of marked groups that differ."""
        now = self._clock.now
        for key in [key for key, due in self._rests.items() if due <= now]:
            del self._rests[key]
            self.look(key)
        if not self._marked:
            return
        busy = {*self._writing.values(), *self._rests}
        admission = _Admission(self._cluster, self._queues)
        for key in list(self._marked):
            group = self._cluster.groups.get(key)
            if group is None:
                self.gone(key)
            elif key not in busy and int(group.metadata.resource_version or 0) >= self._written.get(key, 0):
                del self._marked[key]
                self._update(key, group, admission)

    def _update(self, key: str, group: PodGroup | VolcanoPodGroup, admission: _Admission) -> None:
        now = self._clock.now
        found, verdict = tally(key, self._cluster), self._verdicts.get(key)
        if isinstance(group, VolcanoPodGroup):
            words = admission.ask(group)
            (self._held_back.add if words else self._held_back.discard)(key)
            if words and verdict is None:
                verdict = GangHindrance(words)
            status = volcano_status(group, found, verdict, now, admitted=not words)
        else:
            gang = gang_of(key, group)
            status = kubernetes_status(group, gang.minimum, found, verdict, now) if gang is not None else None
        opinion = (found, verdict, group.spec)
        if opinion == self._said.get(key):
            return  # another scheduler says something else; repeating ours would never end
        if status is not None and self._refused.get(key) != group.metadata.resource_version:
            meta, patch = group.metadata, {"status": status}
            write = self._send(
                lambda id: PatchGroup(
                    id,
                    group.api_version,
                    meta.namespace,
                    meta.name,
                    meta.uid,
                    meta.resource_version,
                    patch,
                )
            )
            self._writing[write] = key
            self._opinions[write] = opinion


class _Admission:
    """Volcano's enqueue action for several groups in turn: each admitted group counts against the next."""

    def __init__(self, cluster: Cluster, queues: TenantQueues) -> None:
        self._cluster = cluster
        self._queues = queues
        self._kept: dict[str, Amounts] | None = None

    def ask(self, group: VolcanoPodGroup) -> str:
        """Why a group is not admitted; empty if it is, or was before."""
        if group.status.phase not in (None, "", PENDING):
            return ""
        if not group.spec.min_resources:
            return self._queues.closed(queue_name(group))
        if self._kept is None:
            self._kept = self._queues.kept()
        return self._queues.admit(group, self._kept)
