"""Which claims a pod needs, and whether it uses them in its own name or its group's.

An entry of ``spec.resourceClaims`` names a claim, or a template from which the claim controller makes one for this pod. The
controller notes the name in the pod's status. If the claim appears before that note, its owner and its annotation give the same
answer. If the pod's group has an equal entry, the pod uses the group's claim in the group's name.

Errors about a claim are sentences for the pod's condition. They name only the pod's own claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allotment.api.batch import PodGroup
from allotment.api.claim_marks import POD_CLAIM_NAME
from allotment.api.resource import ResourceClaimConsumerReference
from allotment.scheduler.devices.claims import MAX_CONSUMERS

if TYPE_CHECKING:
    from allotment.api.core import Pod, PodResourceClaim, PodResourceClaimStatus
    from allotment.api.resource import ResourceClaim
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo


class UnusableClaim(Exception):
    """A claim that the pod needs is missing or not meant for it. The text is a sentence for the pod's condition."""


class Reference(NamedTuple):
    """A claim that a pod needs. ``consumer`` is the pod, or its group."""

    entries: tuple[str, ...]  # the names of its entries in the pod's resourceClaims
    key: str  # namespace/name
    claim: ResourceClaim
    consumer: ResourceClaimConsumerReference


def references(pod: PodInfo, cluster: Cluster) -> list[Reference]:
    """All claims that a pod needs, in the order of its spec, each once. Raises UnusableClaim."""
    group = _group(pod, cluster) if pod.group else None
    found: dict[str, Reference] = {}
    for entry in pod.pod.spec.resource_claims:
        owner = _owner(entry, group)
        key = _key(pod.pod, entry, owner, cluster)
        if key is None:
            continue
        claim = _usable(key, pod, entry, owner, cluster)
        consumer = own_reference(pod) if owner is None else group_reference(owner)
        known = found.get(key)
        entries = (*known.entries, entry.name) if known is not None else (entry.name,)
        found[key] = Reference(entries, key, claim, consumer)
    return list(found.values())


def check(pod: PodInfo, cluster: Cluster) -> None:
    """Raises UnusableClaim if ``references`` would."""
    group = _group(pod, cluster) if pod.group else None
    for entry in pod.pod.spec.resource_claims:
        owner = _owner(entry, group)
        key = _key(pod.pod, entry, owner, cluster)
        if key is not None:
            _usable(key, pod, entry, owner, cluster)


def _owner(entry: PodResourceClaim, group: PodGroup | None) -> PodGroup | None:
    """The group that the claim of an entry was made for; None if it was made for the pod itself."""
    return group if group is not None and entry in group.spec.resource_claims else None


def names_its_claims(pod: PodInfo) -> bool:
    """Whether the pod's status names the claim for each of its templates, including its group's claims."""
    entries, statuses = pod.pod.spec.resource_claims, pod.pod.status.resource_claim_statuses
    return not entries or all(
        entry.resource_claim_template_name is None or _noted(statuses, entry.name) is not None
        for entry in entries
    )


def own_reference(pod: PodInfo) -> ResourceClaimConsumerReference:
    """A pod as the user of a claim."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)


def group_reference(group: PodGroup) -> ResourceClaimConsumerReference:
    """A group as the user of a claim."""
    return ResourceClaimConsumerReference(
        api_group="scheduling.k8s.io",
        resource="podgroups",
        name=group.metadata.name,
        uid=group.metadata.uid,
    )


def _group(pod: PodInfo, cluster: Cluster) -> PodGroup | None:
    found = cluster.groups.get(pod.group)
    return found if isinstance(found, PodGroup) else None


def _key(pod: Pod, entry: PodResourceClaim, group: PodGroup | None, cluster: Cluster) -> str | None:
    """The claim that an entry stands for; None if none was needed."""
    namespace = pod.metadata.namespace
    if entry.resource_claim_name is not None:
        return f"{namespace}/{entry.resource_claim_name}"
    if entry.resource_claim_template_name is None:
        raise UnusableClaim(f"the pod's resource claim {entry.name} names neither a claim nor a template")
    noted = _noted(pod.status.resource_claim_statuses, entry.name)
    if noted is None and group is not None:
        noted = _noted(group.status.resource_claim_statuses, entry.name)
    if noted is not None:
        name = noted.resource_claim_name
        return f"{namespace}/{name}" if name is not None else None
    owner = pod.metadata if group is None else group.metadata
    for key in cluster.claims.owned.get(owner.uid, ()):
        if cluster.claims.objects[key].metadata.annotations.get(POD_CLAIM_NAME) == entry.name:
            return key
    template = entry.resource_claim_template_name
    raise UnusableClaim(
        f"the pod's resource claim {entry.name} has not been made from template {template} yet"
    )


def _noted(statuses: tuple[PodResourceClaimStatus, ...], entry: str) -> PodResourceClaimStatus | None:
    for status in statuses:
        if status.name == entry:
            return status
    return None


def _usable(
    key: str, pod: PodInfo, entry: PodResourceClaim, group: PodGroup | None, cluster: Cluster
) -> ResourceClaim:
    claim = cluster.claims.objects.get(key)
    if claim is None:
        raise UnusableClaim(f"the pod's resource claim {key} does not exist")
    if claim.metadata.deletion_timestamp is not None:
        raise UnusableClaim(f"the pod's resource claim {key} is being deleted")
    if entry.resource_claim_template_name is not None:
        owner, kind = (pod.uid, "pod") if group is None else (group.metadata.uid, "pod group")
        if owner not in [each.uid for each in claim.metadata.owner_references if each.controller]:
            raise UnusableClaim(
                f"the resource claim {key} was not made for this {kind}, which does not own it"
            )
    return claim


def blocked(reference: Reference, pod: PodInfo, cluster: Cluster) -> str:
    """A sentence on why the pod must wait before it can use a claim; empty if it need not wait."""
    flight, shown = cluster.claims.flights.get(reference.key), reference.claim.status
    if reference.key in cluster.claims.disputed:
        return f"the pod's resource claim {reference.key} was promised a device that another claim had first"
    deciding = flight is not None and flight.allocation is not None and shown.allocation is None
    if flight is not None and deciding and not _ours(flight.users, pod, cluster):
        return f"the pod's resource claim {reference.key} is being allocated for another pod"
    if flight is None and len(shown.reserved_for) < MAX_CONSUMERS:
        return ""
    users = {user.uid for user in cluster.claims.reserved(reference.key).values()}
    if len(users) >= MAX_CONSUMERS and reference.consumer.uid not in users:
        return f"the pod's resource claim {reference.key} has the maximum of {MAX_CONSUMERS} users"
    return ""


def _ours(users: dict[str, ResourceClaimConsumerReference], pod: PodInfo, cluster: Cluster) -> bool:
    """Whether a decision in flight was made for the pod itself or for another member of its gang, whose claims it may share."""
    if pod.uid in users:
        return True
    gang = pod.group
    if not gang:
        return False
    for user in users.values():
        if user.resource == "podgroups":
            found = cluster.groups.get(gang)
            if found is None or found.metadata.uid != user.uid:
                return False
        else:
            other = cluster.pods.get(f"{pod.namespace}/{user.name}")
            if other is None or other.group != gang:
                return False
    return True
