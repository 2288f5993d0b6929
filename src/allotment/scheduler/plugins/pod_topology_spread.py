"""PodTopologySpread: spreads pods of a kind over the values of a node label, strictly or as well as possible.

Each value of a constraint's label is a domain. A node's domain counts if the node has the labels of all constraints and the
constraint's policies say that the pod could run there (``nodeAffinityPolicy``, honoured by default; ``nodeTaintsPolicy``, ignored
by default).

* *DoNotSchedule*: including the pod, its domain may have at most ``maxSkew`` more matching pods than the emptiest domain. With
  fewer than ``minDomains`` domains, the emptiest counts as 0.
* *ScheduleAnyway*: the fewer matching pods in a node's domains, the better. A label with few values weighs less than one with
  many, because its counts are larger. Nodes without one of the labels come last.

Pods that are being deleted do not count. An empty selector matches the pod itself but counts no other pod, as in Kubernetes. The
plugin has no default constraints derived from services and replica sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from allotment.api.codec import encode
from allotment.api.core import Affinity, Node, NodeAffinity, Pod, PodSpec, TopologySpreadConstraint
from allotment.api.selection import Test
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
from allotment.scheduler.neighbours import MeantPods, Question, label_keys
from allotment.scheduler.selector import nodes_required, pods_selected
from allotment.scheduler.taint_tolerance import keeps_off, tolerated

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.api.selection import Selector
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.neighbours import Domains
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

_HOSTNAME = "kubernetes.io/hostname"
_NAME = "PodTopologySpread"
_SCORE = f"{_NAME}/score"
"""The key in the cycle's state under which Score finds its data."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A constraint, for one pod."""

    key: str
    skew: int
    selector: Selector | None
    least_domains: int
    by_affinity: bool
    by_taints: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.selector is not None and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class _Limit:
    """What a rule means for nodes: it rejects a node whose domain has more than ``most`` pods."""

    key: str
    counts: Mapping[str, int]
    most: int
    uneven: Status
    unlabelled: Status


@dataclass(slots=True)
class _Scoring:
    costs: tuple[
        tuple[str, Mapping[str, float]], ...
    ]  # label, what each value costs; for the host name, each node
    ignored: set[str]  # nodes without one of the labels


class PodTopologySpread:
    """The plugin that filters and scores nodes by how evenly pods are spread. It is not local."""

    name = _NAME
    local = False
    wakes: Sequence[Wake] = (
        Wake(Pod, frozenset({ObjectAction.ADD, ObjectAction.UPDATE, ObjectAction.DELETE})),
        Wake(Node, frozenset({ObjectAction.ADD, ObjectAction.UPDATE, ObjectAction.DELETE})),
    )

    def indifferent(self, pod: PodInfo, cluster: Cluster) -> bool:
        return not pod.pod.spec.topology_spread_constraints

    # --- Filter ---

    def pre_filter(self, cycle: Cycle) -> Status:
        rules = _rules(cycle.pod.pod, "DoNotSchedule")
        if not rules:
            return SKIP
        eligible = _Eligibility(cycle, rules)
        cycle.state[self.name] = tuple(_limit(cycle, rule, eligible.domains(rule)) for rule in rules)
        return SUCCESS

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        labels = node.labels
        for limit in cycle.state[self.name]:
            value = labels.get(limit.key)
            if value is None:
                return limit.unlabelled  # type: ignore[no-any-return]  # the state is of many types
            if limit.counts.get(value, 0) > limit.most:
                return limit.uneven  # type: ignore[no-any-return]  # as above
        return SUCCESS

    # --- Score ---

    def pre_score(self, cycle: Cycle, nodes: Sequence[NodeInfo]) -> Status:
        rules = _rules(cycle.pod.pod, "ScheduleAnyway")
        if not rules:
            return SKIP
        if not nodes:
            return SUCCESS
        keys = tuple(rule.key for rule in rules)
        scored = [node for node in nodes if all(key in node.labels for key in keys)]
        eligible = _Eligibility(cycle, rules)
        costs = tuple((rule.key, _costs(cycle, rule, eligible, scored)) for rule in rules)
        ignored = {node.name for node in nodes} - {node.name for node in scored}
        cycle.state[_SCORE] = _Scoring(costs, ignored)
        return SUCCESS

    def score(self, cycle: Cycle, node: NodeInfo) -> int:
        """The cost of the node; ``normalize`` inverts it."""
        scoring: _Scoring = cycle.state[_SCORE]
        if node.name in scoring.ignored:
            return 0
        labels = node.labels
        return int(
            0.5 + sum(values[node.name if key == _HOSTNAME else labels[key]] for key, values in scoring.costs)
        )

    def normalize(self, cycle: Cycle, scores: dict[str, int]) -> None:
        ignored = cycle.state[_SCORE].ignored
        costs = [cost for name, cost in scores.items() if name not in ignored]
        best, worst = min(costs, default=0), max(costs, default=0)
        for name, cost in scores.items():
            if name in ignored:
                scores[name] = 0
            else:
                scores[name] = MAX_SCORE * (worst + best - cost) // worst if worst else MAX_SCORE

    # --- what helps ---

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """A matching pod that arrives on a node, leaves it or stops matching can help. So can a node that changes the domains,
        and the pod itself when its labels or tolerations change."""
        if isinstance(old, Node) or isinstance(new, Node):
            keys = {rule.key for rule in _rules(pod.pod, "DoNotSchedule")}
            return any(isinstance(each, Node) and keys <= each.metadata.labels.keys() for each in (old, new))
        shown = new if new is not None else old
        if not isinstance(shown, Pod) or shown.metadata.namespace != pod.namespace:
            return False
        if shown.metadata.uid == pod.uid:
            return True
        rules = _rules(pod.pod, "DoNotSchedule")
        before, after = _counted(old), _counted(new)
        return any(
            (before is not None and rule.matches(before)) != (after is not None and rule.matches(after))
            for rule in rules
        )

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        if isinstance(old, Node) and isinstance(new, Node):
            return old.metadata.labels != new.metadata.labels or old.spec.taints != new.spec.taints
        if isinstance(old, Node) or isinstance(new, Node):
            return True
        if isinstance(old, Pod) and isinstance(new, Pod) and not new.spec.node_name:
            return old.metadata.labels != new.metadata.labels or old.spec.tolerations != new.spec.tolerations
        return _counted(old) != _counted(new)


def _rules(pod: Pod, wanted: str) -> list[_Rule]:
    return [
        _rule(each, pod) for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable == wanted
    ]


def _rule(constraint: TopologySpreadConstraint, pod: Pod) -> _Rule:
    more = label_keys(constraint.match_label_keys, Test.IN, pod)
    return _Rule(
        key=constraint.topology_key,
        skew=constraint.max_skew,
        selector=pods_selected(constraint.label_selector, more),
        least_domains=constraint.min_domains or 1,
        by_affinity=(constraint.node_affinity_policy or "Honor") == "Honor",
        by_taints=(constraint.node_taints_policy or "Ignore") == "Honor",
    )


class _Eligibility:
    """Which nodes' domains count for the rules of one pod."""

    def __init__(self, cycle: Cycle, rules: Sequence[_Rule]) -> None:
        self._cycle = cycle
        self._spec = cycle.pod.pod.spec
        self._keys = frozenset(rule.key for rule in rules)

    def domains(self, rule: _Rule) -> Domains:
        name = (self._keys, *_policies(self._spec, rule))
        return self._cycle.cluster.neighbours.domains(name, rule.key, self._test(rule))

    def _test(self, rule: _Rule) -> Callable[[Node], bool]:
        keys, spec = self._keys, self._spec
        required = nodes_required(spec) if rule.by_affinity else None
        accepts = tolerated(spec.tolerations) if rule.by_taints else None
        return lambda node: (
            keys <= node.metadata.labels.keys()
            and (required is None or required(node))
            and (accepts is None or keeps_off(node.spec.taints, accepts) is None)
        )


def _policies(spec: PodSpec, rule: _Rule) -> tuple[bytes | None, bytes | None]:
    """What the rule's policies read of the pod. Equal values give the same answer for every node."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = PodSpec(
        node_selector=spec.node_selector,
        affinity=Affinity(node_affinity=NodeAffinity(required=affinity.required)) if affinity else None,
    )
    return (
        encode(required) if rule.by_affinity and (affinity or spec.node_selector) else None,
        encode(PodSpec(tolerations=spec.tolerations)) if rule.by_taints else None,
    )


def _tally(cycle: Cycle, rule: _Rule) -> Mapping[str, int]:
    """Matching pods by node."""
    if not rule.selector:
        return {}
    meant = MeantPods(frozenset((cycle.pod.namespace,)), rule.selector)
    return cycle.cluster.neighbours.tally(Question((meant,), staying=True))


def _limit(cycle: Cycle, rule: _Rule, domains: Domains) -> _Limit:
    counts = domains.count(_tally(cycle, rule))
    emptiest = min(counts.values(), default=0) if len(counts) >= rule.least_domains else 0
    itself = 1 if rule.matches(cycle.pod.pod.metadata.labels) else 0
    return _Limit(
        key=rule.key,
        counts=counts,
        most=rule.skew + emptiest - itself,
        uneven=Status(
            StatusCode.UNSCHEDULABLE,
            _NAME,
            f"have too many such pods in their {rule.key} (maxSkew {rule.skew})",
        ),
        unlabelled=Status(
            StatusCode.UNRESOLVABLE, _NAME, f"do not have the label {rule.key} that the pod spreads over"
        ),
    )


def _costs(
    cycle: Cycle, rule: _Rule, eligible: _Eligibility, scored: Sequence[NodeInfo]
) -> Mapping[str, float]:
    """The cost of each value of the rule's label among the scored nodes. A value with fewer pods costs less."""
    tally = _tally(cycle, rule)
    values: dict[str, int]
    if rule.key == _HOSTNAME:  # each node is a domain of its own, whether or not policies count it
        values = {node.name: tally.get(node.name, 0) for node in scored}
    else:
        counts = eligible.domains(rule).count(tally)
        values = {value: counts.get(value, 0) for value in {node.labels[rule.key] for node in scored}}
    weight = log(len(values) + 2)
    return {value: count * weight + rule.skew - 1 for value, count in values.items()}


def _counted(obj: ApiStruct | None) -> Mapping[str, str] | None:
    """The labels of a pod if it counts: it is on a node and is not being deleted."""
    if not isinstance(obj, Pod) or not obj.spec.node_name or obj.metadata.deletion_timestamp is not None:
        return None
    return obj.metadata.labels
