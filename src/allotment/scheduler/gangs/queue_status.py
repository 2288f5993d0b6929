"""The status of a Volcano queue: its state, the number of its groups in each phase, and what its pods take.

In Volcano, the queue's controller counts groups and keeps the state, and the scheduler writes what is allocated at the end of
each of its sessions. Here one write covers all of it, at most once per second for each queue, and contains only what is new. A
queue without a state becomes Open, and a Closing queue becomes Closed once it has no groups. Any other state is left to its
author.

The scheduler writes nothing twice: if another component writes something different about the same facts, that stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from allotment.api.batch import Queue, VolcanoPodGroup
from allotment.scheduler.event import WriteFailure
from allotment.scheduler.gangs.tenant_queues import queue_name, told
from allotment.scheduler.instruction import PatchQueue
from allotment.scheduler.resource_requests import Amounts, amounts

if TYPE_CHECKING:
    from allotment.scheduler.binding.claim_writer import Draft
    from allotment.scheduler.clock import Clock
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.event import Done, Failed
    from allotment.scheduler.gangs.tenant_queues import TenantQueues

OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"
PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
ALWAYS = ("cpu", "memory")
"""The fields that Volcano writes into a queue's status even if they are zero."""
PERIOD_SECONDS = 1.0
"""Seconds between two checks of all queues."""

Json = dict[str, Any]


def queue_status(queue: Queue, phases: Mapping[str, int], groups: int, used: Amounts) -> Json | None:
    """The part of the status to write for a queue with so many groups; None if the status is current."""
    there = queue.status
    state = there.state or OPEN
    wanted: Json = {phase.lower(): phases.get(phase, 0) for phase in PHASES}
    wanted["state"] = CLOSED if state == CLOSING and not groups else state
    shown = {name: getattr(there, name) for name in wanted}
    status = {name: value for name, value in wanted.items() if value != (shown[name] or type(value)())}
    taken = {name: amount for name, amount in used.items() if amount or name in ALWAYS}
    taken = dict.fromkeys(ALWAYS, 0) | taken
    if taken != amounts(there.allocated):
        gone = dict.fromkeys(there.allocated.keys() - taken.keys())
        status["allocated"] = gone | {name: told(amount, name) for name, amount in sorted(taken.items())}
    return status or None


class QueueStatuses:
    """Keeps the statuses of queues current. ``stir`` notes that some queue may have changed; ``update`` writes. Without ``on``,
    it writes nothing: a scheduler that places no gangs leaves their queues alone."""

    def __init__(
        self,
        clock: Clock,
        cluster: Cluster,
        send: Callable[[Draft], int],
        queues: TenantQueues,
        *,
        on: bool = True,
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._send = send
        self._queues = queues
        self._on = on
        self._stirred = False
        self._due = 0.0
        self._writing: dict[int, tuple[str, object]] = {}  # the queue, and the status that is being written
        self._said: dict[str, object] = {}  # queue → our last status that the server accepted or refused
        self._written: dict[str, int] = {}  # queue → the version that our last write gave it

    def stir(self) -> None:
        self._stirred = self._on

    def next_time(self) -> float | None:
        return self._due if self._stirred and self._cluster.queues else None

    def done(self, event: Done) -> bool:
        """Handles a write that took effect. Returns False if the write was none of ours."""
        name, opinion = self._writing.pop(event.id, ("", None))
        if name:
            self._said[name], self._written[name] = opinion, event.version
            self.stir()
        return bool(name)

    def failed(self, event: Failed) -> bool:
        """Handles a failed write. Returns False if the write was none of ours."""
        name, opinion = self._writing.pop(event.id, ("", None))
        if name:
            if event.why not in (WriteFailure.CONFLICT, WriteFailure.UNKNOWN):
                self._said[name] = opinion
            self.stir()
        return bool(name)

    def update(self) -> None:
        """Writes the statuses that differ, if it is time."""
        now, queues = self._clock.now, self._cluster.queues
        if not self._stirred or now < self._due or not queues:
            return
        self._stirred, self._due = False, now + PERIOD_SECONDS
        for known in (self._said, self._written):
            for gone in known.keys() - queues.keys():
                del known[gone]
        phases = self._phases()
        busy = {name for name, _ in self._writing.values()}
        for name, queue in queues.items():
            # A write in flight stirs again when its change arrives.
            if name not in busy and int(queue.metadata.resource_version or 0) >= self._written.get(name, 0):
                self._update(name, queue, phases.get(name, {}))

    def _phases(self) -> dict[str, dict[str, int]]:
        """How many groups each queue has in each phase; the phase may be any string."""
        found: dict[str, dict[str, int]] = {}
        for group in self._cluster.groups.values():
            if isinstance(group, VolcanoPodGroup):
                counts, phase = found.setdefault(queue_name(group), {}), group.status.phase or ""
                counts[phase] = counts.get(phase, 0) + 1
        return found

    def _update(self, name: str, queue: Queue, phases: dict[str, int]) -> None:
        used = dict(self._queues.used.get(name, {}))
        status = queue_status(queue, phases, sum(phases.values()), used)
        opinion = (queue.metadata.uid, queue.status.state or OPEN, phases, used)
        if status is None or opinion == self._said.get(name):
            return
        meta, patch = queue.metadata, {"status": status}
        write = self._send(lambda id: PatchQueue(id, meta.name, meta.uid, meta.resource_version, patch))
        self._writing[write] = name, opinion
