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

from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim
from allotment.scheduler.binding import Binding, Bindings, Party
from allotment.scheduler.claim_writer import Draft
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.diagnosis import Refusal
from allotment.scheduler.event import Changed, Done, Event, Failed, Tick, Turn
from allotment.scheduler.framework import Release, Room, Status
from allotment.scheduler.instruction import DeleteClaim, DeletePod, Instruction, PatchClaim, PatchPod, Tell
from allotment.scheduler.placement import Attempt, Placement, Placer
from allotment.scheduler.pod import FINISHED, PodInfo
from allotment.scheduler.queue import GATED, Backoff, Entry, Queue

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.roster import Profile

GATE_PATIENCE = 2.0
"""Seconds that a claim may be missing before the pod's condition says so: its controller has just been told."""
MAX_MESSAGE = 1024
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
        self.bindings = Bindings(cluster, self._send, self)
        self.now = 0.0
        self.decided = 0  # how many attempts there were
        self._ids = 0
        self._out: list[Instruction] = []
        self._unsaid: dict[str, tuple[float, Status]] = {}  # pods at a gate → when to say why

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
        times = [self.queue.next_time(), self.bindings.next_time()]
        times += [due for due, _ in self._unsaid.values()]
        return min((time for time in times if time is not None), default=None)

    def _tick(self, now: float) -> None:
        self.now = self.bindings.now = max(self.now, now)
        self.bindings.tick()
        self.queue.revisit(self.now)
        for key, (due, status) in list(self._unsaid.items()):
            if due <= self.now:
                del self._unsaid[key]
                pod = self.cluster.pods.get(key)
                if pod is not None:
                    self._say_unschedulable(pod, Refusal(status.words, frozenset()))

    def _changed(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
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
        for entry in self.queue.wake(old, new, self.cluster):
            self._try_gate(entry)

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
        """Queues a pod, or what is new about it."""
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
        self._try_gate(entry)

    def _try_gate(self, entry: Entry) -> None:
        """PreEnqueue: lets an entry into the queue proper, or keeps it out."""
        pod = entry.pods[0]
        for plugin in self.profiles[pod.pod.spec.scheduler_name or ""].pre_enqueue:
            status = plugin.pre_enqueue(pod, self.cluster)
            if not status.ok:
                if entry.place != GATED:
                    self.queue.gate(entry.key, status.plugin)
                    self._unsaid[entry.key] = (self.now + GATE_PATIENCE, status)
                return
        self._unsaid.pop(entry.key, None)
        if entry.place == GATED:
            self.queue.open(entry.key)

    def _drop(self, key: str) -> None:
        self.queue.remove(key)
        self._unsaid.pop(key, None)

    # --- deciding ---

    def _turn(self, pods: int) -> None:
        for _ in range(pods):
            entry = self.queue.pop(self.now)
            if entry is None:
                return
            self._decide(entry)

    def _decide(self, entry: Entry) -> None:
        self.decided += 1
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
        self._start(placed)

    def _start(self, placed: Placement, party: Party | None = None) -> None:
        self.bindings.start(
            Binding(placed.cycle.pod, placed.cycle, placed.node, placed.steps, self.now, party)
        )

    def _refuse(self, entry: Entry, shape: Any, refusal: Refusal, attempt: Attempt | None = None) -> None:
        pod = entry.pods[0]
        if attempt is not None and not refusal.error:
            refusal = self._make_room(pod, attempt, refusal)
        self.queue.park(entry.key, shape, () if refusal.error else refusal.plugins, self.now)
        self._say_unschedulable(pod, refusal)

    def _make_room(self, pod: PodInfo, attempt: Attempt, refusal: Refusal) -> Refusal:
        """PostFilter: what can be done so that the pod fits later."""
        if not attempt.profile.post_filter:
            return refusal
        rejections = self.placer.rejections(attempt)
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
        meta = self.cluster.claims.objects[key].metadata
        if EXTENDED in meta.annotations:
            self._send(lambda id: DeleteClaim(id, meta.namespace, meta.name, meta.uid))
            return
        patch = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
        self._send(
            lambda id: PatchClaim(
                id, meta.namespace, meta.name, meta.uid, meta.resource_version, patch, status=True
            )
        )

    def _preempt(self, pod: PodInfo, room: Room) -> None:
        self.cluster.nominate(pod, room.node)
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

    def given_up(self, binding: Binding) -> None:
        pod = self.cluster.pods.get(binding.pod.key)
        if pod is None or binding.gone or pod.node or pod.leaving:
            return
        self._queue(pod)
        if self.queue.get(pod.key) is not None and self.queue.get(pod.key).place != GATED:  # type: ignore[union-attr]  # just seen
            self.queue.park(pod.key, None, (), self.now)
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
                places = (pod.key in self.queue) + (pod.key in self.bindings)
                assert places == 1, f"pod {pod.key} is in {places} places"


def timestamp(seconds: float) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
