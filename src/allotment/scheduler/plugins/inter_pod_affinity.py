"""InterPodAffinity: which pods a pod must be near, and which it must avoid. Near means that a node label has an equal value.

* *Affinity*: some pod matches every required term, and the node shares that pod's domain for every term's label. A pod that
  matches all its own terms may be the first: while no other such pod exists, any node with the labels will do.
* *Anti-affinity*: no pod that matches a term is in the node's domain for that term's label. The terms of pods that are already
  there apply to the new pod in the same way.
* *Preferences* of the pod, and of the pods already there, add up to a score per domain. A required affinity of a pod that is
  already there counts as a preference with weight 1. Scores are stretched so that the worst node of a cycle has 0 and the best
  100.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.api.core import Namespace, Node, Pod
from allotment.scheduler.framework import (
    MAX_SCORE,
    SKIP,
    SUCCESS,
    Cycle,
    ObjectAction,
    Status,
    StatusCode,
    Wake,
)
from allotment.scheduler.neighbours import NeighbourTerms, Question, Term, has_wishes, wishes_of

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

_NAME = "InterPodAffinity"
_SCORE = f"{_NAME}/score"
"""The key in the cycle's state under which Score finds its data: label → value → score."""
_NOT_NEAR = Status(StatusCode.UNRESOLVABLE, _NAME, "are not near the pods that the pod must be near")
_UNWANTED = Status(StatusCode.UNSCHEDULABLE, _NAME, "are near pods that the pod must be apart from")
_REPELLED = Status(StatusCode.UNSCHEDULABLE, _NAME, "are near pods that must be apart from the pod")

Places = Sequence[tuple[str, set[str]]]  # label, values


@dataclass(frozen=True, slots=True)
class _PreparedTerms:
    near: Places  # all of these, or
    first: bool  # no such pod is anywhere, and the pod is one
    apart: Places  # none of these
    repelled: Places  # nor these


class InterPodAffinity:
    """The plugin that filters and scores nodes by the pods that run near them. It is not local."""

    name = _NAME
    local = False
    wakes: Sequence[Wake] = (
        Wake(Pod, frozenset({ObjectAction.ADD, ObjectAction.UPDATE, ObjectAction.DELETE})),
        Wake(Node, frozenset({ObjectAction.ADD, ObjectAction.UPDATE})),
        Wake(Namespace, frozenset({ObjectAction.ADD, ObjectAction.UPDATE})),
    )

    def indifferent(self, pod: PodInfo, cluster: Cluster) -> bool:
        return pod.pod.spec.affinity is None and not cluster.neighbours.wishful

    # --- Filter ---

    def pre_filter(self, cycle: Cycle) -> Status:
        neighbours = cycle.cluster.neighbours
        wishes = wishes_of(cycle.pod.pod)
        if not (wishes.near or wishes.apart or neighbours.wishful):
            return SKIP
        near = _near(cycle, wishes)
        ready = _PreparedTerms(
            near=near,
            first=not any(values for _, values in near) and _means_itself(cycle, wishes.near),
            apart=[(term.key, _values(cycle, term.key, _tally(cycle, [term]))) for term in wishes.apart],
            repelled=[(key, _values(cycle, key, nodes)) for key, nodes in neighbours.repelling(cycle.pod)],
        )
        if not (ready.near or ready.apart or any(values for _, values in ready.repelled)):
            return SKIP
        cycle.state[self.name] = ready
        return SUCCESS

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        ready: _PreparedTerms = cycle.state[self.name]
        labels = node.labels
        for key, values in ready.near:
            value = labels.get(key)
            if value is None or not (ready.first or value in values):
                return _NOT_NEAR
        for key, values in ready.apart:
            if labels.get(key) in values:
                return _UNWANTED
        for key, values in ready.repelled:
            if labels.get(key) in values:
                return _REPELLED
        return SUCCESS

    # --- Score ---

    def pre_score(self, cycle: Cycle, nodes: Sequence[NodeInfo]) -> Status:
        """Computes the scores of all domains once per cycle; they do not depend on the nodes passed in."""
        if _SCORE not in cycle.state:
            cycle.state[_SCORE] = _scores(cycle)
        return SUCCESS if cycle.state[_SCORE] else SKIP

    def score(self, cycle: Cycle, node: NodeInfo) -> int:
        """The sum over the node's domains. It may be negative; ``normalize`` brings it into the range."""
        labels = node.labels
        scores: Mapping[str, Mapping[str, int]] = cycle.state[_SCORE]
        return sum(values.get(labels.get(key, ""), 0) for key, values in scores.items() if key in labels)

    def normalize(self, cycle: Cycle, scores: dict[str, int]) -> None:
        worst, best = min(scores.values(), default=0), max(scores.values(), default=0)
        for name, score in scores.items():
            scores[name] = MAX_SCORE * (score - worst) // (best - worst) if best > worst else 0

    # --- what helps ---

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """A pod that arrives nearby can help, and so can a pod that kept this one away and leaves or changes. A node in other
        domains, a namespace that a term may match now, and new labels of the pod itself can help too."""
        if isinstance(new, Namespace):
            return any(term.namespace_labels is not None for term in _required(wishes_of(pod.pod)))
        if isinstance(new, Node):
            return _moves(old, new, wishes_of(pod.pod))
        shown = new if new is not None else old
        if not isinstance(shown, Pod):
            return False
        if shown.metadata.uid == pod.uid:
            return True
        return _arrives(pod, old, new, cluster) or _makes_way(pod, old, new, cluster)

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        if isinstance(old, (Node, Namespace)) and isinstance(new, (Node, Namespace)):
            return old.metadata.labels != new.metadata.labels
        if isinstance(old, Pod) and isinstance(new, Pod):
            arrived = bool(new.spec.node_name) and not old.spec.node_name
            return arrived or old.metadata.labels != new.metadata.labels
        if isinstance(old, Pod) or isinstance(new, Pod):
            return any(isinstance(each, Pod) and bool(each.spec.node_name) for each in (old, new))
        return True


# --- Filter ---


def _near(cycle: Cycle, wishes: NeighbourTerms) -> Places:
    """The domains that contain a pod that matches every term."""
    if not wishes.near:
        return ()
    nodes = _tally(cycle, wishes.near)
    return [(term.key, _values(cycle, term.key, nodes)) for term in wishes.near]


def _tally(cycle: Cycle, terms: Iterable[Term]) -> Mapping[str, int]:
    meant = tuple(term.meant(cycle.cluster.namespaces) for term in terms)
    return cycle.cluster.neighbours.tally(Question(meant))


def _values(cycle: Cycle, key: str, nodes: Mapping[str, int]) -> set[str]:
    """The values of a label that these nodes have."""
    of = cycle.cluster.neighbours.domains(None, key).of
    return {value for node in nodes if (value := of.get(node)) is not None}


def _means_itself(cycle: Cycle, terms: Sequence[Term]) -> bool:
    return all(term.means(cycle.pod, cycle.cluster.namespaces) for term in terms)


# --- Score ---


def _scores(cycle: Cycle) -> dict[str, dict[str, int]]:
    scores: dict[str, dict[str, int]] = {}
    neighbours = cycle.cluster.neighbours
    own = wishes_of(cycle.pod.pod).preferred
    if not (own or neighbours.wishful):
        return scores
    counted = [(term.key, weight, _tally(cycle, [term])) for term, weight in own]
    for key, weight, nodes in (*counted, *neighbours.liking(cycle.pod)):
        if not nodes:
            continue
        of = neighbours.domains(None, key).of
        for node, number in nodes.items():
            value = of.get(node)
            if value is not None:
                values = scores.setdefault(key, {})
                values[value] = values.get(value, 0) + weight * number
    return scores


# --- what helps ---


def _required(wishes: NeighbourTerms) -> tuple[Term, ...]:
    return (*wishes.near, *wishes.apart)


def _moves(old: ApiStruct | None, new: Node, wishes: NeighbourTerms) -> bool:
    """Whether a node is new, or moved to other domains. A pod without terms was rejected by other pods' terms, which may use
    any label."""
    if not isinstance(old, Node) or not _required(wishes):
        return True
    before, now = old.metadata.labels, new.metadata.labels
    return any(before.get(term.key) != now.get(term.key) for term in _required(wishes))


def _on_node(obj: ApiStruct | None) -> Pod | None:
    return obj if isinstance(obj, Pod) and obj.spec.node_name else None


def _arrives(pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
    """Whether there is now one more pod that this one must be near."""
    terms = wishes_of(pod.pod).near
    after = _on_node(new)
    if not terms or after is None or not _all_mean(terms, after, cluster):
        return False
    before = _on_node(old)
    return before is None or not _all_mean(terms, before, cluster)


def _makes_way(pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
    """Whether a pod that this one must avoid is gone or no longer matches, or one that must avoid this pod is gone."""
    before = _on_node(old)
    if before is None:
        return False
    after = _on_node(new)
    if any(
        _all_mean([term], before, cluster) and not (after is not None and _all_mean([term], after, cluster))
        for term in wishes_of(pod.pod).apart
    ):
        return True
    return (
        after is None
        and has_wishes(before)
        and any(term.means(pod, cluster.namespaces) for term in wishes_of(before).apart)
    )


def _all_mean(terms: Iterable[Term], pod: Pod, cluster: Cluster) -> bool:
    return all(
        term.meant(cluster.namespaces).matches(pod.metadata.namespace, pod.metadata.labels) for term in terms
    )
