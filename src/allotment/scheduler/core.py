"""The scheduler as a machine: events in, instructions out. No clock, no I/O, no randomness.

``handle`` takes one event and returns what is to be done; the same events in the same order give the same instructions, so a
recorded log can be replayed. The driver gives leave to decide by ``Turn`` events, a bounded number of pods at a time.

The way of a pod: it appears → PreEnqueue → queue → a turn: placed in memory (``placement``) → its steps are written and it is bound
(``binding``) → the server shows it bound. Whatever fails on the way leads back to the queue, with a reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from allotment.api.batch import PodGroup, VolcanoPodGroup
from allotment.api.batch import Queue as VolcanoQueue
from allotment.api.claim_marks import EXTENDED
from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim
from allotment.scheduler.actions import Actions, Clearing
from allotment.scheduler.binding import Binding, Bindings, Party
from allotment.scheduler.claim_writer import Draft
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.device_wants import NAME as DEVICES
from allotment.scheduler.diagnosis import Refusal
from allotment.scheduler.event import Changed, Done, Event, Failed, Failure, Tick, Turn
from allotment.scheduler.framework import SUCCESS, Code, Protected, Release, Room, Status
from allotment.scheduler.gang import GANG, Gang, Need, gang_of, group_key, key_of
from allotment.scheduler.group_status import GroupStatuses, Verdict
from allotment.scheduler.instruction import DeleteClaim, DeletePod, Instruction, PatchClaim, PatchPod, Tell
from allotment.scheduler.placement import Attempt, Placement, Placer
from allotment.scheduler.pod import FINISHED, PodInfo
from allotment.scheduler.queue import GATED, PARKED, Backoff, Entry, Queue
from allotment.scheduler.queues import Quota
from allotment.scheduler.session import Session
from allotment.scheduler.step import MakeClaim, WriteClaim

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.roster import Profile

GATE_PATIENCE = 2.0
"""Seconds that a claim may be missing before the pod's condition says so: its controller has just been told."""
GATE_LONGEST = 20.0
"""The same, while other claims keep coming: to tell thousands that theirs is next would only keep it from coming."""
REVISIT_EVERY = 10.0
MOST_TIMES, REPEAT_AFTER = 5, 2.0
"""So often are evictions and deallocations tried that get no answer, with so many seconds between."""
PATIENCE = 60.0
"""Seconds after which victims that do not go are no longer waited for."""
MAX_MESSAGE = 1024
GANG_PREFIX = "gang:"
"""Of the keys of gangs in the queue, to tell them from pods."""
INCOMPLETE = "allotment.dev/GangIncomplete"
"""The condition of a bound pod whose gang could not be bound whole, and which no controller would make anew."""


class Scheduler:
    """See the module. ``profiles`` by schedulerName: pods that name another are not ours. Without ``gangs`` the pods of a group
    go on their own."""

    def __init__(
        self,
        cluster: Cluster,
        profiles: Mapping[str, Profile],
        *,
        backoff: Backoff | None = None,
        gangs: bool = True,
    ) -> None:
        self.cluster = cluster
        self.profiles = profiles
        self._gangs = gangs
        self.placer = Placer(cluster, profiles)
        plugins = {plugin.name: plugin for profile in profiles.values() for plugin in profile.plugins}
        self.queue = Queue([*plugins.values(), Quota()], backoff)
        self.actions = Actions(cluster, self.placer, Session(cluster, self.placer))
        self.bindings = Bindings(cluster, self._send, self)
        self.queue.turn = self.actions.queues.turn
        self.statuses = GroupStatuses(cluster, self._send, self.actions.queues)
        self._parties: dict[str, Party] = {}  # group → its members that are being bound
        self._cleared: dict[
            str, tuple[Clearing, float]
        ] = {}  # group → what makes room for it, and since when
        self._dirty: dict[str, None] = {}  # groups of which something changed since the last turn
        self.now = 0.0
        self.decided = 0  # how many attempts there were
        self._ids = 0
        self._out: list[Instruction] = []
        self._unsaid: dict[str, tuple[float, Status]] = {}  # at a gate → when to say why; oldest first
        self._revisited = 0.0
        self._claim_came = -GATE_PATIENCE  # when the last one appeared
        self._failures: dict[str, int] = {}  # entry → how often its binding failed
        self._insisted: dict[int, tuple[Draft, tuple[str, ...], int]] = {}  # see _insist
        self._again: deque[tuple[float, Draft, tuple[str, ...], int]] = (
            deque()
        )  # when; the first is due first

    # --- events ---

    def handle(self, event: Event) -> list[Instruction]:
        """Takes in one event; returns what is to be done now."""
        match event:
            case Changed():
                self._changed(event.old, event.new)
            case Done():
                self.bindings.done(event) or self.statuses.done(event) or self._outcome(event)
            case Failed():
                self.bindings.failed(event) or self.statuses.failed(event, self.now) or self._outcome(event)
            case Tick():
                self._tick(event.now)
            case Turn():
                self._turn(event.pods)
        out, self._out = self._out, []
        return out

    def next_time(self) -> float | None:
        """When a ``Tick`` would change something, if nothing else happens."""
        unsaid = next(iter(self._unsaid.values()), None)  # the oldest is the first
        times = [self.queue.next_time(), self.bindings.next_time(), self.statuses.next_time()]
        times.append(unsaid[0] if unsaid is not None else None)
        times.append(self._again[0][0] if self._again else None)
        return min((time for time in times if time is not None), default=None)

    def _tick(self, now: float) -> None:
        self.now = self.bindings.now = max(self.now, now)
        self.bindings.tick()
        while self._again and self._again[0][0] <= self.now:
            _, draft, nominees, left = self._again.popleft()
            self._insist(draft, nominees, left)
        if self.now - self._revisited >= REVISIT_EVERY:
            self._revisited = self.now
            self.queue.revisit(self.now)
        while self._unsaid:
            key, (due, status) = next(iter(self._unsaid.items()))
            if due > self.now:
                return
            del self._unsaid[key]
            entry = self.queue.get(key)
            if entry is not None and status.plugin == DEVICES and self._comes_soon(entry):
                self._unsaid[key] = (self.now + GATE_PATIENCE, status)
                continue
            if key.startswith(GANG_PREFIX):
                verdict = Verdict(status.words, incomplete=True)
                self.statuses.refused(key.removeprefix(GANG_PREFIX), verdict)
            for pod in entry.pods if entry is not None else ():
                self._say_unschedulable(pod, Refusal(status.words, frozenset()))

    def _comes_soon(self, entry: Entry) -> bool:
        """Whether whoever makes claims is at it, and the turn of this one may come."""
        return self.now - self._claim_came < GATE_PATIENCE and self.now - entry.since < GATE_LONGEST

    def _changed(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
        if isinstance(old, Pod):
            old = self._where_it_was(old)
        self.cluster.change(old, new)
        if isinstance(new, Pod) or isinstance(old, Pod):
            new = self._pod_changed(
                new if isinstance(new, Pod) else None, old if isinstance(old, Pod) else None
            )
            if old is None and new is None:
                return
        elif isinstance(new, ResourceClaim) or isinstance(old, ResourceClaim):
            meta = (new if isinstance(new, ResourceClaim) else old).metadata  # type: ignore[union-attr]  # one is there
            self._claim_changed(f"{meta.namespace}/{meta.name}", old, new)
        elif isinstance(new, PodGroup | VolcanoPodGroup) or isinstance(old, PodGroup | VolcanoPodGroup):
            self._group_changed(old, new)
        elif isinstance(new, VolcanoQueue) or isinstance(old, VolcanoQueue):
            self.statuses.stir()
        self._wake(old, new)

    def _where_it_was(self, pod: Pod) -> Pod:
        """A pod with the node that it was assumed to be on, and that which was kept for it: when it goes, that is what
        becomes free."""
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        node, kept = self.cluster.assumed.get(key), self.cluster.nominated.get(key)
        if node and not pod.spec.node_name:
            pod = replace(pod, spec=replace(pod.spec, node_name=node))
        return _nominated(pod, kept) if kept else pod

    def _claim_changed(self, key: str, old: Any, new: Any) -> None:
        self.bindings.claim_changed(key)
        if old is None:
            self._claim_came = self.now
        if (old is None or old.status.allocation is None) == (new is None or new.status.allocation is None):
            return
        for pod in sorted(
            self.cluster.users.get(key, ())
        ):  # by this, they ask for something else than they did
            entry = self.queue.get(pod)
            if entry is not None and entry.place == PARKED:
                self.queue.activate(pod)

    def _pod_changed(self, new: Pod | None, old: Pod | None) -> Pod | None:
        """Returns the pod as the queue is to hear of it: one that finished is gone."""
        meta = (new if new is not None else old).metadata  # type: ignore[union-attr]  # one of the two is there
        key = f"{meta.namespace}/{meta.name}"
        for pod in (old, new):
            if pod is not None and (group := group_key(pod)):
                self._dirty[group] = None
        if new is None or new.status.phase in FINISHED:
            self._failures.pop(key, None)
            self._drop(key)
            self.bindings.pod_gone(key)
            self.statuses.stir()
            return None
        info = self.cluster.pods[key]
        if new.spec.node_name:
            self._drop(key)
            self.bindings.pod_bound(key, new.spec.node_name)
        elif key in self.bindings:
            self.bindings.pod_changed(info)
        elif self._waits(info):
            self._queue(info)
        else:  # also if the server took the binding, and what it shows yet is older than that
            self._drop(key)
        return new

    # --- the queue ---

    def _queue(self, pod: PodInfo) -> None:
        """Queues a pod, or what is new about it; a member of a gang with its gang."""
        group = group_key(pod.pod)
        if group and self._gang(group) is not None:
            self._drop(pod.key)
            self._dirty[group] = None
            return
        entry = self.queue.get(pod.key)
        if entry is None:
            entry = self.queue.add(pod.key, pod.priority, (pod,), self.now)
        else:
            asks_anew = entry.pods[0].asks != pod.asks
            entry.pods = (pod,)
            if asks_anew:
                self.queue.activate(pod.key)
            elif entry.place != GATED:
                return
        self._gate(entry, self._admit(pod))

    def _admit(self, pod: PodInfo) -> Status:
        """PreEnqueue: whether a pod may be tried at all."""
        group = group_key(pod.pod)
        if group and self._gangs and group not in self.cluster.groups:
            return Status(Code.UNRESOLVABLE, GANG, "the pod's group does not exist")
        for plugin in self.profiles[pod.pod.spec.scheduler_name or ""].pre_enqueue:
            status = plugin.pre_enqueue(pod, self.cluster)
            if not status.ok:
                return status
        return SUCCESS

    def _gate(self, entry: Entry, status: Status) -> None:
        """Lets an entry into the queue proper, or keeps it out; people are told if that lasts."""
        if status.ok:
            self._unsaid.pop(entry.key, None)
            self.queue.open(entry.key)
            return
        for pod in entry.pods:
            self._nominate(pod, "")
        if entry.place != GATED or status.plugin not in entry.plugins:
            self.queue.gate(entry.key, status.plugin)
        self._say_later(entry.key, status)

    def _say_later(self, key: str, status: Status) -> None:
        """Says why an entry waits, unless it need not any more by then."""
        if key not in self._unsaid or self._unsaid[key][1] != status:
            self._unsaid.pop(key, None)
            self._unsaid[key] = (self.now + GATE_PATIENCE, status)

    def _try_gate(self, entry: Entry) -> None:
        if entry.key.startswith(GANG_PREFIX):
            self._dirty[entry.key.removeprefix(GANG_PREFIX)] = None
        else:
            self._gate(entry, self._admit(entry.pods[0]))

    def _drop(self, key: str) -> None:
        self.queue.remove(key)
        self._unsaid.pop(key, None)

    # --- gangs ---

    def _gang(self, group: str) -> Gang | None:
        found = self.cluster.groups.get(group) if self._gangs else None
        return gang_of(group, found) if found is not None else None

    def _group_changed(self, old: Any, new: Any) -> None:
        key = key_of(new if new is not None else old)
        asks_anew = old is None or new is None or old.spec != new.spec
        if new is None:
            self.statuses.gone(key)
            self._cleared.pop(key, None)
        else:
            self.statuses.look(key)
        if not asks_anew:
            return
        if any(pod.node for pod in self.cluster.members.get(key, {}).values()):
            self.actions.queues.reset()
        self.statuses.stir()
        self._drop(GANG_PREFIX + key)
        for pod in list(self.cluster.members.get(key, {}).values()):
            if self._waits(pod):
                self._queue(pod)

    def _waits(self, pod: PodInfo) -> bool:
        """Whether a pod is ours to place, and neither placed nor on its way."""
        ours = (pod.pod.spec.scheduler_name or "") in self.profiles
        return ours and not pod.node and not pod.leaving and pod.key not in self.bindings

    def _queue_gang(self, group: str) -> None:
        """Queues what is left of a gang to place, once enough of it is here."""
        gang, key = self._gang(group), GANG_PREFIX + group
        waiting = [pod for pod in self.cluster.members.get(group, {}).values() if self._waits(pod)]
        if gang is None or not waiting:
            self._drop(key)
            if group not in self.cluster.members:
                self._failures.pop(key, None)
            return
        statuses = [(pod, self._admit(pod)) for pod in waiting]
        admitted = tuple(sorted((pod for pod, status in statuses if status.ok), key=lambda pod: pod.key))
        priority = gang.priority if gang.priority is not None else max(pod.priority for pod in waiting)
        entry = self.queue.get(key)
        if entry is None:
            pods = admitted or tuple(waiting)
            entry = self.queue.add(key, priority, pods, self.now, lane=gang.queue)
            if key in self._failures:
                entry.attempts = self._failures[key] - 1
                self.queue.park(key, None, (), self.now)
        elif [pod.key for pod in entry.pods] != [pod.key for pod in admitted]:
            entry.pods = admitted or tuple(waiting)
            self.queue.activate(key)
        else:
            entry.pods = admitted or tuple(waiting)
        for pod, status in statuses:
            if not status.ok:
                self._nominate(pod, "")
        need = self._need(gang)
        refused = next((status for _, status in statuses if not status.ok), None)
        if not need.met_by(admitted):
            self._gate(entry, refused or _incomplete(gang, need.count - len(admitted)))
        else:
            self._gate(entry, SUCCESS)

    def _need(self, gang: Gang) -> Need:
        """How many more members must have a place. Those whose work is done had theirs."""
        members = self.cluster.members.get(gang.key, {}).values()
        placed = [pod for pod in members if pod.node and not self.bindings.undoing(pod)]
        return gang.need(placed, list(self.cluster.finished.get(gang.key, {}).values()).count("Succeeded"))

    def _decide_gang(self, entry: Entry) -> None:
        group = entry.key.removeprefix(GANG_PREFIX)
        gang = self._gang(group)
        assert gang is not None
        party = self._parties.get(group)
        need = self._need(gang)
        placed = self.actions.allocate(gang, entry.pods, need, self.now)
        if isinstance(placed, Refusal):
            self._refuse_gang(entry, gang, need, placed)
            return
        self._drop(entry.key)
        self.statuses.placed(group)
        if party is None or not party.members or party.broken:
            least = (
                len(placed) if need.tasks else need.count
            )  # without one of them a task might lack its minimum
            party = self._parties[group] = Party(gang.name, least)
        self.bindings.start(*[self._binding(placement, party) for placement in placed])
        self._dirty[group] = None

    def _refuse_gang(self, entry: Entry, gang: Gang, need: Need, refusal: Refusal) -> None:
        if not self._evicting(gang.key):
            able = refusal.resolvable and need
            clearing = self.actions.clear(gang, entry.pods, need, self.now) if able else None
            if clearing is not None:
                refusal = Refusal(f"{refusal.words}. {clearing.words}", refusal.plugins)
                self._cleared[gang.key] = (clearing, self.now)
                for victim in clearing.victims:
                    why = f"preempted to make room for a gang of {len(clearing.places)} pods"
                    self._evict(victim, why, tuple(clearing.places))
            for pod in entry.pods:
                self._nominate(pod, clearing.places.get(pod.key, "") if clearing is not None else "")
        self.queue.park(entry.key, entry.key, () if refusal.error else refusal.plugins, self.now)
        self.statuses.refused(gang.key, Verdict(refusal.words[:MAX_MESSAGE], refusal.error))
        for pod in entry.pods:
            self._say_unschedulable(pod, refusal)

    def _evicting(self, group: str) -> bool:
        """Whether those that were evicted for a gang, or what they held, are not gone yet."""
        if group not in self._cleared:
            return False
        clearing, since = self._cleared[group]
        pods, claims = self.cluster.pods, self.cluster.claims
        there = any(victim.key in pods and pods[victim.key].uid == victim.uid for victim in clearing.victims)
        held = any(claims.allocation(key) is not None for key in clearing.claims)
        if (there or held) and self.now - since < PATIENCE:
            return True
        del self._cleared[group]
        return False

    # --- deciding ---

    def _turn(self, pods: int) -> None:
        dirty, self._dirty = self._dirty, {}
        for group in dirty:
            self._queue_gang(group)
            self.statuses.look(group)
        self.statuses.update(self.now)
        while pods > 0:
            entry = self.queue.pop(self.now)
            if entry is None:
                return
            pods -= len(entry.pods)
            self._decide(entry)

    def _decide(self, entry: Entry) -> None:
        self.decided += 1
        if entry.key.startswith(GANG_PREFIX):
            self._decide_gang(entry)
            return
        pod = entry.pods[0]
        attempt = self.placer.begin(pod, self.now)
        if isinstance(attempt, Refusal):
            self._refuse(entry, (pod.asks, pod.key), attempt)
            return
        node = self.placer.choose(attempt)
        placed = node if isinstance(node, Refusal) else self.placer.reserve(attempt, node)
        if isinstance(placed, Refusal):
            self._refuse(entry, attempt.shape, placed, attempt)
            return
        self._drop(entry.key)
        self.bindings.start(self._binding(placed))

    def _binding(self, placed: Placement, party: Party | None = None) -> Binding:
        return Binding(placed.cycle.pod, placed.cycle, placed.node, placed.steps, self.now, party)

    def _refuse(self, entry: Entry, shape: Any, refusal: Refusal, attempt: Attempt | None = None) -> None:
        pod = entry.pods[0]
        if attempt is not None and not refusal.error:
            refusal = self._make_room(pod, attempt, refusal)
        if attempt is not None and attempt.filters:  # to which namespace and labels make a difference
            shape = (shape, pod.namespace, frozenset(pod.pod.metadata.labels.items()))
        self.queue.park(entry.key, shape, () if refusal.error else refusal.plugins, self.now)
        if refusal.passing:
            self._say_later(entry.key, Status(Code.WAIT, "", refusal.words))
        else:
            self._say_unschedulable(pod, refusal)

    def _make_room(self, pod: PodInfo, attempt: Attempt, refusal: Refusal) -> Refusal:
        """PostFilter: what can be done so that the pod fits later."""
        if not attempt.profile.post_filter:
            return refusal
        rejections = self.placer.rejections(attempt)
        attempt.cycle.judge = lambda node: self.placer.judge(attempt, node)
        for plugin in attempt.profile.post_filter:
            room = plugin.post_filter(attempt.cycle, rejections)
            if isinstance(room, Release):
                for claim in room.claims:
                    self._deallocate(claim)
                return Refusal(f"{refusal.words}. {room.words}", refusal.plugins)
            if isinstance(room, Room):
                self._preempt(pod, room)
                return Refusal(f"{refusal.words}. {room.words}", refusal.plugins, resolvable=False)
            if isinstance(room, Protected):
                words = f"{refusal.words}. {room.words}"
                refusal = Refusal(words, refusal.plugins, resolvable=refusal.resolvable)
        self._nominate(pod, "")
        if not refusal.resolvable:
            return refusal
        also = frozenset(
            plugin.name for plugin in attempt.profile.post_filter
        )  # they may find room another time
        return Refusal(refusal.words, refusal.plugins | also)

    def _deallocate(self, key: str) -> None:
        claim = self.cluster.claims.objects[key]
        meta, status = claim.metadata, claim.status
        if EXTENDED in meta.annotations and status.allocation is None and not status.reserved_for:
            # Only now: nothing would take its finalizer away while a pod that exists seems to use it.
            self._insist(lambda id: DeleteClaim(id, meta.namespace, meta.name, meta.uid))
            return
        patch = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
        self._insist(
            lambda id: PatchClaim(
                id, meta.namespace, meta.name, meta.uid, meta.resource_version, patch, status=True
            )
        )

    def _preempt(self, pod: PodInfo, room: Room) -> None:
        self._nominate(pod, room.node)
        for victim in room.victims:
            self._evict(victim, f"preempted to make room for a pod of priority {pod.priority}", (pod.key,))

    def _nominate(self, pod: PodInfo, node: str) -> None:
        """Keeps room on a node for a pod; ``""``: on none. Who was kept from the one before may have it."""
        before = self.cluster.nominated.get(pod.key, "")
        if before == node:
            return
        self.cluster.nominate(pod.key, node)
        patch = {"status": {"nominatedNodeName": node or None}}
        self._send(lambda id: PatchPod(id, pod.namespace, pod.name, pod.uid, patch))
        if before:
            self._wake(_nominated(pod.pod, before), _nominated(pod.pod, None))

    def _evict(self, victim: PodInfo, why: str, nominees: tuple[str, ...] = ()) -> None:
        self._insist(lambda id: DeletePod(id, victim.namespace, victim.name, victim.uid, why), nominees)
        self._tell(victim, "Preempted", why, warning=True)

    # --- how bindings end ---

    def bound(self, binding: Binding) -> None:
        self._failures.pop(binding.pod.key, None)
        party, group = binding.party, group_key(binding.pod.pod)
        if party is not None and not party.members and self._parties.get(group) is party:
            del self._parties[group]
            if not party.broken:
                self._failures.pop(GANG_PREFIX + group, None)
        self._tell(binding.pod, "Scheduled", f"Assigned {binding.pod.key} to {binding.node}")

    def unreserve(self, binding: Binding) -> None:
        current = self.cluster.pods.get(binding.pod.key)
        binding.cycle.pod = current if current is not None and current.uid == binding.pod.uid else binding.pod
        self.placer.unreserve(binding.cycle, binding.node)
        self._wake_by_release(binding)

    def _wake_by_release(self, binding: Binding) -> None:
        """What a pod gives back that was never bound, nobody else tells: its room on the node, and its devices."""
        pod = binding.pod.pod
        self._wake(replace(pod, spec=replace(pod.spec, node_name=binding.node)), None)
        for step in binding.steps:
            write = step.write if isinstance(step, MakeClaim) else step
            claim = self.cluster.claims.objects.get(write.claim) if isinstance(write, WriteClaim) else None
            if claim is not None and isinstance(write, WriteClaim) and write.allocation is not None:
                held = replace(claim, status=replace(claim.status, allocation=write.allocation))
                self._wake(held, claim)

    def _wake(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
        for entry in self.queue.wake(old, new, self.cluster):
            self._try_gate(entry)

    def given_up(self, binding: Binding) -> None:
        pod = self.cluster.pods.get(binding.pod.key)
        if pod is None or not self._waits(pod):
            return
        self._queue(pod)
        if pod.uid == binding.pod.uid:  # not another one by the same name, which has waited for this
            self._rest(pod)
            words = f"binding to {binding.node} failed: {binding.why}"
            self._say_unschedulable(pod, Refusal(words, frozenset()))

    def _rest(self, pod: PodInfo) -> None:
        """A pod that could not be bound is tried again after a while, a longer one each time; so is its gang."""
        group = group_key(pod.pod)
        key = GANG_PREFIX + group if group in self._dirty else pod.key
        self._failures[key] = self._failures.get(key, 0) + 1
        entry = self.queue.get(key)
        if entry is not None and entry.place != GATED:
            entry.attempts = self._failures[key] - 1
            self.queue.park(key, None, (), self.now)

    def broken(self, party: Party, bound: Mapping[str, str]) -> None:
        why = f"the gang {party.group} could not be bound whole: {party.broken}"
        for key, uid in bound.items():
            pod = self.cluster.pods.get(key)
            if pod is None or pod.uid != uid or pod.leaving:
                continue
            if any(owner.controller for owner in pod.pod.metadata.owner_references):
                self._evict(pod, why)
            else:  # nobody would make another one
                self._say(pod, INCOMPLETE, "True", "GangBroken", why)

    # --- telling people ---

    def _say_unschedulable(self, pod: PodInfo, refusal: Refusal) -> None:
        """Says why in the pod's PodScheduled condition and in an event, unless that was said already. Of a pod with gates the
        API server has said SchedulingGated, and that stands: to autoscalers Unschedulable means that nodes are missing."""
        if pod.pod.spec.scheduling_gates:
            return
        reason = "SchedulerError" if refusal.error else "Unschedulable"
        message = refusal.words[:MAX_MESSAGE]
        for condition in pod.pod.status.conditions:
            if condition.type == "PodScheduled" and (condition.reason, condition.message) == (
                reason,
                message,
            ):
                return
        self._say(pod, "PodScheduled", "False", reason, message)
        self._tell(pod, "FailedScheduling", message, warning=True)

    def _say(self, pod: PodInfo, type_: str, status: str, reason: str, message: str) -> None:
        condition = {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message[:MAX_MESSAGE],
            "lastTransitionTime": timestamp(self.now),
        }
        patch = {"status": {"conditions": [condition]}}
        self._send(lambda id: PatchPod(id, pod.namespace, pod.name, pod.uid, patch))

    def _tell(self, pod: PodInfo, reason: str, message: str, *, warning: bool = False) -> None:
        self._out.append(Tell("v1", "Pod", pod.namespace, pod.name, pod.uid, warning, reason, message))

    def _insist(self, draft: Draft, nominees: tuple[str, ...] = (), times: int = MOST_TIMES) -> None:
        """Sends a write that is repeated, so many times, when there is no answer: nothing else would lead to it again. If it
        never succeeds, no room is kept any longer for the pods that it was to make room for."""
        self._insisted[self._send(draft)] = (draft, nominees, times - 1)

    def _outcome(self, event: Done | Failed) -> bool:
        """How a write ended; False if nobody insisted on it."""
        found = self._insisted.pop(event.id, None)
        if found is None:
            return False
        _, nominees, times = found
        if isinstance(event, Done) or event.why is Failure.GONE:
            return True
        if event.why is Failure.UNKNOWN and times:
            self._again.append((self.now + REPEAT_AFTER, *found))
            return True
        for pod in filter(None, map(self.cluster.pods.get, nominees)):
            self._nominate(pod, "")
        return True

    def _send(self, draft: Draft) -> int:
        self._ids += 1
        self._out.append(draft(self._ids))
        return self._ids

    # --- invariants ---

    def validate(self) -> None:
        """Re-derives the whole state. Raises AssertionError where what is kept is not what the objects say."""
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
                group = group_key(pod.pod)
                if group in self._dirty:
                    continue
                ganged = GANG_PREFIX + group in self.queue and pod.key not in self.bindings
                places = (pod.key in self.queue) + ganged + (pod.key in self.bindings)
                assert places == 1, f"pod {pod.key} is in {places} places"


def _incomplete(gang: Gang, missing: int) -> Status:
    if missing <= 0:
        return Status(Code.UNRESOLVABLE, GANG, "waits for more pods of a task of its gang")
    more = "1 more pod" if missing == 1 else f"{missing} more pods"
    return Status(Code.UNRESOLVABLE, GANG, f"waits for {more} of its gang, which needs {gang.minimum}")


def _nominated(pod: Pod, node: str | None) -> Pod:
    return replace(pod, status=replace(pod.status, nominated_node_name=node))


def timestamp(seconds: float) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
