"""The scheduler's only module with I/O: informers feed events to the core, its instructions become API calls.

The driver runs one loop: it passes events and the time to the core, lets the core decide about a few pods, hands the instructions
to writers, and yields to the event loop. Writers work in parallel, so that the server can commit many writes at once; the core
issues nothing that depends on an unfinished write. The core decides nothing before every informer has its first list, so a device
that looks free was free on the server at that time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from allotment.api.batch import VOLCANO
from allotment.api.core import Namespace, Node, Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from allotment.api.rights import READ
from allotment.api.status import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    StatusError,
)
from allotment.api.storage import PersistentVolume, PersistentVolumeClaim
from allotment.api.timestamps import timestamp
from allotment.client.client import Client, Collection, PatchType
from allotment.client.discovery import Discovery, discover
from allotment.client.form import ResourcePath, Typed, resource_of
from allotment.client.places import DEFINITIONS, PLACES, place_of
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.client.shared_informers import Informers
from allotment.client.transport import Disconnected
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import Configuration
from allotment.scheduler.core import TURN_STEPS, Scheduler
from allotment.scheduler.event import Changed, Done, Event, Failed, Tick, Turn, WriteFailure
from allotment.scheduler.instruction import (
    Bind,
    CreateClaim,
    DeleteClaim,
    DeletePod,
    Instruction,
    PatchClaim,
    PatchGroup,
    PatchPod,
    PatchQueue,
    PatchVolume,
    PatchVolumeClaim,
    Tell,
    Write,
)
from allotment.scheduler.metrics import SchedulerMetrics

log = logging.getLogger(__name__)

PODS_A_TURN = 16
EVENTS_A_TURN = 256
MOST_WRITES = 128
"""How many writes are in flight at once. The server commits writes together that arrive together."""

_ALWAYS: tuple[type[ApiStruct], ...] = (Node, Namespace, DeviceClass, ResourceSlice, ResourceClaim, Pod)

READS = (
    f"{READ}: core: namespaces,nodes,persistentvolumeclaims,persistentvolumes,pods",
    f"{READ}: storage.k8s.io: csidrivers,csinodes,csistoragecapacities,storageclasses,volumeattachments",
    f"{READ}: resource.k8s.io: deviceclasses,devicetaintrules,resourceclaims,resourceslices",
    f"{READ}: ours: noderesourceslices,resourceclaimparameters,resourceclasses,resourceclassparameters,resourcepools",
    f"{READ}: scheduling.k8s.io: podgroups",
    f"{READ}: scheduling.volcano.sh: podgroups,queues",
    f"{READ}: policy: poddisruptionbudgets",
)
"""The names that ``followed`` may return."""
RIGHTS = (
    *READS,
    f"{READ}: apiextensions.k8s.io: customresourcedefinitions",
    "create: core: pods/binding",
    "delete: core: pods",
    "patch: core: pods/status",
    "patch: core: persistentvolumeclaims,persistentvolumes",  # which volume a claim gets, for which node one is made
    "create,delete,patch: resource.k8s.io: resourceclaims",
    "patch: resource.k8s.io: resourceclaims/binding,resourceclaims/status",
    "patch: scheduling.k8s.io: podgroups/status",
    # Volcano's own definition of its groups has no separate status.
    "patch: scheduling.volcano.sh: podgroups,podgroups/status,queues/status",
)


class Driver:
    """Runs a core against a server until cancelled. ``hear`` receives every event and every instruction, for a log. ``metrics``
    receives the same, and the duration of each attempt."""

    def __init__(
        self,
        core: Scheduler,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        *,
        now: Callable[[], float] = time.time,
        hear: Callable[[Event | Instruction], None] | None = None,
        metrics: SchedulerMetrics | None = None,
    ) -> None:
        self.core = core
        self._metrics = metrics
        if metrics is not None:
            metrics.follow(core)
        self._client = client
        self._informers = informers
        self._recorder = recorder
        self._now = now
        self._hear = hear
        self._events: deque[Event] = deque()
        self._writes: deque[Write] = deque()
        self._news = asyncio.Event()
        self._writing = 0
        self._tasks: asyncio.TaskGroup | None = None
        self._pods = client.of(Pod)
        self._claims = client.of(ResourceClaim)
        self._volumes = client.of(PersistentVolume)
        self._volume_claims = client.of(PersistentVolumeClaim)
        self._plain_claims = client.plain("resource.k8s.io/v1", "resourceclaims")
        self._watched: set[type[ApiStruct]] = set()

    async def run(self) -> None:
        """Schedules until cancelled. The informers must be running."""
        await self._watch()
        await self._informers.synced()
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            await self._loop()

    # --- events ---

    async def _watch(self) -> None:
        for type_ in _ALWAYS:
            self._informers.of(type_).on_change(self._changed)
        self._informers.plain(
            DEFINITIONS.api_version, DEFINITIONS.plural, namespaced=DEFINITIONS.namespaced
        ).on_change(self._definition_changed)
        self._watch_optional(await discover(self._client))

    def _watch_optional(self, served: Discovery) -> None:
        for type_ in PLACES:
            if (place := place_of(type_, served)) is not None:
                self._watch_at(place, type_)

    def _definition_changed(self, old: Any, new: Any) -> None:
        """Handles a changed definition: the server may now serve one of our kinds."""
        for condition in (new or {}).get("status", {}).get("conditions") or ():
            if condition.get("type") == "Established" and condition.get("status") == "True":
                for type_, places in PLACES.items():
                    for place in places:
                        group = place.api_version.partition("/")[0]
                        if new["metadata"]["name"] == f"{place.plural}.{group}":
                            self._watch_at(place, type_)

    def _watch_at(self, place: ResourcePath, type_: type[ApiStruct]) -> None:
        if type_ not in self._watched:
            self._watched.add(type_)
            self._informers.at(place, type_).on_change(self._changed)

    def _changed(self, old: Any, new: Any) -> None:
        self._happened(Changed(old, new))

    def _happened(self, event: Event) -> None:
        self._events.append(event)
        self._news.set()

    # --- the loop ---

    async def _loop(self) -> None:
        while True:
            self._handle(Tick(self._now()))
            for _ in range(min(len(self._events), EVENTS_A_TURN)):
                self._handle(self._events.popleft())
            busy = bool(self._events)
            if not busy:
                busy = self._decide()
            if busy:
                await asyncio.sleep(0)
            else:
                await self._rest()

    def _decide(self) -> bool:
        """Lets the core make a few attempts, one by one so that each can be timed. Returns False if there was nothing to try."""
        last = self.core.steps + TURN_STEPS
        for attempt in range(PODS_A_TURN):
            if self.core.steps >= last:
                return True
            decided, binding, began = self.core.decided, len(self.core.bindings), time.perf_counter()
            self._handle(Turn(1))
            if self.core.decided == decided:
                return attempt > 0
            if self._metrics is not None and not self.core.paused:
                placed = len(self.core.bindings) > binding
                self._metrics.attempted(time.perf_counter() - began, placed=placed)
        return True

    async def _rest(self) -> None:
        """Waits until an event arrives or the core's next time comes."""
        due = self.core.next_time()
        self._news.clear()
        if self._events:
            return
        try:
            # not wait_for: Python 3.11's forgets a cancellation that comes together with news
            async with asyncio.timeout(None if due is None else max(0.001, due - self._now())):
                await self._news.wait()
        except TimeoutError:
            return

    def _handle(self, event: Event) -> None:
        if self._hear is not None:
            self._hear(event)
        if self._metrics is not None:
            self._metrics.heard(event)
        instructions = self.core.handle(event)
        if self._metrics is not None and instructions:
            self._metrics.told(instructions)
        for instruction in instructions:
            if self._hear is not None:
                self._hear(instruction)
            if isinstance(instruction, Tell):
                self._tell(instruction)
            elif self._writing < MOST_WRITES:
                self._begin(instruction)
            else:
                self._writes.append(instruction)

    def _tell(self, tell: Tell) -> None:
        subject = Subject(tell.api_version, tell.kind, tell.name, tell.namespace, tell.uid)
        kind = EventType.WARNING if tell.warning else EventType.NORMAL
        self._recorder.tell(subject, kind, tell.reason, tell.message)

    # --- writes ---

    def _begin(self, write: Write) -> None:
        assert self._tasks is not None, "it runs"
        self._writing += 1
        self._tasks.create_task(self._write(write))

    async def _write(self, write: Write) -> None:
        self._happened(await self._outcome(write))
        self._writing -= 1
        if self._writes:
            self._begin(self._writes.popleft())

    async def _outcome(self, write: Write) -> Done | Failed:
        try:
            return await self._perform(write)
        except StatusError as exc:
            return Failed(write.id, failure_of(exc), str(exc))
        except Disconnected as exc:
            return Failed(write.id, WriteFailure.UNKNOWN, str(exc))
        except Exception as exc:
            log.exception("%s failed", type(write).__name__)
            return Failed(write.id, WriteFailure.UNKNOWN, str(exc))

    async def _perform(self, write: Write) -> Done:
        match write:
            case PatchClaim():
                claim = await self._claims.amend(
                    write.name,
                    write.patch,
                    write.namespace,
                    subresource="status" if write.status else "",
                    uid=write.uid,
                    version=write.version,
                )
                return Done(write.id, claim.version, claim.uid)
            case PatchVolume() | PatchVolumeClaim():
                return await self._patch_volume(write)
            case Bind():
                target = {"apiVersion": "v1", "kind": "Node", "name": write.node}
                meta = {"name": write.name, "namespace": write.namespace, "uid": write.uid}
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
                await self._pods.act(write.name, "binding", binding, write.namespace)
            case PatchPod():
                await self._patch_pod(write.namespace, write.name, write.uid, write.patch)
            case CreateClaim():
                new = await self._plain_claims.create(write.claim)
                return Done(write.id, int(new["metadata"]["resourceVersion"]), new["metadata"]["uid"])
            case DeleteClaim():
                await self._claims.delete(write.name, write.namespace, uid=write.uid)
            case DeletePod():
                await self._evict(write)
            case PatchGroup():
                return await self._patch_group(write)
            case PatchQueue():
                queues = self._client.plain(VOLCANO, "queues")
                made = await queues.amend(
                    write.name, write.patch, subresource="status", uid=write.uid, version=write.version
                )
                return Done(write.id, made.version)
        return Done(write.id)

    async def _patch_volume(self, write: PatchVolume | PatchVolumeClaim) -> Done:
        made = (
            await self._volumes.amend(write.name, write.patch, uid=write.uid, version=write.version)
            if isinstance(write, PatchVolume)
            else await self._volume_claims.amend(
                write.name, write.patch, write.namespace, uid=write.uid, version=write.version
            )
        )
        return Done(write.id, made.version)

    async def _patch_group(self, write: PatchGroup) -> Done:
        """Patches a group's status. Volcano's own CRD has no status subresource, so there the patch goes to the group itself."""
        groups = self._client.plain(write.api_version, "podgroups")
        try:
            made = await groups.amend(
                write.name,
                write.patch,
                write.namespace,
                subresource="status",
                uid=write.uid,
                version=write.version,
            )
        except NotFound:
            made = await groups.amend(
                write.name, write.patch, write.namespace, uid=write.uid, version=write.version
            )
        return Done(write.id, made.version)

    async def _patch_pod(self, namespace: str, name: str, uid: str, patch: dict[str, Any]) -> None:
        await self._pods.amend(
            name, patch, namespace, type_=PatchType.STRATEGIC, subresource="status", uid=uid
        )

    async def _evict(self, write: DeletePod) -> None:
        """Writes into the pod's status why it is evicted, then deletes it."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": write.why,
            "lastTransitionTime": timestamp(self._now()),
        }
        await self._patch_pod(write.namespace, write.name, write.uid, {"status": {"conditions": [condition]}})
        await self._pods.delete(write.name, write.namespace, uid=write.uid)


def configured(configuration: Configuration) -> Scheduler:
    """A core that schedules as a configuration says. Its cluster is still empty."""
    return Scheduler(
        Cluster(),
        configuration.rosters(),
        backoff=configuration.backoff,
        gangs=configuration.gangs,
        making_room=configuration.making_room,
    )


def followed(served: Discovery) -> list[tuple[ResourcePath, type[ApiStruct]]]:
    """The resources that a scheduler reads from a server, and their types; pods come last."""
    *first, last = ((resource_of(type_), type_) for type_ in _ALWAYS)
    first += [(place, type_) for type_ in PLACES if (place := place_of(type_, served)) is not None]
    return [*first, last]


async def snapshot(client: Client) -> list[ApiStruct]:
    """All objects that a scheduler reads, listed once, pods last. A dry run uses it."""
    kinds = followed(await discover(client))
    lists = await asyncio.gather(*(Collection(client, where, Typed(type_)).list() for where, type_ in kinds))
    return [obj for listing in lists for obj in listing.items]


TAKEN = "DeviceTaken"
"""The reason that the embedded server gives for a 409 when a device is promised to another claim."""


def failure_of(error: StatusError) -> WriteFailure:
    """Translates a server's refusal into the failure that the core handles."""
    if isinstance(error, NotFound):
        return WriteFailure.GONE
    if isinstance(error, Conflict):
        taken = any(cause.get("reason") == TAKEN for cause in error.details.get("causes") or ())
        return WriteFailure.TAKEN if taken else WriteFailure.CONFLICT
    if isinstance(error, AlreadyExists):
        return WriteFailure.CONFLICT
    if isinstance(error, Invalid | Forbidden) or error.code in (400, 405, 413, 415):
        return WriteFailure.REFUSED
    return WriteFailure.UNKNOWN
