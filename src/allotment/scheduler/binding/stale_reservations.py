"""Reservations for pods that wait, written by a scheduler that was killed before it bound them.

The scheduler tries such a pod like any other. If it fits, the attempt takes over its claims and completes the binding. If the pod
does not fit, its gate is closed, or its gang is no longer whole, no component would release the devices: the claim controller
removes reservations only of pods that are gone, and this pod still exists. So the scheduler removes the reservations itself, once
they have stood unchanged for ``STALE_AFTER`` seconds while their pod waits. With the last reservation it removes the allocation,
except from Immediate claims. It deletes a claim that was made for extended resources, since every attempt makes its own.

This applies only to pods that name one of our profiles, have no node, and are neither being bound nor about to be tried for the
first time. Reservations of all other pods stay: a kubelet or another scheduler may rely on them. The delay is for another replica
of this scheduler that lost its lease while it was binding a pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    from allotment.scheduler.pod_progress import PodProgress

STALE_AFTER = 5.0
"""Seconds for which a reservation must stand unchanged before it counts as stale."""


class ReservationState(Enum):
    """What a pod that a claim is reserved for is doing."""

    WAITS = "waits"  # ours, without a node, and no write for it is in flight
    BUSY = "busy"  # it may still be bound by its reservation
    OTHER = "other"  # it has its node, is not ours to judge, or has not been seen yet


@dataclass(frozen=True, slots=True)
class Stale:
    """A claim whose reservations must be reduced to ``left``, perhaps together with its allocation."""

    claim: ResourceClaim
    left: tuple[ResourceClaimConsumerReference, ...]
    deallocate: bool


class StaleReservations:
    """Finds stale reservations."""

    def __init__(self, clock: Clock, cluster: Cluster, progress: PodProgress) -> None:
        self._clock = clock
        self._cluster = cluster
        self._progress = progress
        # claim → since when its reservations are unchanged, and the claim itself; the longest unchanged first
        self._since: dict[str, tuple[float, ResourceClaim]] = {}

    def claim_changed(self, key: str) -> None:
        """Looks at a claim that appeared, changed or was deleted, or whose user appeared."""
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
        """The stale claims to release now. A claim comes up again after a while, in case the release failed."""
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
        return (
            self._progress.reservation(pod) if pod is not None and pod.uid == uid else ReservationState.OTHER
        )

    def _together(self, members: Iterable[PodInfo]) -> ReservationState:
        """The state of a group: its reservation is stale if all its members wait. A group without members keeps its
        reservation."""
        found = {self._progress.reservation(pod) for pod in members}
        if found == {ReservationState.WAITS}:
            return ReservationState.WAITS
        return (
            ReservationState.BUSY
            if ReservationState.BUSY in found and ReservationState.OTHER not in found
            else ReservationState.OTHER
        )


def _as_it_was(before: ResourceClaim, now: ResourceClaim) -> bool:
    """Whether the claim's reservations and allocation are unchanged."""
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
