"""Decides which pods may be tried at all (PreEnqueue). The others wait at the gate. A pod's condition gives the reason only if
the wait lasts. It seldom does: the controller that makes the pod's claims has just seen the pod, as the scheduler has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING

from allotment.scheduler.framework import SUCCESS, Status, StatusCode
from allotment.scheduler.gangs.gang import GANG
from allotment.scheduler.pod import VOLCANO

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.clock import Clock
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.config.profile import Profile
    from allotment.scheduler.pod import PodInfo
    from allotment.scheduler.queue import QueueEntry

GATE_PATIENCE = 2.0
"""Seconds that a claim may be missing before the pod's condition says so. Its controller has just seen the pod."""
GATE_LONGEST = 20.0
"""The same while other claims keep appearing. Thousands of conditions that say "yours is next" would only delay the claims."""


def admission(pod: PodInfo, cluster: Cluster, profile: Profile, *, gangs: bool) -> Status:
    """Whether a pod may be tried, and if not, why."""
    group = pod.group
    if group and gangs and group not in cluster.groups:
        return Status(
            StatusCode.UNRESOLVABLE, GANG, f"the pod's group {group.removeprefix(VOLCANO)} does not exist"
        )
    for plugin in profile.pre_enqueue:
        status = plugin.pre_enqueue(pod, cluster)
        if not status.ok:
            return status
    return SUCCESS


class Gate:
    """Decides which pods the queue admits, and when a pod's condition must say why not. Without ``gangs``, a pod's group need not
    exist."""

    def __init__(
        self, clock: Clock, cluster: Cluster, profiles: Mapping[str, Profile], *, gangs: bool
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._profiles = profiles
        self._gangs = gangs
        self._unsaid: dict[str, tuple[float, Status]] = {}  # entry → when to say why; oldest first
        self._came: dict[type[ApiStruct], float] = {}  # when the last object of a kind appeared

    def admit(self, pod: PodInfo) -> Status:
        """Whether a pod may be tried."""
        profile = self._profiles[pod.pod.spec.scheduler_name or ""]
        return admission(pod, self._cluster, profile, gangs=self._gangs)

    def came(self, kind: type[ApiStruct]) -> None:
        """Notes that an object of a kind appeared: the controller that makes such objects is at work."""
        self._came[kind] = self._clock.now

    # --- saying why ---

    def say_later(self, key: str, status: Status) -> None:
        """Schedules the message why an entry waits. It is dropped if the entry stops waiting before then."""
        if key not in self._unsaid or self._unsaid[key][1] != status:
            self._unsaid.pop(key, None)
            self._unsaid[key] = (self._clock.now + GATE_PATIENCE, status)

    def forget(self, key: str) -> None:
        """Drops the pending message of an entry that was admitted, placed or deleted."""
        self._unsaid.pop(key, None)

    def overdue(self, entries: Mapping[str, QueueEntry]) -> Iterator[tuple[str, Status]]:
        """The keys of entries whose condition must now say why they wait. ``entries`` are all entries of the queue."""
        while self._unsaid:
            key, (due, status) = next(iter(self._unsaid.items()))
            if due > self._clock.now:
                return
            del self._unsaid[key]
            if key in entries and self._comes_soon(entries[key], status):
                self._unsaid[key] = (self._clock.now + GATE_PATIENCE, status)
                continue
            yield key, status

    def next_time(self) -> float | None:
        unsaid = next(iter(self._unsaid.values()), None)  # the oldest is the first
        return unsaid[0] if unsaid is not None else None

    def _comes_soon(self, entry: QueueEntry, status: Status) -> bool:
        """Whether the controller that makes the awaited object is at work, so that this entry's turn may come."""
        if status.awaits is None:
            return False
        now, came = self._clock.now, self._came.get(status.awaits, -inf)
        return now - came < GATE_PATIENCE and now - entry.since < GATE_LONGEST
