"""Simulates the kubelet of every simulated node: pods start, run, end and are removed.

A pod that was bound to a simulated node takes these steps, each one write:

1. its devices are checked once more (``prepare``). If there is an obstacle, the pod waits, with the reason in its
   PodReadyToStartContainers condition, its containers' state and an event, until the cause changes;
2. it runs: one status with phase, conditions, containers and addresses;
3. it ends after its run time, if it has one, as Succeeded or Failed;
4. when it is deleted, its containers end and it is removed, as a kubelet does, by a deletion without grace.

The only state is the pod's own status, so a restart continues where the last process stopped. Simulated devices need no
unpreparing. A claim in the cache may be older than the binding that relies on it, so before an obstacle is reported, the
pod's claims are read from the server.
"""

from __future__ import annotations

from allotment.api.core import Node, Pod
from allotment.api.resource import ResourceClaim, ResourceSlice
from allotment.api.rights import READ
from allotment.api.semantic import NodeResourceSlice
from allotment.api.status import NotFound
from allotment.api.timestamps import timestamp
from allotment.client.client import Client, PatchType
from allotment.client.form import ResourcePath, resource_of
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.claims.claim_users import names_used
from allotment.controllers.clock import Now, left, real_time
from allotment.controllers.controller import Again
from allotment.controllers.pod_state import BY_NODE, finished, node_of
from allotment.controllers.simulation import pod_status
from allotment.controllers.simulation.marks import exit_code, is_simulated, run_seconds
from allotment.controllers.simulation.prepare import (
    Cause,
    ClaimKey,
    PoolKey,
    Published,
    StartObstacle,
    find_obstacle,
)

PodKey = tuple[str, str]
"""Namespace and name."""

KUBELET_PATIENCE = 5.0
_NODE_SLICES = resource_of(NodeResourceSlice)
_BY_POOL = "simulation: pool"
_BY_SLICE_NODE = "spec.nodeName"
_STOPPED_BY_SIGNAL = 0
"""Simulated programs end with success when they are asked to end."""


class SimulatedKubelet:
    """Reconciles pods on simulated nodes. ``node_slices`` is where the server has NodeResourceSlices, if it has them."""

    name = "simulated-kubelet"
    rights = (
        f"delete,{READ}: core: pods",
        f"{READ}: core: nodes",
        f"{READ}: resource.k8s.io: resourceclaims,resourceslices",
        f"{READ}: ours: noderesourceslices",
        "patch: core: pods/status",
    )

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        *,
        node_slices: ResourcePath | None = _NODE_SLICES,
        now: Now = real_time,
    ) -> None:
        self.queue: WorkQueue[PodKey] = WorkQueue()
        self._recorder, self._now = recorder, now
        self._pods, self._claims = client.of(Pod), client.of(ResourceClaim)
        self._seen_pods, self._nodes = informers.of(Pod), informers.of(Node)
        self._seen_claims, self._slices = informers.of(ResourceClaim), informers.of(ResourceSlice)
        self._blocked = _Blocked()
        self._seen_pods.add_index(BY_NODE, node_of)
        self._slices.add_index(_BY_POOL, lambda slice: (_pool_of(slice),))
        self._seen_pods.on_change(self._pod_changed)
        self._nodes.on_change(self._node_changed)
        self._seen_claims.on_change(self._claim_changed)
        self._slices.on_change(self._slice_changed)
        self._published = Published(lambda pool: self._slices.by(_BY_POOL, pool), lambda node: ())
        if node_slices is not None:
            instances = informers.at(node_slices, NodeResourceSlice)
            instances.add_index(_BY_SLICE_NODE, lambda slice: (slice.spec.node_name,))
            instances.on_change(self._node_slice_changed)
            self._published = Published(
                self._published.slices, lambda node: instances.by(_BY_SLICE_NODE, node)
            )

    # --- what brings a pod here ---

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None:
            self._blocked.clear(_key(old))
        elif new is not None and is_simulated(self._nodes.get(new.spec.node_name or "")):
            self.queue.add(_key(new))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None and is_simulated(new) and not is_simulated(old):
            for pod in self._seen_pods.by(BY_NODE, new.metadata.name):
                self.queue.add(_key(pod))

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new or old
        if claim is not None:
            self._wake(ClaimKey(claim.metadata.namespace, claim.metadata.name))

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for slice in (old, new):
            if slice is not None:
                self._wake(_pool_of(slice))

    def _node_slice_changed(self, old: NodeResourceSlice | None, new: NodeResourceSlice | None) -> None:
        for slice in (old, new):
            if slice is not None:
                self._wake(PoolKey(slice.spec.driver_name, slice.spec.node_name))

    def _wake(self, cause: Cause) -> None:
        for key in self._blocked.behind(cause):
            self.queue.add(key)

    # --- what is done with it ---

    async def reconcile(self, key: PodKey) -> Again | None:
        pod = self._seen_pods.get(key[1], key[0])
        node = self._nodes.get(pod.spec.node_name or "") if pod is not None else None
        if pod is None or node is None or not is_simulated(node):
            return None
        if pod.metadata.deletion_timestamp is not None:
            await self._remove(pod)
            return None
        if pod.status.phase == "Running":
            return await self._run(pod)
        return None if finished(pod) else await self._start(pod, node)

    async def _start(self, pod: Pod, node: Node) -> Again | None:
        obstacle = await self._obstacle(pod, node)
        if obstacle is None:
            self._blocked.clear(_key(pod))
            await self._patch(pod, pod_status.running(pod, node, self._stamp()))
        elif obstacle.cause is None and (wait := self._patience(pod)) > 0:
            return Again(wait, "its claims are about to be noted")
        elif obstacle.message != pod_status.waits_because(pod):
            await self._patch(pod, pod_status.waiting(pod, obstacle.message, self._stamp()))
            meta = pod.metadata
            subject = Subject("v1", "Pod", meta.name, meta.namespace, uid=meta.uid)
            self._recorder.tell(subject, EventType.WARNING, pod_status.PREPARE_FAILED, obstacle.message)
        return None

    def _patience(self, pod: Pod) -> float:
        """For how many seconds missing claim names are no obstacle: a scheduler that knew the claims may bind a pod before
        their names are in its status."""
        bound = (each for each in pod.status.conditions if each.type == "PodScheduled")
        since = next((each.last_transition_time for each in bound), None) or pod.metadata.creation_timestamp
        return min(left(since, KUBELET_PATIENCE, self._now()), KUBELET_PATIENCE)

    async def _obstacle(self, pod: Pod, node: Node) -> StartObstacle | None:
        """The obstacle of the pod according to the cache; if there is one, it is checked again with claims from the server."""
        namespace = pod.metadata.namespace
        found = find_obstacle(pod, node, lambda name: self._seen_claims.get(name, namespace), self._published)
        if found is None:
            return None
        self._blocked.set(_key(pod), found.cause)  # before the read: a later change brings the pod back
        fresh = {name: await self._fetch(name, namespace) for name in names_used(pod)}
        found = find_obstacle(pod, node, fresh.get, self._published)
        if found is not None and self._seen_pods.get(pod.metadata.name, namespace) is not None:
            self._blocked.set(_key(pod), found.cause)
        return found

    async def _fetch(self, name: str, namespace: str) -> ResourceClaim | None:
        try:
            return await self._claims.get(name, namespace)
        except NotFound:
            return None

    async def _run(self, pod: Pod) -> Again | None:
        seconds = run_seconds(pod)
        if seconds is None:
            return None
        remaining = left(pod.status.start_time, seconds, self._now())
        if remaining > 0:
            return Again(remaining, "its run time is not over")
        await self._patch(pod, pod_status.ended(pod, self._stamp(), exit_code(pod)))
        return None

    async def _remove(self, pod: Pod) -> None:
        if not finished(pod):
            pod = await self._patch(pod, pod_status.ended(pod, self._stamp(), _STOPPED_BY_SIGNAL))
        if (
            pod.metadata.deletion_grace_period_seconds != 0
        ):  # otherwise a finalizer holds it, and the deletion was already requested
            await self._pods.delete(
                pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid, grace_seconds=0
            )

    async def _patch(self, pod: Pod, patch: pod_status.Obj) -> Pod:
        return await self._pods.change(pod, patch, type_=PatchType.STRATEGIC, subresource="status")

    def _stamp(self) -> str:
        return timestamp(self._now())


class _Blocked:
    """Which pods wait for which causes.

    Invariant: a pod waits for at most one cause, and both directions agree.
    """

    def __init__(self) -> None:
        self._causes: dict[PodKey, Cause] = {}
        self._pods: dict[Cause, set[PodKey]] = {}

    def set(self, pod: PodKey, cause: Cause | None) -> None:
        self.clear(pod)
        if cause is not None:
            self._causes[pod] = cause
            self._pods.setdefault(cause, set()).add(pod)

    def clear(self, pod: PodKey) -> None:
        cause = self._causes.pop(pod, None)
        if cause is not None:
            self._pods[cause].discard(pod)
            if not self._pods[cause]:
                del self._pods[cause]

    def behind(self, cause: Cause) -> tuple[PodKey, ...]:
        return tuple(self._pods.get(cause, ()))


def _key(pod: Pod) -> PodKey:
    return pod.metadata.namespace, pod.metadata.name


def _pool_of(slice: ResourceSlice) -> PoolKey:
    return PoolKey(slice.spec.driver, slice.spec.pool.name)
