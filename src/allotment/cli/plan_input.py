"""Pods that wait for a node, with the claims that they will use: what ``allot plan`` plans for, and the cluster around them.

Pods come from files, or are those that wait in the cluster. Claims that are not made from their templates yet are made here, as
the claim controller would.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from allotment.api import alpha2
from allotment.api.batch import PodDisruptionBudget, PodGroup, Queue, VolcanoPodGroup
from allotment.api.claim_marks import POD_CLAIM_NAME
from allotment.api.core import Namespace, Pod
from allotment.api.manifest import Located
from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate
from allotment.api.storage import PersistentVolumeClaim
from allotment.autoscaler.pending import missing_claims
from allotment.cel.expression_check import check_expression
from allotment.cli.cluster import Cluster, gather, name_of
from allotment.cli.examination import KINDS
from allotment.cli.input import BadInput, Reading, read_objects
from allotment.cli.workload import FINISHED
from allotment.scheduler.configuration import DEFAULT_SCHEDULER

GROUPS = (PodGroup, VolcanoPodGroup, Queue, PodDisruptionBudget, Namespace)
"""Kinds that a scheduler reads and allocation does not look at."""


@dataclass(slots=True)
class Waiting:
    """``objects`` are the cluster's, ``pods`` those to plan for; ``missing`` says of pods what they refer to in vain."""

    objects: list[ApiStruct] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    volumes: bool = True  # all of them are among the objects


def read(files: Sequence[str]) -> tuple[list[ApiStruct], Reading]:
    """The objects of files, checked and with their defaults; and all that the files hold. Raises BadInput."""
    reading = read_objects(files)
    if reading.complaints:
        raise BadInput(reading.complaints)
    return checked(reading.found), reading


def checked(found: Sequence[Located]) -> list[ApiStruct]:
    """Objects with their defaults, slices tainted as the rules among them say. Raises BadInput with all that is wrong."""
    known = [each for each in found if not isinstance(each.obj, GROUPS)]
    cluster = gather(Reading(known), check_expression, lenient=True)
    others = [each.obj for each in found if isinstance(each.obj, GROUPS)]
    return [*_all(cluster), *others]


def _all(cluster: Cluster) -> list[ApiStruct]:
    return [
        *cluster.nodes,
        *cluster.slices,  # tainted as rules have it
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
    """The pods of files, or if these have none those that wait in the cluster. ``tainted``: the slices have what rules say."""
    found = Waiting()
    own = {(type(each), name_of(_metadata(each))) for each in mine}
    there = [each for each in cluster if (type(each), name_of(_metadata(each))) not in own]
    everything = [_in_namespace(each) for each in (*mine, *there)]
    pods = [each for each in everything if isinstance(each, Pod)]
    chosen = {name_of(each.metadata) for each in mine if isinstance(each, Pod)}
    templates = {
        "/".join(name_of(each.metadata)): each
        for each in everything
        if isinstance(each, ResourceClaimTemplate | alpha2.ResourceClaimTemplate)
    }
    found.objects = [
        each
        for each in everything
        if isinstance(each, (*KINDS, PodDisruptionBudget, alpha2.ResourceClaim))
        and not isinstance(each, Pod | ResourceClaimTemplate)
        and not (tainted and isinstance(each, DeviceTaintRule))
    ]
    claims = {"/".join(name_of(each.metadata)) for each in found.objects if isinstance(each, ResourceClaim)}
    made = _made_entries(each for each in found.objects if isinstance(each, ResourceClaim))
    for pod in pods:
        if pod.spec.node_name or pod.status.phase in FINISHED:
            found.objects.append(pod)
        elif not chosen or name_of(pod.metadata) in chosen:
            pod = _ours(pod, found)
            entries = made.get(pod.metadata.uid, ())
            found.objects += missing_claims(pod, templates, made=entries, taken=claims)
            found.pods.append(pod)
    return found


def _metadata(obj: ApiStruct) -> Any:
    return getattr(obj, "metadata")  # noqa: B009  # every kind has it, ApiStruct does not say so


def _in_namespace(obj: ApiStruct) -> ApiStruct:
    """As kubectl would put it: what has no namespace and needs one is in ``default``."""
    needs = isinstance(
        obj,
        Pod
        | ResourceClaim
        | ResourceClaimTemplate
        | alpha2.ResourceClaim
        | PodGroup
        | VolcanoPodGroup
        | PersistentVolumeClaim
        | PodDisruptionBudget,
    )
    metadata = _metadata(obj)
    if not needs or metadata.namespace:
        return obj
    return replace(obj, metadata=replace(metadata, namespace="default"))


def _ours(pod: Pod, found: Waiting) -> Pod:
    """A pod that can be told from others, and is for the scheduler that is asked."""
    name = "/".join(name_of(pod.metadata))
    scheduler = pod.spec.scheduler_name
    if scheduler not in (None, "", DEFAULT_SCHEDULER):
        found.notes.append(
            f"pod {name} is for scheduler {scheduler}: planned is as Allotment's own would place it"
        )
    metadata = pod.metadata if pod.metadata.uid else replace(pod.metadata, uid=f"pod {name}")
    return replace(pod, metadata=metadata, spec=replace(pod.spec, scheduler_name=DEFAULT_SCHEDULER))


def _made_entries(claims: Iterable[ResourceClaim]) -> dict[str, set[str]]:
    """By uid of the pod: the names of its entries of which claims were made."""
    found: dict[str, set[str]] = {}
    for claim in claims:
        if entry := claim.metadata.annotations.get(POD_CLAIM_NAME):
            for owner in claim.metadata.owner_references:
                found.setdefault(owner.uid, set()).add(entry)
    return found
