"""Disruption budgets: how many pods of each may still be evicted while the scheduler chooses victims."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from allotment.scheduler.selector import pods_selected

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo


class Budgets:
    """How many pods of each disruption budget may still be evicted."""

    def __init__(self, cluster: Cluster) -> None:
        self._budgets = [(budget, pods_selected(budget.spec.selector)) for budget in cluster.budgets.values()]
        self._left = [budget.status.disruptions_allowed for budget, _ in self._budgets]

    def spend(self, *pods: PodInfo) -> bool:
        """Whether all these pods may be evicted; if so, counts them."""
        cost = self._cost(pods)
        if not self._affords(cost):
            return False
        for number, count in cost.items():
            self._left[number] -= count
        return True

    def allow(self, *pods: PodInfo) -> bool:
        """Whether all these pods may be evicted; counts nothing."""
        return self._affords(self._cost(pods))

    def _cost(self, pods: Iterable[PodInfo]) -> Counter[int]:
        return Counter(number for pod in pods for number in self._of(pod))

    def _affords(self, cost: Counter[int]) -> bool:
        return all(self._left[number] >= count for number, count in cost.items())

    def _of(self, pod: PodInfo) -> list[int]:
        """The budgets that a pod counts for. What a budget has left already reflects pods that were evicted."""
        return [
            number
            for number, (budget, selector) in enumerate(self._budgets)
            if budget.metadata.namespace == pod.namespace
            and pod.name not in budget.status.disrupted_pods
            and selector is not None
            and selector.matches(pod.pod.metadata.labels)
        ]
