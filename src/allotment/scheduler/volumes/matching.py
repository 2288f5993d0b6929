"""Which existing volume a claim gets: the smallest one that is large enough and that the node reaches.

For each claim, the search checks once per volume what does not depend on the node: size, class, mode, selector, owner. It finds
the nodes of a volume by their hostname label if the volume names one. So for local volumes, which only one node reaches, a node
looks only at its own.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import TYPE_CHECKING

from allotment.api.codec import encode
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
    """The volumes that a claim could get on some node. A volume that is already meant for the claim comes before all others; on
    nodes that do not reach it, the claim gets none. ``known`` keeps what claims with equal requests share."""

    def __init__(
        self, claim: PersistentVolumeClaim, storage: Storage, known: dict[Hashable, FreeVolumes] | None = None
    ) -> None:
        self.meant: KnownVolume | None = None
        asked = size_asked(claim)
        volumes = storage.of_class.get(class_of(claim), {}).values()
        for volume in volumes:
            if not storage.meant_for(volume, claim) or volume.size < asked or not _same_kind(claim, volume):
                continue
            if self.meant is None or volume.name < self.meant.name:
                self.meant = volume
        known = known if known is not None else {}
        shape = _shape(claim)
        if shape not in known:
            unclaimed = (each for each in volumes if storage.meant_for(each, claim) is None)
            fitting = (each for each in unclaimed if each.size >= asked and _same_kind(claim, each))
            known[shape] = FreeVolumes(each for each in fitting if _is_free(claim, each))
        self._free = known[shape]

    def best(
        self, node: Node, taken: Collection[str], passed: dict[int, int] | None = None
    ) -> KnownVolume | None:
        """The volume that the claim gets on a node where these are taken. A caller that asks several times about one node, while
        it takes more and more, keeps ``passed`` between calls."""
        if self.meant is not None and self.meant.name not in taken:
            return self.meant if self.meant.reached_from(node) else None
        return self._free.first(node, taken, passed if passed is not None else {})

    def anywhere(self) -> KnownVolume | None:
        """The volume that the claim gets if any node may reach it."""
        return self.meant or next(iter(self._free.volumes), None)


class FreeVolumes:
    """Unbound volumes that claims of one shape could get, the smallest first."""

    def __init__(self, volumes: Iterable[KnownVolume]) -> None:
        self.volumes = sorted(volumes, key=_rank)
        self._anywhere = [each for each in self.volumes if each.hosts is None]
        self._on_host: dict[str, list[KnownVolume]] = {}
        for volume in self.volumes:
            for host in volume.hosts or ():
                self._on_host.setdefault(host, []).append(volume)

    def first(self, node: Node, taken: Collection[str], passed: dict[int, int]) -> KnownVolume | None:
        """The first volume that the node reaches and that is not taken. ``passed`` says how many at the start of each list do not
        qualify."""
        own = self._on_host.get(node.metadata.labels.get(HOSTNAME, ""), [])
        found: list[KnownVolume] = []
        for volumes in (own, self._anywhere):
            at = passed.get(id(volumes), 0)
            while at < len(volumes) and (volumes[at].name in taken or not volumes[at].reached_from(node)):
                at += 1
            passed[id(volumes)] = at
            found += volumes[at : at + 1]
        return min(found, key=_rank, default=None)


def _shape(claim: PersistentVolumeClaim) -> Hashable:
    spec = claim.spec
    return (
        class_of(claim),
        size_asked(claim),
        spec.access_modes,
        spec.volume_mode,
        spec.volume_attributes_class_name,
        encode(spec.selector) if spec.selector is not None else None,
    )


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
    """Whether an unbound volume may be given to the claim."""
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
