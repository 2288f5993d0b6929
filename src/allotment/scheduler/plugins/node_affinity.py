"""NodeAffinity: a pod runs only on nodes that its node selector and its required affinity match, and preferably on those that
match its preferences.

The score is the weight of the preferences that a node meets, divided by the weight of all, times 100. Weights are never negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.api.core import Node
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
from allotment.scheduler.selector import NodeTest, nodes_in_term, nodes_required

if TYPE_CHECKING:
    from allotment.api.core import NodeAffinity as NodeAffinitySpec
    from allotment.api.core import NodeSelectorTerm, PodSpec
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

_UNWANTED = Status(
    StatusCode.UNRESOLVABLE, "NodeAffinity", "do not match the pod's node selector or affinity", lasting=True
)
_CONTRADICTION = Status(
    StatusCode.UNRESOLVABLE,
    "NodeAffinity",
    "each term of the pod's required node affinity names several nodes at once",
)


@dataclass(frozen=True, slots=True)
class _PreparedAffinity:
    required: NodeTest | None
    preferred: tuple[tuple[int, NodeTest], ...]
    total: int  # weight of all preferences


class NodeAffinity:
    """The plugin that filters and scores nodes by the pod's node selector and node affinity."""

    name = "NodeAffinity"
    local = True
    stands_for_unasked = True
    wakes: Sequence[Wake] = (Wake(Node, frozenset({ObjectAction.ADD, ObjectAction.UPDATE})),)

    def pre_filter(self, cycle: Cycle) -> Status:
        spec = cycle.pod.pod.spec
        affinity = _affinity(spec)
        required = nodes_required(spec)
        preferred = _preferences(affinity)
        if required is None and not preferred:
            return SKIP
        if affinity is not None and affinity.required is not None:
            names = _names(affinity.required.node_selector_terms)
            if names is not None:
                if not names:
                    return _CONTRADICTION
                cycle.restrict(names)
        cycle.state[self.name] = _PreparedAffinity(
            required, preferred, sum(weight for weight, _ in preferred)
        )
        return SUCCESS

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        required = cycle.state[self.name].required
        if required is None or (node.node is not None and required(node.node)):
            return SUCCESS
        return _UNWANTED

    def score(self, cycle: Cycle, node: NodeInfo) -> int:
        ready: _PreparedAffinity = cycle.state[self.name]
        if not ready.total or node.node is None:
            return 0
        met = sum(weight for weight, matches in ready.preferred if matches(node.node))
        return MAX_SCORE * met // ready.total

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """A node that matches now and did not before can help."""
        if not isinstance(new, Node):
            return False
        required = nodes_required(pod.pod.spec)
        if required is None:
            return not isinstance(old, Node)
        return required(new) and not (isinstance(old, Node) and required(old))

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        return not (
            isinstance(old, Node) and isinstance(new, Node) and old.metadata.labels == new.metadata.labels
        )


def _affinity(spec: PodSpec) -> NodeAffinitySpec | None:
    return spec.affinity.node_affinity if spec.affinity is not None else None


def _preferences(affinity: NodeAffinitySpec | None) -> tuple[tuple[int, NodeTest], ...]:
    wishes = affinity.preferred if affinity is not None else ()
    return tuple((wish.weight, nodes_in_term(wish.preference)) for wish in wishes if wish.weight > 0)


def _names(terms: tuple[NodeSelectorTerm, ...]) -> frozenset[str] | None:
    """The names of the only nodes that can match, if every term restricts the names."""
    every: frozenset[str] = frozenset()
    for term in terms:
        named = [
            frozenset(test.values)
            for test in term.match_fields
            if test.key == "metadata.name" and test.operator == "In"
        ]
        if not named:
            return None
        every |= frozenset.intersection(*named)
    return every if terms else None
