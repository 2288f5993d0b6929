"""SchedulingGates: a pod with scheduling gates stays out of the queue until all of them are removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from allotment.api.core import Pod
from allotment.api.text import plural
from allotment.scheduler.framework import SUCCESS, ObjectAction, Status, StatusCode, Wake

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo


class SchedulingGates:
    """The PreEnqueue plugin that holds back pods with gates."""

    name = "SchedulingGates"
    wakes: Sequence[Wake] = (Wake(Pod, frozenset({ObjectAction.UPDATE})),)

    def pre_enqueue(self, pod: PodInfo, cluster: Cluster) -> Status:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        words = f"waiting for {plural(len(gates), 'scheduling gate')} to be removed: "
        return Status(StatusCode.UNRESOLVABLE, self.name, words + ", ".join(gate.name for gate in gates))

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """Only removing the pod's own gates helps."""
        return isinstance(new, Pod) and new.metadata.uid == pod.uid and not new.spec.scheduling_gates

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        return (
            isinstance(old, Pod)
            and isinstance(new, Pod)
            and old.spec.scheduling_gates != new.spec.scheduling_gates
        )
