"""The cluster as it would be without some pods. Their share of the nodes, and the claims that only they use, are free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo


class Absence:
    """Pods that are removed on trial; each can be brought back. :func:`without` makes it, and brings all of them back at the end.

    Claims in ``kept`` stay allocated whichever pods are removed: the pods on trial use them too, and Reserve would make the
    ledger hold them again in the middle of a trial.
    """

    def __init__(self, cluster: Cluster, kept: frozenset[str]) -> None:
        self._cluster = cluster
        self._kept = kept
        self._away: dict[str, tuple[PodInfo, dict[str, int] | None]] = {}

    def __contains__(self, pod: PodInfo) -> bool:
        return pod.key in self._away

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the removed pods."""
        return frozenset(self._away)

    def take(self, pod: PodInfo) -> None:
        """Removes a pod from its node, and releases the claims that no other pod uses."""
        node = self._cluster.nodes[pod.node]
        self._away[pod.key] = (pod, node.extra.get(pod.key))
        node.remove(pod.key)
        self._cluster.log.note(node.name)
        for claim in freed_by(self._cluster, pod, self._away):
            if claim not in self._kept:
                self._cluster.fleet.ledger.release(claim)

    def bring(self, key: str) -> None:
        """Brings a pod and its claims back."""
        pod, extra = self._away.pop(key)
        node = self._cluster.node(pod.node)
        node.add(pod, extra)
        self._cluster.log.note(node.name)
        for claim in claims_of(self._cluster, pod):
            if claim in self._kept:
                continue
            self._cluster.claims.restore(claim)

    def end(self) -> None:
        for key in list(self._away):
            self.bring(key)


@contextmanager
def without(cluster: Cluster, pods: Iterable[PodInfo], asking: Iterable[PodInfo] = ()) -> Iterator[Absence]:
    """``with without(cluster, pods, asking) as absence: …`` shows the cluster without these pods. ``asking`` are the pods that
    are reserved on trial meanwhile."""
    absence = Absence(cluster, frozenset(claim for pod in asking for claim in pod.claims))
    try:
        for pod in pods:
            absence.take(pod)
        yield absence
    finally:
        absence.end()


def claims_of(cluster: Cluster, pod: PodInfo) -> list[str]:
    """The claims that are reserved for a pod: by itself, not through its group."""
    return [
        key
        for key in cluster.used_by(pod)
        if any(user.uid == pod.uid for user in cluster.claims.reserved(key).values())
    ]


def freed_by(cluster: Cluster, pod: PodInfo, away: Iterable[str]) -> list[str]:
    """The claims that become free if this pod is removed besides those in ``away``. A shared claim needs all its users
    removed."""
    gone = {pod.uid, *(cluster.pods[key].uid for key in away if key in cluster.pods)}
    return [key for key in claims_of(cluster, pod) if gone >= cluster.claims.reserved(key).keys()]
