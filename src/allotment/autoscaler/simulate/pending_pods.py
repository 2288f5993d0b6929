"""Pods that wait for a node, and the claims that they will use.

A pod wants a machine when the scheduler has found no place for it, and nothing else is under way: no gate holds it, no
preemption makes room for it, and it does not belong to an existing node. If one waiting member of a gang wants a machine, all
its waiting members do, because machines for half a gang help nobody.

Claims that do not exist yet are created from their templates here, as the claim controller would, so that a plan need not
wait.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.api import semantic
from allotment.api.batch import PodGroup
from allotment.api.claim_marks import POD_CLAIM_NAME
from allotment.api.meta import ObjectMeta, OwnerReference
from allotment.api.resource import ResourceClaim, ResourceClaimTemplate
from allotment.autoscaler.simulate.drain import goes_along
from allotment.scheduler.devices.claim_quotas import add, usage
from allotment.scheduler.pod import FINISHED, group_key

if TYPE_CHECKING:
    from allotment.api.core import Pod
    from allotment.api.quota_usage import Usage
    from allotment.autoscaler.simulate.simulation import Simulation

Name = tuple[str, str]
"""Namespace and name."""
Claim = ResourceClaim | semantic.ResourceClaim
Template = ResourceClaimTemplate | semantic.ResourceClaimTemplate


def wants_machine(pod: Pod) -> bool:
    """Whether the scheduler has found no place for a pod, and a new machine may help."""
    return is_open(pod) and any(
        each.type == "PodScheduled" and each.status == "False" and each.reason == "Unschedulable"
        for each in pod.status.conditions
    )


def is_open(pod: Pod) -> bool:
    """Whether a pod waits for a decision of the scheduler, and no room is being made for it."""
    return not (
        pod.spec.node_name
        or pod.metadata.deletion_timestamp
        or pod.status.phase in FINISHED
        or pod.spec.scheduling_gates
        or pod.status.nominated_node_name
        or goes_along(pod)
    )


def pending(simulation: Simulation) -> list[Pod]:
    """The pods that want a machine, gangs as a whole."""
    found = {key: info.pod for key, info in simulation.cluster.pods.items() if wants_machine(info.pod)}
    for group in {group_key(pod) for pod in found.values()} - {""}:
        members = simulation.cluster.members.get(group, {})
        found.update({key: each.pod for key, each in members.items() if is_open(each.pod)})
    return [found[key] for key in sorted(found)]


def missing_claims(
    pod: Pod, templates: Mapping[str, Template], *, made: Container[str], taken: Container[str]
) -> Iterator[Claim]:
    """The claims that still have to be created for a pod. ``templates`` are by ``namespace/name``, as are the ``taken``
    claims; ``made`` are its entries that have a claim although its status does not show it. If a template is missing, the
    scheduler reports the missing claim. A foreign claim with the natural name does not prevent the creation, because real
    names end in a suffix that is derived from the pod's uid, or random."""
    noted = {status.name for status in pod.status.resource_claim_statuses}
    namespace = pod.metadata.namespace
    names = set[str]()
    for entry in pod.spec.resource_claims:
        template = templates.get(f"{namespace}/{entry.resource_claim_template_name or ''}")
        if template is None or entry.name in noted or entry.name in made:
            continue
        start = f"{pod.metadata.name}-{entry.name}"
        name = next(
            each for each in names_like(start) if each not in names and f"{namespace}/{each}" not in taken
        )
        names.add(name)
        claim = from_template((namespace, name), pod, template)
        marks = {**claim.metadata.annotations, POD_CLAIM_NAME: entry.name}
        metadata = replace(claim.metadata, annotations=marks, uid=f"claim {namespace}/{name}")
        yield replace(claim, metadata=metadata)


def names_like(start: str) -> Iterator[str]:
    """A name, and the alternatives if it is taken."""
    yield start
    for number in count(2):
        yield f"{start}-{number}"


def make_claims(simulation: Simulation, pods: Iterable[Pod]) -> None:
    """Creates the claims that pods still need, as quotas allow: those of the first pods first. Pods that are not created
    themselves (``obstacles``) get none."""
    templates: dict[str, Template] = {
        **simulation.objects(ResourceClaimTemplate),
        **simulation.objects(semantic.ResourceClaimTemplate),
    }
    there, quotas = simulation.objects(ResourceClaim), simulation.obstacles.quotas
    used: dict[str, Usage] = {}
    for pod in pods if templates else ():
        if not any(entry.resource_claim_template_name for entry in pod.spec.resource_claims):
            continue
        namespace = pod.metadata.namespace
        if namespace in simulation.cluster.ending or simulation.obstacles.uncreated(pod):
            continue  # nothing is created there any more, or for this owner
        if namespace not in used:
            used[namespace] = quotas.used(namespace)
        made = made_entries(simulation, pod.metadata.uid) | _of_its_group(simulation, pod)
        for claim in list(missing_claims(pod, templates, made=made, taken=there)):
            entry = claim.metadata.annotations[POD_CLAIM_NAME]
            if simulation.obstacles.name_taken(pod, entry):
                continue
            if not quotas.refusal(namespace, claim, used[namespace]):
                simulation.put(claim)
                add(used[namespace], usage(claim))


def made_entries(simulation: Simulation, uid: str) -> set[str]:
    """The entries of a pod or group for which claims were created."""
    claims = simulation.objects(ResourceClaim)
    owned = simulation.cluster.claims.owned.get(uid, ())
    return {claims[key].metadata.annotations.get(POD_CLAIM_NAME, "") for key in owned}


def _of_its_group(simulation: Simulation, pod: Pod) -> set[str]:
    """The entries of a pod that use its group's claims."""
    group = simulation.cluster.groups.get(group_key(pod))
    return {each.name for each in group.spec.resource_claims} if isinstance(group, PodGroup) else set()


def from_template(name: Name, pod: Pod, template: Template) -> Claim:
    """The claim of this name, created from a template for a pod."""
    pattern = template.spec.metadata
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )
    metadata = ObjectMeta(
        namespace=name[0],
        name=name[1],
        labels=pattern.labels,
        annotations=pattern.annotations,
        owner_references=(owner,),
    )
    if isinstance(template, ResourceClaimTemplate):
        return ResourceClaim(metadata=metadata, spec=template.spec.spec)
    return semantic.ResourceClaim(metadata=metadata, spec=template.spec.spec)
