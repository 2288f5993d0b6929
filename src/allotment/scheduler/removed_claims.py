"""Claims that were removed while pods run with their devices.

Finalizers keep that from happening, and whoever strips them can do it all the same. The containers go on using the devices, so these stay held
until the last such pod is done: nobody else gets them. Each pod is told in an event if that lasts; mostly it does not, as the news of a pod's end may
come after that of its claim.

What counts as a user is what the claim itself had last: a bound pod that it was reserved for. What a pod says of itself is not asked, or a
tenant could keep any device from others by naming it. So this is known only as long as the scheduler runs: one that starts later cannot
know which devices a claim had that is gone. `allot doctor` and `allot explain` notice such pods then too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.allocator.request import full_name

if TYPE_CHECKING:
    from allotment.api.resource import ResourceClaim
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo

PATIENCE = 5.0
"""Seconds that news of a pod's end may be behind those of its claim."""
REASON = "ClaimRemoved"


@dataclass(slots=True)
class _Removed:
    claim: ResourceClaim  # as it was last
    pods: set[str]  # keys of those that run with its devices
    uids: set[str]
    due: float | None  # when to tell them; None: done


class RemovedClaims:
    """See the module."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._found: dict[str, _Removed] = {}  # by the name under which the ledger holds the devices

    def changed(self, old: ResourceClaim | None, new: ResourceClaim | None, now: float) -> None:
        """A claim changed, as the cluster knows already."""
        stays = old is not None and new is not None and old.metadata.uid == new.metadata.uid
        if old is None or old.status.allocation is None or stays:
            return
        key = full_name(old.metadata)
        running = [pod for pod in self._users(key) if _is_user(old, pod)]
        if running:
            name = f"{key}, which was removed ({old.metadata.uid}, {old.metadata.resource_version})"
            pods, uids = {pod.key for pod in running}, {pod.uid for pod in running}
            self._found[name] = _Removed(old, pods, uids, now + PATIENCE)
            self._cluster.claims.keep(name, old)

    def returns(self, claim: ResourceClaim) -> None:
        """A claim is about to be shown; if it is one that was removed, it holds its devices itself."""
        for name in [
            name for name, each in self._found.items() if each.claim.metadata.uid == claim.metadata.uid
        ]:
            if claim.status.allocation is not None:
                self._drop(name)

    def ended(self) -> list[ResourceClaim]:
        """Claims whose last user is gone since this was asked last; their devices are given back now."""
        gone = [name for name, each in self._found.items() if not any(True for _ in self._running(each))]
        return [self._drop(name) for name in gone]

    def overdue(self, now: float) -> Iterator[tuple[PodInfo, str]]:
        """The pods that are to be told, and what."""
        for each in self._found.values():
            if each.due is not None and each.due <= now:
                each.due = None
                for pod in self._running(each):
                    yield (
                        pod,
                        (
                            f"resource claim {full_name(each.claim.metadata)} was removed while this pod runs with its devices; "
                            "they stay held until the pod ends: delete it to give them back"
                        ),
                    )

    def next_time(self) -> float | None:
        return min((each.due for each in self._found.values() if each.due is not None), default=None)

    def __bool__(self) -> bool:
        return bool(self._found)

    def _drop(self, name: str) -> ResourceClaim:
        self._cluster.claims.give_back(name)
        return self._found.pop(name).claim

    def _users(self, key: str) -> Iterator[PodInfo]:
        for name in sorted(self._cluster.users.get(key, ())):
            pod = self._cluster.pods.get(name)
            if pod is not None and pod.pod.spec.node_name:
                yield pod

    def _running(self, removed: _Removed) -> Iterator[PodInfo]:
        for key in sorted(removed.pods):
            pod = self._cluster.pods.get(key)
            if pod is not None and pod.uid in removed.uids:
                yield pod


def _is_user(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Whether a claim was reserved for a pod, or for its group."""
    group = pod.pod.spec.scheduling_group
    return any(
        user.uid == pod.uid
        or (user.resource == "podgroups" and group is not None and user.name == group.pod_group_name)
        for user in claim.status.reserved_for
    )
