"""What distinguishes the volumes of two pods, apart from the names of their claims.

Pods of a set mostly have a claim each, all alike. If one of them does not fit, neither do the others, and a plan counts them
together. What only one pod can have (an existing volume, a claim in use) is a part of the likeness.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from allotment.api.codec import encode
from allotment.api.storage import class_of, is_bound
from allotment.scheduler.volumes.matching import exclusive, size_asked

if TYPE_CHECKING:
    from allotment.api.storage import PersistentVolumeClaim
    from allotment.scheduler.volumes.pod_volumes import PodVolumes
    from allotment.scheduler.volumes.storage import Storage


def likeness(volumes: PodVolumes, storage: Storage) -> Hashable:
    """Equal for volumes that nodes cannot tell apart."""
    claims = [_claim(each.key, storage) for each in volumes.claims]
    return tuple(claims), volumes.disks, volumes.migrated


def _claim(key: str, storage: Storage) -> Hashable:
    claim = storage.claims.get(key)
    if claim is None or is_bound(claim) or claim.spec.volume_name or _known_by_name(key, claim, storage):
        return key
    spec = claim.spec
    return (
        class_of(claim),
        size_asked(claim),
        spec.access_modes,
        spec.volume_mode,
        spec.volume_attributes_class_name,
        encode(spec.selector) if spec.selector is not None else None,
    )


def _known_by_name(key: str, claim: PersistentVolumeClaim, storage: Storage) -> bool:
    """Whether the claim has properties that other claims like it do not share."""
    return (
        exclusive(claim)
        or len(storage.users.get(key, ())) > 1
        or bool(storage.selected_node(claim))
        or any(storage.meant_for(each, claim) for each in storage.of_class.get(class_of(claim), {}).values())
    )


def labels_read(volumes: PodVolumes, storage: Storage) -> set[str]:
    """The labels of nodes that decide whether a node suits the volumes."""
    read: set[str] = set()
    for claim in filter(None, (storage.claims.get(each.key) for each in volumes.claims)):
        if is_bound(claim):
            found = storage.volumes.get(claim.spec.volume_name or "")
            reached = [found] if found is not None else []
        else:
            reached = list(storage.of_class.get(class_of(claim), {}).values())
            kind = storage.classes.get(class_of(claim))
            for topology in kind.allowed_topologies if kind is not None else ():
                read |= {test.key for test in topology.match_label_expressions}
            for capacity in storage.capacities.get(class_of(claim), {}).values():
                if capacity.node_topology is not None:
                    read |= capacity.node_topology.match_labels.keys()
                    read |= {test.key for test in capacity.node_topology.match_expressions}
        for volume in reached:
            read |= volume.labels_read
    return read
