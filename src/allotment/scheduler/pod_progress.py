"""How far this scheduler is with a pod, from what the queue and the bindings know of it."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from allotment.scheduler.binding.stale_reservations import ReservationState
from allotment.scheduler.gangs.gang_lifecycle import GANG_PREFIX
from allotment.scheduler.queue import ACTIVE

if TYPE_CHECKING:
    from allotment.scheduler.binding.binding_stage import BindingsUnderWay
    from allotment.scheduler.pod import PodInfo
    from allotment.scheduler.queue import SchedulingQueue


class PodProgress:
    """Answers for the parts that must not disturb a pod on its way. ``ours`` has the schedulerNames of this scheduler."""

    def __init__(self, ours: Container[str], queue: SchedulingQueue, bindings: BindingsUnderWay) -> None:
        self._ours = ours
        self._queue = queue
        self._bindings = bindings

    def waits(self, pod: PodInfo) -> bool:
        """Whether this scheduler must place the pod, and the pod is neither placed nor being bound."""
        ours = (pod.pod.spec.scheduler_name or "") in self._ours
        return ours and not pod.node and not pod.leaving and pod.key not in self._bindings

    def reservation(self, pod: PodInfo) -> ReservationState:
        """Whether the pod still relies on a claim that is reserved for it."""
        ours = (pod.pod.spec.scheduler_name or "") in self._ours
        if not ours or pod.pod.spec.node_name:
            return ReservationState.OTHER
        if pod.node or pod.key in self._bindings:
            return ReservationState.BUSY
        entry = self._queue.get(pod.key) or self._queue.get(GANG_PREFIX + pod.group)
        first_try = entry is not None and entry.place == ACTIVE and not entry.attempts
        return ReservationState.BUSY if first_try and not pod.leaving else ReservationState.WAITS
