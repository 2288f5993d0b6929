"""Kubernetes' rules for volumes, claims and their providers, as far as binding, scheduling and people rely on them.

A volume must have exactly one source; the form of the source is its driver's concern and not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from allotment.api.fields import FieldError, FieldPath
from allotment.api.label_selector import check_label_selector
from allotment.api.names import dns_subdomain_problem
from allotment.api.quantity import Quantity, QuantityError

Obj = Mapping[str, Any]

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
ALONE = "ReadWriteOncePod"
VOLUME_MODES = ("Block", "Filesystem")
RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
CLASS_POLICIES = ("Delete", "Retain")
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
OPERATORS = ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")
MOST_DRIVERS = 1_000
SOURCES = (
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
)
_SPEC = FieldPath("spec")
_IMMUTABLE_CLAIM = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def validate_volume(volume: Obj) -> Iterator[FieldError]:
    spec: Obj = volume.get("spec") or {}
    yield from _access_modes(spec)
    if not spec.get("capacity"):
        yield _SPEC.child("capacity").required()
    else:
        yield from _capacity(spec["capacity"])
    sources = [name for name in SOURCES if spec.get(name) is not None]
    if not sources:
        yield _SPEC.required("must specify a volume type")
    for name in sources[1:]:
        yield _SPEC.child(name).forbidden("may not specify more than 1 volume type")
    yield from _csi(spec.get("csi"))
    yield from _one_of(spec, "persistentVolumeReclaimPolicy", RECLAIM_POLICIES)
    yield from _one_of(spec, "volumeMode", VOLUME_MODES)
    yield from _class_name(spec)
    yield from _node_affinity(spec)


def _csi(source: Obj | None) -> Iterator[FieldError]:
    for name in ("driver", "volumeHandle") if source is not None else ():
        if source is not None and not source.get(name):
            yield _SPEC.child("csi", name).required()


def _capacity(capacity: Mapping[str, Any]) -> Iterator[FieldError]:
    at = _SPEC.child("capacity")
    if "storage" not in capacity or len(capacity) > 1:
        yield at.not_supported(", ".join(sorted(capacity)[:8]), ("storage",))
    if "storage" in capacity and not (_nanos(capacity["storage"]) or 0) > 0:
        yield at.key("storage").invalid("must be greater than zero", capacity["storage"])


def _node_affinity(spec: Obj) -> Iterator[FieldError]:
    at = _SPEC.child("nodeAffinity")
    affinity = spec.get("nodeAffinity")
    if affinity is None:
        if spec.get("local") is not None:
            yield at.required("Local volume requires node affinity")
        return
    required = affinity.get("required")
    if required is None:
        yield at.child("required").required("must specify required node constraints")
        return
    terms: Sequence[Obj] = required.get("nodeSelectorTerms") or ()
    if not terms:
        yield at.child("required", "nodeSelectorTerms").required("must have at least one node selector term")
    for number, term in enumerate(terms):
        here = at.child("required", "nodeSelectorTerms").index(number).child("matchExpressions")
        for each, test in enumerate(term.get("matchExpressions") or ()):
            yield from _requirement(test, here.index(each))


def _requirement(test: Obj, at: FieldPath) -> Iterator[FieldError]:
    operator, values = test.get("operator"), test.get("values") or ()
    if operator not in OPERATORS:
        yield at.child("operator").not_supported(operator, OPERATORS)
    elif operator in ("In", "NotIn") and not values:
        yield at.child("values").required("must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist") and values:
        yield at.child("values").forbidden(
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        )
    elif operator in ("Gt", "Lt") and len(values) != 1:
        yield at.child("values").required("must be specified single value when `operator` is 'Lt' or 'Gt'")


def validate_volume_update(volume: Obj, old: Obj) -> Iterator[FieldError]:
    now, before = volume.get("spec") or {}, old.get("spec") or {}
    if any(now.get(name) != before.get(name) for name in SOURCES):
        yield _SPEC.child("persistentvolumesource").forbidden(
            "spec.persistentvolumesource is immutable after creation"
        )
    if (now.get("volumeMode") or "Filesystem") != (before.get("volumeMode") or "Filesystem"):
        yield _SPEC.child("volumeMode").invalid("field is immutable", now.get("volumeMode"))
    if before.get("nodeAffinity") is not None and now.get("nodeAffinity") != before["nodeAffinity"]:
        yield _SPEC.child("nodeAffinity").invalid(
            "field is immutable, except for updating from beta label to GA"
        )


def validate_claim(claim: Obj) -> Iterator[FieldError]:
    spec: Obj = claim.get("spec") or {}
    yield from _access_modes(spec)
    yield from _one_of(spec, "volumeMode", VOLUME_MODES)
    yield from _class_name(spec)
    if spec.get("selector") is not None:
        yield from check_label_selector(spec["selector"], _SPEC.child("selector"))
    requests = (spec.get("resources") or {}).get("requests") or {}
    at = _SPEC.child("resources")
    if "storage" not in requests:
        yield at.key("storage").required()
    elif not (_nanos(requests["storage"]) or 0) > 0:
        yield at.key("storage").invalid("must be greater than zero", requests["storage"])


def validate_claim_update(claim: Obj, old: Obj) -> Iterator[FieldError]:
    """Allows a claim to get its volume, once, and to request more storage."""
    now, before = dict(claim.get("spec") or {}), dict(old.get("spec") or {})
    if not before.get("volumeName"):
        now.pop("volumeName", None)
        before.pop("volumeName", None)
    if "storageClassName" not in before:
        now.pop("storageClassName", None)
    for spec in (now, before):
        spec.pop("resources", None)
        spec.pop("volumeAttributesClassName", None)
    if now != before:
        yield _SPEC.forbidden(_IMMUTABLE_CLAIM)
    asked, was = _requested(claim), _requested(old)
    if asked is not None and was is not None and asked < was:
        yield _SPEC.child("resources", "requests", "storage").forbidden(
            "field can not be less than status.capacity"
        )


def _requested(claim: Obj) -> int | None:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return _nanos((resources.get("requests") or {}).get("storage"))


def validate_class(kind: Obj) -> Iterator[FieldError]:
    if not kind.get("provisioner"):
        yield FieldPath("provisioner").required()
    yield from _one_of(kind, "reclaimPolicy", CLASS_POLICIES, FieldPath())
    yield from _one_of(kind, "volumeBindingMode", BINDING_MODES, FieldPath())
    for number, term in enumerate(kind.get("allowedTopologies") or ()):
        at = FieldPath("allowedTopologies").index(number).child("matchLabelExpressions")
        for each, test in enumerate(term.get("matchLabelExpressions") or ()):
            if not test.get("values"):
                yield at.index(each).child("values").required()


def validate_csi_node(node: Obj) -> Iterator[FieldError]:
    drivers: Sequence[Obj] = (node.get("spec") or {}).get("drivers") or ()
    at = _SPEC.child("drivers")
    if len(drivers) > MOST_DRIVERS:
        yield at.too_many(len(drivers), MOST_DRIVERS)
        return
    seen: set[str] = set()
    for number, driver in enumerate(drivers):
        here, name = at.index(number), driver.get("name") or ""
        if not name:
            yield here.child("name").required()
        elif name in seen:
            yield here.child("name").duplicate(name)
        seen.add(name)
        if not driver.get("nodeID"):
            yield here.child("nodeID").required()
        count = (driver.get("allocatable") or {}).get("count")
        if isinstance(count, int) and count < 0:
            yield here.child("allocatable", "count").invalid("must be greater than or equal to 0", count)


def validate_capacity(capacity: Obj) -> Iterator[FieldError]:
    if not capacity.get("storageClassName"):
        yield FieldPath("storageClassName").required()
    for name in ("capacity", "maximumVolumeSize"):
        if (_nanos(capacity.get(name)) or 0) < 0:
            yield FieldPath(name).invalid("must be greater than or equal to 0", capacity[name])
    if capacity.get("nodeTopology") is not None:
        yield from check_label_selector(capacity["nodeTopology"], FieldPath("nodeTopology"))


def validate_attachment(attachment: Obj) -> Iterator[FieldError]:
    spec: Obj = attachment.get("spec") or {}
    for name in ("attacher", "nodeName"):
        if not spec.get(name):
            yield _SPEC.child(name).required()
    source = spec.get("source") or {}
    given = [name for name in ("persistentVolumeName", "inlineVolumeSpec") if source.get(name) is not None]
    if len(given) != 1:
        yield _SPEC.child("source").required(
            "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        )


# --- parts ---


def _access_modes(spec: Obj) -> Iterator[FieldError]:
    modes, at = spec.get("accessModes") or (), _SPEC.child("accessModes")
    if not modes:
        yield at.required("at least 1 access mode is required")
    unknown = next((mode for mode in modes if mode not in ACCESS_MODES), None)
    if unknown is not None:
        yield at.not_supported(unknown, ACCESS_MODES)
    elif ALONE in modes and len(set(modes)) > 1:
        yield at.forbidden("may not use ReadWriteOncePod with other access modes")


def _one_of(obj: Obj, name: str, choices: Sequence[str], under: FieldPath = _SPEC) -> Iterator[FieldError]:
    value = obj.get(name)
    if value is not None and value not in choices:
        yield under.child(name).not_supported(value, choices)


def _class_name(spec: Obj) -> Iterator[FieldError]:
    name = spec.get("storageClassName")
    problem = dns_subdomain_problem(name) if name else None
    if problem is not None:
        yield _SPEC.child("storageClassName").invalid(problem, name)


def _nanos(value: object) -> int | None:
    try:
        return None if value is None else Quantity.from_json(value).nanos
    except QuantityError:
        return None
