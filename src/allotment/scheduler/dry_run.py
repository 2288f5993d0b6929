"""What a scheduler would do with a cluster as it stands, without writing anything.

The core decides as always. The dry run applies each write to the objects in memory and echoes it, as a server would, so that
later decisions see earlier ones. It does not simulate three things: pods that would be evicted stay (their devices come back only
when other components clean up), devices that must get ready first never do, and no volume is bound or provisioned. Time jumps to
whatever the core waits for next, up to ``HORIZON_SECONDS``, so the answer comes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec.structs import replace

from allotment.api import codec
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import ResourceClaim
from allotment.api.storage import PersistentVolume, PersistentVolumeClaim
from allotment.scheduler.binding.step import AwaitVolumes
from allotment.scheduler.core import Scheduler
from allotment.scheduler.event import Changed, Done, Event, Failed, Tick, Turn, WriteFailure
from allotment.scheduler.instruction import (
    Bind,
    CreateClaim,
    DeleteClaim,
    Instruction,
    PatchClaim,
    PatchPod,
    PatchVolume,
    PatchVolumeClaim,
    Tell,
    Write,
)
from allotment.scheduler.pod import PodInfo

S = TypeVar("S", bound=ApiStruct)

HORIZON_SECONDS = 30.0
"""Seconds of the core's time. By then, the conditions of pods that wait for a claim say so, and failing pods were tried a few
times."""
DRY_RUN_PODS_A_TURN = 64


@dataclass(frozen=True, slots=True)
class DryRunDecision:
    """The result for one pod: a node and devices, or ``why`` it has none. With both, it has a node and waits to be bound."""

    namespace: str
    name: str
    node: str = ""
    devices: tuple[str, ...] = ()  # driver/pool/device
    why: str = ""

    @property
    def fits(self) -> bool:
        return bool(self.node)


class DryRun:
    """One run of a core that has not handled any event yet. ``now`` is in seconds since 1970."""

    def __init__(self, core: Scheduler, now: float) -> None:
        self._core = core
        self._now = now
        self._until = now + HORIZON_SECONDS
        self._version = 0
        self._events: list[Event] = []
        self._claims: dict[str, ResourceClaim] = {}  # as a server would hold them
        self._asked: dict[str, PodInfo] = {}  # the pods to decide about
        self._nodes: dict[str, str] = {}
        self._why: dict[str, str] = {}

    def run(self, objects: Iterable[ApiStruct]) -> list[DryRunDecision]:
        """Decides about every pod that waits for one of the core's profiles, in the order of their names."""
        self._handle(Tick(self._now))
        for obj in objects:
            self._take_in(obj)
        self._asked = {key: pod for key, pod in self._core.cluster.pods.items() if self._is_asked(pod)}
        while self._step():
            pass
        return [self._decision(key, pod) for key, pod in sorted(self._asked.items())]

    def _take_in(self, obj: ApiStruct) -> None:
        if isinstance(obj, ResourceClaim | Pod | PersistentVolume | PersistentVolumeClaim):
            self._version = max(self._version, int(obj.metadata.resource_version or 0))
        if isinstance(obj, ResourceClaim):
            self._claims[f"{obj.metadata.namespace}/{obj.metadata.name}"] = obj
        self._handle(Changed(None, obj))

    def _is_asked(self, pod: PodInfo) -> bool:
        ours = (pod.pod.spec.scheduler_name or "") in self._core.profiles
        return ours and not pod.node and not pod.leaving

    def _step(self) -> bool:
        """Echoes and decides until nothing changes, then advances to the core's next time. Returns False if there is none."""
        decided = self._core.decided
        while self._events:
            events, self._events = self._events, []
            for event in events:
                self._handle(event)
        self._handle(Turn(DRY_RUN_PODS_A_TURN))
        if self._events or self._core.decided > decided:
            return True
        due = self._core.next_time()
        if due is None or due > self._until:
            return False
        self._now = max(self._now + 0.001, due)
        self._handle(Tick(self._now))
        return True

    def _handle(self, event: Event) -> None:
        for instruction in self._core.handle(event):
            self._note(instruction)
            if not isinstance(instruction, Tell):
                self._events += self._echo(instruction)

    def _note(self, instruction: Instruction) -> None:
        match instruction:
            case Bind():
                self._nodes[f"{instruction.namespace}/{instruction.name}"] = instruction.node
            case PatchPod(
                patch={"status": {"conditions": [{"type": "PodScheduled", "message": str(words)}]}}
            ):
                self._why[f"{instruction.namespace}/{instruction.name}"] = words

    def _echo(self, write: Write) -> list[Event]:
        """The events that a server would send for a write: first the change, then the reply."""
        self._version += 1
        match write:
            case PatchClaim():
                return self._patch(write)
            case CreateClaim():
                made = _made(write, str(self._version))
                self._claims[f"{made.metadata.namespace}/{made.metadata.name}"] = made
                return [Changed(None, made), Done(write.id, self._version, made.metadata.uid)]
            case DeleteClaim():
                gone = self._claims.pop(f"{write.namespace}/{write.name}", None)
                return [*([Changed(gone, None)] if gone is not None else []), Done(write.id)]
            case Bind():
                pod = self._core.cluster.pods[f"{write.namespace}/{write.name}"].pod
                return [Changed(pod, _bound(pod, write.node, str(self._version))), Done(write.id)]
            case PatchVolume() | PatchVolumeClaim():
                return self._patch_volume(write)
        return [Done(write.id)]  # the statuses of pods and groups do not matter here

    def _patch(self, write: PatchClaim) -> list[Event]:
        key = f"{write.namespace}/{write.name}"
        old = self._claims.get(key)
        if old is None:
            return [Failed(write.id, WriteFailure.GONE)]
        if old.metadata.resource_version != write.version:
            return [Failed(write.id, WriteFailure.CONFLICT)]
        new = self._claims[key] = _patched(old, write.patch, str(self._version))
        return [Changed(old, new), Done(write.id, self._version, new.metadata.uid)]

    def _patch_volume(self, write: PatchVolume | PatchVolumeClaim) -> list[Event]:
        storage = self._core.cluster.storage
        old: Any
        if isinstance(write, PatchVolume):
            volume = storage.volumes.get(write.name)
            old = volume.pv if volume is not None else None
        else:
            old = storage.claims.get(f"{write.namespace}/{write.name}")
        if old is None:
            return [Failed(write.id, WriteFailure.GONE)]
        if old.metadata.resource_version != write.version:
            return [Failed(write.id, WriteFailure.CONFLICT)]
        new = _patched(old, write.patch, str(self._version))
        return [Changed(old, new), Done(write.id, self._version)]

    def _decision(self, key: str, pod: PodInfo) -> DryRunDecision:
        binding = self._core.bindings.get(key)
        node = self._nodes.get(key, "") or (binding.node if binding is not None else "")
        why = "" if key in self._nodes else self._why.get(key, "") or _condition(pod.pod)
        if binding is not None and not why:
            waits = any(isinstance(step, AwaitVolumes) for step in binding.steps)
            why = f"waits until its {'volumes are bound' if waits else 'devices are ready'}"
        devices = tuple(self._devices(self._core.cluster.pods.get(key, pod))) if node else ()
        return DryRunDecision(pod.namespace, pod.name, node, devices, why)

    def _devices(self, pod: PodInfo) -> Iterator[str]:
        """The devices of the claims that are reserved for a pod or for its group."""
        group = pod.pod.spec.scheduling_group
        for claim in self._claims.values():
            allocation = claim.status.allocation
            if claim.metadata.namespace != pod.namespace or allocation is None:
                continue
            for user in claim.status.reserved_for:
                of_group = group is not None and (user.resource, user.name) == (
                    "podgroups",
                    group.pod_group_name,
                )
                if user.uid == pod.uid or of_group:
                    yield from (
                        f"{each.driver}/{each.pool}/{each.device}" for each in allocation.devices.results
                    )


def _patched(old: S, patch: dict[str, Any], version: str) -> S:
    obj = _merged(codec.to_builtins(old), patch)
    obj["metadata"]["resourceVersion"] = version
    return codec.decode(type(old), obj)


def _made(write: CreateClaim, version: str) -> ResourceClaim:
    meta = dict(write.claim["metadata"])
    meta["name"] = meta.get("name") or f"{meta.get('generateName', '')}{write.id}"
    meta |= {"uid": f"dry-run-{write.id}", "resourceVersion": version}
    return codec.decode(ResourceClaim, {**write.claim, "metadata": meta})


def _bound(pod: Pod, node: str, version: str) -> Pod:
    return replace(
        pod, metadata=replace(pod.metadata, resource_version=version), spec=replace(pod.spec, node_name=node)
    )


def _condition(pod: Pod) -> str:
    """The message that the pod's condition has already: the core does not repeat itself."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled":
            return condition.message or ""
    return ""


def _merged(obj: Any, patch: dict[str, Any]) -> Any:
    """RFC 7396."""
    merged = dict(obj) if isinstance(obj, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value) if isinstance(value, dict) else value
    return merged
