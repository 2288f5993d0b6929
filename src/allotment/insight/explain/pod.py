"""Explains a pod for ``allot explain``: where it runs, or why it has no node."""

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


def named_pod(snapshot: Snapshot, name: str, namespaces: Sequence[str]) -> Pod:
    """The only pod of that name in the namespaces, or in all that the caller sees. Raises Failure if there is none or more
    than one."""
    pods = snapshot.some(Pod)
    unknown = [each for each in namespaces if not snapshot.knows(Pod, each)]
    if Pod in snapshot.denied and (unknown or Pod not in snapshot.partly):
        where = f" in namespace {unknown[0]}" if unknown else ""
        raise NoAnswer(f"you may not list pods{where}", "name a namespace where you may, with -n NAMESPACE")
    found = [
        pod
        for pod in pods
        if pod.metadata.name == name and (not namespaces or pod.metadata.namespace in namespaces)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        where = ", ".join(sorted(pod.metadata.namespace for pod in found))
        raise Failure(f"there are pods {name} in several namespaces: {where}", "choose one with -n NAMESPACE")
    asked = f"{namespaces[0]}/{name}" if namespaces else name
    known = {"/".join(name_of(pod.metadata)) if namespaces else pod.metadata.name for pod in pods}
    raise absent("pod", asked, known, "kubectl get pods -A")


def told_of_pod(pod: Pod, snapshot: Snapshot, now: datetime, go_on: Callable[[], bool]) -> Explanation:
    """The explanation of a pod. ``go_on`` returns whether there is time left to search for changes that would help."""
    if pod.status.phase in FINISHED:
        return told_of(
            "pod", pod.metadata, Outlook.ENDED, f"has ended ({pod.status.phase}) and needs no devices"
        )
    if pod.spec.node_name:
        return _placed(pod, snapshot, now)
    if pod.metadata.deletion_timestamp is not None:
        return told_of("pod", pod.metadata, Outlook.ENDED, "is being deleted and will not be placed")
    namespace = name_of(pod.metadata)[0]
    if pod.spec.resource_claims and not snapshot.knows(ResourceClaim, namespace):
        raise NoAnswer(
            f"you may not list resourceclaims in namespace {namespace}, and the pod uses some there",
            "ask for that right: without its claims, the needs of a pod are unknown",
        )
    scheduler = pod.spec.scheduler_name or ""
    if scheduler not in OWN_NAMES and scheduler in schedulers_heard_of(snapshot.some(Pod)):
        snapshot.notes.append(
            f"the pod is for scheduler {scheduler}: this is what Allotment's own scheduler would say"
        )
    pod = identified(pod)
    if not snapshot.sees(Node):
        pod = regardless_of_nodes(pod, snapshot)
    made = from_templates(pod, snapshot)
    explanation = Examination(snapshot, pod, made, _others(pod, snapshot), now, go_on).explain(
        "pod", pod.metadata
    )
    explanation.said = condition_of(pod)
    return explanation


def identified(pod: Pod) -> Pod:
    """The pod with a uid; one is made up if the manifest has none."""
    if pod.metadata.uid:
        return pod
    return replace(pod, metadata=replace(pod.metadata, uid=f"pod {'/'.join(name_of(pod.metadata))}"))


def regardless_of_nodes(pod: Pod, snapshot: Snapshot) -> Pod:
    """The pod without the parts that cannot be checked if the caller does not see nodes."""
    spec = replace(pod.spec, node_selector={}, affinity=None, topology_spread_constraints=())
    if spec != pod.spec:
        snapshot.notes.append(
            "no nodes are visible, so the pod's node selector, affinity and spreading are not checked"
        )
    return replace(pod, spec=spec)


def condition_of(pod: Pod) -> str:
    """Why the pod is not placed, in the words of its own condition."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status != "True":
            return condition.message or condition.reason or ""
    return ""


def _placed(pod: Pod, snapshot: Snapshot, now: datetime) -> Explanation:
    keys = set(claims_named(pod))
    facts = [
        facts_of(claim, snapshot, now)
        for claim in snapshot.claims
        if "/".join(name_of(claim.metadata)) in keys
    ]
    devices = [device for each in facts for device in each.devices]
    problems = [problem for each in facts for problem in each.problems]
    problems += claims_gone([pod], snapshot)
    node = pod.spec.node_name or ""
    reason = f"is on node {node}"
    if devices:
        reason += f" with {plural(len(devices), 'device')} of {plural(len(facts), 'claim')}"
    elif not keys and not pod.spec.resource_claims:
        reason += " and asks for no devices"
    unseen = len(keys) - len(facts)
    if unseen and not snapshot.knows(ResourceClaim, name_of(pod.metadata)[0]):
        reason += f"; you cannot see {plural(unseen, 'claim')} that it names"
    reason += f"; {well_or_not(problems)}"
    return told_of("pod", pod.metadata, Outlook.PLACED, reason, node=node, devices=devices, problems=problems)


def from_templates(pod: Pod, snapshot: Snapshot) -> list[ResourceClaim]:
    """The claims that still have to be created for a pod, as they will be if nothing prevents it."""
    templates = {"/".join(name_of(each.metadata)): each for each in snapshot.some(ResourceClaimTemplate)}
    made = {entry.name for entry in pod.spec.resource_claims if _is_made(pod, entry, snapshot)}
    taken = {"/".join(name_of(each.metadata)) for each in snapshot.of(ResourceClaim)} if templates else ()
    found = missing_claims(pod, templates, made=made, taken=taken)
    return [claim for claim in found if isinstance(claim, ResourceClaim)]


def _is_made(pod: Pod, entry: PodResourceClaim, snapshot: Snapshot) -> bool:
    if any(status.name == entry.name for status in pod.status.resource_claim_statuses):
        return True
    return any(
        claim.metadata.annotations.get(POD_CLAIM_NAME) == entry.name
        and any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references)
        for claim in snapshot.of(ResourceClaim)
    )


def _others(asked: Pod, snapshot: Snapshot) -> list[Pod]:
    """The pods besides the one to explain."""
    note_guesses(snapshot)
    return [pod for pod in snapshot.some(Pod) if name_of(pod.metadata) != name_of(asked.metadata)]
