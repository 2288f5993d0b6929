"""What leaves the scheduler: writes with their ids, and messages for users.

The outbox repeats an eviction or a deallocation that gets no answer, because no event would lead to it again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from allotment.api.timestamps import timestamp
from allotment.scheduler.event import Done, Failed, WriteFailure
from allotment.scheduler.instruction import DeletePod, Instruction, PatchPod, Tell

if TYPE_CHECKING:
    from allotment.api.batch import Queue
    from allotment.scheduler.binding.claim_writer import Draft
    from allotment.scheduler.clock import Clock
    from allotment.scheduler.diagnosis import NoNode
    from allotment.scheduler.pod import PodInfo

MOST_TIMES, REPEAT_AFTER = 5, 2.0
"""How often such a write is tried while it gets no answer, and the seconds between tries."""
MAX_MESSAGE = 1024


class Outbox:
    """Collects instructions until they are taken."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ids = 0
        self._out: list[Instruction] = []
        self._insisted: dict[int, tuple[Draft, tuple[str, ...], int]] = {}  # see insist
        # repeats, each with its time; the earliest is first
        self._again: deque[tuple[float, Draft, tuple[str, ...], int]] = deque()

    def take(self) -> list[Instruction]:
        """Returns the instructions collected since the last call."""
        out, self._out = self._out, []
        return out

    # --- writes ---

    def send(self, draft: Draft) -> int:
        """Sends a write that lacks its id; returns the id."""
        self._ids += 1
        self._out.append(draft(self._ids))
        return self._ids

    def insist(self, draft: Draft, nominees: tuple[str, ...] = (), times: int = MOST_TIMES) -> None:
        """Sends a write that is tried up to ``times`` times while there is no answer. ``nominees`` are the pods that the write
        makes room for."""
        self._insisted[self.send(draft)] = (draft, nominees, times - 1)

    def evict(self, victim: PodInfo, why: str, nominees: tuple[str, ...] = ()) -> None:
        """Deletes a pod to make room for the nominees, or for what its gang could not keep together."""
        self.insist(lambda id: DeletePod(id, victim.namespace, victim.name, victim.uid, why), nominees)
        self.tell(victim, "Preempted", why, warning=True)

    def outcome(self, event: Done | Failed) -> tuple[str, ...]:
        """Takes the outcome of a write. If the write failed for good, returns the pods that it should have made room for."""
        found = self._insisted.pop(event.id, None)
        if found is None or isinstance(event, Done) or event.why is WriteFailure.GONE:
            return ()
        _, nominees, times = found
        if event.why is WriteFailure.UNKNOWN and times:
            self._again.append((self._clock.now + REPEAT_AFTER, *found))
            return ()
        return nominees

    def tick(self) -> None:
        """Repeats the writes that are due."""
        while self._again and self._again[0][0] <= self._clock.now:
            _, draft, nominees, left = self._again.popleft()
            self.insist(draft, nominees, left)

    def next_time(self) -> float | None:
        return self._again[0][0] if self._again else None

    # --- people ---

    def say_unschedulable(self, pod: PodInfo, refusal: NoNode) -> None:
        """Writes the reason into the pod's PodScheduled condition and an event, unless the condition has it already. For a pod
        with gates, the API server has set SchedulingGated, and that stays: autoscalers take Unschedulable to mean that nodes
        are missing. A passing reason is written only if the condition has none yet, since it would replace the lasting one."""
        if pod.pod.spec.scheduling_gates or (refusal.passing and _has_reason(pod)):
            return
        reason = "SchedulerError" if refusal.error else "Unschedulable"
        said = reason, refusal.words[:MAX_MESSAGE]
        for condition in pod.pod.status.conditions:
            if condition.type == "PodScheduled" and (condition.reason, condition.message) == said:
                return
        self.say(pod, "PodScheduled", "False", *said)
        self.tell(pod, "FailedScheduling", said[1], warning=True)

    def say(self, pod: PodInfo, type_: str, status: str, reason: str, message: str) -> None:
        """Writes a condition of the pod."""
        condition = {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message[:MAX_MESSAGE],
            "lastTransitionTime": timestamp(self._clock.now),
        }
        patch = {"status": {"conditions": [condition]}}
        self.send(lambda id: PatchPod(id, pod.namespace, pod.name, pod.uid, patch))

    def tell(self, pod: PodInfo, reason: str, message: str, *, warning: bool = False) -> None:
        """Emits an event about a pod."""
        self._out.append(Tell("v1", "Pod", pod.namespace, pod.name, pod.uid, warning, reason, message))

    def warn(self, queue: Queue, reason: str, message: str) -> None:
        """Emits an event about a queue."""
        meta = queue.metadata
        self._out.append(Tell(queue.api_version, queue.kind, "", meta.name, meta.uid, True, reason, message))


def _has_reason(pod: PodInfo) -> bool:
    """Whether the pod's condition already says why it has no node."""
    return any(
        each.type == "PodScheduled" and each.status == "False" and each.message
        for each in pod.pod.status.conditions
    )
