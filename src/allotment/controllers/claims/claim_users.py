"""Facts about claims and their users. Nothing here calls the server.

Two independent reconcilers manage the life of a claim:

* ``template_claims`` creates claims from templates for pods and pod groups;
* ``claim_release`` ends reservations with their users, and the allocation with the last of them; it deletes claims together
  with the pod for which they were created, and removes finalizers from claims that are deleted and unused.

**Finalizers.** A claim must not vanish while a pod that was promised its devices may start. So the scheduler adds the
finalizer before it allocates. Claims from templates have the finalizer from the start, which saves the scheduler one write of
three for each. The finalizer stays when a claim is deallocated, because the next user would only add it again. That costs
nothing: whether or not such a claim was ever allocated, ``claim_release`` removes the finalizer as soon as the claim is being
deleted and has no users.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from allotment.api.batch import SCHEDULING
from allotment.api.claim_marks import FINALIZER, SEMANTIC_FINALIZER
from allotment.api.conversion.v1alpha2 import CARRIER
from allotment.api.core import Pod
from allotment.api.meta import OwnerReference
from allotment.api.resource import ResourceClaim, ResourceClaimConsumerReference
from allotment.controllers.pod_state import finished

GROUPS = SCHEDULING.partition("/")[0]
"""The API group of pod groups."""

CONSUMER = "consumer"
"""Index of claims: the uids for which they are reserved."""
MEMBERS = "members with claims"
"""Index of pods that use claims: namespace and name of their group."""

_LONGEST_CLAIM_NAME = 63  # upstream's limit, although a claim's name might be longer
_HASH_DIGITS = 10


def claim_name(owner: str, entry: str, uid: str) -> str:
    """The only name that the claim for this entry of this owner can have.

    The name is derived from the owner's uid. If the claim is created a second time (after a crash, a lost reply, or from an
    old copy), the server answers that it exists; and an owner that replaces another of its name gets other claims.
    """
    digits = hashlib.sha256(f"{uid}/{entry}".encode()).hexdigest()[:_HASH_DIGITS]
    room, length = _LONGEST_CLAIM_NAME - _HASH_DIGITS - 2, len(owner) + len(entry)
    if length > room:  # shortens both in proportion
        owner, entry = owner[: room * len(owner) // length], entry[: room * len(entry) // length]
    parts = (owner.strip("-."), entry.strip("-."), digits)
    return "-".join(part for part in parts if part)


def finalizer_for(spec: dict[str, Any]) -> str:
    """The finalizer of a claim with this spec, given as JSON."""
    config = (spec.get("devices") or {}).get("config") or ()
    carried = any((entry.get("opaque") or {}).get("driver") == CARRIER for entry in config)
    return SEMANTIC_FINALIZER if carried else FINALIZER


def stays_allocated(claim: ResourceClaim) -> bool:
    """Whether the claim keeps its devices without users: allocationMode Immediate of a semantic claim."""
    return any(
        config.opaque is not None
        and config.opaque.driver == CARRIER
        and isinstance(config.opaque.parameters, dict)
        and config.opaque.parameters.get("allocationMode") == "Immediate"
        for config in claim.spec.devices.config
    )


def is_pod(owner: OwnerReference) -> bool:
    return owner.kind == "Pod" and owner.api_version == "v1"


def is_group(owner: OwnerReference) -> bool:
    """Whether the kind is a pod group, in any version: only the API group counts."""
    return owner.kind == "PodGroup" and owner.api_version.startswith(f"{GROUPS}/")


def for_pod(consumer: ResourceClaimConsumerReference) -> bool:
    return consumer.resource == "pods" and not consumer.api_group


def for_group(consumer: ResourceClaimConsumerReference) -> bool:
    return consumer.resource == "podgroups" and consumer.api_group == GROUPS


def is_done(pod: Pod) -> bool:
    """Whether no container of the pod runs or ever will. Once true of a pod, it stays true."""
    return finished(pod) or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def consumers(claim: ResourceClaim) -> list[str]:
    return [consumer.uid for consumer in claim.status.reserved_for]


def is_reserved(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a pod may use a claim: the pod, or its group, is among those for which the claim is reserved."""
    group = group_of(pod)  # by name: a pod does not know its group's uid
    return any(
        user.uid == pod.metadata.uid or (for_group(user) and user.name == group)
        for user in claim.status.reserved_for
    )


def entries_of(pod: Pod) -> Iterator[tuple[str, str | None]]:
    """Each claim that the pod uses: the entry of its spec and, if it is known, the claim's name.

    An entry that turned out to need no claim has no name and is left out. The claim for extended resources has no entry.
    """
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or made.get(entry.name)
        if name is not None or entry.name not in made:
            yield entry.name, name
    extended = pod.status.extended_resource_claim_status
    if extended is not None:
        yield "", extended.resource_claim_name


def names_used(pod: Pod) -> list[str]:
    """The known names of the claims that the pod uses."""
    return [name for _, name in entries_of(pod) if name]


def group_of(pod: Pod) -> str:
    """The name of the pod group to which the pod belongs, if any."""
    return (pod.spec.scheduling_group.pod_group_name or "") if pod.spec.scheduling_group else ""


def membership(pod: Pod) -> list[tuple[str, str]]:
    group = group_of(pod) if pod.spec.resource_claims else ""
    return [(pod.metadata.namespace, group)] if group else []
