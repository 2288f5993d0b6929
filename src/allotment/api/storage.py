"""Volumes and what provides them, as far as scheduling and binding read them: core/v1's PersistentVolume and
PersistentVolumeClaim, and storage.k8s.io/v1.

Like ``core``, these are views: how a volume is mounted is of no interest here and stays in the stored JSON.
"""

from typing import ClassVar

import msgspec

from allotment.api.core import NodeSelector, ObjectReference
from allotment.api.meta import ApiStruct, Int64, LabelSelector, ObjectMeta, stated
from allotment.api.quantity import Quantity
from allotment.api.volumes import AWSDisk, AzureDisk, CinderDisk, GCEDisk, PortworxVolume

API_VERSION = "storage.k8s.io/v1"

STORAGE = "storage"
"""The name of the one resource that volumes have and claims ask for."""
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim: both directions of its binding are written."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume or claim: a component chose the other side, not a person."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which its volume is to be made."""
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
"""Annotation of a claim: who is to make its volume."""
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
"""Annotation of a volume: who made it, and is to delete it."""
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Annotation that names a class; it counts before the field."""
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
"""Annotation of a class with "true": claims that name none get it."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes are all made by hand."""
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"

# --- volumes ---


class VolumeNodeAffinity(ApiStruct, frozen=True, kw_only=True):
    """From which nodes a volume can be reached."""

    required: NodeSelector | None = None


class CSIVolume(ApiStruct, frozen=True, kw_only=True):
    """A volume of a CSI driver; ``volume_handle`` is its name there."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {
            "controllerExpandSecretRef",
            "controllerPublishSecretRef",
            "fsType",
            "nodeExpandSecretRef",
            "nodePublishSecretRef",
            "nodeStageSecretRef",
            "readOnly",
            "volumeAttributes",
        }
    )

    driver: str = stated("")
    volume_handle: str = stated("")


class PersistentVolumeSpec(ApiStruct, frozen=True, kw_only=True):
    """What a volume is and whose it is."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {
            "azureFile",
            "cephfs",
            "fc",
            "flexVolume",
            "flocker",
            "glusterfs",
            "hostPath",
            "iscsi",
            "local",
            "mountOptions",
            "nfs",
            "photonPersistentDisk",
            "quobyte",
            "rbd",
            "scaleIO",
            "storageos",
            "vsphereVolume",
        }
    )

    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None  # the claim that has it, or is to have it
    persistent_volume_reclaim_policy: str | None = None  # Retain, Delete or Recycle
    storage_class_name: str | None = None
    volume_mode: str | None = None  # Filesystem (when absent) or Block
    node_affinity: VolumeNodeAffinity | None = None  # absent: every node reaches it
    volume_attributes_class_name: str | None = None
    csi: CSIVolume | None = None
    gce_persistent_disk: GCEDisk | None = None
    aws_elastic_block_store: AWSDisk | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderDisk | None = None
    portworx_volume: PortworxVolume | None = None


class PersistentVolumeStatus(ApiStruct, frozen=True, kw_only=True):
    """What the binder says of a volume."""

    phase: str | None = None  # Pending, Available, Bound, Released or Failed
    message: str | None = None
    reason: str | None = None
    last_phase_transition_time: str | None = None


class PersistentVolume(ApiStruct, frozen=True, kw_only=True):
    """A piece of storage."""

    api_version: str = stated("v1")
    kind: str = stated("PersistentVolume")
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


# --- claims ---


class VolumeResources(ApiStruct, frozen=True, kw_only=True):
    """How much storage a claim asks for."""

    limits: dict[str, Quantity] = msgspec.field(default_factory=dict)
    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class PersistentVolumeClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """What kind of volume is asked for; ``volume_name`` is the one that the claim got."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"dataSource", "dataSourceRef"})

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResources = VolumeResources()
    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """What the binder says of a claim."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {
            "accessModes",
            "allocatedResourceStatuses",
            "allocatedResources",
            "capacity",
            "conditions",
            "currentVolumeAttributesClassName",
            "healthStatus",
            "modifyVolumeStatus",
        }
    )

    phase: str | None = None  # Pending, Bound or Lost


class PersistentVolumeClaim(ApiStruct, frozen=True, kw_only=True):
    """A wish for a piece of storage."""

    api_version: str = stated("v1")
    kind: str = stated("PersistentVolumeClaim")
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


# --- classes ---


class TopologySelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """A node label and the values that it may have."""

    key: str = stated("")
    values: tuple[str, ...] = stated(())


class TopologySelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """All of these must hold. A term without any matches no node."""

    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(ApiStruct, frozen=True, kw_only=True):
    """How volumes of a kind are made."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"allowVolumeExpansion", "mountOptions", "parameters"})

    api_version: str = stated(API_VERSION)
    kind: str = stated("StorageClass")
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = stated("")
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None  # Immediate or WaitForFirstConsumer
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()  # empty: any node


# --- drivers ---


class VolumeNodeResources(ApiStruct, frozen=True, kw_only=True):
    """How many volumes of a driver a node can have; absent: any number."""

    count: Int64 | None = None


class CSINodeDriver(ApiStruct, frozen=True, kw_only=True):
    """A driver on a node."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"topologyKeys"})

    name: str = stated("")
    node_id: str = msgspec.field(default_factory=str, name="nodeID")
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(ApiStruct, frozen=True, kw_only=True):
    """The drivers on a node."""

    drivers: tuple[CSINodeDriver, ...] = stated(())


class CSINode(ApiStruct, frozen=True, kw_only=True):
    """The storage drivers on the node of the same name."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"status"})

    api_version: str = stated(API_VERSION)
    kind: str = stated("CSINode")
    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(ApiStruct, frozen=True, kw_only=True):
    """What a driver needs of others."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset(
        {
            "attachRequired",
            "fsGroupPolicy",
            "nodeAllocatableUpdatePeriodSeconds",
            "podInfoOnMount",
            "requiresRepublish",
            "seLinuxMount",
            "serviceAccountTokenInSecrets",
            "tokenRequests",
            "volumeLifecycleModes",
        }
    )

    storage_capacity: bool | None = None  # a volume is made only where CSIStorageCapacities say there is room
    prevent_pod_scheduling_if_missing: bool | None = None  # pods need the driver in their node's CSINode


class CSIDriver(ApiStruct, frozen=True, kw_only=True):
    """A storage driver."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("CSIDriver")
    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiStruct, frozen=True, kw_only=True):
    """How much storage of a class is left, as seen from some nodes."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("CSIStorageCapacity")
    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = stated("")
    node_topology: LabelSelector | None = None  # absent: no node has access
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None  # counts before capacity


class VolumeAttachmentSource(ApiStruct, frozen=True, kw_only=True):
    """Which volume is attached."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"inlineVolumeSpec"})

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(ApiStruct, frozen=True, kw_only=True):
    """Which volume is to be attached to which node, and by whom."""

    attacher: str = stated("")
    source: VolumeAttachmentSource = VolumeAttachmentSource()
    node_name: str = stated("")


class VolumeAttachment(ApiStruct, frozen=True, kw_only=True):
    """A volume on its way to a node."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"status"})

    api_version: str = stated(API_VERSION)
    kind: str = stated("VolumeAttachment")
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


def class_of(obj: PersistentVolume | PersistentVolumeClaim) -> str:
    """The class that a volume or a claim is of; empty: none."""
    annotated = obj.metadata.annotations.get(OLD_CLASS)
    return obj.spec.storage_class_name or "" if annotated is None else annotated


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether both directions of a claim's binding are written."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def belongs_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume says that it is, or is to be, this claim's."""
    ref, meta = volume.spec.claim_ref, claim.metadata
    if ref is None or (ref.namespace, ref.name) != (meta.namespace, meta.name):
        return False
    return not ref.uid or ref.uid == meta.uid


KINDS: tuple[type[ApiStruct], ...] = (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSINode,
    CSIDriver,
    CSIStorageCapacity,
    VolumeAttachment,
)
"""All that has to do with storage."""
