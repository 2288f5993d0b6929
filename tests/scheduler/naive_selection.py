"""Selectors read the slow and obvious way, for oracles: nothing is prepared, nothing is shared with the scheduler."""

from collections.abc import Mapping

from allotment.api.core import Node, Pod
from allotment.api.meta import LabelSelector


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for test in selector.match_expressions:
        has = test.key in labels
        inside = labels.get(test.key) in test.values
        if not {"In": inside, "NotIn": not inside, "Exists": has, "DoesNotExist": not has}[test.operator]:
            return False
    return True


def tolerates(pod: Pod, node: Node) -> bool:
    """Taints and tolerations without values only."""
    keys = {toleration.key for toleration in pod.spec.tolerations}
    return all(taint.effect == "PreferNoSchedule" or taint.key in keys for taint in node.spec.taints)


def chosen(pod: Pod, node: Node) -> bool:
    """Node selectors only."""
    return all(node.metadata.labels.get(key) == value for key, value in pod.spec.node_selector.items())
