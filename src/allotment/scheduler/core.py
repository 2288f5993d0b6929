"""The scheduler as a machine: events in, instructions out. No clock, no I/O, no randomness.

``handle`` takes one event and returns what is to be done; the same events in the same order give the same instructions, so a
recorded log can be replayed. The driver gives leave to decide by ``Turn`` events, a bounded number of pods at a time.

The way of a pod: it appears → PreEnqueue → queue → a turn: placed in memory (``placement``) → its steps are written and it is bound
(``binding``) → the server shows it bound. Whatever fails on the way leads back to the queue, with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from allotment.api.batch import PodGroup, VolcanoPodGroup
from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim
from allotment.scheduler.actions import Actions
from allotment.scheduler.binding import Binding, Bindings, Party
from allotment.scheduler.claim_writer import Draft
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.diagnosis import Refusal
from allotment.scheduler.event import Changed, Done, Event, Failed, Tick, Turn
from allotment.scheduler.framework import SUCCESS, Code, Release, Room, Status
from allotment.scheduler.gang import VOLCANO, Gang, gang_of, group_key
from allotment.scheduler.instruction import DeleteClaim, DeletePod, Instruction, PatchClaim, PatchPod, Tell
from allotment.scheduler.placement import Attempt, Placement, Placer
from allotment.scheduler.pod import FINISHED, PodInfo
from allotment.scheduler.queue import GATED, Backoff, Entry, Queue
from allotment.scheduler.session import Session
from allotment.scheduler.step import MakeClaim, WriteClaim

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.roster import Profile

GATE_PATIENCE = 2.0
"""Seconds that a claim may be missing before the pod's condition says so: its controller has just been told."""
REVISIT_EVERY = 10.0
PATIENCE = 60.0
"""Seconds after which victims that do not go are no longer waited for."""
MAX_MESSAGE = 1024
GANG = "Gang"
"""Stands for a plugin where a pod waits for others of its gang."""
GANG_PREFIX = "gang:"
"""Of the keys of gangs in the queue, to tell them from pods."""
EXTENDED = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of claims that were made for a pod's extended resources."""


class Scheduler:
    """See the module. ``profiles`` by schedulerName: pods that name another are not ours."""

    def __init__(
        self, cluster: Cluster, profiles: Mapping[str, Profile], *, backoff: Backoff | None = None
    ) -> None:
        self.cluster = cluster
        self.profiles = profiles
        self.placer = Placer(cluster, profiles)
        plugins = {plugin.name: plugin for profile in profiles.values() for plugin in profile.plugins}
        self.queue = Queue(plugins.values(), backoff)
        self.actions = Actions(cluster, self.placer, Session(cluster, self.placer))
        self.bindings = Bindings(cluster, self._send, self)
        self._parties: dict[str, Party] = {}  # group → its members that are being bound
        self._cleared: dict[
            str, tuple[frozenset[str], float]
        ] = {}  # group → victims that make room for it, and since when
        self._dirty: dict[str, None] = {}  # groups of which something changed since the last turn
        self.now = 0.0
        self.decided = 0  # how many attempts there were
        self._ids = 0
        self._out: list[Instruction] = []
        self._unsaid: dict[str, tuple[float, Status]] = {}  # at a gate → when to say why; oldest first
        self._revisited = 0.0

    # --- events ---

    def handle(self, event: Event) -> list[Instruction]:
        """Takes in one event; returns what is to be done now."""
        match event:
            case Changed():
                self._changed(event.old, event.new)
            case Done():
                self.bindings.done(event)
            case Failed():
                self.bindings.failed(event)
            case Tick():
                self._tick(event.now)
            case Turn():
                self._turn(event.pods)
        out, self._out = self._out, []
        return out

    def next_time(self) -> float | None:
        """When a ``Tick`` would change something, if nothing else happens."""
        unsaid = next(iter(self._unsaid.values()), None)  # the oldest is the first
        times = [self.queue.next_time(), self.bindings.next_time(), unsaid[0] if unsaid is not None else None]
        return min((time for time in times if time is not None), default=None)

    def _tick(self, now: float) -> None:
        self.now = self.bindings.now = max(self.now, now)
        self.bindings.tick()
        if self.now - self._revisited >= REVISIT_EVERY:
            self._revisited = self.now
            self.queue.revisit(self.now)
        while self._unsaid:
            key, (due, status) = next(iter(self._unsaid.items()))
            if due > self.now:
                return
            del self._unsaid[key]
            entry = self.queue.get(key)
            for pod in entry.pods if entry is not None else ():
                self._say_unschedulable(pod, Refusal(status.words, frozenset()))

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
            self.bindings.claim_changed(f"{meta.namespace}/{meta.name}")
        elif isinstance(new, PodGroup | VolcanoPodGroup) or isinstance(old, PodGroup | VolcanoPodGroup):
            self._group_changed(new if new is not None else old)
        self._wake(old, new)

    def _where_it_was(self, pod: Pod) -> Pod:
        """A pod with the node that it was assumed to be on, if so: when it goes, that is what becomes free."""
        node = self.cluster.assumed.get(f"{pod.metadata.namespace}/{pod.metadata.name}")
        return (
            replace(pod, spec=replace(pod.spec, node_name=node)) if node and not pod.spec.node_name else pod
        )

    def _pod_changed(self, new: Pod | None, old: Pod | None) -> Pod | None:
        """Returns the pod as the queue is to hear of it: one that finished is gone."""
        meta = (new if new is not None else old).metadata  # type: ignore[union-attr]  # one of the two is there
        key = f"{meta.namespace}/{meta.name}"
        if new is None or new.status.phase in FINISHED:
            self._drop(key)
            self.bindings.pod_gone(key)
            return None
        pod = self.cluster.pods[key]
        if new.spec.node_name:
            self._drop(key)
            self.bindings.pod_bound(key, new.spec.node_name)
        elif key in self.bindings:
            self.bindings.pod_changed(pod)
        elif pod.leaving or (new.spec.scheduler_name or "") not in self.profiles:
            self._drop(key)
        else:
            self._queue(pod)
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
        if group and group not in self.cluster.groups:
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
        if entry.place != GATED or status.plugin not in entry.plugins:
            self.queue.gate(entry.key, status.plugin)
        if entry.key not in self._unsaid or self._unsaid[entry.key][1] != status:
            self._unsaid.pop(entry.key, None)
            self._unsaid[entry.key] = (self.now + GATE_PATIENCE, status)

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
        found = self.cluster.groups.get(group)
        return gang_of(group, found) if found is not None else None

    def _group_changed(self, group: ApiStruct | None) -> None:
        assert isinstance(group, PodGroup | VolcanoPodGroup)
        meta = group.metadata
        key = f"{VOLCANO if isinstance(group, VolcanoPodGroup) else ''}{meta.namespace}/{meta.name}"
        if self._gang(key) is None:
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
            return
        statuses = [(pod, self._admit(pod)) for pod in waiting]
        admitted = tuple(sorted((pod for pod, status in statuses if status.ok), key=lambda pod: pod.key))
        priority = gang.priority if gang.priority is not None else max(pod.priority for pod in waiting)
        entry = self.queue.get(key)
        if entry is None:
            entry = self.queue.add(key, priority, admitted or tuple(waiting), self.now)
        elif [pod.key for pod in entry.pods] != [pod.key for pod in admitted]:
            entry.pods = admitted or tuple(waiting)
            self.queue.activate(key)
        else:
            entry.pods = admitted or tuple(waiting)
        missing = gang.minimum - self._placed(group) - len(admitted)
        refused = next((status for _, status in statuses if not status.ok), None)
        if not admitted or missing > 0:
            self._gate(entry, refused or _incomplete(gang, missing))
        else:
            self._gate(entry, SUCCESS)

    def _placed(self, group: str) -> int:
        return sum(bool(pod.node) for pod in self.cluster.members.get(group, {}).values())

    def _decide_gang(self, entry: Entry) -> None:
        group = entry.key.removeprefix(GANG_PREFIX)
        gang = self._gang(group)
        assert gang is not None
        party = self._parties.get(group)
        need = max(0, gang.minimum - self._placed(group))
        placed = self.actions.allocate(gang, entry.pods, need, self.now)
        if isinstance(placed, Refusal):
            self._refuse_gang(entry, gang, need, placed)
            return
        self._drop(entry.key)
        if party is None or not party.members:
            party = self._parties[group] = Party(gang.name, need)
        for placement in placed:  # all are members before the first goes on
            party.members[placement.cycle.pod.key] = self._binding(placement, party)
        for placement in placed:
            self.bindings.start(party.members[placement.cycle.pod.key])
        self._dirty[group] = None

    def _refuse_gang(self, entry: Entry, gang: Gang, need: int, refusal: Refusal) -> None:
        if refusal.resolvable and need and not self._evicting(gang.key):
            clearing = self.actions.clear(gang, entry.pods, need, self.now)
            if clearing is not None:
                refusal = Refusal(f"{refusal.words}. {clearing.words}", refusal.plugins)
                self._cleared[gang.key] = (frozenset(victim.uid for victim in clearing.victims), self.now)
                for key, node in clearing.places.items():
                    self.cluster.nominate(key, node)
                for victim in clearing.victims:
                    self._evict(victim, f"preempted to make room for a gang of {len(clearing.places)} pods")
        self.queue.park(entry.key, entry.key, () if refusal.error else refusal.plugins, self.now)
        for pod in entry.pods:
            self._say_unschedulable(pod, refusal)

    def _evicting(self, group: str) -> bool:
        """Whether those that were evicted for a gang are not gone yet."""
        victims, since = self._cleared.get(group, (frozenset(), 0.0))
        there = any(pod.uid in victims for pod in self.cluster.pods.values()) if victims else False
        if there and self.now - since < PATIENCE:
            return True
        self._cleared.pop(group, None)
        return False

    # --- deciding ---

    def _turn(self, pods: int) -> None:
        dirty, self._dirty = self._dirty, {}
        for group in dirty:
            self._queue_gang(group)
        for _ in range(pods):
            entry = self.queue.pop(self.now)
            if entry is None:
                return
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
        return refusal

    def _deallocate(self, key: str) -> None:
        claim = self.cluster.claims.objects[key]
        meta, status = claim.metadata, claim.status
        if EXTENDED in meta.annotations and status.allocation is None and not status.reserved_for:
            # Only now: nothing would take its finalizer away while a pod that exists seems to use it.
            self._send(lambda id: DeleteClaim(id, meta.namespace, meta.name, meta.uid))
            return
        patch = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
        self._send(
            lambda id: PatchClaim(
                id, meta.namespace, meta.name, meta.uid, meta.resource_version, patch, status=True
            )
        )

    def _preempt(self, pod: PodInfo, room: Room) -> None:
        self.cluster.nominate(pod.key, room.node)
        patch = {"status": {"nominatedNodeName": room.node}}
        self._send(lambda id: PatchPod(id, pod.namespace, pod.name, pod.uid, patch))
        for victim in room.victims:
            self._evict(victim, f"preempted to make room for a pod of priority {pod.priority}")

    def _evict(self, victim: PodInfo, why: str) -> None:
        self._send(lambda id: DeletePod(id, victim.namespace, victim.name, victim.uid, why))
        self._tell(victim, "Preempted", why, warning=True)

    # --- how bindings end ---

    def bound(self, binding: Binding) -> None:
        self._tell(binding.pod, "Scheduled", f"Assigned {binding.pod.key} to {binding.node}")

    def unreserve(self, binding: Binding) -> None:
        binding.cycle.pod = self.cluster.pods.get(binding.pod.key, binding.pod)
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
        if pod is None or binding.gone or pod.node or pod.leaving:
            return
        self._queue(pod)
        entry = self.queue.get(pod.key)
        if entry is not None and entry.place != GATED:
            self.queue.park(entry.key, None, (), self.now)
        self._say_unschedulable(pod, Refusal(f"binding to {binding.node} failed: {binding.why}", frozenset()))

    def broken(self, party: Party, binding: Binding) -> None:
        for key in party.bound:
            pod = self.cluster.pods.get(key)
            if pod is not None:
                self._evict(pod, f"the gang {party.group} could not be bound whole: {binding.why}")

    # --- telling people ---

    def _say_unschedulable(self, pod: PodInfo, refusal: Refusal) -> None:
        """Says why in the pod's PodScheduled condition and in an event, unless that was said already."""
        reason = "SchedulerError" if refusal.error else "Unschedulable"
        message = refusal.words[:MAX_MESSAGE]
        for condition in pod.pod.status.conditions:
            if condition.type == "PodScheduled" and (condition.reason, condition.message) == (
                reason,
                message,
            ):
                return
        condition_patch = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": timestamp(self.now),
        }
        patch = {"status": {"conditions": [condition_patch]}}
        self._send(lambda id: PatchPod(id, pod.namespace, pod.name, pod.uid, patch))
        self._tell(pod, "FailedScheduling", message, warning=True)

    def _tell(self, pod: PodInfo, reason: str, message: str, *, warning: bool = False) -> None:
        self._out.append(Tell("v1", "Pod", pod.namespace, pod.name, pod.uid, warning, reason, message))

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
        for key in self.cluster.assumed:
            pod = self.cluster.pods[key]
            assert key in self.bindings or pod.node, f"pod {key} is assumed, and nobody binds it"
        for pod in self.cluster.pods.values():
            ours = (pod.pod.spec.scheduler_name or "") in self.profiles
            if ours and not pod.node and not pod.leaving:
                gang = GANG_PREFIX + group_key(pod.pod)
                if group_key(pod.pod) in self._dirty:
                    continue
                places = (pod.key in self.queue) + (gang in self.queue) + (pod.key in self.bindings)
                assert places == 1, f"pod {pod.key} is in {places} places"


def _incomplete(gang: Gang, missing: int) -> Status:
    more = "1 more pod" if missing == 1 else f"{missing} more pods"
    return Status(Code.UNRESOLVABLE, GANG, f"waits for {more} of its gang, which needs {gang.minimum}")


def timestamp(seconds: float) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
