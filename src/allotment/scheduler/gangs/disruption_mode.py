"""``PodGroup.spec.disruptionMode``: which pods can only be disrupted together.

With ``all``, a pod of the group goes only with all others of the group that have a node, and only if each of them may go. With
``single``, each pod goes alone, also those that the gang needs to be whole. A group that says neither, and every Volcano group,
keeps the scheduler's own rule, which ``session_actions`` has: what is above the minimum goes alone, the rest together.

As in Kubernetes, this binds whoever makes room: preemption and reclaim. An eviction by a taint follows from the pod's own node or
device, and takes nobody else along.
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
    """The pods that have to go when this one does, itself first."""
    if not pod.group or not only_together(cluster.groups.get(pod.group)):
        return (pod,)
    members = cluster.members.get(pod.group, {}).values()
    return (pod, *[each for each in members if each.node and each.key != pod.key])
