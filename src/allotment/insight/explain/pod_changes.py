"""Single changes to a pod after which the scheduler places it: no label required, a taint tolerated, less cpu requested.

As with changes to claims (``usage.changes``), each change was tried: ``fits`` asks the scheduler about the changed pod. Each
comes with what exists instead: the labels that nodes have, the node with the most room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.api.core import (
    Affinity,
    Container,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    ResourceRequirements,
    Toleration,
)
from allotment.api.likeness import near
from allotment.api.quantity import Format, Quantity
from allotment.scheduler.node import PODS
from allotment.scheduler.resource_requests import requests_of
from allotment.scheduler.selector import nodes_in_term
from allotment.usage.changes import ChangeKind
from allotment.usage.remedies import Remedy

if TYPE_CHECKING:
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.resource_requests import Amounts

Fits = Callable[[Pod], str]
"""The node on which the pod would be placed; empty if there is none."""
_TAINTS_TRIED = 10
_NODES_TRIED = 3
_VALUES_TRIED = 4
_LEAST_LIKENESS = 0.7
_OF_NODES = "node.kubernetes.io/"  # taints that will pass, or that a pod should not tolerate
_UNIT = 10**9


def pod_remedies(pod: Pod, cluster: Cluster, fits: Fits) -> Iterator[Remedy]:
    """The changes that help, the smallest first."""
    for kind, value, words, changed in _changes(pod, cluster):
        if node := fits(changed):
            yield Remedy(kind, "", "", value, words, node, 0.0)
    for name, amount in sorted(requests_of(pod.spec).items()):
        if name != PODS and amount > 0:
            yield from _less(pod, name, amount, cluster, fits)


def _changes(pod: Pod, cluster: Cluster) -> Iterator[tuple[ChangeKind, str, str, Pod]]:
    spec = pod.spec
    for key in _taints(cluster)[:_TAINTS_TRIED]:
        more = (*spec.tolerations, Toleration(key=key, operator="Exists"))
        words = f"with a toleration of node taint {key}"
        yield ChangeKind.TOLERATION, key, words, replace(pod, spec=replace(spec, tolerations=more))
    for key, value in sorted(spec.node_selector.items()):
        rest = {name: each for name, each in spec.node_selector.items() if name != key}
        words = f"without node selector {key}={value} ({labels_there(key, value, cluster)})"
        yield ChangeKind.NODE, f"{key}={value}", words, replace(pod, spec=replace(spec, node_selector=rest))
    for name, words, affinity in _affinities(spec.affinity, cluster):
        yield ChangeKind.NODE, name, words, replace(pod, spec=replace(spec, affinity=affinity))
    if any(each.when_unsatisfiable == "DoNotSchedule" for each in spec.topology_spread_constraints):
        loose = replace(pod, spec=replace(spec, topology_spread_constraints=()))
        yield ChangeKind.NODE, "topologySpreadConstraints", "without its topology spread constraints", loose


def _taints(cluster: Cluster) -> list[str]:
    taints = (taint for info in cluster.nodes.values() if info.node for taint in info.node.spec.taints)
    keys = {taint.key for taint in taints if taint.effect in ("NoSchedule", "NoExecute")}
    return sorted(key for key in keys if not key.startswith(_OF_NODES))


def _affinities(affinity: Affinity | None, cluster: Cluster) -> Iterator[tuple[str, str, Affinity]]:
    """Each required part, and the affinity without it."""
    if affinity is None:
        return
    if affinity.node_affinity is not None and affinity.node_affinity.required is not None:
        rest = replace(affinity, node_affinity=replace(affinity.node_affinity, required=None))
        unmet = "; ".join(unmet_affinity(affinity.node_affinity.required, cluster))
        yield "nodeAffinity", f"without its required node affinity{unmet and f' ({unmet})'}", rest
    if affinity.pod_affinity is not None and affinity.pod_affinity.required:
        rest = replace(affinity, pod_affinity=replace(affinity.pod_affinity, required=()))
        yield "podAffinity", "without its required pod affinity", rest
    if affinity.pod_anti_affinity is not None and affinity.pod_anti_affinity.required:
        rest = replace(affinity, pod_anti_affinity=replace(affinity.pod_anti_affinity, required=()))
        yield "podAntiAffinity", "without its required pod anti-affinity", rest


def unmet_affinity(required: NodeSelector, cluster: Cluster) -> list[str]:
    """Required node properties that no node has, and what nodes have instead, in words."""
    nodes = [info.node for info in cluster.nodes.values() if info.node is not None]
    found: dict[str, None] = {}
    for term in required.node_selector_terms:
        for each in term.match_expressions:
            alone = nodes_in_term(NodeSelectorTerm(match_expressions=(each,)))
            if not any(map(alone, nodes)):
                asked = " ".join((each.key, each.operator, ",".join(each.values))).strip()
                there = labels_there(each.key, (*each.values, "")[0], cluster)
                found[f"{asked}: {there}"] = None
    return list(found)[:_VALUES_TRIED]


def labels_there(key: str, value: str, cluster: Cluster) -> str:
    """The values of a label on the nodes, in words."""
    values = sorted({info.labels[key] for info in cluster.nodes.values() if key in info.labels})
    if value in values:
        count = sum(info.labels.get(key) == value for info in cluster.nodes.values())
        return f"{count} {'node has' if count == 1 else 'nodes have'} it"
    if not values:
        known = {label for info in cluster.nodes.values() for label in info.labels}
        return f"no node has a label {key}{near(key, known, least=_LEAST_LIKENESS).removesuffix('?')}"
    if alike := near(value, values, least=_LEAST_LIKENESS):
        return f"no node has it{alike.removesuffix('?')}"
    more = f" and {len(values) - _VALUES_TRIED} more" if len(values) > _VALUES_TRIED else ""
    return f"no node has it; there is {key}={', '.join(values[:_VALUES_TRIED])}{more}"


# --- less of a resource ---


def _less(pod: Pod, name: str, amount: int, cluster: Cluster, fits: Fits) -> Iterator[Remedy]:
    """The largest amount of a resource with which the pod fits: what is left on one of the nodes with the most left."""
    for node in most_left(name, cluster)[:_NODES_TRIED]:
        left = free_of(node, name)
        if not 0 < left < amount:
            continue
        most = _round(name, left)
        if most and (found := fits(_scaled(pod, name, most, amount))):
            shown, asked = written(name, most), written(name, amount)
            words = f"with {name} ≤ {shown} (it requests {asked}; node {node.name} has the most left)"
            yield Remedy(ChangeKind.RESOURCES, "", "", shown, words, found, 1 - most / amount)
            return


def most_left(name: str, cluster: Cluster) -> list[NodeInfo]:
    """The existing nodes that are not cordoned, those with the most of a resource left first."""
    there = [each for each in cluster.nodes.values() if each.node and not each.node.spec.unschedulable]
    return sorted(there, key=lambda each: (-free_of(each, name), each.name))


def free_of(node: NodeInfo, name: str) -> int:
    return node.offered.get(name, 0) - node.taken.get(name, 0)


def _round(name: str, amount: int) -> int:
    """Rounds down to what one would write: cpu in thousandths, bytes in Mi, everything else whole."""
    unit = _UNIT // 1000 if name == "cpu" else _UNIT
    unit = _UNIT << 20 if _in_bytes(name) and amount > _UNIT << 20 else unit
    return amount - amount % unit


def _scaled(pod: Pod, name: str, most: int, amount: int) -> Pod:
    """The pod with its requests for a resource scaled in proportion to the given sum."""

    def less(resources: ResourceRequirements) -> ResourceRequirements:
        return replace(
            resources,
            requests=_part(resources.requests, name, most, amount),
            limits=_without(resources.limits, name),
        )

    def each(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple([replace(one, resources=less(one.resources)) for one in containers])

    spec = pod.spec
    whole = less(spec.resources) if spec.resources is not None else None
    overhead = _part(spec.overhead, name, most, amount)
    spec = replace(
        spec,
        containers=each(spec.containers),
        init_containers=each(spec.init_containers),
        resources=whole,
        overhead=overhead,
    )
    return replace(pod, spec=spec)


def _part(amounts: Mapping[str, Quantity], name: str, most: int, of: int) -> dict[str, Quantity]:
    found = dict(amounts)
    if name in found:
        found[name] = Quantity(found[name].nanos * most // of, found[name].format)
    return found


def _without(amounts: Mapping[str, Quantity], name: str) -> dict[str, Quantity]:
    return {key: amount for key, amount in amounts.items() if key != name}


def written(name: str, amount: int) -> str:
    """An amount of a resource, as one would write it."""
    return str(Quantity(amount, Format.BINARY_SI if _in_bytes(name) else Format.DECIMAL_SI))


def _in_bytes(name: str) -> bool:
    return name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")


def _not_offered(name: str, cluster: Cluster) -> str | None:
    """Says that no node and no device class offers an extended resource, and names similar ones; None if one does."""
    known = {each for info in cluster.nodes.values() for each in info.offered if "/" in each}
    known.update(cluster.extended)
    return None if name in known else f"nothing offers {name}{near(name, known)}"


def largest(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """For each resource of which no node has enough left, the node that has the most, in words."""
    wanted: Amounts = requests_of(pod.spec)
    for name, amount in sorted(wanted.items()):
        if "/" in name and (like := _not_offered(name, cluster)) is not None:
            yield like
            continue
        nodes = most_left(name, cluster) if name != PODS and name not in cluster.extended else []
        if nodes and free_of(nodes[0], name) < amount:
            there, left = nodes[0].offered.get(name, 0), max(free_of(nodes[0], name), 0)
            yield (
                f"node {nodes[0].name} has the most {name} left: {written(name, left)} of {written(name, there)}, "
                f"and the pod requests {written(name, amount)}"
            )
