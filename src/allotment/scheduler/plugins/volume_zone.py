"""VolumeZone: only nodes of a volume's zone or region can use a volume that is labelled with one.

Old volumes carry such labels where newer ones have a node affinity. A label may name several zones, separated by ``__``. A node
without any such label counts as being in every zone and region.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from allotment.api.core import Node
from allotment.api.meta import key_of
from allotment.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from allotment.scheduler.framework import SKIP, SUCCESS, ObjectAction, Status, StatusCode, Wake
from allotment.scheduler.volumes.storage import ZONE_LABELS, Storage

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo
    from allotment.scheduler.volumes.pod_volumes import PodVolumes

NAME = "VolumeZone"
LABELS = (*ZONE_LABELS, *ZONE_LABELS.values())
_CONFLICT = Status(StatusCode.UNRESOLVABLE, NAME, "had no available volume zone")
_COME = frozenset((ObjectAction.ADD, ObjectAction.UPDATE))

Places = tuple[tuple[str, frozenset[str]], ...]
"""Labels and the values that they may have."""


class VolumeZone:
    """The filter that compares the zone and region labels of volumes and nodes."""

    name = NAME
    local = False
    wakes: Sequence[Wake] = (
        Wake(StorageClass, frozenset((ObjectAction.ADD,))),
        Wake(Node, _COME),
        Wake(PersistentVolumeClaim, _COME),
        Wake(PersistentVolume, _COME),
    )

    def indifferent(self, pod: PodInfo, cluster: Cluster) -> bool:
        return pod.volumes is None or not (pod.volumes.claims and cluster.storage.known)

    def pre_filter(self, cycle: Cycle) -> Status:
        volumes = cycle.pod.volumes
        found = places_of(volumes, cycle.cluster.storage) if volumes is not None else ()
        if not found:
            return SKIP
        cycle.state[NAME] = found
        return SUCCESS

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        places: Places = cycle.state.get(NAME, ())
        return SUCCESS if suits(places, node.labels) else _CONFLICT

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        if isinstance(new, PersistentVolumeClaim):
            return pod.volumes is not None and key_of(new) in pod.volumes.named
        if isinstance(new, Node | PersistentVolume) and isinstance(old, Node | PersistentVolume):
            return new.metadata.labels != old.metadata.labels
        return True


def places_of(volumes: PodVolumes, storage: Storage) -> Places:
    """The zones and regions of the volumes that a pod's claims have. Claims without a volume are VolumeBinding's concern."""
    found: dict[tuple[str, frozenset[str]], None] = {}
    for named in volumes.claims:
        claim = storage.claims.get(named.key)
        name = claim.spec.volume_name if claim is not None and not named.ephemeral else None
        volume = storage.volumes.get(name or "")
        for label in LABELS if volume is not None else ():
            assert volume is not None
            value = volume.pv.metadata.labels.get(label)
            if value:  # an empty value names nothing and is skipped, as in kube-scheduler
                found[label, frozenset(value.split("__"))] = None
    return tuple(found)


def suits(places: Places, labels: dict[str, str]) -> bool:
    """Whether a node with these labels is in all of the places."""
    if not any(label in labels for label in LABELS):
        return True
    for label, values in places:
        value = labels.get(label, labels.get(ZONE_LABELS.get(label, label)))
        if value is None or value not in values:
            return False
    return True
