"""Metrics of a scheduler, under kube-scheduler's names where it has them; the others begin with ``allotment_``.

The driver passes on the core's events and instructions, and the duration of each attempt; the core itself knows nothing of
metrics. Waiting pods, which the core keeps anyway, are counted at each scrape.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from allotment.api.core import Pod
from allotment.scheduler.event import Changed, Done, Event, Failed
from allotment.scheduler.gangs.gang_lifecycle import GANG_PREFIX
from allotment.scheduler.instruction import DeletePod, Instruction, PatchClaim, PatchPod, Tell
from allotment.scheduler.queue import ACTIVE, BACKOFF, GATED, PARKED

if TYPE_CHECKING:
    from allotment.scheduler.core import Scheduler

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
QUEUES = {ACTIVE: "active", BACKOFF: "backoff", PARKED: "unschedulable", GATED: "gated"}
"""The places of our queue under kube-scheduler's names."""


class SchedulerMetrics(Collector):
    """The metrics of one scheduler. ``follow`` sets the core to measure; each election brings a new one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._core: Scheduler | None = None
        self._came: dict[str, float] = {}  # pods that are not bound → when they were first seen
        self._allocating: set[int] = set()  # writes of allocations in flight
        self._unbound: dict[str, int] = {}  # how many of the core's failed bindings are counted, by profile
        attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule a pod, or a gang, by result: scheduled counts pods that were bound, error those that were "
            "placed and could not be bound.",
            ("result", "profile"),
            registry=registry,
        )
        durations = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Seconds that the decision about a pod, or a gang, took. Binding is not in it.",
            ("result", "profile"),
            buckets=tuple(0.0001 * 2**power for power in range(16)),
            registry=registry,
        )
        self._waits = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Seconds from the moment that a pod was first seen to its binding, over all attempts.",
            buckets=tuple(0.01 * 2**power for power in range(20)),
            registry=registry,
        )
        self._victims = Histogram(
            "scheduler_preemption_victims",
            "Pods that had to go to make room for one.",
            buckets=tuple(2**power for power in range(7)),
            registry=registry,
        )
        self._preemptions = Counter(
            "scheduler_preemption_attempts_total", "Times that room was made for a pod.", registry=registry
        )
        allocations = Counter(
            "allotment_claim_allocations_total",
            "Allocations of claims that were written, by result: success, or what became of the write.",
            ("result",),
            registry=registry,
        )
        # Counters by label, each looked up once, because a look-up costs more than counting.
        self._attempt, self._duration = cache(attempts.labels), cache(durations.labels)
        self._allocation = cache(allocations.labels)
        registry.register(self)

    def follow(self, core: Scheduler) -> None:
        """Measures this core from now on. It must not have handled any event yet."""
        self._core = core
        self._came.clear()
        self._allocating.clear()
        self._unbound.clear()

    # --- what the driver tells ---

    def heard(self, event: Event) -> None:
        """Called before the core handles the event."""
        match event:
            case Changed(new=Pod() as pod):
                self._pod(pod)
            case Changed(old=Pod() as pod, new=None):
                self._came.pop(pod.metadata.key, None)
            case Done() if event.id in self._allocating:
                self._allocating.remove(event.id)
                self._allocation("success").inc()
            case Failed() if event.id in self._allocating:
                self._allocating.remove(event.id)
                self._allocation(event.why.value).inc()

    def told(self, instructions: Iterable[Instruction]) -> None:
        """Takes the core's instructions for one event."""
        preemptors = victims = 0
        for instruction in instructions:
            match instruction:
                case PatchClaim(status=True, patch={"status": {"allocation": dict()}}):
                    self._allocating.add(instruction.id)
                case Tell(reason="Scheduled"):
                    self._bound(f"{instruction.namespace}/{instruction.name}")
                case PatchPod(patch={"status": {"nominatedNodeName": str()}}):
                    preemptors += 1
                case DeletePod():
                    victims += 1
        self._count_unbound()
        if preemptors:
            self._preemptions.inc(preemptors)
            self._victims.observe(victims)

    def attempted(self, seconds: float, *, placed: bool) -> None:
        """Takes the duration of one attempt of the core."""
        result = SCHEDULED if placed else UNSCHEDULABLE
        profile = self._core.profile if self._core is not None else ""
        self._duration(result, profile).observe(seconds)
        if not placed:
            self._attempt(result, profile).inc()

    def _count_unbound(self) -> None:
        for profile, count in self._core.unbound.items() if self._core is not None else ():
            if more := count - self._unbound.get(profile, 0):
                self._attempt(ERROR, profile).inc(more)
                self._unbound[profile] = count

    def _pod(self, pod: Pod) -> None:
        core = self._core
        if core is None or pod.spec.node_name or (pod.spec.scheduler_name or "") not in core.profiles:
            return
        self._came.setdefault(pod.metadata.key, core.clock.now)

    def _bound(self, key: str) -> None:
        core = self._core
        pod = core.cluster.pods.get(key) if core is not None else None
        profile = (pod.pod.spec.scheduler_name or "") if pod is not None else self._only_profile()
        self._attempt(SCHEDULED, profile).inc()
        came = self._came.pop(key, None)
        if came is not None and core is not None:
            self._waits.observe(max(0.0, core.clock.now - came))

    def _only_profile(self) -> str:
        """The profile of a pod that is gone, if there is only one profile."""
        profiles = self._core.profiles if self._core is not None else {}
        return next(iter(profiles)) if len(profiles) == 1 else ""

    # --- what is counted at each scrape ---

    def collect(self) -> Iterable[Metric]:
        counts = dict.fromkeys(QUEUES.values(), 0)
        core = self._core
        for pod in list(core.cluster.pods.values()) if core is not None else ():
            if core is not None and not pod.node:
                entry = core.queue.get(pod.key) or core.queue.get(GANG_PREFIX + pod.group)
                if entry is not None and entry.place in QUEUES:
                    counts[QUEUES[entry.place]] += 1
        family = GaugeMetricFamily(
            "scheduler_pending_pods", "Pods that wait, by what they wait for.", labels=("queue",)
        )
        for queue, count in counts.items():
            family.add_metric((queue,), count)
        yield family

    def describe(self) -> Iterable[Metric]:
        """Returns nothing, because registering must not count."""
        return ()
