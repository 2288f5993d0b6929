"""Evicts a pod at a deadline: it waits, marks the pod, deletes it, and writes events.

Both taint evictions decide which pods must leave and when, each time anew from the present state. The rest is the same for
both, and is here:

1. before the deadline, the key comes back at the deadline, and a change meanwhile may move or remove the deadline;
2. at the deadline, the pod gets the condition ``DisruptionTarget`` (so that a Job's failure policy can distinguish an
   eviction from a failure of the program), then this very pod is deleted, and an event is written.

A crash between the two writes is repaired by the repetition, which finds the condition in place. Finished pods hold nothing
and are left alone, as are pods that are already being deleted.
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
"""After so many seconds, a deadline is checked again even if it is years ahead, because timers cannot hold such numbers."""
FAR = datetime.max.replace(tzinfo=UTC)


def later(time: datetime, seconds: int) -> datetime:
    """The later time. Seconds come from users and may exceed the range of times."""
    try:
        return time + timedelta(seconds=max(seconds, 0))
    except OverflowError:
        return FAR


@dataclass(frozen=True, slots=True)
class EvictionWords:
    """The words of one kind of eviction."""

    event: str  # the events' reason
    condition: str  # the condition's reason
    message: str  # why, in both


def can_go(pod: Pod) -> bool:
    """Whether the pod can be evicted: bound, not finished, not already being deleted."""
    return bool(pod.spec.node_name) and not finished(pod) and pod.metadata.deletion_timestamp is None


class Evictions:
    """The pods that have a deadline, by uid, and deleted pods whose end the copy may not show yet.

    Call :meth:`forget` when a pod is gone.
    """

    def __init__(self, client: Client, recorder: Recorder, words: EvictionWords, now: Now) -> None:
        self._pods = client.of(Pod)
        self._recorder = recorder
        self._words = words
        self._now = now
        self._waiting: set[str] = set()
        self._evicted: set[str] = set()

    def wait(self, pod: Pod, deadline: datetime) -> Again | None:
        """When to come again; None if the deadline has passed."""
        seconds = (deadline - self._now()).total_seconds()
        if seconds <= 0:
            return None
        self._waiting.add(pod.metadata.uid)
        return Again(min(seconds, LONGEST_TIMER), "a taint is tolerated until then")

    def cancel(self, pod: Pod) -> None:
        """Cancels the eviction. Writes an event if the eviction may have been announced."""
        if pod.metadata.uid in self._waiting:
            self._waiting.discard(pod.metadata.uid)
            self._tell(pod, "The pod may stay: the reason for its deletion is gone")

    def forget(self, uid: str) -> None:
        self._waiting.discard(uid)
        self._evicted.discard(uid)

    async def evict(self, pod: Pod) -> bool:
        """Whether this call deletes the pod. Raises ``Conflict`` if the copy was old."""
        meta = pod.metadata
        if meta.uid in self._evicted:
            return False
        await self._mark(pod)
        self._evicted.add(
            meta.uid
        )  # before the deletion: its end may be seen, and forgotten, before its reply
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
