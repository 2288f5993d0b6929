"""The scheduler's core without a server, and without the cost of playing one.

The core is deterministic: the same events lead to the same instructions. So a ``PlayedServer`` runs a core once, answers its
writes as a server and its informers would, and notes every event; ``replay`` then shows the events to fresh cores and
measures nothing but them. The profile is the default one, with all its plugins.

A pod comes as the claim controller leaves it behind: it appears, its claim appears, its status names the claim. Writes are
answered in the order in which they were sent, each by its outcome and then by the changed object; deciding goes on as in
the driver, sixteen pods between looks at what happened.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from msgspec.structs import replace

from allotment.api.batch import PodGroup
from allotment.api.codec import decode
from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import ResourceClaim, ResourceClaimStatus, ResourceSlice
from allotment.daemons.memory import spare_collector
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import DEFAULT, DEFAULT_SCHEDULER
from allotment.scheduler.core import Scheduler
from allotment.scheduler.event import Changed, Done, Event, Tick, Turn
from allotment.scheduler.instruction import Bind, Instruction, PatchClaim, PatchGroup, PatchPod, Tell
from benchmarks import fleets

NAMESPACE = "bench"
PODS_A_TURN = 16
LOOP_SECONDS = 0.001
"""Of the played clock, for each time that the driver's loop would go round."""
START = 1_000_000.0
SLICE = 1_000
"""Events that one core is shown before it is the next one's turn: about twenty milliseconds."""


def fresh_core() -> Scheduler:
    return Scheduler(Cluster(), DEFAULT.rosters(), backoff=DEFAULT.backoff)


# --- objects ---


def node(number: int) -> Node:
    name = fleets.node_name(number)
    offered = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return decode(Node, {"metadata": meta, "status": {"capacity": offered, "allocatable": offered}})


def slice_(number: int, devices: int) -> ResourceSlice:
    """A node's GPUs, of which five at a time have a PCI root in common."""
    found = []
    for index in range(devices):
        gpu = fleets.gpu(number, index)
        root = {fleets.PCI_ROOT: fleets.text(f"pci{number:06x}:{index // 5}")}
        found.append(replace(gpu, attributes={**gpu.attributes, **root}))
    return fleets.node_slice(number, found)


def group(name: str, minimum: int) -> PodGroup:
    meta = {"name": name, "namespace": NAMESPACE, "uid": f"group-{name}"}
    return decode(PodGroup, {"metadata": meta, "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}}})


@dataclass(slots=True)
class Asker:
    """A pod and the claim that was made for it from a template."""

    pod: Pod
    claim: ResourceClaim


def asker(
    name: str,
    *,
    devices: int = 1,
    cpu: str = "100m",
    group: str = "",
    selector: str = "",
    requests: int = 1,
    match: str = "",
) -> Asker:
    """Asks for so many devices in each of so many requests, all with the same value of the attribute ``match``."""
    resources = {"claims": [{"name": "gpu"}], "requests": {"cpu": cpu}}
    spec = {
        "schedulerName": DEFAULT_SCHEDULER,
        "containers": [{"name": "main", "image": "none", "resources": resources}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        **({"schedulingGroup": {"podGroupName": group}} if group else {}),
    }
    meta = {"name": name, "namespace": NAMESPACE, "uid": f"pod-{name}", "resourceVersion": "1"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": meta["uid"], "controller": True}
    exactly = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": devices,
        **({"selectors": [{"cel": {"expression": selector}}]} if selector else {}),
    }
    claim_meta = {
        "name": f"{name}-gpu",
        "namespace": NAMESPACE,
        "uid": f"claim-{name}",
        "resourceVersion": "2",
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "ownerReferences": [owner],
    }
    asked = {
        "devices": {
            "requests": [{"name": f"gpu-{number}", "exactly": exactly} for number in range(requests)],
            **({"constraints": [{"matchAttribute": match}]} if match else {}),
        }
    }
    return Asker(
        decode(Pod, {"metadata": meta, "spec": spec}),
        decode(ResourceClaim, {"metadata": claim_meta, "spec": asked}),
    )


# --- the played server ---


@dataclass(slots=True)
class PlayedServer:
    """See the module. ``log`` has every event so far."""

    core: Scheduler = field(default_factory=fresh_core)
    log: list[Event] = field(default_factory=list)
    bound: dict[str, str] = field(default_factory=dict)  # pod → node
    now: float = START
    _version: int = 2
    _pods: dict[str, Pod] = field(default_factory=dict)
    _claims: dict[str, ResourceClaim] = field(default_factory=dict)
    _groups: dict[str, PodGroup] = field(default_factory=dict)
    _asked: list[Instruction] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._hear(Tick(self.now))
        for each in fleets.CLASSES:
            self.show(None, each)

    def _hear(self, event: Event) -> None:
        self.log.append(event)
        self._asked += self.core.handle(event)

    def show(self, old: ApiStruct | None, new: ApiStruct | None) -> None:
        self._hear(Changed(old, new))

    def add_nodes(self, count: int, devices: int) -> None:
        for number in range(count):
            self.show(None, node(number))
            self.show(None, slice_(number, devices))

    def add(self, askers: Iterable[Asker]) -> None:
        for each in askers:
            pod, claim = each.pod, each.claim
            self.show(None, pod)
            self.show(None, claim)
            noted = {"name": "gpu", "resourceClaimName": claim.metadata.name}
            status = decode(type(pod.status), {"resourceClaimStatuses": [noted]})
            named = replace(pod, status=status)
            self.show(pod, named)
            self._pods[pod.metadata.name], self._claims[claim.metadata.name] = named, claim

    def add_group(self, group: PodGroup) -> None:
        self._groups[group.metadata.name] = group
        self.show(None, group)

    def remove(self, name: str) -> None:
        """Deletes a pod, and with it its claim."""
        self.show(self._pods.pop(name), None)
        self.show(self._claims.pop(f"{name}-gpu"), None)
        self.bound.pop(name, None)

    def settle(self, each_loop: Callable[[], None] | None = None) -> None:
        """Goes on until nothing is asked for and nothing is decided any more. ``each_loop`` may do something between."""
        busy = True
        while busy:
            self.now += LOOP_SECONDS
            self._hear(Tick(self.now))
            asked, self._asked = self._asked, []
            for instruction in asked:
                self._perform(instruction)
            if each_loop is not None:
                each_loop()
            busy = self._decide() or bool(asked)

    @property
    def asked(self) -> list[Instruction]:
        """What the core asked for and did not get yet."""
        return self._asked

    def turn(self) -> None:
        """Lets the core decide once."""
        self._hear(Turn(1))

    def _decide(self) -> bool:
        for attempt in range(PODS_A_TURN):
            decided = self.core.decided
            self._hear(Turn(1))
            if self.core.decided == decided:
                return attempt > 0
        return True

    def _perform(self, instruction: Instruction) -> None:
        if isinstance(instruction, Tell):
            return
        self._version += 1
        if isinstance(instruction, PatchClaim):
            claim = self._claims[instruction.name]
            allocated = decode(ResourceClaimStatus, instruction.patch["status"])
            meta = replace(claim.metadata, resource_version=str(self._version))
            self._claims[instruction.name] = replace(claim, metadata=meta, status=allocated)
            self._hear(Done(instruction.id, self._version, claim.metadata.uid))
            self.show(claim, self._claims[instruction.name])
        elif isinstance(instruction, Bind):
            pod = self._pods[instruction.name]
            meta = replace(pod.metadata, resource_version=str(self._version))
            on_node = replace(pod, metadata=meta, spec=replace(pod.spec, node_name=instruction.node))
            self._pods[instruction.name] = on_node
            self.bound[instruction.name] = instruction.node
            self._hear(Done(instruction.id))
            self.show(pod, on_node)
        elif isinstance(instruction, PatchGroup):
            group = self._groups[instruction.name]
            status = decode(type(group.status), instruction.patch["status"])
            self._groups[instruction.name] = replace(group, status=status)
            self._hear(Done(instruction.id, self._version))
            self.show(group, self._groups[instruction.name])
        elif isinstance(instruction, PatchPod):
            self._hear(Done(instruction.id))
        else:
            raise NotImplementedError(f"the played server cannot do {instruction}")

    def check(self) -> None:
        """Raises AssertionError where a device is promised twice, or the core's state is not what it should be."""
        taken: set[tuple[str, str, str]] = set()
        for claim in self._claims.values():
            allocation = claim.status.allocation
            for result in allocation.devices.results if allocation is not None else ():
                device = (result.driver, result.pool, result.device)
                assert device not in taken, f"{device} is promised twice"
                taken.add(device)
        self.core.validate()


# --- replay ---


def replay(before: list[Event], measured: list[Event]) -> float:
    """Processor seconds that a fresh core needs for the measured events, after those before.

    The garbage collector runs as it does in a process that schedules (``cli.memory``): what was there before the measured
    events is kept out of its sight, here also the log itself, and it looks at the rest less often than Python would.
    """
    core, threshold = fresh_core(), gc.get_threshold()
    for event in before:
        core.handle(event)
    gc.collect()
    spare_collector()
    try:
        return _seconds(core, measured)
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)


def replay_in_turns(logs: Sequence[tuple[list[Event], int]], rounds: int) -> list[float]:
    """As ``replay``, for several logs that are to be compared, each measured from its position on.

    The machine's speed changes within a replay, so fresh cores are shown the events in turns, a slice of each log after the
    other, and of each slice the best of the rounds counts: it is the same work each time."""
    best: list[list[float]] = [[inf] * len(range(start, len(log), SLICE)) for log, start in logs]
    threshold = gc.get_threshold()
    for round_ in range(rounds):
        cores = [fresh_core() for _ in logs]
        for core, (log, start) in zip(cores, logs, strict=True):
            for event in log[:start]:
                core.handle(event)
        gc.collect()
        spare_collector()
        for number in range(max(map(len, best))):
            turns = [turn for turn, slices in enumerate(best) if number < len(slices)]
            for turn in turns if (round_ + number) % 2 else reversed(turns):
                log, start = logs[turn]
                events = log[start + number * SLICE :][:SLICE]
                best[turn][number] = min(best[turn][number], _seconds(cores[turn], events))
        gc.unfreeze()
        gc.set_threshold(*threshold)
    return [sum(slices) for slices in best]


def _seconds(core: Scheduler, events: Iterable[Event]) -> float:
    handle, start = core.handle, time.process_time()
    for event in events:
        handle(event)
    return time.process_time() - start


def best_replay(log: list[Event], start: int, rounds: int, end: int | None = None) -> float:
    """The best of several replays, of the events from ``start`` on."""
    return min(replay(log[:start], log[start:end]) for _ in range(rounds))
