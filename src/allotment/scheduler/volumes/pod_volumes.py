"""What a pod's volumes ask of its node, computed once per pod.

Claims are referred to by name; a generic ephemeral volume stands for a claim named after the pod and the volume. Disks are
volumes from before CSI that a pod names directly, without a claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.scheduler.volumes.in_tree import migrated_disk

if TYPE_CHECKING:
    from allotment.api.core import Pod
    from allotment.api.volumes import ISCSIDisk, RBDImage, Volume
    from allotment.scheduler.volumes.in_tree import MigratedDisk


@dataclass(frozen=True, slots=True)
class NamedClaim:
    """A PersistentVolumeClaim that a pod needs. ``ephemeral``: it is made for the pod, and must belong to it."""

    key: str  # namespace/name
    ephemeral: bool = False

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that two pods on one node may not share, unless ``read_only`` allows both. ``name`` identifies it, together with any
    of its ``monitors`` if it has some."""

    kind: str
    name: str
    read_only: bool = False
    monitors: frozenset[str] = frozenset()

    def conflicts(self, other: Disk) -> bool:
        if (self.kind, self.name) != (other.kind, other.name):
            return False
        if self.monitors and self.monitors.isdisjoint(other.monitors):
            return False
        return not (self.read_only and other.read_only)


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """The volumes of a pod that restrict where it runs."""

    claims: tuple[NamedClaim, ...] = ()
    disks: tuple[Disk, ...] = ()
    migrated: tuple[MigratedDisk, ...] = ()  # those that a CSI driver serves today

    @property
    def named(self) -> frozenset[str]:
        """The keys of all claims."""
        return frozenset([claim.key for claim in self.claims])


def volumes_of(pod: Pod) -> PodVolumes | None:
    """The volumes of a pod that restrict where it runs; None if every node has its volumes."""
    meta = pod.metadata
    claims: list[NamedClaim] = []
    disks: list[Disk] = []
    migrated: list[MigratedDisk] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            claims.append(NamedClaim(f"{meta.namespace}/{volume.persistent_volume_claim.claim_name}"))
        elif volume.ephemeral is not None:
            claims.append(NamedClaim(f"{meta.namespace}/{meta.name}-{volume.name}", ephemeral=True))
        else:
            disks += filter(None, (_disk(volume),))
            migrated += filter(None, (migrated_disk(volume),))
    if not (claims or disks or migrated):
        return None
    return PodVolumes(tuple(claims), tuple(disks), tuple(migrated))


def _disk(volume: Volume) -> Disk | None:
    google, amazon = volume.gce_persistent_disk, volume.aws_elastic_block_store
    if google is not None:
        return Disk("gcePersistentDisk", google.pd_name, bool(google.read_only))
    if amazon is not None:
        return Disk("awsElasticBlockStore", amazon.volume_id)
    if volume.iscsi is not None:
        return _iscsi(volume.iscsi)
    return _rbd(volume.rbd) if volume.rbd is not None else None


def _iscsi(disk: ISCSIDisk) -> Disk:
    return Disk("iscsi", disk.iqn, bool(disk.read_only))


def _rbd(image: RBDImage) -> Disk:
    name = f"{image.pool or 'rbd'}/{image.image}"
    return Disk("rbd", name, bool(image.read_only), frozenset(image.monitors))
