"""Affinity between pods worked out pod by pod and node by node, as an oracle."""

from collections.abc import Mapping

from allotment.api.core import Affinity, Node, Pod, PodAffinity, PodAffinityTerm
from allotment.scheduler.framework import MAX_SCORE
from tests.scheduler.naive_selection import selects

Namespaces = Mapping[str, Mapping[str, str]]  # name → labels


def _means(term: PodAffinityTerm, owner: Pod, other: Pod, namespaces: Namespaces) -> bool:
    spaces = set(term.namespaces)
    if not term.namespaces and term.namespace_selector is None:
        spaces = {owner.metadata.namespace}
    own, labels = owner.metadata.labels, other.metadata.labels
    return (
        (
            other.metadata.namespace in spaces
            or selects(term.namespace_selector, namespaces[other.metadata.namespace])
        )
        and selects(term.label_selector, labels)
        and all(labels.get(key) == own[key] for key in term.match_label_keys if key in own)
        and all(labels.get(key) != own[key] for key in term.mismatch_label_keys if key in own)
    )


def _sides(of: Pod) -> tuple[PodAffinity, PodAffinity]:
    affinity = of.spec.affinity or Affinity()
    return affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()


def _together(key: str, on: Node, other: Pod, nodes: list[Node]) -> bool:
    """Whether a pod is in the domain that the node is in."""
    (where,) = (each for each in nodes if each.metadata.name == other.spec.node_name)
    return key in on.metadata.labels and on.metadata.labels[key] == where.metadata.labels.get(key)


def fits(of: Pod, on: Node, nodes: list[Node], placed: list[Pod], namespaces: Namespaces) -> bool:
    near, apart = _sides(of)
    for other in placed:
        if any(
            _means(term, of, other, namespaces) and _together(term.topology_key, on, other, nodes)
            for term in apart.required
        ):
            return False
        if any(
            _means(term, other, of, namespaces) and _together(term.topology_key, on, other, nodes)
            for term in _sides(other)[1].required
        ):
            return False
    if any(term.topology_key not in on.metadata.labels for term in near.required):
        return False
    friends = [
        other for other in placed if all(_means(term, of, other, namespaces) for term in near.required)
    ]
    if all(
        any(_together(term.topology_key, on, friend, nodes) for friend in friends) for term in near.required
    ):
        return True
    nobody = not any(
        _together(term.topology_key, each, friend, nodes)
        for friend in friends
        for term in near.required
        for each in nodes
    )
    return nobody and all(_means(term, of, of, namespaces) for term in near.required)


def naive_scores(of: Pod, nodes: list[Node], placed: list[Pod], namespaces: Namespaces) -> dict[str, int]:
    sums: dict[str, int] = {}
    for each in nodes:
        total = 0
        for other in placed:
            wishes = [
                *((of, other, wish.pod_affinity_term, wish.weight) for wish in _sides(of)[0].preferred),
                *((of, other, wish.pod_affinity_term, -wish.weight) for wish in _sides(of)[1].preferred),
                *((other, of, wish.pod_affinity_term, wish.weight) for wish in _sides(other)[0].preferred),
                *((other, of, wish.pod_affinity_term, -wish.weight) for wish in _sides(other)[1].preferred),
                *((other, of, term, 1) for term in _sides(other)[0].required),
            ]
            for owner, about, term, weight in wishes:
                if _means(term, owner, about, namespaces) and _together(
                    term.topology_key, each, other, nodes
                ):
                    total += weight
        sums[each.metadata.name] = total
    worst, best = min(sums.values()), max(sums.values())
    return {
        name: MAX_SCORE * (total - worst) // (best - worst) if best > worst else 0
        for name, total in sums.items()
    }
