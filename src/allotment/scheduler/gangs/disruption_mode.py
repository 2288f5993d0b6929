"""``PodGroup.spec.disruptionMode``: which pods can only be disrupted together.

With ``all``, a pod of the group is evicted only together with all others of the group that have a node, and only if each of them
may be evicted. With ``single``, each pod is evicted alone, even if the gang needs it for its minimum. A group that says neither,
and every Volcano group, follows the scheduler's own rule in ``session_actions``: pods above the minimum are evicted alone, the
rest together.

As in Kubernetes, this applies to preemption and reclaim. An eviction by a taint follows from the pod's own node or device, and
affects no other pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.api.batch import PodGroup

if TYPE_CHECKING:
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo


def only_together(group: object) -> bool:
    """Whether a group's pods can only be disrupted together."""
    return isinstance(group, PodGroup) and group.spec.disruption_mode.all is not None


def each_alone(group: object) -> bool:
    """Whether a group says that its pods can be disrupted independently."""
    return isinstance(group, PodGroup) and group.spec.disruption_mode.single is not None


def companions(pod: PodInfo, cluster: Cluster) -> tuple[PodInfo, ...]:
    """The pods that must be evicted together with this one; the first is the pod itself."""
    if not pod.group or not only_together(cluster.groups.get(pod.group)):
        return (pod,)
    members = cluster.members.get(pod.group, {}).values()
    return (pod, *[each for each in members if each.node and each.key != pod.key])
