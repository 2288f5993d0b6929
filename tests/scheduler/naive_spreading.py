"""Topology spreading worked out pod by pod and node by node, as an oracle."""

from math import floor, log

from allotment.api.core import Node, Pod, TopologySpreadConstraint
from allotment.scheduler.framework import MAX_SCORE
from tests.builders.typed import HOSTNAME
from tests.scheduler.naive_selection import chosen, selects, tolerates


def _of_kind(incoming: Pod, rule: TopologySpreadConstraint, labels: dict[str, str]) -> bool:
    own = incoming.metadata.labels
    return selects(rule.label_selector, labels) and all(
        labels.get(key) == own[key] for key in rule.match_label_keys if key in own
    )


def _pods_on(incoming: Pod, rule: TopologySpreadConstraint, on: Node, placed: list[Pod]) -> int:
    empty = rule.label_selector is not None and not (
        rule.label_selector.match_labels
        or rule.label_selector.match_expressions
        or any(key in incoming.metadata.labels for key in rule.match_label_keys)
    )
    return (
        0
        if empty
        else sum(
            each.spec.node_name == on.metadata.name
            and each.metadata.namespace == incoming.metadata.namespace
            and each.metadata.deletion_timestamp is None
            and _of_kind(incoming, rule, each.metadata.labels)
            for each in placed
        )
    )


def _domain_counts(
    incoming: Pod,
    rule: TopologySpreadConstraint,
    rules: list[TopologySpreadConstraint],
    nodes: list[Node],
    placed: list[Pod],
) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in nodes:
        if not all(other.topology_key in each.metadata.labels for other in rules):
            continue
        if rule.node_affinity_policy != "Ignore" and not chosen(incoming, each):
            continue
        if rule.node_taints_policy == "Honor" and not tolerates(incoming, each):
            continue
        value = each.metadata.labels[rule.topology_key]
        counts[value] = counts.get(value, 0) + _pods_on(incoming, rule, each, placed)
    return counts


def _of_action(incoming: Pod, action: str) -> list[TopologySpreadConstraint]:
    return [each for each in incoming.spec.topology_spread_constraints if each.when_unsatisfiable == action]


def fits(incoming: Pod, on: Node, nodes: list[Node], placed: list[Pod]) -> bool:
    rules = _of_action(incoming, "DoNotSchedule")
    for rule in rules:
        counts = _domain_counts(incoming, rule, rules, nodes, placed)
        if rule.topology_key not in on.metadata.labels:
            return False
        least = 0 if len(counts) < (rule.min_domains or 1) else min(counts.values())
        itself = _of_kind(incoming, rule, incoming.metadata.labels)
        if counts.get(on.metadata.labels[rule.topology_key], 0) + itself - least > rule.max_skew:
            return False
    return True


def naive_scores(incoming: Pod, nodes: list[Node], placed: list[Pod]) -> dict[str, int] | None:
    rules = _of_action(incoming, "ScheduleAnyway")
    if not rules:
        return None
    scored = [each for each in nodes if all(rule.topology_key in each.metadata.labels for rule in rules)]
    costs: dict[str, int] = {}
    for each in scored:
        cost = 0.0
        for rule in rules:
            key = rule.topology_key
            if key == HOSTNAME:
                size, count = len(scored), _pods_on(incoming, rule, each, placed)
            else:
                size = len({other.metadata.labels[key] for other in scored})
                counts = _domain_counts(incoming, rule, rules, nodes, placed)
                count = counts.get(each.metadata.labels[key], 0)
            cost += count * log(size + 2) + rule.max_skew - 1
        costs[each.metadata.name] = floor(cost + 0.5)
    worst, best = max(costs.values(), default=0), min(costs.values(), default=0)
    return {
        each.metadata.name: 0
        if each.metadata.name not in costs
        else MAX_SCORE * (worst + best - costs[each.metadata.name]) // worst
        if worst
        else MAX_SCORE
        for each in nodes
    }
