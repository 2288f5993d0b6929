"""The cluster that manifests describe: every object defaulted, validated and sorted by kind.

Kinds that do not matter for allocation are counted and otherwise ignored. If there is no Node, nodes are made up from the
names in the slices. Taint rules are applied to the slices here, so that the rest of the program sees only one kind of taint.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from allotment.allocator.taint import tainted
from allotment.api import semantic
from allotment.api.apps import DaemonSet
from allotment.api.core import Namespace, Node, Pod
from allotment.api.manifests.manifest import Located, ManifestError
from allotment.api.manifests.preparation import prepared
from allotment.api.meta import ApiStruct, ObjectMeta
from allotment.api.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from allotment.api.storage import KINDS as STORAGE
from allotment.api.text import few
from allotment.api.validation import ExpressionChecker
from allotment.autoscaler.simulate.workload_pods import (
    Workload,
    is_unread_owner,
    is_workload,
    unread_owners,
    workload_of,
)
from allotment.insight.errors import BadInput
from allotment.insight.manifest_files import Reading
from allotment.insight.placement.made_pods import MOST_MADE_PODS, notes_on_owners, pods_of_workloads

Name = tuple[str, str]
"""Namespace and name."""

Claim = ResourceClaim | semantic.ResourceClaim
Template = ResourceClaimTemplate | semantic.ResourceClaimTemplate


@dataclass
class ManifestCluster:
    """Objects by kind. Claims, templates and parameters have keys of namespace and name."""

    nodes: list[Node] = field(default_factory=list)
    slices: list[ResourceSlice] = field(default_factory=list)
    classes: list[DeviceClass] = field(default_factory=list)
    rules: list[DeviceTaintRule] = field(default_factory=list)
    claims: dict[Name, Claim] = field(default_factory=dict)
    templates: dict[Name, Template] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    daemons: list[DaemonSet] = field(default_factory=list)  # if workloads are to become pods
    node_slices: list[semantic.NodeResourceSlice] = field(default_factory=list)
    resource_classes: list[semantic.ResourceClass] = field(default_factory=list)
    class_parameters: list[semantic.ResourceClassParameters] = field(default_factory=list)
    claim_parameters: list[semantic.ResourceClaimParameters] = field(default_factory=list)
    volumes: list[ApiStruct] = field(default_factory=list)  # and the objects that provide them
    written: dict[Name, Located] = field(default_factory=dict)  # claims as their authors wrote them
    notes: list[str] = field(default_factory=list)  # assumptions and omissions, for people

    def add(self, obj: ApiStruct) -> bool:
        """Adds an object to its kind; False if its kind does not matter here."""
        match obj:
            case Node():
                self.nodes.append(obj)
            case Pod():
                self.pods.append(obj)
            case ResourceSlice():
                self.slices.append(obj)
            case DeviceClass():
                self.classes.append(obj)
            case DeviceTaintRule():
                self.rules.append(obj)
            case ResourceClaim() | semantic.ResourceClaim():
                self.claims[name_of(obj.metadata)] = obj
            case ResourceClaimTemplate() | semantic.ResourceClaimTemplate():
                self.templates[name_of(obj.metadata)] = obj
            case semantic.NodeResourceSlice():
                self.node_slices.append(obj)
            case semantic.ResourceClass():
                self.resource_classes.append(obj)
            case semantic.ResourceClassParameters():
                self.class_parameters.append(obj)
            case semantic.ResourceClaimParameters():
                self.claim_parameters.append(obj)
            case _ if isinstance(obj, STORAGE):
                self.volumes.append(obj)
            case _:
                return False
        return True


def name_of(metadata: ObjectMeta) -> Name:
    """An object without a namespace is in ``default``, as with kubectl."""
    return metadata.namespace or "default", metadata.name


def gather(
    reading: Reading, check: ExpressionChecker, *, lenient: bool = False, workloads: bool = False
) -> ManifestCluster:
    """The cluster that these objects describe. With ``workloads``, Deployments, Jobs and similar objects become the pods that
    their controllers would create and that do not exist yet. Raises BadInput with all errors."""
    cluster = ManifestCluster()
    complaints: list[ManifestError] = []
    unknown: list[ManifestError] = []
    ignored: Counter[str] = Counter()
    seen: dict[tuple[str, Name], Located] = {}
    owners: list[tuple[Located, Workload]] = []
    for located in reading.found:
        if workloads and is_workload(located):
            read = workload_of(located)
            complaints += read.errors
            unknown += read.unknown
            owners += [(located, read.workload)] if read.workload is not None else []
            continue
        unknown += located.unknown_fields()
        obj, errors = prepared(located, check)
        complaints += errors
        if workloads and isinstance(obj, DaemonSet):
            cluster.daemons.append(obj)
        elif obj is None or not cluster.add(obj):
            told = workloads and is_unread_owner(located)
            ignored[located.kind] += not (told or isinstance(located.obj, Namespace))
            continue
        name = _named(obj)
        first = seen.setdefault((located.kind, name), located)
        if first is not located:
            again = f"{located.kind} {name[1]} is already in {first.source}:{first.line}"
            complaints.append(located.error("metadata.name", again))
        if isinstance(obj, ResourceClaim | semantic.ResourceClaim):
            cluster.written[name] = located
    if not lenient:
        complaints += unknown
    if complaints or reading.complaints:
        complaints.sort(key=lambda complaint: (complaint.source, complaint.line))
        hint = (
            "--lenient accepts unknown fields, which may be from a newer version"
            if unknown and not lenient
            else ""
        )
        raise BadInput([*reading.complaints, *map(str, complaints)], hint)
    cluster.notes += [f"{each}; ignored" for each in unknown]
    cluster.notes += [f"ignored: {_counted(ignored)}"] if +ignored else []
    cluster.notes += unread_owners(reading.found) if workloads else []
    cluster.slices = [tainted(each, cluster.rules) for each in cluster.slices]
    _complete_nodes(cluster)
    made = list(islice(pods_of_workloads(owners, cluster.pods), MOST_MADE_PODS + 1))
    if len(made) > MOST_MADE_PODS:
        raise BadInput([f"the workloads have more than {MOST_MADE_PODS} pods; reduce the replicas"])
    cluster.pods += made
    cluster.notes += notes_on_owners([each for _, each in owners], made, len(cluster.daemons))
    return cluster


def _named(obj: ApiStruct) -> Name:
    metadata = getattr(obj, "metadata", ObjectMeta())
    return name_of(metadata)


def _counted(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()) if count)


def _complete_nodes(cluster: ManifestCluster) -> None:
    named = {slice.spec.node_name for slice in cluster.slices if slice.spec.node_name}
    named |= {slice.spec.node_name for slice in cluster.node_slices if slice.spec.node_name}
    named |= {d.node_name for slice in cluster.slices for d in slice.spec.devices if d.node_name}
    if not cluster.nodes:
        cluster.nodes = [Node(metadata=ObjectMeta(name=name)) for name in named]
        if named:
            cluster.notes.append(
                f"no Node given: {len(named)} made up from the slices, without labels ({few(sorted(named))})"
            )
    absent = sorted(named - {node.metadata.name for node in cluster.nodes})
    if absent:
        cluster.notes.append(
            f"there are slices of nodes that are not given; their devices are out of reach: {few(absent)}"
        )
    cluster.nodes.sort(key=lambda node: node.metadata.name)
