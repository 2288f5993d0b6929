"""Volumes and their providers, for schedulers, which watch them all, and for the controller that binds volumes to claims."""

from __future__ import annotations

from allotment.api.quantity import Quantity, QuantityError
from allotment.api.validation import storage
from allotment.apiserver.registry.age import AGE
from allotment.apiserver.registry.columns import CREATED_AT, flag, text
from allotment.apiserver.registry.resource import PrinterColumn, Resource
from allotment.apiserver.registry.strategies import ALL_METADATA, StrategyRules, at, unchanged
from allotment.apiserver.store.record import Obj

GROUP = "storage.k8s.io"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _complete_volume(volume: Obj) -> None:
    volume["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    volume["spec"].setdefault("volumeMode", "Filesystem")
    if (path := volume["spec"].get("hostPath")) is not None:
        path.setdefault("type", "")


def _complete_claim(claim: Obj) -> None:
    claim["spec"].setdefault("volumeMode", "Filesystem")
    if claim["spec"].get("resources") is None:
        claim["spec"]["resources"] = {}


def _complete_class(storage: Obj) -> None:
    storage.setdefault("reclaimPolicy", "Delete")
    storage.setdefault("volumeBindingMode", "Immediate")


def _complete_driver(driver: Obj) -> None:
    spec = driver["spec"]
    for name, value in (
        ("attachRequired", True),
        ("podInfoOnMount", False),
        ("storageCapacity", False),
        ("requiresRepublish", False),
        ("seLinuxMount", False),
        ("preventPodSchedulingIfMissing", False),
    ):
        spec.setdefault(name, value)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


# --- tables ---


def _amount(value: object) -> str:
    try:
        return str(Quantity.from_json(value))
    except QuantityError:
        return ""


def _access(modes: list[str] | None) -> str:
    given = modes or ()
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _phase(obj: Obj, now: str) -> str:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else at(obj, "status", "phase") or ""


def _claim_of(volume: Obj, now: str) -> str:
    claim = at(volume, "spec", "claimRef")
    return f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim else ""


def _class(obj: Obj, now: str) -> str:
    return at(obj, "metadata", "annotations", _OLD_CLASS) or at(obj, "spec", "storageClassName") or ""


def _bound(read: str) -> PrinterColumn:
    """For claims: what a claim got, once it is bound."""

    def capacity(claim: Obj, now: str) -> str:
        bound = at(claim, "spec", "volumeName")
        return _amount(at(claim, "status", "capacity", "storage") or "0") if bound else ""

    def access(claim: Obj, now: str) -> str:
        return _access(at(claim, "status", "accessModes")) if at(claim, "spec", "volumeName") else ""

    if read == "capacity":
        return PrinterColumn("Capacity", "string", capacity, "How much it got.")
    return PrinterColumn("Access Modes", "string", access, "How it can be mounted.")


_ATTRIBUTES_CLASS = text(
    "VolumeAttributesClass", "spec.volumeAttributesClassName", "Its class of attributes.", absent="<unset>"
)
_VOLUME_MODE = text("VolumeMode", "spec.volumeMode", "Files or blocks.", absent="<unset>", wide=True)
_STATUS = PrinterColumn("Status", "string", _phase, "What it is doing.")
_CLASS = PrinterColumn("StorageClass", "string", _class, "Its class.")

VOLUME_COLUMNS = (
    PrinterColumn(
        "Capacity",
        "string",
        lambda obj, now: _amount(at(obj, "spec", "capacity", "storage") or "0"),
        "How much it holds.",
    ),
    PrinterColumn(
        "Access Modes",
        "string",
        lambda obj, now: _access(at(obj, "spec", "accessModes")),
        "How it can be mounted.",
    ),
    text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy", "What becomes of it afterwards."),
    _STATUS,
    PrinterColumn("Claim", "string", _claim_of, "Who has it."),
    _CLASS,
    _ATTRIBUTES_CLASS,
    text("Reason", "status.reason", "Why it is in this state."),
    AGE,
    _VOLUME_MODE,
)
CLAIM_COLUMNS = (
    _STATUS,
    text("Volume", "spec.volumeName", "The volume it got."),
    _bound("capacity"),
    _bound("access"),
    _CLASS,
    _ATTRIBUTES_CLASS,
    AGE,
    _VOLUME_MODE,
)
CLASS_COLUMNS = (
    text("Provisioner", "provisioner", "Who makes its volumes."),
    text("ReclaimPolicy", "reclaimPolicy", "What becomes of them afterwards."),
    text("VolumeBindingMode", "volumeBindingMode", "When they are made."),
    PrinterColumn(
        "AllowVolumeExpansion",
        "string",
        lambda obj, now: bool(obj.get("allowVolumeExpansion")),
        "Whether they can grow.",
    ),
    AGE,
)
DRIVER_COLUMNS = (
    flag("AttachRequired", "spec.attachRequired", "Whether volumes are attached first.", absent=True),
    flag("PodInfoOnMount", "spec.podInfoOnMount", "Whether it is told about pods."),
    flag("StorageCapacity", "spec.storageCapacity", "Whether it reports capacity."),
    PrinterColumn(
        "TokenRequests",
        "string",
        lambda obj, now: _audiences(at(obj, "spec", "tokenRequests")),
        "Tokens that it gets.",
    ),
    flag("RequiresRepublish", "spec.requiresRepublish", "Whether it is called again and again."),
    PrinterColumn(
        "Modes",
        "string",
        lambda obj, now: ",".join(at(obj, "spec", "volumeLifecycleModes") or ()) or "<none>",
        "What kinds of volumes it offers.",
    ),
    AGE,
)


def _audiences(requests: list[Obj] | None) -> str:
    return "<unset>" if requests is None else ",".join(each.get("audience") or "" for each in requests)


def _kind(
    kind: str,
    plural: str,
    columns: tuple[PrinterColumn, ...],
    rules: StrategyRules,
    doc: str,
    *,
    group: str = GROUP,
    namespaced: bool = False,
    short_names: tuple[str, ...] = (),
    status: bool = False,
    fields: bool = False,
    unconditional_update: bool = True,
) -> Resource:
    selectable = {"name": lambda obj: obj["metadata"]["name"]} if fields else {}
    return Resource(
        group=group,
        version="v1",
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        short_names=short_names,
        columns=columns,
        fields=selectable,
        status=status,
        strategy=rules,
        doc=doc,
        unconditional_update=unconditional_update,
    )


RESOURCES = (
    _kind(
        "PersistentVolume",
        "persistentvolumes",
        VOLUME_COLUMNS,
        StrategyRules(
            stated=("spec",),
            complete=_complete_volume,
            status={"phase": "Pending"},
            check=storage.validate_volume,
            check_change=storage.validate_volume_update,
        ),
        "A piece of storage.",
        group="",
        short_names=("pv",),
        status=True,
        fields=True,
    ),
    _kind(
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        CLAIM_COLUMNS,
        StrategyRules(
            stated=("spec",),
            complete=_complete_claim,
            status={"phase": "Pending"},
            check=storage.validate_claim,
            check_change=storage.validate_claim_update,
        ),
        "A pod's wish for a piece of storage.",
        group="",
        namespaced=True,
        short_names=("pvc",),
        status=True,
        fields=True,
    ),
    _kind(
        "StorageClass",
        "storageclasses",
        CLASS_COLUMNS,
        StrategyRules(
            complete=_complete_class,
            check=storage.validate_class,
            check_change=lambda obj, old: [
                error
                for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
                for error in unchanged(obj, old, name)
            ],
        ),
        "How volumes of a kind are made.",
        short_names=("sc",),
    ),
    _kind(
        "CSINode",
        "csinodes",
        (
            PrinterColumn(
                "Drivers",
                "integer",
                lambda obj, now: len(at(obj, "spec", "drivers") or ()),
                "How many storage drivers the node has.",
            ),
            AGE,
        ),
        StrategyRules(
            stated=("spec", "status"),
            status={},
            status_metadata=ALL_METADATA,
            check=storage.validate_csi_node,
        ),
        "The storage drivers on a node.",
        status=True,
        unconditional_update=False,
    ),
    _kind(
        "CSIDriver",
        "csidrivers",
        DRIVER_COLUMNS,
        StrategyRules(stated=("spec",), complete=_complete_driver),
        "A storage driver.",
        unconditional_update=False,
    ),
    _kind(
        "CSIStorageCapacity",
        "csistoragecapacities",
        (CREATED_AT,),
        StrategyRules(check=storage.validate_capacity, immutable=("nodeTopology", "storageClassName")),
        "How much storage is left where.",
        namespaced=True,
        unconditional_update=False,
    ),
    _kind(
        "VolumeAttachment",
        "volumeattachments",
        (
            PrinterColumn(
                "Attacher", "string", lambda obj, now: at(obj, "spec", "attacher") or "", format="name"
            ),
            text("PV", "spec.source.persistentVolumeName", "The volume."),
            text("Node", "spec.nodeName", "The node."),
            flag("Attached", "status.attached", "Whether it is there already."),
            AGE,
        ),
        StrategyRules(
            stated=("spec",),
            status={"attached": False},
            status_metadata=ALL_METADATA,
            immutable=("spec",),
            check=storage.validate_attachment,
        ),
        "A volume on its way to a node.",
        status=True,
        unconditional_update=False,
    ),
)
