"""What a scheduler would do with a cluster as it stands, without writing anything.

The core decides as always; each write that it asks for is carried out on the objects in its memory and echoed, as a server would
do, so that later decisions see earlier ones. Two things are not played: pods that would have to make room stay (their devices
come back only when others clean up), and devices that must get ready first do not. Time is whatever the core waits for next, up
to ``HORIZON``, so the answer comes at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from allotment.api import codec
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import ResourceClaim
from allotment.scheduler.core import Scheduler
from allotment.scheduler.event import Changed, Done, Event, Tick, Turn
from allotment.scheduler.instruction import (
    Bind,
    CreateClaim,
    DeleteClaim,
    DeletePod,
    Instruction,
    PatchClaim,
    PatchPod,
    Tell,
    Write,
)
from allotment.scheduler.pod import PodInfo

HORIZON = 30.0
"""Seconds of the core's time: pods that wait for a claim have been told so by then, failing ones were tried a few times."""
PODS_A_TURN = 64


@dataclass(frozen=True, slots=True)
class Decision:
    """About one pod: a node and devices, or ``why`` it has none. With both it has a node and waits to be bound."""

    namespace: str
    name: str
    node: str = ""
    devices: tuple[str, ...] = ()  # driver/pool/device
    why: str = ""

    @property
    def fits(self) -> bool:
        return bool(self.node)


class DryRun:
    """One run of a core that nothing has been said to yet. ``now`` in seconds since 1970."""

    def __init__(self, core: Scheduler, now: float) -> None:
        self._core = core
        self._now = now
        self._until = now + HORIZON
        self._version = 0
        self._events: list[Event] = []
        self._asked: dict[str, PodInfo] = {}  # the pods that are to be decided about
        self._nodes: dict[str, str] = {}
        self._why: dict[str, str] = {}

    def run(self, objects: Iterable[ApiStruct]) -> list[Decision]:
        """Decides about every pod that waits for one of the core's profiles, in the order of their names."""
        self._handle(Tick(self._now))
        for obj in objects:
            self._version = max(self._version, int(obj.metadata.resource_version or 0))  # type: ignore[attr-defined]  # all have it
            self._handle(Changed(None, obj))
        self._asked = {key: pod for key, pod in self._core.cluster.pods.items() if self._is_asked(pod)}
        while self._step():
            pass
        return [self._decision(key, pod) for key, pod in sorted(self._asked.items())]

    def _is_asked(self, pod: PodInfo) -> bool:
        ours = (pod.pod.spec.scheduler_name or "") in self._core.profiles
        return ours and not pod.node and not pod.leaving

    def _step(self) -> bool:
        """Echoes and decides until nothing moves, then goes to the next time that matters; False if there is none."""
        decided = self._core.decided
        while self._events:
            events, self._events = self._events, []
            for event in events:
                self._handle(event)
        self._handle(Turn(PODS_A_TURN))
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
        """What a server would let us know of a write."""
        self._version += 1
        version = str(self._version)
        match write:
            case PatchClaim():
                claim = self._core.cluster.claims.objects[f"{write.namespace}/{write.name}"]
                return [
                    Done(write.id, self._version, claim.metadata.uid),
                    Changed(claim, _patched(claim, write, version)),
                ]
            case CreateClaim():
                made = _made(write, version)
                return [Done(write.id, self._version, made.metadata.uid), Changed(None, made)]
            case DeleteClaim():
                gone = self._core.cluster.claims.objects[f"{write.namespace}/{write.name}"]
                return [Done(write.id), Changed(gone, None)]
            case Bind():
                pod = self._core.cluster.pods[f"{write.namespace}/{write.name}"].pod
                return [Done(write.id), Changed(pod, _bound(pod, write.node, version))]
            case DeletePod():  # it stays, and whoever it makes room for waits: nobody here gives its devices back
                return [Done(write.id)]
        return [Done(write.id)]

    def _decision(self, key: str, pod: PodInfo) -> Decision:
        binding = self._core.bindings.get(key)
        node = self._nodes.get(key, "") or (binding.node if binding is not None else "")
        why = "" if key in self._nodes else self._why.get(key, "") or _condition(pod.pod)
        if binding is not None and not why:
            why = "waits until its devices are ready"
        devices = tuple(self._devices(self._core.cluster.pods.get(key, pod))) if node else ()
        return Decision(pod.namespace, pod.name, node, devices, why)

    def _devices(self, pod: PodInfo) -> Iterable[str]:
        """What the claims have that a pod uses, itself or through its group."""
        users = {pod.uid}
        group = pod.pod.spec.scheduling_group
        for claim in self._core.cluster.claims.objects.values():
            if claim.metadata.namespace != pod.namespace or claim.status.allocation is None:
                continue
            if any(
                user.uid in users
                or (group is not None and user.resource == "podgroups" and user.name == group.pod_group_name)
                for user in claim.status.reserved_for
            ):
                for result in claim.status.allocation.devices.results:
                    yield f"{result.driver}/{result.pool}/{result.device}"


def _patched(claim: ResourceClaim, write: PatchClaim, version: str) -> ResourceClaim:
    obj = _merged(codec.to_builtins(claim), write.patch)
    obj["metadata"]["resourceVersion"] = version
    return codec.decode(ResourceClaim, obj)


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
    """What the pod says already: the core does not repeat itself."""
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
