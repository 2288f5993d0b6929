"""A pod, as ``allot explain`` tells of it: where it is, or why it is nowhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.api.claim_marks import POD_CLAIM_NAME
from allotment.api.core import Node, Pod, PodResourceClaim
from allotment.api.resource import ResourceClaim, ResourceClaimTemplate
from allotment.api.text import plural
from allotment.autoscaler.simulate.pending_pods import missing_claims
from allotment.insight.absent import absent
from allotment.insight.claim_facts import facts_of
from allotment.insight.errors import Failure, NoAnswer
from allotment.insight.explain.explanation import Explanation, Outlook, told_of, well_or_not
from allotment.insight.explain.trial_scheduler import Examination, note_guesses
from allotment.insight.findings import claims_gone
from allotment.insight.manifest_cluster import name_of
from allotment.insight.placement.needs import FINISHED
from allotment.scheduler.obstacles import OWN_NAMES, schedulers_heard_of
from allotment.scheduler.pod import claims_named

if TYPE_CHECKING:
    from allotment.insight.snapshot import Snapshot


def named_pod(seen: Snapshot, name: str, namespaces: Sequence[str]) -> Pod:
    """The one pod of that name in the namespaces, or in all that are seen. Raises Failure if that is none or several."""
    pods = seen.some(Pod)
    unknown = [each for each in namespaces if not seen.knows(Pod, each)]
    if Pod in seen.denied and (unknown or Pod not in seen.partly):
        where = f" in namespace {unknown[0]}" if unknown else ""
        raise NoAnswer(f"you may not list pods{where}", "name one where you may with -n NAMESPACE")
    found = [
        pod
        for pod in pods
        if pod.metadata.name == name and (not namespaces or pod.metadata.namespace in namespaces)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        where = ", ".join(sorted(pod.metadata.namespace for pod in found))
        raise Failure(f"there are pods {name} in several namespaces: {where}", "say which with -n NAMESPACE")
    asked = f"{namespaces[0]}/{name}" if namespaces else name
    known = {"/".join(name_of(pod.metadata)) if namespaces else pod.metadata.name for pod in pods}
    raise absent("pod", asked, known, "kubectl get pods -A")


def told_of_pod(pod: Pod, seen: Snapshot, now: datetime, go_on: Callable[[], bool]) -> Explanation:
    """What there is to tell of a pod. ``go_on`` says whether there is time left to look for changes that would help."""
    if pod.status.phase in FINISHED:
        return told_of(
            "pod", pod.metadata, Outlook.ENDED, f"has ended ({pod.status.phase}) and needs no devices"
        )
    if pod.spec.node_name:
        return _placed(pod, seen, now)
    if pod.metadata.deletion_timestamp is not None:
        return told_of("pod", pod.metadata, Outlook.ENDED, "is being deleted and will not be placed")
    namespace = name_of(pod.metadata)[0]
    if pod.spec.resource_claims and not seen.knows(ResourceClaim, namespace):
        raise NoAnswer(
            f"you may not list resourceclaims in namespace {namespace}, where the pod has some",
            "ask for that right: without its claims, nobody can tell what a pod needs",
        )
    scheduler = pod.spec.scheduler_name or ""
    if scheduler not in OWN_NAMES and scheduler in schedulers_heard_of(seen.some(Pod)):
        seen.notes.append(f"the pod is for scheduler {scheduler}: told is what Allotment's own would say")
    pod = identified(pod)
    if not seen.sees(Node):
        pod = regardless_of_nodes(pod, seen)
    made = from_templates(pod, seen)
    explanation = Examination(seen, pod, made, _others(pod, seen), now, go_on).explain("pod", pod.metadata)
    explanation.said = condition_of(pod)
    return explanation


def identified(pod: Pod) -> Pod:
    """A pod with a uid, made up where a manifest has none."""
    if pod.metadata.uid:
        return pod
    return replace(pod, metadata=replace(pod.metadata, uid=f"pod {'/'.join(name_of(pod.metadata))}"))


def regardless_of_nodes(pod: Pod, seen: Snapshot) -> Pod:
    """The pod without what cannot be judged where nodes are not seen."""
    spec = replace(pod.spec, node_selector={}, affinity=None, topology_spread_constraints=())
    if spec != pod.spec:
        seen.notes.append(
            "without nodes, the pod's node selector, affinity and spreading cannot be looked at, and are not"
        )
    return replace(pod, spec=spec)


def condition_of(pod: Pod) -> str:
    """Why the pod is not placed, in the words of whoever tried."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status != "True":
            return condition.message or condition.reason or ""
    return ""


def _placed(pod: Pod, seen: Snapshot, now: datetime) -> Explanation:
    keys = set(claims_named(pod))
    facts = [facts_of(claim, seen, now) for claim in seen.claims if "/".join(name_of(claim.metadata)) in keys]
    devices = [device for each in facts for device in each.devices]
    problems = [problem for each in facts for problem in each.problems]
    problems += claims_gone([pod], seen)
    node = pod.spec.node_name or ""
    reason = f"is on node {node}"
    if devices:
        reason += f" with {plural(len(devices), 'device')} of {plural(len(facts), 'claim')}"
    elif not keys and not pod.spec.resource_claims:
        reason += " and asks for no devices"
    unseen = len(keys) - len(facts)
    if unseen and not seen.knows(ResourceClaim, name_of(pod.metadata)[0]):
        reason += f"; {plural(unseen, 'claim')} that it names cannot be seen"
    reason += f"; {well_or_not(problems)}"
    return told_of("pod", pod.metadata, Outlook.PLACED, reason, node=node, devices=devices, problems=problems)


def from_templates(pod: Pod, seen: Snapshot) -> list[ResourceClaim]:
    """The claims that are still to be made for a pod, as they will be if nothing keeps them from being made."""
    templates = {"/".join(name_of(each.metadata)): each for each in seen.some(ResourceClaimTemplate)}
    made = {entry.name for entry in pod.spec.resource_claims if _is_made(pod, entry, seen)}
    taken = {"/".join(name_of(each.metadata)) for each in seen.of(ResourceClaim)} if templates else ()
    found = missing_claims(pod, templates, made=made, taken=taken)
    return [claim for claim in found if isinstance(claim, ResourceClaim)]


def _is_made(pod: Pod, entry: PodResourceClaim, seen: Snapshot) -> bool:
    if any(status.name == entry.name for status in pod.status.resource_claim_statuses):
        return True
    return any(
        claim.metadata.annotations.get(POD_CLAIM_NAME) == entry.name
        and any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references)
        for claim in seen.of(ResourceClaim)
    )


def _others(asked: Pod, seen: Snapshot) -> list[Pod]:
    """The pods beside the one that is asked about."""
    note_guesses(seen)
    return [pod for pod in seen.some(Pod) if name_of(pod.metadata) != name_of(asked.metadata)]
