"""Disks named by fields from before CSI, which CSI drivers serve today.

If a node has a CSINode, these disks count against its limits, whatever the CSINode says about replaced plugins: Kubernetes 1.37
has no other way to serve them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.api.storage import CSINode, PersistentVolumeSpec
    from allotment.api.volumes import Volume

DRIVERS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""Old plugins, and the drivers that serve their volumes."""


@dataclass(frozen=True, slots=True)
class MigratedDisk:
    """A disk: its old plugin, and its name there."""

    plugin: str
    name: str


def migrated_disk(source: Volume | PersistentVolumeSpec) -> MigratedDisk | None:
    """The disk that a pod's volume or a PersistentVolume names by such a field."""
    if (google := source.gce_persistent_disk) is not None:
        return MigratedDisk("kubernetes.io/gce-pd", google.pd_name)
    if (amazon := source.aws_elastic_block_store) is not None:
        return MigratedDisk("kubernetes.io/aws-ebs", amazon.volume_id)
    if (azure := source.azure_disk) is not None:
        return MigratedDisk("kubernetes.io/azure-disk", azure.disk_uri)
    if (cinder := source.cinder) is not None:
        return MigratedDisk("kubernetes.io/cinder", cinder.volume_id)
    if (portworx := source.portworx_volume) is not None:
        return MigratedDisk("kubernetes.io/portworx-volume", portworx.volume_id)
    return None


def driver_on(node: CSINode | None, plugin: str) -> str:
    """The driver that serves an old plugin's volumes on a node; empty: none does."""
    return DRIVERS.get(plugin, "") if node is not None else ""
