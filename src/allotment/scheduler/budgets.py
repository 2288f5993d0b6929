"""Disruption budgets: how many pods of each may still be evicted, while victims are being chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.scheduler.selector import pods_selected

if TYPE_CHECKING:
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo


class Budgets:
    """How many pods of each disruption budget may still go."""

    def __init__(self, cluster: Cluster) -> None:
        self._budgets = [(budget, pods_selected(budget.spec.selector)) for budget in cluster.budgets.values()]
        self._left = [budget.status.disruptions_allowed for budget, _ in self._budgets]

    def spend(self, pod: PodInfo) -> bool:
        """Whether a pod may go; if so, that is counted."""
        mine = [
            number
            for number, (budget, selector) in enumerate(self._budgets)
            if budget.metadata.namespace == pod.namespace
            and pod.name not in budget.status.disrupted_pods
            and selector is not None
            and selector.matches(pod.pod.metadata.labels)
        ]
        if any(self._left[number] <= 0 for number in mine):
            return False
        for number in mine:
            self._left[number] -= 1
        return True
