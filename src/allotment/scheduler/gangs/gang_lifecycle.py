"""The path of gangs through the scheduler: members are gathered until there are enough, placed as a whole (``session_actions``),
and bound together (``BindingGroup``).

A gang is one entry of the queue. Once per turn, the scheduler looks again at the groups that changed, because many changes arrive
at once when a gang is created. This module returns its decisions about a gang, and the core carries them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.scheduler.binding.pod_binding import Binding, BindingGroup
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
    from allotment.scheduler.pod_progress import PodProgress
    from allotment.scheduler.queue import QueueEntry, SchedulingQueue

GANG_PREFIX = "gang:"
"""The prefix of gangs' keys in the queue, which distinguishes them from pods."""
INCOMPLETE = "allotment.dev/GangIncomplete"
"""The condition of a bound pod whose gang could not be bound whole, if no controller would recreate the pod."""


@dataclass(frozen=True, slots=True)
class GatheredGang:
    """A waiting gang: its entry in the queue, whether it may be tried, and the members that may not be tried, which need no
    room kept for them."""

    entry: QueueEntry
    status: Status
    shut_out: tuple[PodInfo, ...]


@dataclass(frozen=True, slots=True)
class GangPlaced:
    """Members of a gang that have their nodes in memory and must be bound together."""

    placements: Sequence[Placement]
    binding_group: BindingGroup


@dataclass(frozen=True, slots=True)
class GangRefused:
    """A gang that has no place. With a ``clearing``, the core evicts its victims and keeps room for the members on the nodes that
    it names. Room that was kept before for ``renominated`` members is no longer kept."""

    group: str
    refusal: NoNode
    renominated: Sequence[PodInfo] = ()
    clearing: Clearing | None = None


class Gangs:
    """Gathers gangs and decides about them. With ``on`` False there are no gangs: the pods of a group are placed one by
    one."""

    def __init__(
        self,
        clock: Clock,
        cluster: Cluster,
        queue: SchedulingQueue,
        bindings: BindingsUnderWay,
        actions: SessionActions,
        statuses: GroupStatuses,
        outbox: Outbox,
        progress: PodProgress,
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
        self._progress = progress
        self._on = on
        self._binding_groups: dict[str, BindingGroup] = {}  # group → its members being bound
        # group → what makes room for it, and since when
        self._cleared: dict[str, tuple[Clearing, float]] = {}
        self._stirred: dict[str, None] = {}  # groups that changed since the last turn

    def get(self, group: str) -> Gang | None:
        """The gang of a group, if it has one."""
        found = self._cluster.groups.get(group) if self._on else None
        return gang_of(group, found) if found is not None else None

    # --- what is heard ---

    def stir(self, group: str) -> None:
        """Marks a group as changed."""
        self._stirred[group] = None

    def stirred(self, group: str) -> bool:
        """Whether the next turn must look at the group."""
        return group in self._stirred

    def group_changed(
        self, old: PodGroup | VolcanoPodGroup | None, new: PodGroup | VolcanoPodGroup | None
    ) -> list[PodInfo]:
        """Returns the members that must be queued again because the group asks for something else."""
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
        """Notes that a pod is bound, perhaps the last of its gang."""
        binding_group, group = binding.binding_group, binding.pod.group
        if (
            binding_group is not None
            and not binding_group.members
            and self._binding_groups.get(group) is binding_group
        ):
            del self._binding_groups[group]
            if not binding_group.broken:
                self._queue.forgive(GANG_PREFIX + group)

    def binding_group(self, group: str) -> BindingGroup | None:
        """The members of a group that are being bound together, if any are."""
        return self._binding_groups.get(group)

    def broken(self, binding_group: BindingGroup, bound: Mapping[str, PodInfo]) -> None:
        """Handles a gang that can no longer reach its minimum while these members are bound."""
        why = f"the gang {binding_group.gang.name} could not be bound whole: {binding_group.broken}"
        for key, was in bound.items():
            pod = self._cluster.pods.get(key)
            if pod is None or pod.uid != was.uid or pod.leaving:
                continue
            if any(owner.controller for owner in pod.pod.metadata.owner_references):
                self._outbox.evict(pod, why)
            else:  # no controller would recreate it
                self._outbox.say(pod, INCOMPLETE, "True", "GangBroken", why)

    # --- the queue ---

    def gather(self) -> Iterator[GatheredGang]:
        """Looks at the groups that changed. The caller handles each result before the next group."""
        if not self._stirred:
            return
        stirred, self._stirred = self._stirred, {}
        for group in stirred:
            gathered = self._gather(group)
            if gathered is not None:
                yield gathered
            self._statuses.look(group)

    def _gather(self, group: str) -> GatheredGang | None:
        """Queues the unplaced members of a gang once enough of them exist."""
        gang, key = self.get(group), GANG_PREFIX + group
        waiting = [pod for pod in self._cluster.members.get(group, {}).values() if self._progress.waits(pod)]
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
        """The entry of a gang with its current pods."""
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
        """How many more members must be placed. Members that succeeded count as placed."""
        members = self._cluster.members.get(gang.key, {}).values()
        placed = [pod for pod in members if pod.node and not self._bindings.undoing(pod)]
        return gang.need(placed, list(self._cluster.finished.get(gang.key, {}).values()).count("Succeeded"))

    # --- deciding ---

    def decide(self, entry: QueueEntry) -> GangPlaced | GangRefused:
        """Places a gang, or says why not."""
        group = entry.key.removeprefix(GANG_PREFIX)
        gang = self.get(group)
        assert gang is not None
        binding_group = self._binding_groups.get(group)
        need = self._need(gang)
        placed = self._actions.allocate(gang, entry.pods, need, self._clock.now)
        if isinstance(placed, NoNode):
            return self._refused(entry, gang, need, placed)
        self._queue.remove(entry.key)
        self._statuses.placed(group)
        if binding_group is None or not binding_group.members or binding_group.broken:
            binding_group = self._binding_groups[group] = BindingGroup(gang)
        return GangPlaced(placed, binding_group)

    def _refused(self, entry: QueueEntry, gang: Gang, need: GangNeed, refusal: NoNode) -> GangRefused:
        """Makes room for a gang that fits nowhere, if that is possible."""
        if self._evicting(gang.key):
            return GangRefused(gang.key, refusal)
        now, able = self._clock.now, refusal.resolvable and need
        clearing = self._actions.clear(gang, entry.pods, need, now) if able else None
        if clearing is not None:
            refusal = NoNode(f"{refusal.words}. {clearing.words}", refusal.plugins)
            self._cleared[gang.key] = (clearing, now)
        elif able and (words := self._actions.protected(gang, entry.pods, need, now)):
            plugins = refusal.plugins | {DefaultPreemption.name}  # which disruption budgets wake
            refusal = NoNode(f"{refusal.words}. {words}", plugins, resolvable=refusal.resolvable)
        return GangRefused(gang.key, refusal, entry.pods, clearing)

    def _evicting(self, group: str) -> bool:
        """Whether victims of a gang, or the claims that they held, are still there."""
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
