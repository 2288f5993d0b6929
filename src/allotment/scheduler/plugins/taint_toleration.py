"""TaintToleration: a node's taints reject the pods that do not tolerate them, or lower the node's score.

The score is 100 for a node without PreferNoSchedule taints that the pod does not tolerate, 50 with one, 33 with two, and so on.
(Kubernetes compares the nodes of one cycle with each other instead. This gives the same order and needs only the one node.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.api.core import Node, Pod
from allotment.scheduler.framework import (
    MAX_SCORE,
    SUCCESS,
    Cycle,
    ObjectAction,
    Sight,
    Status,
    StatusCode,
    Wake,
)
from allotment.scheduler.node import kind_of
from allotment.scheduler.taint_tolerance import keeps_off, tolerated

if TYPE_CHECKING:
    from allotment.api.core import Taint
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo


@dataclass(slots=True)
class _PreparedTolerations:
    accepts: Callable[[Taint], bool]
    refusals: dict[str, Status] = field(default_factory=dict)  # by the taint's key


class TaintToleration:
    """The plugin that filters and scores nodes by their taints."""

    name = "TaintToleration"
    local = True
    wakes: Sequence[Wake] = (
        Wake(Node, frozenset({ObjectAction.ADD, ObjectAction.UPDATE})),
        Wake(Pod, frozenset({ObjectAction.UPDATE})),
    )

    def pre_filter(self, cycle: Cycle) -> Status:
        cycle.state[self.name] = _PreparedTolerations(tolerated(cycle.pod.pod.spec.tolerations))
        return SUCCESS

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        if node.node is None or not (taints := node.node.spec.taints):
            return SUCCESS
        ready: _PreparedTolerations = cycle.state[self.name]
        taint = keeps_off(taints, ready.accepts)
        if taint is None:
            return SUCCESS
        status = ready.refusals.get(taint.key)
        if status is None:
            words = f"have the taint {taint.key} that the pod does not tolerate"
            status = ready.refusals[taint.key] = Status(
                StatusCode.UNRESOLVABLE, self.name, words, lasting=True
            )
        return status

    def score(self, cycle: Cycle, node: NodeInfo) -> int:
        if node.node is None or not (taints := node.node.spec.taints):
            return MAX_SCORE
        accepts = cycle.state[self.name].accepts
        against = sum(1 for taint in taints if taint.effect == "PreferNoSchedule" and not accepts(taint))
        return MAX_SCORE // (1 + against)

    def sees(self, cycle: Cycle) -> Sight:
        return kind_of

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """A node whose taints the pod tolerates now and did not before can help, and so can new tolerations of the pod itself."""
        if isinstance(new, Pod):
            return new.metadata.uid == pod.uid and self.helps_anyone(old, new)
        if not isinstance(new, Node):
            return False
        accepts = tolerated(pod.pod.spec.tolerations)
        return keeps_off(new.spec.taints, accepts) is None and not (
            isinstance(old, Node) and keeps_off(old.spec.taints, accepts) is None
        )

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        if isinstance(new, Pod):
            return isinstance(old, Pod) and old.spec.tolerations != new.spec.tolerations
        return not (isinstance(old, Node) and isinstance(new, Node) and old.spec.taints == new.spec.taints)
