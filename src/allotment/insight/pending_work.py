"""The waiting pods for which ``allot plan`` plans, and the cluster around them.

The pods come from files, or they are the waiting pods of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from allotment.api import semantic
from allotment.api.apps import DaemonSet
from allotment.api.batch import PodDisruptionBudget, PodGroup, PriorityClass, VolcanoPodGroup
from allotment.api.core import Pod, ResourceQuota
from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate
from allotment.api.storage import PersistentVolumeClaim
from allotment.cel.expression_check import check_expression
from allotment.insight.errors import BadInput
from allotment.insight.explain.trial_scheduler import KINDS
from allotment.insight.manifest_cluster import ManifestCluster, gather, name_of
from allotment.insight.manifest_files import Reading, read_objects
from allotment.insight.placement.made_pods import notes_on_missing_pods, notes_on_owners
from allotment.insight.placement.needs import FINISHED
from allotment.insight.snapshot import GROUPS
from allotment.scheduler.config.configuration import DEFAULT_SCHEDULER
from allotment.scheduler.obstacles import OWN_NAMES, schedulers_heard_of
from allotment.scheduler.priority import with_priority


@dataclass(slots=True)
class Waiting:
    """``objects`` are the cluster's; ``pods`` are those to plan for. The ``new`` ones among these still have to be created;
    ``others`` wait in the cluster and are not planned for."""

    objects: list[ApiStruct] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    new: frozenset[str] = frozenset()  # all of these are among the objects
    others: list[Pod] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    volumes: bool = True  # all of them are among the objects


def read(files: Sequence[str], *, workloads: bool = False) -> tuple[list[ApiStruct], Reading]:
    """The objects in files, checked and defaulted, and everything else that the files hold. With ``workloads``, a workload
    stands for its pods, and the notes name what does not matter. Raises BadInput."""
    reading = read_objects(files)
    if reading.complaints:
        raise BadInput(reading.complaints)
    return checked(reading, workloads=workloads), reading


def checked(reading: Reading, *, workloads: bool = False) -> list[ApiStruct]:
    """Checked and defaulted objects; slices carry the taints of the rules among the objects. Notes on them go to the reading.
    Raises BadInput with all errors."""
    known = [each for each in reading.found if not isinstance(each.obj, GROUPS)]
    cluster = gather(Reading(known), check_expression, lenient=True, workloads=workloads)
    others = [each.obj for each in reading.found if isinstance(each.obj, GROUPS)]
    if workloads:
        daemons = sum(isinstance(each, DaemonSet) for each in others)
        reading.notes += [*cluster.notes, *notes_on_owners((), (), daemons)]
    else:
        reading.notes += notes_on_missing_pods(known, cluster.pods)
    return [*_all(cluster), *others]


def _all(cluster: ManifestCluster) -> list[ApiStruct]:
    return [
        *cluster.nodes,
        *cluster.slices,  # the rules have already tainted these
        *cluster.classes,
        *cluster.claims.values(),
        *cluster.templates.values(),
        *cluster.pods,
        *cluster.node_slices,
        *cluster.resource_classes,
        *cluster.class_parameters,
        *cluster.claim_parameters,
        *cluster.volumes,
    ]


def waiting(mine: Sequence[ApiStruct], cluster: Iterable[ApiStruct], *, tainted: bool) -> Waiting:
    """The pods in files or, if there are none, the waiting pods of the cluster. ``tainted``: the slices already carry the
    taints of rules."""
    found = Waiting()
    own = {(type(each), name_of(_metadata(each))) for each in mine}
    known = list(cluster)
    there = [each for each in known if (type(each), name_of(_metadata(each))) not in own]
    everything = [_in_namespace(each) for each in (*mine, *there)]
    pods = [each for each in everything if isinstance(each, Pod)]
    heard = schedulers_heard_of(pods) | set(OWN_NAMES)
    if heard == OWN_NAMES and mine:  # no pod shows which schedulers run, so the user's word counts
        heard |= {each.spec.scheduler_name or "" for each in mine if isinstance(each, Pod)}
    classes = {each.metadata.name: each for each in everything if isinstance(each, PriorityClass)}
    chosen = {name_of(each.metadata) for each in mine if isinstance(each, Pod)}
    created = {name_of(each.metadata) for each in known if isinstance(each, Pod)}
    found.new = frozenset(map("/".join, chosen - created))
    found.objects = [
        each
        for each in everything
        if isinstance(
            each,
            (*KINDS, PodDisruptionBudget, DaemonSet, semantic.ResourceClaim, semantic.ResourceClaimTemplate),
        )
        and not isinstance(each, Pod)
        and not (tainted and isinstance(each, DeviceTaintRule))
    ]
    for pod in pods:
        if pod.spec.node_name or pod.status.phase in FINISHED:
            found.objects.append(pod)
        elif not chosen or name_of(pod.metadata) in chosen:
            ranked = replace(pod, spec=with_priority(pod.spec, classes))
            found.pods.append(_ours(ranked, found, heard))
        else:
            found.others.append(pod)
    return found


def _metadata(obj: ApiStruct) -> Any:
    return getattr(obj, "metadata")  # noqa: B009  # every kind has this attribute, but ApiStruct does not declare it


def _in_namespace(obj: ApiStruct) -> ApiStruct:
    """As with kubectl, an object without a namespace that needs one is in ``default``."""
    needs = isinstance(
        obj,
        Pod
        | ResourceClaim
        | ResourceClaimTemplate
        | semantic.ResourceClaim
        | semantic.ResourceClaimTemplate
        | PodGroup
        | VolcanoPodGroup
        | DaemonSet
        | PersistentVolumeClaim
        | PodDisruptionBudget
        | ResourceQuota,
    )
    metadata = _metadata(obj)
    if not needs or metadata.namespace:
        return obj
    return replace(obj, metadata=replace(metadata, namespace="default"))


def _ours(pod: Pod, found: Waiting, heard: set[str]) -> Pod:
    """The pod with a unique identity; if the cluster has a scheduler of ours, with that scheduler's name."""
    name = "/".join(name_of(pod.metadata))
    metadata = pod.metadata if pod.metadata.uid else replace(pod.metadata, uid=f"pod {name}")
    scheduler = pod.spec.scheduler_name or ""
    if scheduler in heard - OWN_NAMES:
        found.notes.append(
            f"pod {name} is for scheduler {scheduler}: the plan places it as Allotment's own scheduler would"
        )
    if scheduler in heard:
        scheduler = DEFAULT_SCHEDULER
    return replace(pod, metadata=metadata, spec=replace(pod.spec, scheduler_name=scheduler))
