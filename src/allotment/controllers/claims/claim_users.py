"""What controllers know about claims and their users. Nothing here reads or writes the server.

Two reconcilers look after the life of a claim, and each stands on its own:

* ``template_claims``: claims are made from templates for pods and pod groups;
* ``claim_release``: reservations end with their users, and with the last of them the allocation; claims that were made for a
  pod go with it; finalizers come off claims that are deleted and unused.

**Finalizers.** A claim must not vanish while a pod that was promised its devices may start. The scheduler's rule is
therefore: finalizer first, then allocation. Claims that we make from templates have the finalizer from birth, which saves
the scheduler one write of three for each; and it stays on when a claim is deallocated, since the next user would only put
it on again. It costs nothing: whether or not such a claim was ever allocated, ``claim_release`` takes the finalizer off as soon
as the claim is being deleted and nobody uses it.
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
"""Index of claims: the uids of those they are reserved for."""
MEMBERS = "members with claims"
"""Index of pods: by namespace and name of their group, for those that use claims."""

_LONGEST_NAME = 63  # as upstream keeps it, though a claim's name might be longer
_DIGITS = 10


def claim_name(owner: str, entry: str, uid: str) -> str:
    """The one name that the claim for this entry of this owner can have.

    It is made from the owner's uid, so that whoever makes the claim a second time (after a crash, a lost reply, from an old
    copy) is told that it exists, and an owner that is replaced by another of its name has other claims.
    """
    digits = hashlib.sha256(f"{uid}/{entry}".encode()).hexdigest()[:_DIGITS]
    room, length = _LONGEST_NAME - _DIGITS - 2, len(owner) + len(entry)
    if length > room:  # of both as much as they are long
        owner, entry = owner[: room * len(owner) // length], entry[: room * len(entry) // length]
    parts = (owner.strip("-."), entry.strip("-."), digits)
    return "-".join(part for part in parts if part)


def finalizer_for(spec: dict[str, Any]) -> str:
    """The finalizer of a claim with this spec, given as JSON."""
    config = (spec.get("devices") or {}).get("config") or ()
    carried = any((entry.get("opaque") or {}).get("driver") == CARRIER for entry in config)
    return SEMANTIC_FINALIZER if carried else FINALIZER


def stays_allocated(claim: ResourceClaim) -> bool:
    """Whether the claim keeps its devices when nobody uses it: allocationMode Immediate of a semantic claim."""
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
    """In any version: the group of the API is what counts."""
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
    """Whether a pod may use a claim: it, or its group, is among those that the claim is reserved for."""
    group = group_of(pod)  # by name: a pod does not know its group's uid
    return any(
        user.uid == pod.metadata.uid or (for_group(user) and user.name == group)
        for user in claim.status.reserved_for
    )


def entries_of(pod: Pod) -> Iterator[tuple[str, str | None]]:
    """Each claim that the pod uses: the entry of its spec, and the claim's name if it has one by now.

    An entry that was found to need no claim has neither and is left out. The claim that stands for extended resources has
    no entry.
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
    """The names of all claims that the pod uses, as far as they are known."""
    return [name for _, name in entries_of(pod) if name]


def group_of(pod: Pod) -> str:
    """The name of the pod group that the pod belongs to, if any."""
    return (pod.spec.scheduling_group.pod_group_name or "") if pod.spec.scheduling_group else ""


def membership(pod: Pod) -> list[tuple[str, str]]:
    group = group_of(pod) if pod.spec.resource_claims else ""
    return [(pod.metadata.namespace, group)] if group else []
