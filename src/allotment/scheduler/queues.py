"""Volcano's queues: how much each tenant uses, may use at most (capability), and deserves when others want it too (weight).

Amounts are those of nodes (cpu, memory, …) and of device classes, as ``deviceclass/<class>``: how many devices of the class the pods'
claims ask for. A shared claim counts once in a queue. What a queue deserves is its part by weight of what all nodes offer, or of all
devices of a class; an explicit ``deserved`` counts instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from allotment.api.batch import VolcanoPodGroup
from allotment.scheduler.gang import DEFAULT_QUEUE, VOLCANO, gang_of, group_key
from allotment.scheduler.node import PODS
from allotment.scheduler.requests import Amounts, amounts

if TYPE_CHECKING:
    from allotment.api.batch import Queue
    from allotment.api.resource import ResourceClaim
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo

DEVICE_CLASS = "deviceclass/"
_ONE = 10**9
_MOST_OF_ONE_REQUEST = 32


def demand_of(pods: Iterable[PodInfo], cluster: Cluster) -> Amounts:
    """What pods take, or would take, of a queue."""
    total: Amounts = {}
    claims: dict[str, ResourceClaim] = {}
    for pod in pods:
        _add(total, pod.requests)
        _add(total, {PODS: _ONE})
        for key in cluster.used_by(pod):
            if key in cluster.claims.objects:
                claims[key] = cluster.claims.objects[key]
    for claim in claims.values():
        _add(total, _devices(claim))
    return total


def _devices(claim: ResourceClaim) -> Amounts:
    """How many devices of each class a claim asks for; of alternatives, the first."""
    asked: Amounts = {}
    given = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
    for request in claim.spec.devices.requests:
        wish = request.exactly or next(iter(request.first_available), None)
        if wish is None or (request.exactly is not None and request.exactly.admin_access):
            continue
        for other in request.first_available:
            if any(result.request == f"{request.name}/{other.name}" for result in given):
                wish = other
        count = wish.count or 1
        if wish.allocation_mode == "All":  # known once it is allocated
            count = sum(result.request.partition("/")[0] == request.name for result in given)
        name = DEVICE_CLASS + wish.device_class_name
        asked[name] = asked.get(name, 0) + min(count, _MOST_OF_ONE_REQUEST) * _ONE
    return asked


class Queues:
    """All queues as they stand now. Made anew for each question: what is placed changes with every decision."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.used: dict[str, Amounts] = {}
        for key, members in cluster.members.items():
            group = cluster.groups.get(key)
            if key.startswith(VOLCANO) and isinstance(group, VolcanoPodGroup):
                queue = group.spec.queue or DEFAULT_QUEUE
                placed = [pod for pod in members.values() if pod.node]
                _add(self.used.setdefault(queue, {}), demand_of(placed, cluster))

    def closed(self, name: str) -> str:
        """Why a queue takes no gangs, if so."""
        queue = self._cluster.queues.get(name)
        if queue is None:
            return "" if name == DEFAULT_QUEUE else f"there is no queue {name}"
        return (
            f"the queue {name} is {queue.status.state}" if queue.status.state in ("Closed", "Closing") else ""
        )

    def beyond(self, name: str, more: Mapping[str, int]) -> str:
        """Which capability of a queue would be exceeded, if any, in words."""
        queue = self._cluster.queues.get(name)
        used = self.used.get(name, {})
        for resource, limit in amounts(queue.spec.capability if queue is not None else {}).items():
            wanted = more.get(resource, 0)
            if wanted and used.get(resource, 0) + wanted > limit:
                return (
                    f"queue {name} may use {_told(limit)} of {resource}, uses {_told(used.get(resource, 0))}, "
                    f"and this needs {_told(wanted)} more"
                )
        return ""

    def share(self, name: str, more: Mapping[str, int] | None = None) -> float:
        """The largest part that a queue uses of what it deserves; above 1 it has more than its due."""
        used = dict(self.used.get(name, {}))
        _add(used, more or {})
        deserved = self.deserved(name, used)
        return max((amount / deserved[r] for r, amount in used.items() if deserved.get(r)), default=0.0)

    def deserved(self, name: str, resources: Iterable[str]) -> Amounts:
        """What a queue may have while others want the rest."""
        queue = self._cluster.queues.get(name)
        names = {*self._cluster.queues, *self.used, name}
        weights = sum(_weight(self._cluster.queues.get(each)) for each in names)
        part = _weight(queue) / weights
        totals = self._totals(resources)
        fair = {resource: int(total * part) for resource, total in totals.items()}
        if queue is not None:
            fair |= {
                r: min(fair[r], limit) for r, limit in amounts(queue.spec.capability).items() if r in fair
            }
            fair |= amounts(queue.spec.deserved)
        return fair

    def reclaimable(self, name: str) -> bool:
        queue = self._cluster.queues.get(name)
        return queue is None or queue.spec.reclaimable is not False

    def _totals(self, resources: Iterable[str]) -> Amounts:
        totals: Amounts = {}
        for resource in resources:
            if resource.startswith(DEVICE_CLASS):
                totals[resource] = self._cluster.fleet.count(resource.removeprefix(DEVICE_CLASS)) * _ONE
            else:
                totals[resource] = sum(node.offered.get(resource, 0) for node in self._cluster.nodes.values())
        return totals


def queue_of(pod: PodInfo, cluster: Cluster) -> str:
    """The queue that a pod draws on through its group; empty if it draws on none."""
    key = group_key(pod.pod)
    group = cluster.groups.get(key)
    gang = gang_of(key, group) if group is not None else None
    return gang.queue if gang is not None else ""


def _weight(queue: Queue | None) -> int:
    return max(1, queue.spec.weight or 1) if queue is not None else 1


def _told(amount: int) -> str:
    return f"{amount / _ONE:g}"


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
