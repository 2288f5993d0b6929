"""VolumeRestrictions: only one pod at a time uses a claim with ReadWriteOncePod, and no two pods of a node use a disk that allows
only one user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from allotment.api.core import Node, Pod
from allotment.api.meta import key_of
from allotment.api.storage import PersistentVolumeClaim
from allotment.scheduler.framework import SKIP, SUCCESS, ObjectAction, Status, StatusCode, Wake
from allotment.scheduler.volumes.matching import exclusive
from allotment.scheduler.volumes.pod_volumes import volumes_of

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

NAME = "VolumeRestrictions"
_DISK_TAKEN = Status(StatusCode.UNSCHEDULABLE, NAME, "had no available disk")
_CLAIM_TAKEN = Status(
    StatusCode.UNSCHEDULABLE,
    NAME,
    "are unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
)


class VolumeRestrictions:
    """The filter that enforces exclusive use of volumes."""

    name = NAME
    local = False
    wakes: Sequence[Wake] = (
        Wake(Pod, frozenset((ObjectAction.DELETE,))),
        Wake(Node, frozenset((ObjectAction.ADD,))),
        Wake(PersistentVolumeClaim, frozenset((ObjectAction.ADD, ObjectAction.UPDATE))),
    )

    def indifferent(self, pod: PodInfo, cluster: Cluster) -> bool:
        return pod.volumes is None or not cluster.storage.known

    def pre_filter(self, cycle: Cycle) -> Status:
        pod, cluster = cycle.pod, cycle.cluster
        taken = next(_users(pod, cluster), None) is not None
        if pod.volumes is None or not (taken or pod.volumes.disks):
            return SKIP
        cycle.state[NAME] = taken
        return SUCCESS

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        pod = cycle.pod
        if NAME not in cycle.state or pod.volumes is None:
            return SUCCESS
        for disk in pod.volumes.disks:
            for other in node.pods.values():
                theirs = other.volumes.disks if other.volumes is not None else ()
                if any(disk.conflicts(each) for each in theirs):
                    return _DISK_TAKEN
        return _CLAIM_TAKEN if cycle.state[NAME] else SUCCESS

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        if pod.volumes is None:
            return False
        if isinstance(new, PersistentVolumeClaim):
            return key_of(new) in pod.volumes.named
        if isinstance(old, Pod):
            theirs = volumes_of(old)
            return theirs is not None and bool(
                pod.volumes.named & theirs.named
                or any(mine.conflicts(each) for mine in pod.volumes.disks for each in theirs.disks)
            )
        return True

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        return not isinstance(old, Pod) or bool(old.spec.volumes)


def _users(pod: PodInfo, cluster: Cluster) -> Iterator[str]:
    """Pods with a node that use one of this pod's claims which only one pod may use."""
    storage = cluster.storage
    for named in pod.volumes.claims if pod.volumes is not None else ():
        claim = storage.claims.get(named.key)
        if claim is not None and not named.ephemeral and exclusive(claim):
            yield from (
                user
                for user in storage.users.get(named.key, ())
                if user != pod.key and _has_place(cluster.pods[user], cluster)
            )


def _has_place(pod: PodInfo, cluster: Cluster) -> bool:
    """Whether a pod is on a node. A pod that preemption has removed on trial is not, whatever the cluster still says of it."""
    node = cluster.nodes.get(pod.node)
    return node is not None and pod.key in node.pods
