"""Which volume a claim gets, of those that there are: the smallest that is large enough, as far as the node reaches it.

What does not depend on the node (size, class, mode, selector, whose it is) is asked of each volume once for a claim, and the
nodes that can be right for a volume are looked up by their hostname label where the volume names one. So local volumes,
each of which one node reaches, cost a node only its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from heapq import merge
from typing import TYPE_CHECKING

from allotment.api.storage import READ_WRITE_ONCE_POD, STORAGE, PersistentVolumeClaim, class_of
from allotment.scheduler.selector import pods_selected
from allotment.scheduler.volumes.storage import HOSTNAME, KnownVolume, Storage, nanos

if TYPE_CHECKING:
    from allotment.api.core import Node

FILESYSTEM = "Filesystem"


def size_asked(claim: PersistentVolumeClaim) -> int:
    """How much storage a claim asks for, in billionths of a byte."""
    return nanos(claim.spec.resources.requests.get(STORAGE))


class Candidates:
    """The volumes that a claim could be given, whatever the node. A volume that is meant for the claim already goes before all
    others, and where a node does not reach it, the claim gets none there."""

    def __init__(self, claim: PersistentVolumeClaim, storage: Storage) -> None:
        self.meant: KnownVolume | None = None
        self._free: list[KnownVolume] = []  # the smallest first
        self._anywhere: list[KnownVolume] = []
        self._on_host: dict[str, list[KnownVolume]] = {}
        asked = size_asked(claim)
        free: list[KnownVolume] = []
        for volume in storage.of_class.get(class_of(claim), {}).values():
            whose = storage.meant_for(volume, claim)
            if whose is False or volume.size < asked or not _same_kind(claim, volume):
                continue
            if whose:
                if self.meant is None or volume.name < self.meant.name:
                    self.meant = volume
            elif _is_free(claim, volume):
                free.append(volume)
        self._free = sorted(free, key=_rank)
        for volume in self._free:
            if volume.hosts is None:
                self._anywhere.append(volume)
            for host in volume.hosts or ():
                self._on_host.setdefault(host, []).append(volume)

    def best(self, node: Node, taken: Collection[str]) -> KnownVolume | None:
        """The volume that the claim gets on a node where these are taken."""
        if self.meant is not None and self.meant.name not in taken:
            return self.meant if self.meant.reached_from(node) else None
        return next((each for each in self._near(node) if each.name not in taken), None)

    def anywhere(self) -> KnownVolume | None:
        """The volume that the claim gets if it does not matter from where it is reached."""
        return self.meant or next(iter(self._free), None)

    def _near(self, node: Node) -> Iterator[KnownVolume]:
        own = self._on_host.get(node.metadata.labels.get(HOSTNAME, ""), ())
        for volume in merge(own, self._anywhere, key=_rank):
            if volume.reached_from(node):
                yield volume


def _rank(volume: KnownVolume) -> tuple[int, str]:
    return volume.size, volume.name


def _same_kind(claim: PersistentVolumeClaim, volume: KnownVolume) -> bool:
    asked, spec = claim.spec, volume.pv.spec
    return (
        (asked.volume_mode or FILESYSTEM) == (spec.volume_mode or FILESYSTEM)
        and (asked.volume_attributes_class_name or "") == (spec.volume_attributes_class_name or "")
        and volume.pv.metadata.deletion_timestamp is None
    )


def _is_free(claim: PersistentVolumeClaim, volume: KnownVolume) -> bool:
    """Whether a volume that nobody has may be given to the claim."""
    asked, pv = claim.spec, volume.pv
    if pv.status.phase != "Available" or not set(asked.access_modes) <= set(pv.spec.access_modes):
        return False
    if asked.selector is None:
        return True
    selector = pods_selected(asked.selector)
    return selector is not None and selector.matches(pv.metadata.labels)


def exclusive(claim: PersistentVolumeClaim) -> bool:
    """Whether only one pod of the cluster may use a claim at a time."""
    return READ_WRITE_ONCE_POD in claim.spec.access_modes
