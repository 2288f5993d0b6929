"""The parts of a pod's volumes that decide where the pod can run.

Volumes made of files (config maps, secrets, projections, empty directories, …) fit everywhere. They read as a volume
without content, and so does a driver's inline volume: kube-scheduler ignores those too.
"""

from typing import ClassVar

import msgspec

from allotment.api.meta import ApiStruct, stated


class VolumeClaim(ApiStruct, frozen=True, kw_only=True):
    """A PersistentVolumeClaim in the pod's namespace."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"readOnly"})

    claim_name: str = stated("")


class EphemeralVolume(ApiStruct, frozen=True, kw_only=True):
    """A PersistentVolumeClaim that is made for the pod, named after the pod and the volume, and removed with the pod."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"volumeClaimTemplate"})


class GCEDisk(ApiStruct, frozen=True, kw_only=True):
    """A disk in Google's cloud, in the field from before CSI."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"fsType", "partition"})

    pd_name: str = stated("")
    read_only: bool | None = None


class AWSDisk(ApiStruct, frozen=True, kw_only=True):
    """A disk in Amazon's cloud, in the field from before CSI."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"fsType", "partition", "readOnly"})

    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureDisk(ApiStruct, frozen=True, kw_only=True):
    """A disk in Microsoft's cloud, in the field from before CSI."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"cachingMode", "diskName", "fsType", "kind", "readOnly"})

    disk_uri: str = msgspec.field(default="", name="diskURI")


class CinderDisk(ApiStruct, frozen=True, kw_only=True):
    """A disk in OpenStack, in the field from before CSI."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"fsType", "readOnly", "secretRef"})

    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolume(ApiStruct, frozen=True, kw_only=True):
    """A Portworx volume, in the field from before CSI."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"fsType", "readOnly"})

    volume_id: str = msgspec.field(default="", name="volumeID")


class ISCSIDisk(ApiStruct, frozen=True, kw_only=True):
    """A disk reached by iSCSI."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {
            "chapAuthDiscovery",
            "chapAuthSession",
            "fsType",
            "initiatorName",
            "iscsiInterface",
            "lun",
            "portals",
            "secretRef",
            "targetPortal",
        }
    )

    iqn: str = stated("")
    read_only: bool | None = None


class RBDImage(ApiStruct, frozen=True, kw_only=True):
    """An image in a Ceph cluster."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"fsType", "keyring", "secretRef", "user"})

    monitors: tuple[str, ...] = ()
    pool: str | None = None  # "rbd" when absent
    image: str = stated("")
    read_only: bool | None = None


class Volume(ApiStruct, frozen=True, kw_only=True):
    """A volume of a pod."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {
            "azureFile",
            "cephfs",
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "fc",
            "flexVolume",
            "flocker",
            "gitRepo",
            "glusterfs",
            "hostPath",
            "image",
            "nfs",
            "photonPersistentDisk",
            "projected",
            "quobyte",
            "scaleIO",
            "secret",
            "storageos",
            "vsphereVolume",
        }
    )

    name: str = stated("")
    persistent_volume_claim: VolumeClaim | None = None
    ephemeral: EphemeralVolume | None = None
    gce_persistent_disk: GCEDisk | None = None
    aws_elastic_block_store: AWSDisk | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderDisk | None = None
    portworx_volume: PortworxVolume | None = None
    iscsi: ISCSIDisk | None = None
    rbd: RBDImage | None = None
