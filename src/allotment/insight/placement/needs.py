"""What needs devices, one decision at a time: a pod with all its claims and extended resources, or a claim that no pod uses.

This module makes the claims that a pod's templates ask for, and names them ``<pod>-<entry>`` (a cluster appends random
characters). Decisions follow the order of a scheduler's queue: higher priority first, then older, then by name. So the answer
does not depend on the order of files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from allotment.api.core import Pod, PodResourceClaim
from allotment.autoscaler.simulate.pending_pods import from_template
from allotment.insight.manifest_cluster import ManifestCluster, Name, name_of
from allotment.insight.placement.extended_wants import ExtendedResources
from allotment.scheduler.resource_requests import Amounts

FINISHED = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True)
class Need:
    """Claims that must be usable on one node together. ``extended`` are amounts of extended resources, which take another claim
    on some nodes. ``missing`` names the objects that it refers to and that do not exist."""

    who: str  # ``pod ns/name`` or ``claim ns/name``
    claims: list[Name] = field(default_factory=list)
    pod: Pod | None = None
    extended: Amounts = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def needs(cluster: ManifestCluster, extended: ExtendedResources) -> list[Need]:
    """All decisions, in order. Adds the claims made from templates to the cluster."""
    asking = [
        (pod, _of_pod(pod, cluster, extended)) for pod in cluster.pods if pod.status.phase not in FINISHED
    ]
    pods = [(pod, need) for pod, need in asking if need.claims or need.missing or need.extended]
    found = [(_pod_rank(pod), need) for pod, need in pods]
    used = {claim for _, need in found for claim in need.claims}
    for name, claim in cluster.claims.items():
        if name not in used:
            rank = (0, claim.metadata.creation_timestamp or "", *name)
            found.append((rank, Need(f"claim {'/'.join(name)}", [name])))
    without = len(cluster.pods) - len(pods)
    if without:
        cluster.notes.append(f"pods that ask for no devices or have finished: {without}")
    return [need for _, need in sorted(found, key=lambda pair: pair[0])]


def _pod_rank(pod: Pod) -> tuple[int, str, str, str]:
    return (-(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", *name_of(pod.metadata))


def _of_pod(pod: Pod, cluster: ManifestCluster, extended: ExtendedResources) -> Need:
    namespace, name = name_of(pod.metadata)
    need = Need(f"pod {namespace}/{name}", pod=pod, extended=extended.wanted(pod))
    noted = pod.status.extended_resource_claim_status
    if noted is not None and (namespace, noted.resource_claim_name) in cluster.claims:
        need.claims.append((namespace, noted.resource_claim_name))
        need.extended = {}
    for entry in pod.spec.resource_claims:
        for claim in _claims_of(pod, entry, cluster, need.missing):
            if claim not in need.claims:
                need.claims.append(claim)
    return need


def _claims_of(
    pod: Pod, entry: PodResourceClaim, cluster: ManifestCluster, missing: list[str]
) -> Iterator[Name]:
    """The claim of one entry of a pod: the one it names, the one that was made for it, or a new one."""
    namespace = name_of(pod.metadata)[0]
    if entry.resource_claim_name:
        name = (namespace, entry.resource_claim_name)
        if name in cluster.claims:
            yield name
        else:
            missing.append(f"ResourceClaim {'/'.join(name)}")
        return
    made = [s.resource_claim_name for s in pod.status.resource_claim_statuses if s.name == entry.name]
    if made and made[0] is None:
        return  # the entry was found to need no claim
    name = (namespace, made[0] if made and made[0] else f"{pod.metadata.name}-{entry.name}")
    if name not in cluster.claims:
        template = cluster.templates.get((namespace, entry.resource_claim_template_name or ""))
        if template is None:
            missing.append(f"ResourceClaimTemplate {namespace}/{entry.resource_claim_template_name}")
            return
        cluster.claims[name] = from_template(name, pod, template)
    yield name
