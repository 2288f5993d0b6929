"""Volumes and their providers, with the fields that scheduling and binding read: core/v1's PersistentVolume and
PersistentVolumeClaim, and storage.k8s.io/v1.

Like ``core``, these are views: how a volume is mounted does not matter here and stays in the stored JSON.
"""

from typing import ClassVar

import msgspec

from allotment.api.core import NodeSelector, ObjectReference
from allotment.api.meta import ApiStruct, Int64, LabelSelector, ObjectMeta, stated
from allotment.api.quantity import Quantity
from allotment.api.volumes import AWSDisk, AzureDisk, CinderDisk, GCEDisk, PortworxVolume

API_VERSION = "storage.k8s.io/v1"

STORAGE = "storage"
"""The name of the only resource that volumes have and claims request."""
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim: both directions of its binding are recorded."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume or claim: a component, not a person, chose the other side."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which its volume should be made."""
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
"""Annotation of a claim: the provisioner that should make its volume."""
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
"""Annotation of a volume: the provisioner that made it and should delete it."""
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Annotation that names a class; it takes precedence over the field."""
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
"""Annotation of a class: with "true", claims that name no class get this one."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes people make by hand."""
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"

# --- volumes ---


class VolumeNodeAffinity(ApiStruct, frozen=True, kw_only=True):
    """The nodes that can reach a volume."""

    required: NodeSelector | None = None


class CSIVolume(ApiStruct, frozen=True, kw_only=True):
    """A volume of a CSI driver; ``volume_handle`` is the driver's name for it."""

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
    """What a volume is, and which claim has it."""

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
    claim_ref: ObjectReference | None = None  # the claim that has the volume, or will get it
    persistent_volume_reclaim_policy: str | None = None  # Retain, Delete or Recycle
    storage_class_name: str | None = None
    volume_mode: str | None = None  # Filesystem (when absent) or Block
    node_affinity: VolumeNodeAffinity | None = None  # the nodes that reach the volume; all when absent
    volume_attributes_class_name: str | None = None
    csi: CSIVolume | None = None
    gce_persistent_disk: GCEDisk | None = None
    aws_elastic_block_store: AWSDisk | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderDisk | None = None
    portworx_volume: PortworxVolume | None = None


class PersistentVolumeStatus(ApiStruct, frozen=True, kw_only=True):
    """The binder's report on a volume."""

    phase: str | None = None  # Pending, Available, Bound, Released or Failed
    message: str | None = None
    reason: str | None = None
    last_phase_transition_time: str | None = None


class PersistentVolume(ApiStruct, frozen=True, kw_only=True):
    """A piece of storage that claims can be bound to."""

    api_version: str = stated("v1")
    kind: str = stated("PersistentVolume")
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


# --- claims ---


class VolumeResources(ApiStruct, frozen=True, kw_only=True):
    """How much storage a claim requests."""

    limits: dict[str, Quantity] = msgspec.field(default_factory=dict)
    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class PersistentVolumeClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """The kind of volume that a claim requests; ``volume_name`` is the volume that it got."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"dataSource", "dataSourceRef"})

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResources = VolumeResources()
    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The binder's report on a claim."""

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
    """A request for a piece of storage."""

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
    """Requirements that must all hold. A term without any matches no node."""

    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(ApiStruct, frozen=True, kw_only=True):
    """How volumes of a class are made."""

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
    """How many volumes of a driver a node can have; any number when absent."""

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
    """What a driver requires of other components."""

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

    # true: volumes are made only where a CSIStorageCapacity says that there is room
    storage_capacity: bool | None = None
    # true: pods need the driver to be in their node's CSINode
    prevent_pod_scheduling_if_missing: bool | None = None


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
    node_topology: LabelSelector | None = None  # the nodes that have access; none when absent
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None  # the largest possible volume; takes precedence over capacity


class VolumeAttachmentSource(ApiStruct, frozen=True, kw_only=True):
    """Which volume is attached."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"inlineVolumeSpec"})

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(ApiStruct, frozen=True, kw_only=True):
    """Which volume should be attached to which node, and by which driver."""

    attacher: str = stated("")
    source: VolumeAttachmentSource = VolumeAttachmentSource()
    node_name: str = stated("")


class VolumeAttachment(ApiStruct, frozen=True, kw_only=True):
    """The attachment of a volume to a node."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"status"})

    api_version: str = stated(API_VERSION)
    kind: str = stated("VolumeAttachment")
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


def class_of(obj: PersistentVolume | PersistentVolumeClaim) -> str:
    """The class of a volume or a claim; empty if it has none."""
    annotated = obj.metadata.annotations.get(OLD_CLASS)
    return obj.spec.storage_class_name or "" if annotated is None else annotated


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether both directions of a claim's binding are recorded."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def belongs_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume's reference names this claim as its present or future owner."""
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
