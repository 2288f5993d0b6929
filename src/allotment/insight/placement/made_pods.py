"""The pods of Deployments, Jobs, DaemonSets and similar workloads, as ``allot allocate`` and ``allot plan`` make them.

Pods in the manifests count for their owner and are not made again. Every pod has a name of its own, since claims are named after
their pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from allotment.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from allotment.api.text import plural
from allotment.autoscaler.simulate.node_arrival import pod_of
from allotment.autoscaler.simulate.workload_pods import (
    Workload,
    WorkloadID,
    is_workload,
    owners_of,
    workload_of,
)
from allotment.scheduler.pod import FINISHED
from allotment.scheduler.selector import nodes_required
from allotment.scheduler.taint_tolerance import keeps_off, tolerated

if TYPE_CHECKING:
    from allotment.api.apps import DaemonSet
    from allotment.api.core import Node, Pod
    from allotment.api.manifests.manifest import Located

MOST_MADE_PODS = 20_000
"""The largest number of pods to make, as in scenarios."""


def pods_of_workloads(found: Sequence[tuple[Located, Workload]], pods: Sequence[Pod]) -> Iterator[Pod]:
    """The pods that workloads still lack. If one workload owns another, such as a Deployment its ReplicaSet, only one of them
    counts."""
    there = Counter(owner for pod in pods for owner in owners_of(pod) if pod.status.phase not in FINISHED)
    names = {(pod.metadata.namespace, pod.metadata.name) for pod in pods}
    for workload in _counted([(_controller(located), workload) for located, workload in found]):
        made, number = there[workload.id], 0
        while made < workload.replicas:
            pod = workload.pod(number)
            number += 1
            if (pod.metadata.namespace, pod.metadata.name) not in names:
                names.add((pod.metadata.namespace, pod.metadata.name))
                made += 1
                yield pod


def notes_on_owners(workloads: Iterable[Workload], made: Iterable[Pod], daemons: int) -> list[str]:
    """Sentences on what was done with owners of pods: how many pods those of each kind got, and which got none."""
    pods, idle = Counter[str](), Counter[str]()
    numbers = Counter(owner for pod in made for owner in owners_of(pod))
    owners = Counter[str]()
    for each in workloads:
        if count := numbers[each.id]:
            owners[each.id.kind] += 1
            pods[each.id.kind] += count
        else:
            idle[each.id.kind] += 1
    parts = [f"{plural(owners[kind], kind)} ({plural(pods[kind], 'pod')})" for kind in sorted(owners)]
    if daemons:
        parts.append(f"{plural(daemons, 'DaemonSet')} (one pod on each node that it may use)")
    told = [f"the pods that these owners still lack are included: {', '.join(parts)}"] if parts else []
    if idle:
        named = ", ".join(plural(count, kind) for kind, count in sorted(idle.items()))
        told.append(
            f"no pods are added for {named}: suspended, finished, scaled to zero, or their pods are there already"
        )
    return told


def notes_on_missing_pods(found: Iterable[Located], pods: Sequence[Pod]) -> list[str]:
    """A sentence on owners in a saved cluster some of whose pods are not among the pods; empty if there are none."""
    owners = [
        (each, read.workload) for each in found if is_workload(each) and (read := workload_of(each)).workload
    ]
    lacking = list(islice(pods_of_workloads(owners, pods), MOST_MADE_PODS))
    kinds = Counter(list(owners_of(pod))[-1].kind for pod in lacking)
    named = ", ".join(f"{kind}: {plural(count, 'pod')}" for kind, count in sorted(kinds.items()))
    return (
        [f"a saved cluster is taken as it is, without pods that do not exist yet ({named})"] if kinds else []
    )


def _counted(found: Sequence[tuple[WorkloadID | None, Workload]]) -> Iterator[Workload]:
    """The workloads that count. A Deployment stands for its ReplicaSets. A CronJob stands for its next run, unless one is
    running."""
    ids = {workload.id for _, workload in found}
    running = {controller for controller, workload in found if controller and workload.replicas}
    for controller, workload in found:
        if workload.id.kind == "CronJob" and workload.id in running:
            continue
        if controller is None or controller.kind == "CronJob" or controller not in ids:
            yield workload


def _controller(located: Located) -> WorkloadID | None:
    metadata: Any = located.raw.get("metadata") or {}
    for each in metadata.get("ownerReferences") or ():
        if isinstance(each, dict) and each.get("controller") is True:
            return WorkloadID(
                str(each.get("kind")), str(metadata.get("namespace") or "default"), str(each.get("name"))
            )
    return None


def pods_of_daemons(
    daemons: Iterable[DaemonSet], nodes: Sequence[Node], pods: Iterable[Pod]
) -> Iterator[Pod]:
    """The pods that DaemonSets lack on these nodes; each pod is for one node only."""
    there = [(owner, pod) for pod in pods if (owner := _daemons_of(pod)) is not None]
    for each in daemons:
        name = (each.metadata.namespace or "default", each.metadata.name)
        mine = [pod for owner, pod in there if owner == name and pod.status.phase not in FINISHED]
        for node in nodes:
            made = pod_of(each, node.metadata.name)
            if _may_run(made, node) and not any(_is_for(pod, node) for pod in mine):
                yield replace(made, spec=replace(made.spec, affinity=_only(node)))


def _daemons_of(pod: Pod) -> tuple[str, str] | None:
    for owner in pod.metadata.owner_references:
        if owner.kind == "DaemonSet" and owner.controller:
            return pod.metadata.namespace, owner.name
    return None


def _is_for(pod: Pod, node: Node) -> bool:
    """Whether a DaemonSet's pod is on the node or waits for it."""
    if pod.spec.node_name:
        return pod.spec.node_name == node.metadata.name
    return pod.spec.affinity is not None and _wanted(pod, node)


def _may_run(pod: Pod, node: Node) -> bool:
    """Whether a DaemonSet makes its pod for this node at all."""
    return _wanted(pod, node) and keeps_off(node.spec.taints, tolerated(pod.spec.tolerations)) is None


def _wanted(pod: Pod, node: Node) -> bool:
    required = nodes_required(pod.spec)
    return required is None or required(node)


def _only(node: Node) -> Affinity:
    test = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node.metadata.name,))
    terms = (NodeSelectorTerm(match_fields=(test,)),)
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=terms)))
