"""A pod that must go at a deadline: waited for, said, marked, deleted.

Both taint evictions decide who must go and when, each time anew from what is; what happens then is the same and is here:

1. the deadline is ahead: the key comes back then, and a change meanwhile may move the deadline or take it away;
2. it has come: the condition ``DisruptionTarget`` (so that a Job's failure policy can tell an eviction from a fault of
   the program), then the deletion of this very pod, and an event.

A crash between the two writes is repaired by the repetition, which finds the condition in place. Pods that have finished
hold nothing and are left alone, as are those that are going already.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from allotment.api.core import Pod
from allotment.api.rights import READ
from allotment.api.status import NotFound
from allotment.api.timestamps import timestamp
from allotment.client.client import Client, PatchType
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.controllers.clock import Now
from allotment.controllers.controller import Again
from allotment.controllers.pod_state import finished

RIGHTS = (
    f"delete,{READ}: core: pods",
    "patch: core: pods/status",
)

LONGEST_TIMER = 86_400.0
"""Seconds after which a deadline is looked at again even if it is years ahead: timers need not hold such numbers."""
FAR = datetime.max.replace(tzinfo=UTC)


def later(time: datetime, seconds: int) -> datetime:
    """Seconds come from users and may be more than time has."""
    try:
        return time + timedelta(seconds=max(seconds, 0))
    except OverflowError:
        return FAR


@dataclass(frozen=True, slots=True)
class Words:
    """What one kind of eviction says."""

    event: str  # the events' reason
    condition: str  # the condition's reason
    message: str  # why, in both


def can_go(pod: Pod) -> bool:
    """Whether there is anything to evict: bound, not finished, not going already."""
    return bool(pod.spec.node_name) and not finished(pod) and pod.metadata.deletion_timestamp is None


class Evictions:
    """The pods that have a deadline, by uid, and those already deleted whose end the copy may not show yet.

    Call :meth:`forget` when a pod is gone.
    """

    def __init__(self, client: Client, recorder: Recorder, words: Words, now: Now) -> None:
        self._pods = client.of(Pod)
        self._recorder = recorder
        self._words = words
        self._now = now
        self._waiting: set[str] = set()
        self._evicted: set[str] = set()

    def wait(self, pod: Pod, deadline: datetime) -> Again | None:
        """When to come again; None if the time has come."""
        seconds = (deadline - self._now()).total_seconds()
        if seconds <= 0:
            return None
        self._waiting.add(pod.metadata.uid)
        return Again(min(seconds, LONGEST_TIMER), "a taint is tolerated until then")

    def cancel(self, pod: Pod) -> None:
        """It need not go after all. Says so if somebody may have heard otherwise."""
        if pod.metadata.uid in self._waiting:
            self._waiting.discard(pod.metadata.uid)
            self._tell(pod, "The pod may stay: what it would have been deleted for is gone")

    def forget(self, uid: str) -> None:
        self._waiting.discard(uid)
        self._evicted.discard(uid)

    async def evict(self, pod: Pod) -> bool:
        """Whether the pod goes because of this call. Raises ``Conflict`` if the copy was old."""
        meta = pod.metadata
        if meta.uid in self._evicted:
            return False
        await self._mark(pod)
        self._evicted.add(
            meta.uid
        )  # before the deletion: its end may be seen before its reply, and is forgotten then
        try:
            await self._pods.delete(meta.name, meta.namespace, uid=meta.uid)
        except NotFound:
            self._evicted.discard(meta.uid)
            return False
        except BaseException:
            self._evicted.discard(meta.uid)
            raise
        self._waiting.discard(meta.uid)
        self._tell(pod, f"Deleting the pod: {self._words.message}")
        return True

    async def _mark(self, pod: Pod) -> None:
        words = self._words
        present = next((each for each in pod.status.conditions if each.type == "DisruptionTarget"), None)
        targeted = present is not None and present.status == "True"
        if targeted and present is not None and present.reason == words.condition:
            return
        condition = {"type": "DisruptionTarget", "status": "True", "reason": words.condition}
        condition["message"] = words.message
        if not targeted:
            condition["lastTransitionTime"] = timestamp(self._now())
        await self._pods.change(
            pod,
            {"status": {"conditions": [condition]}},  # merged by type
            type_=PatchType.STRATEGIC,
            subresource="status",
        )

    def _tell(self, pod: Pod, message: str) -> None:
        meta = pod.metadata
        subject = Subject("v1", "Pod", meta.name, meta.namespace, meta.uid)
        self._recorder.tell(subject, EventType.NORMAL, self._words.event, message)
