"""The way of gangs through the scheduler: gathered until there are enough, placed whole (``session_actions``), bound together (``Party``).

A gang is one entry of the queue. What it lacks is worked out anew when something about its group changed since the last turn, since
many changes come at once when a gang is made. What is decided about a gang is returned, and the core sees to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.scheduler.binding.pod_binding import Binding, Party
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.framework import SUCCESS, Status
from allotment.scheduler.gangs.gang import Gang, GangNeed, gang_of, incomplete, key_of
from allotment.scheduler.plugins.default_preemption import VICTIMS_AWAITED, DefaultPreemption

if TYPE_CHECKING:
    from allotment.api.batch import PodGroup, VolcanoPodGroup
    from allotment.scheduler.binding.binding_stage import BindingsUnderWay
    from allotment.scheduler.clock import Clock
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.gangs.group_status import GroupStatuses
    from allotment.scheduler.gangs.session_actions import Clearing, SessionActions
    from allotment.scheduler.outbox import Outbox
    from allotment.scheduler.placement import Placement
    from allotment.scheduler.pod import PodInfo
    from allotment.scheduler.queue import QueueEntry, SchedulingQueue

GANG_PREFIX = "gang:"
"""Of the keys of gangs in the queue, to tell them from pods."""
INCOMPLETE = "allotment.dev/GangIncomplete"
"""The condition of a bound pod whose gang could not be bound whole, and which no controller would make anew."""


@dataclass(frozen=True, slots=True)
class GatheredGang:
    """A gang that waits: its entry in the queue, whether it may be tried, and the members that may not, for which no room is to be
    kept."""

    entry: QueueEntry
    status: Status
    shut_out: tuple[PodInfo, ...]


@dataclass(frozen=True, slots=True)
class GangPlaced:
    """Members of a gang that have their nodes in memory, to be bound together."""

    placements: Sequence[Placement]
    party: Party


@dataclass(frozen=True, slots=True)
class GangRefused:
    """A gang that has no place. With a ``clearing``, its victims are to be evicted, and room kept for the members where it says. Of
    members that are ``renominated``, what was kept for them before is not any more."""

    group: str
    refusal: NoNode
    renominated: Sequence[PodInfo] = ()
    clearing: Clearing | None = None


class Gangs:
    """See the module. ``waits``: whether a pod is ours to place, and neither placed nor on its way. With ``on`` False there are no
    gangs: the pods of a group go on their own."""

    def __init__(
        self,
        clock: Clock,
        cluster: Cluster,
        queue: SchedulingQueue,
        bindings: BindingsUnderWay,
        actions: SessionActions,
        statuses: GroupStatuses,
        outbox: Outbox,
        waits: Callable[[PodInfo], bool],
        *,
        on: bool,
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._queue = queue
        self._bindings = bindings
        self._actions = actions
        self._statuses = statuses
        self._outbox = outbox
        self._waits = waits
        self._on = on
        self._parties: dict[str, Party] = {}  # group → its members that are being bound
        # group → what makes room for it, and since when
        self._cleared: dict[str, tuple[Clearing, float]] = {}
        self._stirred: dict[str, None] = {}  # groups of which something changed since the last turn

    def get(self, group: str) -> Gang | None:
        """The gang that a group is, if it is one."""
        found = self._cluster.groups.get(group) if self._on else None
        return gang_of(group, found) if found is not None else None

    # --- what is heard ---

    def stir(self, group: str) -> None:
        """Something about a group changed."""
        self._stirred[group] = None

    def stirred(self, group: str) -> bool:
        """Whether a group is to be looked at in the next turn."""
        return group in self._stirred

    def group_changed(
        self, old: PodGroup | VolcanoPodGroup | None, new: PodGroup | VolcanoPodGroup | None
    ) -> list[PodInfo]:
        """Returns the members that are to be queued anew, since the group asks for something else."""
        shown = new if new is not None else old
        assert shown is not None
        key = key_of(shown)
        if new is None:
            self._statuses.gone(key)
            self._cleared.pop(key, None)
        else:
            self._statuses.look(key)
        if old is not None and new is not None and old.spec == new.spec:
            return []
        members = list(self._cluster.members.get(key, {}).values())
        if any(pod.node for pod in members):
            self._actions.queues.reset()
        self._statuses.stir()
        self._queue.remove(GANG_PREFIX + key)
        return members

    def bound(self, binding: Binding) -> None:
        """A pod is bound, maybe the last of its gang."""
        party, group = binding.party, binding.pod.group
        if party is not None and not party.members and self._parties.get(group) is party:
            del self._parties[group]
            if not party.broken:
                self._queue.forgive(GANG_PREFIX + group)

    def party(self, group: str) -> Party | None:
        """The members of a group that are being bound together, if any are."""
        return self._parties.get(group)

    def broken(self, party: Party, bound: Mapping[str, PodInfo]) -> None:
        """A gang cannot reach its minimum any more, and these members are bound."""
        why = f"the gang {party.gang.name} could not be bound whole: {party.broken}"
        for key, was in bound.items():
            pod = self._cluster.pods.get(key)
            if pod is None or pod.uid != was.uid or pod.leaving:
                continue
            if any(owner.controller for owner in pod.pod.metadata.owner_references):
                self._outbox.evict(pod, why)
            else:  # nobody would make another one
                self._outbox.say(pod, INCOMPLETE, "True", "GangBroken", why)

    # --- the queue ---

    def gather(self) -> Iterator[GatheredGang]:
        """Looks at the groups of which something changed, one when the last is seen to."""
        if not self._stirred:
            return
        stirred, self._stirred = self._stirred, {}
        for group in stirred:
            gathered = self._gather(group)
            if gathered is not None:
                yield gathered
            self._statuses.look(group)

    def _gather(self, group: str) -> GatheredGang | None:
        """Queues what is left of a gang to place, once enough of it is here."""
        gang, key = self.get(group), GANG_PREFIX + group
        waiting = [pod for pod in self._cluster.members.get(group, {}).values() if self._waits(pod)]
        if gang is None or not waiting:
            self._queue.remove(key)
            if group not in self._cluster.members:
                self._queue.forgive(key)
            return None
        statuses = [(pod, self._queue.gate.admit(pod)) for pod in waiting]
        admitted = tuple(sorted((pod for pod, status in statuses if status.ok), key=lambda pod: pod.key))
        entry = self._enter(gang, key, waiting, admitted)
        need, status = self._need(gang), SUCCESS
        if not need.met_by(admitted):
            refused = next((status for _, status in statuses if not status.ok), None)
            status = refused or incomplete(gang, need.count - len(admitted))
        return GatheredGang(entry, status, tuple(pod for pod, status in statuses if not status.ok))

    def _enter(
        self, gang: Gang, key: str, waiting: Sequence[PodInfo], admitted: tuple[PodInfo, ...]
    ) -> QueueEntry:
        """The entry of a gang, with the pods that it has now."""
        pods = admitted or tuple(waiting)
        entry = self._queue.get(key)
        if entry is None:
            priority = gang.priority if gang.priority is not None else max(pod.priority for pod in waiting)
            entry = self._queue.add(key, priority, pods, lane=gang.queue)
            self._queue.rest(key)
            return entry
        asks_anew = [pod.key for pod in entry.pods] != [pod.key for pod in admitted]
        entry.pods = pods
        if asks_anew:
            self._queue.activate(key)
        return entry

    def _need(self, gang: Gang) -> GangNeed:
        """How many more members must have a place. Those whose work is done had theirs."""
        members = self._cluster.members.get(gang.key, {}).values()
        placed = [pod for pod in members if pod.node and not self._bindings.undoing(pod)]
        return gang.need(placed, list(self._cluster.finished.get(gang.key, {}).values()).count("Succeeded"))

    # --- deciding ---

    def decide(self, entry: QueueEntry) -> GangPlaced | GangRefused:
        """Places a gang, or says why not."""
        group = entry.key.removeprefix(GANG_PREFIX)
        gang = self.get(group)
        assert gang is not None
        party = self._parties.get(group)
        need = self._need(gang)
        placed = self._actions.allocate(gang, entry.pods, need, self._clock.now)
        if isinstance(placed, NoNode):
            return self._refused(entry, gang, need, placed)
        self._queue.remove(entry.key)
        self._statuses.placed(group)
        if party is None or not party.members or party.broken:
            party = self._parties[group] = Party(gang)
        return GangPlaced(placed, party)

    def _refused(self, entry: QueueEntry, gang: Gang, need: GangNeed, refusal: NoNode) -> GangRefused:
        """Makes room for a gang that fits nowhere, if that can be."""
        if self._evicting(gang.key):
            return GangRefused(gang.key, refusal)
        now, able = self._clock.now, refusal.resolvable and need
        clearing = self._actions.clear(gang, entry.pods, need, now) if able else None
        if clearing is not None:
            refusal = NoNode(f"{refusal.words}. {clearing.words}", refusal.plugins)
            self._cleared[gang.key] = (clearing, now)
        elif able and (words := self._actions.protected(gang, entry.pods, need, now)):
            plugins = refusal.plugins | {DefaultPreemption.name}  # which hears of budgets
            refusal = NoNode(f"{refusal.words}. {words}", plugins, resolvable=refusal.resolvable)
        return GangRefused(gang.key, refusal, entry.pods, clearing)

    def _evicting(self, group: str) -> bool:
        """Whether those that were evicted for a gang, or what they held, are not gone yet."""
        if group not in self._cleared:
            return False
        clearing, since = self._cleared[group]
        pods, claims = self._cluster.pods, self._cluster.claims
        there = any(victim.key in pods and pods[victim.key].uid == victim.uid for victim in clearing.victims)
        held = any(claims.allocation(key) is not None for key in clearing.claims)
        if (there or held) and self._clock.now - since < VICTIMS_AWAITED:
            return True
        del self._cleared[group]
        return False
