"""Which waiting pods must be near which others: the consequences of required affinity before there are machines.

A pod must be near a pod that matches all its terms, its *company*: on the same node if a term says so, otherwise in the same
domain of a label. A pod that matches its own terms may be the first of its kind; then all waiting pods that match must come
after it.

Pods that must be on one node together are tied into one bundle:

- pods that match their own terms, while none of their kind runs, all go to one node;
- any other pod is tied to one waiting pod of its company, to each in turn, unless there is room for it near running company.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from allotment.api.autoscaling import HOSTNAME
from allotment.api.meta import key_of
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.neighbours import Question, Term, wishes_of

if TYPE_CHECKING:
    from allotment.api.core import Pod
    from allotment.autoscaler.simulate.simulation import Simulation
    from allotment.scheduler.cluster import Cluster


Terms = tuple[Term, ...]


def ties(waiting: Mapping[str, Pod], simulation: Simulation) -> Iterator[tuple[str, str]]:
    """Pairs of pods, by key, that must be on one node."""
    cluster, tied = simulation.cluster, Counter[Terms]()
    meant: dict[Terms, list[str]] = {}
    for key, pod in waiting.items():
        terms = _on_node(pod)
        if not terms:
            continue
        if terms not in meant:
            meant[terms] = [other for other, each in waiting.items() if _mean(terms, each, cluster)]
        company = meant[terms]
        if _mean(terms, pod, cluster):
            if not company_nodes(pod, simulation):
                yield key, company[0]
        elif company and isinstance(simulation.fits(pod), NoNode):
            yield key, company[tied[terms] % len(company)]
            tied[terms] += 1


def in_order(bundle: Sequence[Pod], simulation: Simulation) -> list[Pod]:
    """Pods that others must be near come first; the rest keep their order."""
    cluster, left = simulation.cluster, list(bundle)
    found: list[Pod] = []
    while left:
        ready = [
            pod
            for pod in left
            if not (terms := _on_node(pod)) or any(_mean(terms, each, cluster) for each in (pod, *found))
        ]
        found += ready or left
        left = [pod for pod in left if pod not in ready] if ready else []
    return found


def company_nodes(pod: Pod, simulation: Simulation) -> Sequence[str]:
    """The nodes with running pods that a pod must be near."""
    cluster = simulation.cluster
    meant = tuple(term.meant(cluster.namespaces) for term in wishes_of(pod).near)
    return sorted(cluster.neighbours.tally(Question(meant))) if meant else ()


def _on_node(pod: Pod) -> Terms:
    """All terms of a pod, if one of them refers to its node."""
    if pod.spec.affinity is None:
        return ()
    terms = wishes_of(pod).near
    return terms if any(term.key == HOSTNAME for term in terms) else ()


def _mean(terms: Terms, pod: Pod, cluster: Cluster) -> bool:
    info = cluster.pods[key_of(pod)]
    return all(term.means(info, cluster.namespaces) for term in terms)
