"""Who of the pods that wait must be near whom: what is known of required affinity before there are machines.

A pod must be near one that all its terms mean, its *company*: on the same node if a term says so, else in the same domain of a
label. A pod that is meant by its own terms may be the first of its kind; then all who wait and are meant must come after it.

On one node, those who must come together are tied into one bundle:

- pods that are meant by their own terms, while none of their kind runs, all go to one node;
- any other pod is tied to one of those who wait and are its company, to each in turn; not so if there is room for it near company
  that runs.
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
    """Those first whom others must be near; as they come where none must."""
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
    """The nodes on which those run that a pod must be near."""
    cluster = simulation.cluster
    meant = tuple(term.meant(cluster.namespaces) for term in wishes_of(pod).near)
    return sorted(cluster.neighbours.tally(Question(meant))) if meant else ()


def _on_node(pod: Pod) -> Terms:
    """All terms of a pod, if one of them is about its node."""
    if pod.spec.affinity is None:
        return ()
    terms = wishes_of(pod).near
    return terms if any(term.key == HOSTNAME for term in terms) else ()


def _mean(terms: Terms, pod: Pod, cluster: Cluster) -> bool:
    info = cluster.pods[key_of(pod)]
    return all(term.means(info, cluster.namespaces) for term in terms)
