"""Reservations for pods that wait, written by a scheduler that was killed before it bound them.

Such a pod is tried like any other. If it fits, the attempt takes its claims over and completes what was begun. If it does not, or
its gate is closed, or its gang is no longer whole, nobody would ever give the devices back: the claim controller removes
reservations of pods that are gone, and this one is there. So the scheduler removes them itself, once they have stood unchanged
for ``STALE_AFTER`` seconds while their pod waits; with the last reservation goes the allocation, except of Immediate claims. A claim
that was made for extended resources is deleted: every attempt makes its own.

Only pods count that name a scheduler of ours, have no node, and are not being bound or about to be tried for the first time.
Reservations of all others stay: a kubelet or another scheduler may rely on them. The patience is for another replica of this
scheduler that lost its lease and still has a binding on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from allotment.api.claim_marks import EXTENDED
from allotment.scheduler.devices.semantic_claim import IMMEDIATE, carried, is_carrier

if TYPE_CHECKING:
    from allotment.api.resource import ResourceClaim, ResourceClaimConsumerReference
    from allotment.scheduler.clock import Clock
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.pod import PodInfo

STALE_AFTER = 5.0
"""Seconds for which a reservation must stand unchanged before it counts as stale."""


class ReservationState(Enum):
    """What a user of a claim is doing."""

    WAITS = "waits"  # ours, without a node, and nobody is writing for it
    BUSY = "busy"  # that may become so
    OTHER = "other"  # it has its node, is not ours to judge, or has not been seen yet


@dataclass(frozen=True, slots=True)
class Stale:
    """A claim of which these reservations are to be given back, and with them, perhaps, the allocation."""

    claim: ResourceClaim
    left: tuple[ResourceClaimConsumerReference, ...]
    deallocate: bool


class StaleReservations:
    """See the module. ``standing`` judges a pod."""

    def __init__(
        self, clock: Clock, cluster: Cluster, standing: Callable[[PodInfo], ReservationState]
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._standing = standing
        # claim → since when its reservations stand as they do, the longest first; and it as it is
        self._since: dict[str, tuple[float, ResourceClaim]] = {}

    def claim_changed(self, key: str) -> None:
        """A claim appeared, changed or went; or a pod that uses it appeared."""
        claim = self._cluster.claims.objects.get(key)
        before = self._since.get(key)
        if claim is not None and before is not None and _as_it_was(before[1], claim):
            self._since[key] = before[0], claim
            return
        if before is not None:
            del self._since[key]
        if claim is not None and (claim.status.reserved_for or _made_for_resources(claim)):
            self._since[key] = self._clock.now, claim

    def next_time(self) -> float | None:
        """When ``found`` may have something that it has not now, by time alone."""
        first = next(iter(self._since.values()), None)
        return first[0] + STALE_AFTER if first is not None else None

    def found(self) -> Iterator[Stale]:
        """What is to be given back now. Each claim comes again after a while, should that not have worked."""
        now, due = self._clock.now, []
        for key, (since, _) in self._since.items():
            if now - since < STALE_AFTER:
                break
            due.append(key)
        for key in due:
            _, claim = self._since.pop(key)
            users = self._users(claim)
            waiting = {uid for uid, standing in users.items() if standing is ReservationState.WAITS}
            if waiting or ReservationState.BUSY in users.values():
                self._since[key] = now, claim
            if waiting and key not in self._cluster.claims.flights:
                yield _stale(claim, waiting)

    def _users(self, claim: ResourceClaim) -> dict[str, ReservationState]:
        namespace, meta = claim.metadata.namespace, claim.metadata
        users = {user.uid: self._user(namespace, user) for user in claim.status.reserved_for}
        if _made_for_resources(claim):
            for owner in meta.owner_references:
                if owner.kind == "Pod" and owner.controller:
                    users.setdefault(owner.uid, self._pod(f"{namespace}/{owner.name}", owner.uid))
        return users

    def _user(self, namespace: str, user: ResourceClaimConsumerReference) -> ReservationState:
        key = f"{namespace}/{user.name}"
        if user.resource == "podgroups":
            return self._together(self._cluster.members.get(key, {}).values())
        return self._pod(key, user.uid) if user.resource == "pods" else ReservationState.OTHER

    def _pod(self, key: str, uid: str) -> ReservationState:
        pod = self._cluster.pods.get(key)
        return self._standing(pod) if pod is not None and pod.uid == uid else ReservationState.OTHER

    def _together(self, members: Iterable[PodInfo]) -> ReservationState:
        """A group's reservation is stale when all members wait that there are; without any, it lasts as long as the group."""
        found = {self._standing(pod) for pod in members}
        if found == {ReservationState.WAITS}:
            return ReservationState.WAITS
        return (
            ReservationState.BUSY
            if ReservationState.BUSY in found and ReservationState.OTHER not in found
            else ReservationState.OTHER
        )


def _as_it_was(before: ResourceClaim, now: ResourceClaim) -> bool:
    """Whether nobody has written a reservation or an allocation since."""
    old, new = before.status, now.status
    return (
        before.metadata.uid == now.metadata.uid
        and old.reserved_for == new.reserved_for
        and (old.allocation is None) == (new.allocation is None)
    )


def _stale(claim: ResourceClaim, waiting: set[str]) -> Stale:
    left = tuple([user for user in claim.status.reserved_for if user.uid not in waiting])
    return Stale(claim, left, not left and not _stays_allocated(claim))


def _stays_allocated(claim: ResourceClaim) -> bool:
    found = carried(claim) if is_carrier(claim) else None
    return found is not None and found.spec.allocation_mode == IMMEDIATE


def _made_for_resources(claim: ResourceClaim) -> bool:
    return claim.metadata.annotations.get(EXTENDED) == "true"
