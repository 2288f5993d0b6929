"""The kinds that we know: for each apiVersion and kind, the type that reads it, its plural and its scope."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from allotment.api import apps, autoscaling, batch, core, pools, resource, scenario, semantic, storage
from allotment.api.conversion import renamed, v1beta1
from allotment.api.meta import ApiStruct


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind in one version of its group.

    ``to_type`` converts a document of this version into the form that ``type`` reads. Versions that we accept but hold
    in another version have it; the apiVersion of ``type`` says which one that is.
    """

    api_version: str
    kind: str
    type: type[ApiStruct]
    plural: str
    namespaced: bool
    to_type: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    @property
    def group(self) -> str:
        """The API group; empty for core."""
        return group_of(self.api_version)


def group_of(api_version: str) -> str:
    """The group in an apiVersion; empty for core, whose apiVersion is a bare version."""
    return api_version.rpartition("/")[0]


def find(api_version: str, kind: str) -> Kind | None:
    """The kind in exactly this version, if we know it."""
    return KINDS.get((api_version, kind))


def versions(group: str, kind: str) -> list[str]:
    """The apiVersions in which we know a kind of a group; empty if we do not know it at all."""
    return [known.api_version for known in KINDS.values() if known.kind == kind and known.group == group]


def _as_v1(document: dict[str, Any]) -> dict[str, Any]:
    """v1beta2 has the fields of v1; only the version differs."""
    return renamed(document, resource.API_VERSION)


def _as_beta_group(document: dict[str, Any]) -> dict[str, Any]:
    """The alpha versions of PodGroup have every field that we read."""
    return renamed(document, batch.SCHEDULING)


def _all_kinds() -> list[Kind]:
    kinds = [
        Kind("v1", "Node", core.Node, "nodes", False),
        Kind("v1", "Namespace", core.Namespace, "namespaces", False),
        Kind("v1", "Pod", core.Pod, "pods", True),
        Kind("apps/v1", "DaemonSet", apps.DaemonSet, "daemonsets", True),
        Kind("v1", "ResourceQuota", core.ResourceQuota, "resourcequotas", True),
    ]
    device_kinds: list[tuple[type[ApiStruct], str, bool]] = [
        (resource.ResourceSlice, "resourceslices", False),
        (resource.DeviceClass, "deviceclasses", False),
        (resource.DeviceTaintRule, "devicetaintrules", False),
        (resource.ResourceClaim, "resourceclaims", True),
        (resource.ResourceClaimTemplate, "resourceclaimtemplates", True),
    ]
    for type_, plural, namespaced in device_kinds:
        name = type_.__name__
        kinds.append(Kind(resource.API_VERSION, name, type_, plural, namespaced))
        kinds.append(Kind("resource.k8s.io/v1beta2", name, type_, plural, namespaced, _as_v1))
        if name != "DeviceTaintRule":  # came with v1beta2
            kinds.append(Kind(v1beta1.API_VERSION, name, type_, plural, namespaced, v1beta1.to_v1))
    semantic_kinds: list[tuple[type[ApiStruct], str, bool]] = [
        (semantic.NodeResourceSlice, "noderesourceslices", False),
        (semantic.ResourceClass, "resourceclasses", False),
        (semantic.ResourceClassParameters, "resourceclassparameters", False),
        (semantic.ResourceClaimParameters, "resourceclaimparameters", True),
        (semantic.ResourceClaim, "resourceclaims", True),
        (semantic.ResourceClaimTemplate, "resourceclaimtemplates", True),
    ]
    for type_, plural, namespaced in semantic_kinds:
        kinds.append(Kind(semantic.API_VERSION, type_.__name__, type_, plural, namespaced))
    kinds.append(Kind(pools.API_VERSION, "ResourcePool", pools.ResourcePool, "resourcepools", False))
    request = pools.ResourcePoolStatusRequest
    kinds.append(Kind(pools.REQUEST_VERSION, request.__name__, request, "resourcepoolstatusrequests", False))
    planning_kinds: list[tuple[str, type[ApiStruct], str]] = [
        (autoscaling.OVERLAY_VERSION, autoscaling.NodeOverlay, "nodeoverlays"),
        (autoscaling.KARPENTER_VERSION, autoscaling.NodePool, "nodepools"),
        (autoscaling.KARPENTER_VERSION, autoscaling.NodeClaim, "nodeclaims"),
        (autoscaling.OWN_VERSION, autoscaling.NodeGroup, "nodegroups"),
        (autoscaling.OWN_VERSION, autoscaling.InstanceType, "instancetypes"),  # only in files
    ]
    for api_version, type_, plural in planning_kinds:
        kinds.append(Kind(api_version, type_.__name__, type_, plural, False))
    kinds.append(Kind(autoscaling.OWN_VERSION, "Scenario", scenario.Scenario, "scenarios", False))  # as well
    kinds += [
        Kind(batch.SCHEDULING, "PodGroup", batch.PodGroup, "podgroups", True),
        Kind("scheduling.k8s.io/v1alpha3", "PodGroup", batch.PodGroup, "podgroups", True, _as_beta_group),
        Kind("scheduling.k8s.io/v1alpha2", "PodGroup", batch.PodGroup, "podgroups", True, _as_beta_group),
        Kind(batch.VOLCANO, "PodGroup", batch.VolcanoPodGroup, "podgroups", True),
        Kind(batch.VOLCANO, "Queue", batch.Queue, "queues", False),
        Kind(batch.PRIORITIES, "PriorityClass", batch.PriorityClass, "priorityclasses", False),
        Kind(batch.POLICY, "PodDisruptionBudget", batch.PodDisruptionBudget, "poddisruptionbudgets", True),
    ]
    kinds += [
        Kind("v1", "PersistentVolume", storage.PersistentVolume, "persistentvolumes", False),
        Kind("v1", "PersistentVolumeClaim", storage.PersistentVolumeClaim, "persistentvolumeclaims", True),
        Kind(storage.API_VERSION, "StorageClass", storage.StorageClass, "storageclasses", False),
        Kind(storage.API_VERSION, "CSINode", storage.CSINode, "csinodes", False),
        Kind(storage.API_VERSION, "CSIDriver", storage.CSIDriver, "csidrivers", False),
        Kind(
            storage.API_VERSION,
            "CSIStorageCapacity",
            storage.CSIStorageCapacity,
            "csistoragecapacities",
            True,
        ),
        Kind(storage.API_VERSION, "VolumeAttachment", storage.VolumeAttachment, "volumeattachments", False),
    ]
    return kinds


KINDS: dict[tuple[str, str], Kind] = {(known.api_version, known.kind): known for known in _all_kinds()}
