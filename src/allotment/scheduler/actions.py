"""What a batch session does about a gang, in Volcano's words: allocate, or preempt or reclaim so that it can be allocated later.

* **allocate** places it, within what its queue may use. A queue that has more than its due waits while others want something.
* **backfill**: single pods that ask for nothing are never held back by a queue; they are placed by the ordinary cycle.
* **preempt**: pods of lower priority go; of Volcano's gangs, only those of the same queue.
* **reclaim**: pods of other queues that use more than they deserve go, for a queue that uses less.

Who goes is found by taking all that may go away in thought, placing the gang, and bringing back everybody for whom there is still
room beside it, the most important first. So nobody goes whose going frees nothing that the gang needs; and of a gang that would fall
below its minimum nobody is taken unless all of it may go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.scheduler.absence import Absence, claims_of, without
from allotment.scheduler.budgets import Budgets
from allotment.scheduler.diagnosis import Refusal
from allotment.scheduler.gang import VOLCANO, gang_of, group_key
from allotment.scheduler.queues import Queues, demand_of, queue_of

if TYPE_CHECKING:
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.gang import Gang
    from allotment.scheduler.placement import Placement, Placer
    from allotment.scheduler.pod import PodInfo
    from allotment.scheduler.session import Session

QUEUE = "Queue"
"""Stands for a plugin where a queue's quota turns a gang away."""
MOST_VICTIMS = 512


@dataclass(frozen=True, slots=True)
class Clearing:
    """There will be room for a gang once ``victims`` are gone: ``places`` says where each member would go."""

    victims: tuple[PodInfo, ...]
    places: dict[str, str]
    words: str


class Actions:
    """The actions of a session on one cluster."""

    def __init__(self, cluster: Cluster, placer: Placer, session: Session) -> None:
        self._cluster = cluster
        self._placer = placer
        self._session = session

    def allocate(
        self, gang: Gang, pods: Sequence[PodInfo], need: int, now: float
    ) -> list[Placement] | Refusal:
        """Places a gang, or says why not."""
        if gang.key.startswith(VOLCANO):
            pods, words = self._within_quota(gang, pods, need)
            if words:
                return Refusal(words, frozenset((QUEUE,)), resolvable=False)
        return self._session.place(gang, pods, need, now)

    def _within_quota(self, gang: Gang, pods: Sequence[PodInfo], need: int) -> tuple[Sequence[PodInfo], str]:
        """As many of the pods as the queue may take, but not fewer than needed; or why not."""
        queues = Queues(self._cluster)
        words = queues.closed(gang.queue)
        if words:
            return pods, words
        if not queues.beyond(gang.queue, demand_of(pods, self._cluster)):
            return pods, ""
        fewest = max(need, 1)
        return pods[:fewest], queues.beyond(gang.queue, demand_of(pods[:fewest], self._cluster))

    def clear(self, gang: Gang, pods: Sequence[PodInfo], need: int, now: float) -> Clearing | None:
        """Preempt, then reclaim: whose going makes room for a gang; None if nobody's does."""
        priority = gang.priority if gang.priority is not None else max(pod.priority for pod in pods)
        volcano = gang.key.startswith(VOLCANO)
        clearing = self._clear(
            gang,
            pods,
            need,
            now,
            lambda other: other.priority < priority and (not volcano or self._same(gang, other)),
        )
        if clearing is None and volcano:
            clearing = self._reclaim(gang, pods, need, now)
        return clearing

    def _same(self, gang: Gang, other: PodInfo) -> bool:
        return queue_of(other, self._cluster) == gang.queue

    def _reclaim(self, gang: Gang, pods: Sequence[PodInfo], need: int, now: float) -> Clearing | None:
        queues = Queues(self._cluster)
        if queues.share(gang.queue, demand_of(pods[: max(need, 1)], self._cluster)) > 1:
            return None
        over = {
            name
            for name in queues.used
            if name != gang.queue and queues.reclaimable(name) and queues.share(name) > 1
        }
        return self._clear(gang, pods, need, now, lambda other: queue_of(other, self._cluster) in over)

    def _clear(
        self, gang: Gang, pods: Sequence[PodInfo], need: int, now: float, may_go: Callable[[PodInfo], bool]
    ) -> Clearing | None:
        candidates = self._candidates(pods, may_go)
        if not candidates:
            return None
        with without(self._cluster, candidates) as absence:
            placed = self._session.place(gang, pods, need, now)
            if isinstance(placed, Refusal):
                return None
            places = {each.cycle.pod.key: each.node for each in placed}
            victims = [other for other in candidates if not self._can_stay(absence, other)]
            for each in reversed(placed):
                self._placer.unreserve(each.cycle, each.node)
        if not victims:
            return None
        victims = self._with_their_gangs(victims)
        count = "1 pod goes" if len(victims) == 1 else f"{len(victims)} pods go"
        return Clearing(tuple(victims), places, f"{count} to make room for the gang")

    def _candidates(self, pods: Sequence[PodInfo], may_go: Callable[[PodInfo], bool]) -> list[PodInfo]:
        """Those who may go, the most important first. Of a gang either all may, or none does."""
        cluster, budgets = self._cluster, Budgets(self._cluster)
        mine = {pod.key for pod in pods}

        def may(other: PodInfo) -> bool:
            settled = bool(other.node) and other.key not in cluster.assumed
            return settled and other.key not in mine and not other.leaving and may_go(other)

        found = [other for other in cluster.pods.values() if may(other)]
        found = [other for other in found if all(map(may, self._partners(other)))]
        found.sort(key=lambda other: (other.priority, other.key))
        found = [other for other in found[:MOST_VICTIMS] if budgets.spend(other)]
        return found[::-1]

    def _partners(self, pod: PodInfo) -> list[PodInfo]:
        """The placed members of a pod's gang that would not be enough without it."""
        key = group_key(pod.pod)
        group = self._cluster.groups.get(key)
        gang = gang_of(key, group) if group is not None else None
        if gang is None:
            return []
        placed = [other for other in self._cluster.members[key].values() if other.node]
        return placed if len(placed) <= gang.minimum else []

    def _with_their_gangs(self, victims: Sequence[PodInfo]) -> list[PodInfo]:
        """And the members of gangs that are broken up by that: they would run in vain."""
        every = {victim.key: victim for victim in victims}
        for victim in victims:
            every.update((partner.key, partner) for partner in self._partners(victim))
        return list(every.values())

    def _can_stay(self, absence: Absence, other: PodInfo) -> bool:
        """Whether a pod fits beside the gang, with the very devices that it has."""
        cluster = self._cluster
        absence.bring(other.key)
        node = cluster.nodes[other.node]
        crowded = any(
            node.taken.get(name, 0) > node.offered.get(name, 0) for name in (*other.requests, "pods")
        )
        robbed = any(key in cluster.claims.disputed for key in claims_of(cluster, other))
        if crowded or robbed:
            absence.take(other)
            return False
        return True
