"""The scheduler as a machine: events in, instructions out. No clock, no I/O, no randomness.

``handle`` takes one event and returns instructions. The same events in the same order give the same instructions, so a recorded
log can be replayed. The driver allows decisions by ``Turn`` events, for a bounded number of pods at a time.

The path of a pod: it appears → it enters the queue, if its gate admits it (PreEnqueue) → a turn places it in memory
(``placement``) → its steps are written and it is bound (``binding_stage``) → the server shows it bound. Any failure on the way
leads back to the queue, with a reason. Pods of a gang take the same path together (``gang_lifecycle``). All writes and messages
leave through the ``outbox``.

The core calls its parts, and no part calls the core: bindings and gangs return outcomes, which the core applies. Only the core
moves the ``Clock`` that all parts read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from allotment.allocator.effort import Paused
from allotment.allocator.phrases import gave_up
from allotment.api.batch import PodGroup, VolcanoPodGroup
from allotment.api.batch import Queue as VolcanoQueue
from allotment.api.claim_marks import EXTENDED
from allotment.api.codec import to_builtins
from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim
from allotment.api.storage import PersistentVolume, PersistentVolumeClaim
from allotment.scheduler.binding.binding_stage import (
    BindingAccepted,
    BindingGivenUp,
    BindingGroupBroken,
    BindingsUnderWay,
    Outcomes,
    PodReleased,
)
from allotment.scheduler.binding.pod_binding import Binding, BindingGroup
from allotment.scheduler.binding.stale_reservations import Stale, StaleReservations
from allotment.scheduler.binding.step import BindVolume, MakeClaim, SelectNode, WriteClaim
from allotment.scheduler.clock import Clock
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import MAKING_ROOM
from allotment.scheduler.devices.disputes import Disputes
from allotment.scheduler.devices.removed_claims import REASON as REMOVED
from allotment.scheduler.devices.removed_claims import RemovedClaims
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.event import Changed, Done, Event, Failed, Tick, Turn
from allotment.scheduler.framework import Protected, Release, Room, Status, StatusCode
from allotment.scheduler.gangs.gang_lifecycle import GANG_PREFIX, GangPlaced, Gangs
from allotment.scheduler.gangs.group_status import GangHindrance, GroupStatuses
from allotment.scheduler.gangs.queue_status import QueueStatuses
from allotment.scheduler.gangs.session import Session
from allotment.scheduler.gangs.session_actions import SessionActions
from allotment.scheduler.gangs.tenant_queues import Quota, unread
from allotment.scheduler.gate import Gate
from allotment.scheduler.instruction import DeleteClaim, Instruction, PatchClaim, PatchPod
from allotment.scheduler.outbox import MAX_MESSAGE, Outbox
from allotment.scheduler.placement import Attempt, Placement, Placer
from allotment.scheduler.pod import PodInfo, group_key
from allotment.scheduler.pod_progress import PodProgress
from allotment.scheduler.queue import GATED, PARKED, QueueBackoff, QueueEntry, SchedulingQueue
from allotment.scheduler.volumes.writer import CLAIM, followed

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.config.profile import Profile

REVISIT_EVERY = 10.0
TURN_STEPS = 1_000
"""How many steps a decision may take in one turn."""
MOST_REPEATED_STEPS = 32_000
"""The turn allows twice the steps that the decision repeated last time on top, up to this number: trials must be repeated,
searches need not be."""
STEPS_A_MEMBER = 4
"""The turn allows so many more for each pod of a gang: enough to place all of them one by one."""
MOST_DECISION_STEPS = 1_000_000
"""After so many steps in all, the scheduler gives the decision up for now."""


class Scheduler:
    """The scheduler's state machine. ``profiles`` are keyed by schedulerName; pods that name another scheduler are not ours.
    Without ``gangs``, the scheduler places the pods of a group one by one. ``making_room`` names the actions allowed for
    Volcano gangs that do not fit."""

    def __init__(
        self,
        cluster: Cluster,
        profiles: Mapping[str, Profile],
        *,
        backoff: QueueBackoff | None = None,
        gangs: bool = True,
        making_room: frozenset[str] = MAKING_ROOM,
    ) -> None:
        self.clock = Clock()
        self.cluster = cluster
        self.profiles = profiles
        self.placer = Placer(cluster, profiles)
        plugins = {plugin.name: plugin for profile in profiles.values() for plugin in profile.plugins}
        gate = Gate(self.clock, cluster, profiles, gangs=gangs)
        self.queue = SchedulingQueue(self.clock, [*plugins.values(), Quota()], gate, backoff)
        self.actions = SessionActions(cluster, self.placer, Session(cluster, self.placer), making_room)
        self.outbox = Outbox(self.clock)
        self.bindings = BindingsUnderWay(self.clock, cluster, self.outbox.send)
        self.queue.turn = self.actions.queues.turn
        self.statuses = GroupStatuses(self.clock, cluster, self.outbox.send, self.actions.queues)
        self.queue_statuses = QueueStatuses(
            self.clock, cluster, self.outbox.send, self.actions.queues, on=gangs
        )
        self.progress = PodProgress(profiles, self.queue, self.bindings)
        self.gangs = Gangs(
            self.clock,
            cluster,
            self.queue,
            self.bindings,
            self.actions,
            self.statuses,
            self.outbox,
            self.progress,
            on=gangs,
        )
        self._disputes = Disputes(cluster, self.progress)
        self._stale = StaleReservations(self.clock, cluster, self.progress)
        self._removed = RemovedClaims(self.clock, cluster)
        self.decided = 0  # the number of attempts, or parts of attempts
        self.paused = False  # the last attempt continues in another turn
        self.steps = 0  # the number of steps that all attempts took
        self.profile = ""  # the profile of the last attempt
        self.unbound: dict[str, int] = {}  # the number of failed bindings, by profile
        self._revisited = 0.0
        self._hear: dict[type[Event], Callable[[Any], None]] = {
            Changed: self._changed,
            Done: self._done,
            Failed: self._failed,
            Tick: self._tick,
            Turn: self._turn,
        }

    # --- events ---

    def handle(self, event: Event) -> list[Instruction]:
        """Takes one event and returns the instructions that follow from it."""
        if not isinstance(event, Turn | Tick):
            self.actions.moment += 1
        self._hear[type(event)](event)
        return self.outbox.take()

    def _done(self, event: Done) -> None:
        if self.bindings.wrote(event.id):
            self._fold(self.bindings.done(event))
        elif not (self.statuses.done(event) or self.queue_statuses.done(event)):
            self._outcome(event)

    def _failed(self, event: Failed) -> None:
        if self.bindings.wrote(event.id):
            self._fold(self.bindings.failed(event))
        elif not (self.statuses.failed(event) or self.queue_statuses.failed(event)):
            self._outcome(event)

    def next_time(self) -> float | None:
        """When a ``Tick`` would change something, if nothing else happens."""
        parts = (
            self.queue,
            self.bindings,
            self.statuses,
            self.queue_statuses,
            self.outbox,
            self._stale,
            self._removed,
        )
        times = [part.next_time() for part in parts]
        return min((time for time in times if time is not None), default=None)

    def _tick(self, event: Tick) -> None:
        self.clock.advance(event.now)
        self._fold(self.bindings.tick())
        self.outbox.tick()
        self._give_back_removed()
        for pod, words in self._removed.unwarned():
            self.outbox.tell(pod, REMOVED, words, warning=True)
        for draft in self._removed.writes():
            self.outbox.send(draft)
        if self.clock.now - self._revisited >= REVISIT_EVERY:
            self._revisited = self.clock.now
            self.queue.revisit()
        for key, status in self.queue.overdue():
            if key.startswith(GANG_PREFIX):
                verdict = GangHindrance(status.words, incomplete=True)
                self.statuses.refused(key.removeprefix(GANG_PREFIX), verdict)
            entry = self.queue.get(key)
            passing = status.code is StatusCode.WAIT
            for pod in entry.pods if entry is not None else ():
                self.outbox.say_unschedulable(pod, NoNode(status.words, frozenset(), passing=passing))

    def _changed(self, event: Changed) -> None:
        old: Any = event.old
        new: Any = event.new
        kind = type(new if new is not None else old)
        if kind is Pod:
            self._pod_changed(old, new)
            self._give_back_removed()
            return
        if kind is ResourceClaim:
            self._claim_changed(old, new)
            return
        self.cluster.change(old, new)
        if kind is PersistentVolume or kind is PersistentVolumeClaim:
            self._volume_changed(new if new is not None else old)
        elif kind is PodGroup or kind is VolcanoPodGroup:
            self._group_changed(old, new)
        elif kind is VolcanoQueue:
            self.statuses.stir()
            self.queue_statuses.stir()
            if new is not None:
                self._say_unread(old, new)
        self._wake(old, new)

    def _give_back_removed(self) -> None:
        for claim in self._removed.ended() if self._removed else ():
            self._wake(claim, None)

    def _volume_changed(self, shown: PersistentVolume | PersistentVolumeClaim) -> None:
        self._fold(self.bindings.claim_changed(followed(shown)))
        claim = shown.spec.claim_ref if isinstance(shown, PersistentVolume) else None
        if claim is not None:  # a pod that waits for a volume of a claim names only the claim
            self._fold(self.bindings.claim_changed(f"{CLAIM}{claim.namespace}/{claim.name}"))

    def _say_unread(self, old: VolcanoQueue | None, queue: VolcanoQueue) -> None:
        words = unread(queue)
        if words and not (old is not None and unread(old) == words):
            self.outbox.warn(queue, "NotRead", words)

    def _claim_changed(self, old: Any, new: Any) -> None:
        if new is not None and self._removed:
            self._removed.returns(new)
        key = self.cluster.claims.change(old, new)
        self._removed.changed(old, new)
        self._fold(self.bindings.claim_changed(key))
        self._stale.claim_changed(key)
        if old is None:
            self.queue.gate.came(ResourceClaim)
        if (old is None or old.status.allocation is None) != (new is None or new.status.allocation is None):
            # The change makes these pods ask for something else than before.
            for pod in sorted(self.cluster.users.get(key, ())):
                entry = self.queue.get(pod)
                if entry is not None and entry.place == PARKED:
                    self.queue.activate(pod)
        self._wake(old, new)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        cluster = self.cluster
        meta = (new if new is not None else old).metadata  # type: ignore[union-attr]  # one of the two is there
        key = f"{meta.namespace}/{meta.name}"
        if old is None:
            info = cluster.change_pod(key, None, new)
            if info is None:
                self._pod_gone(key, "", new)
            else:
                self._wake(None, new)  # wakes other pods; the next line checks whether this one can be tried
                self._pod_shown(info)
                for claim in cluster.used_by(info) if not info.node else ():
                    self._stale.claim_changed(claim)
            return
        was_at, was_kept = cluster.assumed.get(key, ""), cluster.nominated.get(key, "")
        info, group = cluster.change_pod(key, old, new), group_key(old)
        if group:
            self._stir(group)
        if info is None:
            self._pod_gone(key, group, new)
        else:
            self._pod_shown(info)
        if self.queue.concerns(old, cluster):
            shown = new if info is not None else None  # for the queue, a finished pod is gone
            self._wake(_placed(old, was_at, was_kept), shown)
            if was_at and shown is not None and shown.spec.node_name and not old.spec.node_name:
                self._wake(old, shown)  # the assumption woke no pod; the real change does

    def _pod_gone(self, key: str, group: str, ended: Pod | None) -> None:
        """A pod of a group, or of none, was deleted or has ended."""
        if ended is not None and (now := group_key(ended)):
            self._stir(now)
        self.queue.forgive(key)
        self.queue.remove(key)
        self._fold(self.bindings.pod_gone(key))
        if group:
            self._reconsider(group, "another member is gone")
        self.statuses.stir()

    def _pod_shown(self, info: PodInfo) -> None:
        """A pod appeared or changed, and may need a place."""
        key, node = info.key, info.pod.spec.node_name
        if info.group:
            self._stir(info.group)
        if node:
            self.queue.remove(key)
            self._fold(self.bindings.pod_bound(key, node))
        elif key in self.bindings:
            self._fold(self.bindings.pod_changed(info))
        elif self.progress.waits(info):
            self._queue(info)
        else:  # also if the server accepted the binding and this object is still an older one
            self.queue.remove(key)

    def _stir(self, group: str) -> None:
        """Something about a member of a group changed."""
        self.gangs.stir(group)
        self.queue_statuses.stir()

    # --- the queue ---

    def _queue(self, pod: PodInfo) -> None:
        """Queues a pod or updates its entry. A member of a gang is queued with its gang."""
        group = pod.group
        if group and self.gangs.get(group) is not None:
            self.queue.remove(pod.key)
            self.gangs.stir(group)
            return
        entry = self.queue.get(pod.key)
        if entry is None:
            status = self.queue.gate.admit(pod)
            gate = "" if status.ok else status.plugin
            entry = self.queue.add(pod.key, pod.priority, (pod,), gate=gate)
        else:
            asks_anew = entry.pods[0].asks != pod.asks
            entry.pods = (pod,)
            if asks_anew:
                self.queue.activate(pod.key)
            elif entry.place != GATED:
                return
            status = self.queue.gate.admit(pod)
        self._admit(entry, status)

    def _group_changed(self, old: Any, new: Any) -> None:
        self.queue_statuses.stir()
        for pod in self.gangs.group_changed(old, new):
            if self.progress.waits(pod):
                self._queue(pod)

    def _admit(self, entry: QueueEntry, status: Status) -> None:
        """Admits an entry to the queue proper or keeps it out. If it stays out for long, its condition says why."""
        if status.ok:
            self.queue.open(entry.key)
            return
        for pod in entry.pods:
            self._nominate(pod, "")
        self.queue.shut(entry.key, status)

    def _try_gate(self, entry: QueueEntry) -> None:
        if entry.key.startswith(GANG_PREFIX):
            self.gangs.stir(entry.key.removeprefix(GANG_PREFIX))
        else:
            self._admit(entry, self.queue.gate.admit(entry.pods[0]))

    # --- deciding ---

    def _turn(self, event: Turn) -> None:
        pods = event.pods
        for gathered in self.gangs.gather():
            for pod in gathered.shut_out:
                self._nominate(pod, "")
            self._admit(gathered.entry, gathered.status)
        self.statuses.update()
        self.queue_statuses.update()
        for claim in self._disputes.left_over():
            self._deallocate(claim)
        for stale in self._stale.found():
            self._give_back(stale)
        last = self.steps + TURN_STEPS
        while pods > 0 and self.steps < last:
            entry = self.queue.pop()
            if entry is None:
                return
            pods -= len(entry.pods)
            self._decide(entry)

    def _decide(self, entry: QueueEntry) -> None:
        """Decides about an entry, or continues a paused decision, within the steps of one turn."""
        self.decided += 1
        self.profile = entry.pods[0].pod.spec.scheduler_name or ""
        effort = self.cluster.fleet.effort
        effort.begin(
            TURN_STEPS + min(2 * entry.again, MOST_REPEATED_STEPS) + STEPS_A_MEMBER * len(entry.pods)
        )
        try:
            self._try(entry)
            self.paused = False
        except Paused:
            self.paused = True
        steps, entry.again = effort.spent + effort.beside + 1, effort.spent - effort.searched
        effort.begin()
        self.steps += steps
        given_up = self.paused and entry.spent + steps > MOST_DECISION_STEPS
        self.queue.charge(entry, steps, done=given_up or not self.paused)
        if given_up:
            self._give_up(entry)
        elif self.paused:
            self.queue.pause(entry.key)

    def _give_up(self, entry: QueueEntry) -> None:
        """Ends a decision that exceeded the limit for all decisions. The entry rests, then is decided on the state of that
        time."""
        words = (
            f"{gave_up(MOST_DECISION_STEPS)}, before it was known whether the claims fit; this is tried again"
        )
        self.queue.park(entry.key, None, ())
        for pod in entry.pods:
            self.outbox.say_unschedulable(pod, NoNode(words, frozenset()))
        if entry.key.startswith(GANG_PREFIX):
            self.statuses.refused(entry.key.removeprefix(GANG_PREFIX), GangHindrance(words))

    def _try(self, entry: QueueEntry) -> None:
        if entry.key.startswith(GANG_PREFIX):
            self._try_gang(entry)
            return
        pod = entry.pods[0]
        attempt = self.placer.begin(pod, self.clock.now)
        if isinstance(attempt, NoNode):
            self._refuse(entry, (pod.asks, pod.key), attempt)
            return
        placed = self.placer.finish(attempt)
        if isinstance(placed, NoNode):
            self._refuse(entry, attempt.shape, placed, attempt)
            return
        self.queue.remove(entry.key)
        self._start([placed])

    def _try_gang(self, entry: QueueEntry) -> None:
        decided = self.gangs.decide(entry)
        if isinstance(decided, GangPlaced):
            self._start(decided.placements, decided.binding_group)
            self.gangs.stir(decided.binding_group.gang.key)
            return
        refusal, clearing = decided.refusal, decided.clearing
        places = clearing.places if clearing is not None else {}
        for victim in clearing.victims if clearing is not None else ():
            why = f"preempted to make room for a gang of {len(places)} pods"
            self.outbox.evict(victim, why, tuple(places))
        for pod in decided.renominated:
            self._nominate(pod, places.get(pod.key, ""))
        self.queue.park(entry.key, entry.key, () if refusal.error else refusal.plugins)
        self.statuses.refused(decided.group, GangHindrance(refusal.words[:MAX_MESSAGE], refusal.error))
        for pod in entry.pods:
            self.outbox.say_unschedulable(pod, refusal)

    def _start(self, placed: Sequence[Placement], binding_group: BindingGroup | None = None) -> None:
        """Starts the bindings of placed pods; those of a binding group are bound together."""
        self.actions.moment += 1
        now = self.clock.now
        bindings = [
            Binding(each.cycle.pod, each.cycle, each.node, each.steps, now, binding_group) for each in placed
        ]
        self._fold(self.bindings.start(*bindings))

    def _refuse(self, entry: QueueEntry, shape: Any, refusal: NoNode, attempt: Attempt | None = None) -> None:
        pod = entry.pods[0]
        if attempt is not None and not refusal.error:
            refusal = self._make_room(pod, attempt, refusal)
        if attempt is not None and attempt.filters:  # these filters read the pod's namespace and labels
            shape = (shape, pod.namespace, frozenset(pod.pod.metadata.labels.items()))
        if pod.key in self.cluster.nominated:  # the kept room sets it apart from its shape
            shape = (shape, pod.key)
        blamed = () if refusal.error else refusal.plugins
        self.queue.park(entry.key, shape, blamed, lasting=refusal.lasting)
        if refusal.passing:
            self.queue.gate.say_later(entry.key, Status(StatusCode.WAIT, "", refusal.words))
        else:
            self.outbox.say_unschedulable(pod, refusal)

    def _make_room(self, pod: PodInfo, attempt: Attempt, refusal: NoNode) -> NoNode:
        """Runs PostFilter: tries to make room, so that the pod fits later."""
        if not attempt.profile.post_filter:
            return refusal
        rejections = self.placer.rejections(attempt)
        attempt.cycle.judge = lambda node: self.placer.judge(attempt, node)
        for plugin in attempt.profile.post_filter:
            room = plugin.post_filter(attempt.cycle, rejections)
            if isinstance(room, Release):
                for claim in room.claims:
                    self._deallocate(claim)
                return NoNode(f"{refusal.words}. {room.words}", refusal.plugins)
            if isinstance(room, Room):
                self._preempt(pod, room)
                return NoNode(f"{refusal.words}. {room.words}", refusal.plugins, resolvable=False)
            if isinstance(room, Protected):
                words = f"{refusal.words}. {room.words}"
                refusal = NoNode(words, refusal.plugins, resolvable=refusal.resolvable)
        self._nominate(pod, "")
        if not refusal.resolvable:
            return refusal
        also = frozenset(
            plugin.name for plugin in attempt.profile.post_filter
        )  # these plugins may find room later
        return NoNode(refusal.words, refusal.plugins | also)

    def _deallocate(self, key: str) -> None:
        claim = self.cluster.claims.objects[key]
        meta, status = claim.metadata, claim.status
        if EXTENDED in meta.annotations and status.allocation is None and not status.reserved_for:
            # Delete it only now: while it is reserved for an existing pod, no controller would remove its finalizer.
            self.outbox.insist(lambda id: DeleteClaim(id, meta.namespace, meta.name, meta.uid))
            return
        patch = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
        self.outbox.insist(
            lambda id: PatchClaim(
                id, meta.namespace, meta.name, meta.uid, meta.resource_version, patch, status=True
            )
        )

    def _give_back(self, stale: Stale) -> None:
        """Removes reservations that no pod will use, and the allocation if no other reservation is left."""
        meta, status = stale.claim.metadata, stale.claim.status
        if not status.reserved_for:
            self._deallocate(f"{meta.namespace}/{meta.name}")
            return
        given: dict[str, Any] = {"reservedFor": [to_builtins(user) for user in stale.left] or None}
        if stale.deallocate:
            given |= {"allocation": None, "devices": None}
        version, patch = meta.resource_version, {"status": given}
        self.outbox.insist(
            lambda id: PatchClaim(id, meta.namespace, meta.name, meta.uid, version, patch, status=True)
        )

    def _preempt(self, pod: PodInfo, room: Room) -> None:
        self._nominate(pod, room.node)
        for victim in room.victims:
            self.outbox.evict(
                victim, f"preempted to make room for a pod of priority {pod.priority}", (pod.key,)
            )

    def _nominate(self, pod: PodInfo, node: str) -> None:
        """Keeps room on a node for a pod; ``""`` stands for no node. Room that was kept on another node becomes free for
        others."""
        before = self.cluster.nominated.get(pod.key, "")
        if before == node:
            return
        self.cluster.nominate(pod.key, node)
        self.actions.moment += 1
        patch = {"status": {"nominatedNodeName": node or None}}
        self.outbox.send(lambda id: PatchPod(id, pod.namespace, pod.name, pod.uid, patch))
        if before:
            self._wake(_nominated(pod.pod, before), _nominated(pod.pod, None))

    def _outcome(self, event: Done | Failed) -> None:
        """Stops keeping room for the pods whose evictions or releases failed for good."""
        for pod in filter(None, map(self.cluster.pods.get, self.outbox.outcome(event))):
            self._nominate(pod, "")

    # --- how bindings end ---

    def _fold(self, outcomes: Outcomes) -> None:
        """Iterates over the outcomes of bindings and applies each before the next is computed."""
        for outcome in outcomes:
            match outcome:
                case BindingAccepted(binding):
                    self._bound(binding)
                case PodReleased(binding):
                    self._unreserve(binding)
                case BindingGivenUp(binding):
                    self._given_up(binding)
                case BindingGroupBroken(binding_group, bound):
                    self.gangs.broken(binding_group, bound)

    def _bound(self, binding: Binding) -> None:
        self.queue.forgive(binding.pod.key)
        self.gangs.bound(binding)
        self.outbox.tell(
            binding.pod, "Scheduled", f"Successfully assigned {binding.pod.key} to {binding.node}"
        )

    def _unreserve(self, binding: Binding) -> None:
        current = self.cluster.pods.get(binding.pod.key)
        binding.cycle.pod = current if current is not None and current.uid == binding.pod.uid else binding.pod
        self.placer.unreserve(binding.cycle, binding.node)
        self.queue_statuses.stir()
        self._wake_by_release(binding)

    def _wake_by_release(self, binding: Binding) -> None:
        """Wakes pods that can use what an unbound pod releases: its room on the node and its devices. No event from the server
        reports that."""
        pod = binding.pod.pod
        self._wake(replace(pod, spec=replace(pod.spec, node_name=binding.node)), None)
        for step in binding.steps:
            if isinstance(step, BindVolume | SelectNode):
                self._wake_by_volume(step)
                continue
            write = step.write if isinstance(step, MakeClaim) else step
            if isinstance(write, WriteClaim) and write.allocation is not None:
                claim = self.cluster.claims.objects.get(write.claim)
                shown = claim if claim is not None else ResourceClaim()  # deleted before its allocation
                self._wake(replace(shown, status=replace(shown.status, allocation=write.allocation)), claim)

    def _wake_by_volume(self, step: BindVolume | SelectNode) -> None:
        storage = self.cluster.storage
        if isinstance(step, BindVolume) and (volume := storage.volumes.get(step.volume)) is not None:
            self._wake(volume.pv, volume.pv)
        if (claim := storage.claims.get(step.claim)) is not None:
            self._wake(claim, claim)

    def _wake(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
        shown = new if new is not None else old
        assert shown is not None
        if self.queue.concerns(shown, self.cluster):
            for entry in self.queue.wake(old, new, self.cluster):
                self._try_gate(entry)

    def _given_up(self, binding: Binding) -> None:
        if group := binding.pod.group:
            self._reconsider(group, binding.why)
        pod = self.cluster.pods.get(binding.pod.key)
        if pod is None or not self.progress.waits(pod):
            return
        self._queue(pod)
        if pod.uid == binding.pod.uid:  # not a new pod with the same name, which waited for this one to go
            self._rest(pod)
            profile = pod.pod.spec.scheduler_name or ""
            self.unbound[profile] = self.unbound.get(profile, 0) + 1
            words = f"binding to {binding.node} failed: {binding.why}"
            self.outbox.say_unschedulable(pod, NoNode(words, frozenset()))

    def _reconsider(self, group: str, why: str) -> None:
        """Checks a group again after a member lost its place or was deleted: the members being bound may be too few without
        it."""
        if (binding_group := self.gangs.binding_group(group)) is not None:
            self._fold(self.bindings.reconsider(binding_group, why))

    def _rest(self, pod: PodInfo) -> None:
        """Delays the next attempt for a pod that could not be bound, longer each time. The same holds for its gang."""
        group = pod.group
        self.queue.failed(GANG_PREFIX + group if self.gangs.stirred(group) else pod.key)

    # --- invariants ---

    def validate(self) -> None:
        """Re-derives the whole state from the objects. Raises AssertionError where the kept state differs."""
        self.cluster.validate()
        self.queue.validate()
        self.bindings.validate()
        self.placer.validate()
        self.actions.queues.validate()
        for key in self.cluster.assumed:
            pod = self.cluster.pods[key]
            assert key in self.bindings or pod.node, f"pod {key} is assumed, and nobody binds it"
        for pod in self.cluster.pods.values():
            ours = (pod.pod.spec.scheduler_name or "") in self.profiles
            if ours and not pod.node and not pod.leaving:
                group = pod.group
                if self.gangs.stirred(group):
                    continue
                ganged = GANG_PREFIX + group in self.queue and pod.key not in self.bindings
                places = (pod.key in self.queue) + ganged + (pod.key in self.bindings)
                assert places == 1, f"pod {pod.key} is in {places} places"


def _placed(pod: Pod, node: str, kept: str) -> Pod:
    """The pod with its assumed node and its nominated node filled in, since both become free when it goes."""
    if node and not pod.spec.node_name:
        pod = replace(pod, spec=replace(pod.spec, node_name=node))
    return _nominated(pod, kept) if kept else pod


def _nominated(pod: Pod, node: str | None) -> Pod:
    return replace(pod, status=replace(pod.status, nominated_node_name=node))
