"""The scheduler's numbers, from what goes into the core and what comes out of it."""

from __future__ import annotations

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from allotment.api.meta import ApiStruct
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import DEFAULT, Configuration, ProfileSpec
from allotment.scheduler.core import Scheduler
from allotment.scheduler.event import Changed, Done, Event, Failed, Tick, Turn, WriteFailure
from allotment.scheduler.instruction import Bind, DeletePod, Instruction, PatchClaim, PatchPod
from allotment.scheduler.metrics import SchedulerMetrics
from tests.allocator import build
from tests.builders.typed import claim, node, pod, slice_

ANY = build.class_("any")


class Told:
    """A core, and metrics that get what a driver would report to them."""

    def __init__(self, configuration: Configuration = DEFAULT) -> None:
        self.registry = CollectorRegistry()
        self.core = Scheduler(Cluster(), configuration.rosters())
        self.metrics = SchedulerMetrics(self.registry)
        self.metrics.follow(self.core)

    def handle(self, event: Event) -> list[Instruction]:
        self.metrics.heard(event)
        told = self.core.handle(event)
        self.metrics.told(told)
        return told

    def show(self, *objects: ApiStruct) -> None:
        for obj in objects:
            self.handle(Changed(None, obj))

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    def pending(self) -> dict[str, float]:
        queues = ("active", "backoff", "unschedulable", "gated")
        return {queue: self.value("scheduler_pending_pods", queue=queue) for queue in queues}


def test_a_pod_that_is_bound_counts_with_the_time_it_waited() -> None:
    told = Told()
    told.handle(Tick(100.0))
    told.show(node("n"), pod("p"))
    assert told.pending()["active"] == 1
    (bind,) = [each for each in told.handle(Turn(1)) if isinstance(each, Bind)]
    told.handle(Tick(103.0))
    told.handle(Done(bind.id))
    assert (
        told.value("scheduler_schedule_attempts_total", result="scheduled", profile="default-scheduler") == 1
    )
    assert told.value("scheduler_pod_scheduling_sli_duration_seconds_sum") == 3.0
    assert sum(told.pending().values()) == 0


def test_pods_that_wait_are_counted_by_what_they_wait_for() -> None:
    told = Told()
    told.handle(Tick(100.0))
    told.show(
        node("n", cpu=1), pod("large", cpu=2), pod("gated", gates=["g"]), pod("claimless", claims=["c"])
    )
    told.handle(Turn(3))
    assert told.pending() == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 2}
    told.handle(Changed(told.core.cluster.pods["default/large"].pod, None))
    assert told.pending()["unschedulable"] == 0


TWO_PROFILES = Configuration(profiles=(ProfileSpec(), ProfileSpec(name="packed")))


def test_attempts_that_fail_are_their_profile_s() -> None:
    told = Told(TWO_PROFILES)
    told.show(node("n", cpu=1), pod("large", cpu=2, scheduler="packed"), pod("larger", cpu=3))
    for seconds in (0.25, 0.5):
        told.handle(Turn(1))
        told.metrics.attempted(seconds, placed=False)
    for profile in ("packed", "default-scheduler"):
        labels = {"profile": profile, "result": "unschedulable"}
        assert told.value("scheduler_schedule_attempts_total", **labels) == 1
        assert told.value("scheduler_scheduling_attempt_duration_seconds_sum", **labels) in (0.25, 0.5)
    assert told.value("scheduler_schedule_attempts_total", profile="", result="unschedulable") == 0


def test_a_binding_that_fails_counts_as_an_error() -> None:
    told = Told(TWO_PROFILES)
    told.show(node("n"), pod("p", scheduler="packed"))
    (bind,) = [each for each in told.handle(Turn(1)) if isinstance(each, Bind)]
    told.handle(Failed(bind.id, WriteFailure.REFUSED))
    told.handle(Tick(1.0))
    labels = {"profile": "packed", "result": "error"}
    assert told.value("scheduler_schedule_attempts_total", **labels) == 1
    assert told.value("scheduler_schedule_attempts_total", profile="packed", result="scheduled") == 0


def test_allocations_count_when_their_write_has_an_outcome() -> None:
    told = Told()
    told.handle(Tick(100.0))
    told.show(ANY, node("n"), slice_("n", "d0", "d1"))
    for name in ("a", "b"):
        asked = claim(f"{name}-claim")
        stored = replace(asked, metadata=replace(asked.metadata, resource_version="7"))
        told.show(stored, pod(name, claims={"d": f"{name}-claim"}))
    written = [each for each in told.handle(Turn(2)) if isinstance(each, PatchClaim)]
    statuses: list[Instruction] = []
    while written:  # finalizers first, where they are a write of their own
        write = written.pop()
        if write.status:
            statuses.append(write)
        else:
            written += [each for each in told.handle(Done(write.id, 9)) if isinstance(each, PatchClaim)]
    good, bad = (each for each in statuses if isinstance(each, PatchClaim))
    told.handle(Done(good.id, 10))
    told.handle(Failed(bad.id, WriteFailure.TAKEN))
    assert told.value("allotment_claim_allocations_total", result="success") == 1
    assert told.value("allotment_claim_allocations_total", result="taken") == 1


def test_preemption_counts_the_attempt_and_its_victims() -> None:
    told = Told()
    told.metrics.told(
        [
            PatchPod(1, "default", "big", "u", {"status": {"nominatedNodeName": "n"}}),
            DeletePod(2, "default", "a", "ua", "room"),
            DeletePod(3, "default", "b", "ub", "room"),
        ]
    )
    assert told.value("scheduler_preemption_attempts_total") == 1
    assert told.value("scheduler_preemption_victims_sum") == 2


def test_a_new_core_starts_with_nobody_waiting() -> None:
    told = Told()
    told.handle(Tick(100.0))
    told.show(pod("p"))
    told.metrics.follow(Scheduler(Cluster(), DEFAULT.rosters()))
    assert sum(told.pending().values()) == 0


def test_before_there_is_a_core_everything_is_zero() -> None:
    registry = CollectorRegistry()
    SchedulerMetrics(registry)
    assert b'scheduler_pending_pods{queue="active"} 0.0' in generate_latest(registry)
