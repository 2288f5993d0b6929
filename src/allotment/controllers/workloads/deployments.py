"""Deployments: one replica set for each pod template that a deployment has had, and the transition from one to the next.

Each call takes one step and updates the status; the replica sets' changes trigger the next call.

1. Matching replica sets without a controller are adopted. The *new* set is the one whose template is the deployment's.
2. While paused, or when the number of replicas has changed, sets are only resized in proportion.
3. Otherwise the new set is created (its name is the deployment's and a hash of the template, so that the server refuses a
   second one), and pods move to it: by the steps of ``rollout.py``, or with Recreate after all old pods have ended.
4. When the rollout is complete, sets beyond the history limit are deleted.

Decisions wait until the copy shows the controller's own last writes. Every write names the version on which it is based, so
an old copy leads to a conflict and a retry, never to two sets for one template. If a foreign set has the name,
``collisionCount`` is increased, which is part of the hash.
"""

from __future__ import annotations

from contextlib import suppress

from allotment.api.core import Pod
from allotment.api.label_selector import matches
from allotment.api.rights import READ
from allotment.api.status import AlreadyExists, Conflict, NotFound, StatusError
from allotment.client.client import Client
from allotment.client.form import Obj
from allotment.client.informer import Key
from allotment.client.recorder import EventType, Recorder
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers import conditions
from allotment.controllers.clock import Now, real_time
from allotment.controllers.controller import Again
from allotment.controllers.own_writes import OwnWrites
from allotment.controllers.ownership import (
    CONTROLLED,
    controller_of,
    controller_reference,
    controller_uid,
    plain_controller_of,
)
from allotment.controllers.pod_state import finished
from allotment.controllers.workloads.adoption import NAMESPACE, namespace_of
from allotment.controllers.workloads.revision import (
    DESIRED,
    GROUP,
    KIND,
    REVISION,
    age,
    annotations_of,
    essence,
    new_set,
    notes,
    outdated,
    revision_of,
)
from allotment.controllers.workloads.rollout import ROLLING, Size, bounds, grown, rescaled, rolled
from allotment.controllers.workloads.rollout_status import (
    DONE,
    PAUSED,
    STUCK,
    RolloutState,
    complete,
    counts_of,
)
from allotment.controllers.workloads.workload_events import WorkloadEvents


class Deployments:
    """The reconciler; its keys are namespace and name of a deployment."""

    name = "deployments"
    rights = (
        f"{READ}: core: pods",
        f"{READ}: apps: deployments",
        f"create,delete,patch,{READ}: apps: replicasets",
        "patch: apps: deployments/status",
        "update: apps: deployments/finalizers",
    )

    def __init__(
        self, client: Client, informers: Informers, recorder: Recorder, *, now: Now = real_time
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue()
        self._deployments = client.plain(GROUP, "deployments")
        self._sets = client.plain(GROUP, "replicasets")
        self._seen = informers.plain(GROUP, "deployments")
        self._seen.add_index(NAMESPACE, namespace_of)
        self._seen_sets = informers.plain(GROUP, "replicasets")
        self._seen_sets.add_index(NAMESPACE, namespace_of)
        self._pods = informers.of(Pod)
        self._pods.add_index(CONTROLLED, controller_uid)
        self._writes: OwnWrites[str] = OwnWrites(self._seen_sets)
        self._events = WorkloadEvents(recorder, GROUP, KIND)
        self._now = now
        self._seen.on_change(self._deployment_changed)
        self._seen_sets.on_change(self._set_changed)
        self._pods.on_change(self._pod_changed)

    # --- what brings a key ---

    def _deployment_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None:
            self.queue.add((new["metadata"]["namespace"], new["metadata"]["name"]))

    def _set_changed(self, old: Obj | None, new: Obj | None) -> None:
        for each in (old, new):
            if each is not None and (key := _deployment_of(each)) is not None:
                self.queue.add(key)
        if new is not None and plain_controller_of(new) is None:
            labels = new["metadata"].get("labels") or {}
            for each in self._seen.by(NAMESPACE, new["metadata"]["namespace"]):
                if matches(each["spec"].get("selector"), labels):
                    self.queue.add((each["metadata"]["namespace"], each["metadata"]["name"]))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Recreate waits for the end of old pods, about which their set says nothing."""
        pod = new or old
        if pod is None or (new is not None and not finished(new)):
            return
        owner = controller_of(pod)
        found = None if owner is None else self._seen_sets.get(owner.name, pod.metadata.namespace)
        if found is not None and (key := _deployment_of(found)) is not None:
            self.queue.add(key)

    # --- one deployment ---

    async def reconcile(self, key: Key) -> Again | None:
        found = self._seen.get(key[1], key[0])
        if found is None:
            return None
        await self._writes.seen(found["metadata"]["uid"])
        deployment = self._seen.get(key[1], key[0])
        if deployment is None:
            return None
        if deployment["metadata"].get("deletionTimestamp") is None:
            await self._claim(deployment)
            await self._writes.seen(deployment["metadata"]["uid"])
            try:
                await self._step(deployment)
            except _Refused as exc:
                await self._report(deployment, exc.message)
                raise exc.error from exc
            await self._writes.seen(deployment["metadata"]["uid"])
        return await self._report(deployment)

    async def _claim(self, deployment: Obj) -> None:
        """Adopts matching sets without a controller, and releases the deployment's own sets that no longer match."""
        meta, selector = deployment["metadata"], deployment["spec"].get("selector")
        orphans, strays = [], []
        for each in self._seen_sets.by(NAMESPACE, meta["namespace"]):
            owner = plain_controller_of(each)
            if matches(selector, each["metadata"].get("labels") or {}):
                if owner is None and each["metadata"].get("deletionTimestamp") is None:
                    orphans.append(each)
            elif owner is not None and owner["uid"] == meta["uid"]:
                strays.append(each)
        if orphans:
            fresh = (await self._deployments.get(meta["name"], meta["namespace"]))["metadata"]
            if fresh["uid"] != meta["uid"] or fresh.get("deletionTimestamp") is not None:
                raise Conflict(f"deployment {meta['namespace']}/{meta['name']} is being deleted")
        reference = controller_reference(GROUP, KIND, meta["name"], meta["uid"])
        for each in orphans:
            owners = [*(each["metadata"].get("ownerReferences") or ()), reference]
            await self._patch_set(deployment, each, {"metadata": {"ownerReferences": owners}})
        for each in strays:
            kept = [one for one in each["metadata"]["ownerReferences"] if one["uid"] != meta["uid"]]
            await self._patch_set(deployment, each, {"metadata": {"ownerReferences": kept or None}})

    def _split(self, deployment: Obj) -> tuple[Obj | None, list[Obj]]:
        """The new set, if there is one, and the old ones, all as the copy has them."""
        meta = deployment["metadata"]
        sets = [
            each
            for each in self._seen_sets.by(NAMESPACE, meta["namespace"])
            if (owner := plain_controller_of(each)) is not None and owner["uid"] == meta["uid"]
        ]
        wanted = essence(deployment["spec"]["template"])
        alike = [each for each in sets if essence(each["spec"]["template"]) == wanted]
        new = min(alike, key=age, default=None)
        return new, [each for each in sets if each is not new]

    async def _step(self, deployment: Obj) -> None:
        new, old = self._split(deployment)
        spec = deployment["spec"]
        if new is not None and (changes := outdated(deployment, new, old)):
            await self._patch_set(deployment, new, changes)
        elif spec.get("paused") or self._resized(deployment, new, old):
            sizes = rescaled(bounds(spec), None if new is None else _size(new), [_size(each) for each in old])
            await self._resize(deployment, [each for each in (new, *old) if each is not None], sizes)
        elif (spec.get("strategy") or {}).get("type", ROLLING) == ROLLING:
            await self._roll(deployment, new, old)
        else:
            await self._recreate(deployment, new, old)

    def _resized(self, deployment: Obj, new: Obj | None, old: list[Obj]) -> bool:
        """Whether the number of replicas changed since a set with pods was last resized."""
        wanted = str(deployment["spec"].get("replicas", 1))
        sets = [each for each in (new, *old) if each is not None and each["spec"].get("replicas", 1)]
        noted = [annotations_of(each).get(DESIRED) for each in sets]
        return any(each is not None and each != wanted for each in noted)

    async def _roll(self, deployment: Obj, new: Obj | None, old: list[Obj]) -> None:
        allowed = bounds(deployment["spec"])
        if new is None:
            others = sum(each["spec"].get("replicas", 1) for each in old)
            await self._create(deployment, old, grown(allowed, 0, others))
            return
        sizes = rolled(allowed, _size(new), [_size(each) for each in old])
        await self._resize(deployment, [new, *old], sizes)
        if not sizes:
            await self._clean_up(deployment, old)

    async def _recreate(self, deployment: Obj, new: Obj | None, old: list[Obj]) -> None:
        replicas = deployment["spec"].get("replicas", 1)
        active = {each["metadata"]["name"]: 0 for each in old if each["spec"].get("replicas", 1)}
        if active:
            await self._resize(deployment, old, active)
        elif any(self._has_pods(each) for each in old):
            return
        elif new is None:
            await self._create(deployment, old, replicas)
        elif new["spec"].get("replicas", 1) != replicas:
            await self._resize(deployment, [new], {new["metadata"]["name"]: replicas})
        else:
            await self._clean_up(deployment, old)

    def _has_pods(self, replica_set: Obj) -> bool:
        if (replica_set.get("status") or {}).get("replicas"):
            return True
        return any(not finished(pod) for pod in self._pods.by(CONTROLLED, replica_set["metadata"]["uid"]))

    async def _resize(self, deployment: Obj, sets: list[Obj], sizes: dict[str, int]) -> None:
        """Resizes sets, and records in all sets with pods the number of replicas on which the sizes are based."""
        noted = notes(deployment)
        for each in sets:
            before = each["spec"].get("replicas", 1)
            size = sizes.get(each["metadata"]["name"], before)
            known = noted.items() <= annotations_of(each).items()
            if size == before and (known or not size):
                continue
            await self._patch_set(
                deployment, each, {"spec": {"replicas": size}, "metadata": {"annotations": noted}}
            )
            if size != before:
                self._tell_size(deployment, each["metadata"]["name"], before, size)

    def _tell_size(self, deployment: Obj, name: str, before: int, size: int) -> None:
        way = "up" if size > before else "down"
        message = f"Scaled {way} replica set {name} from {before} to {size}"
        self._events.tell(deployment, EventType.NORMAL, "ScalingReplicaSet", message)

    async def _create(self, deployment: Obj, old: list[Obj], replicas: int) -> None:
        wanted = new_set(deployment, old, replicas)
        meta = deployment["metadata"]
        name = wanted["metadata"]["name"]
        try:
            made = await self._sets.create(wanted, meta["namespace"])
        except AlreadyExists:
            await self._find(deployment, name)
            return
        except StatusError as exc:
            message = f"Failed to create new replica set {name!r}: {exc.message}"
            self._events.tell(deployment, EventType.WARNING, "ReplicaSetCreateError", message)
            raise _Refused(exc, message) from exc
        self._writes.wrote(meta["uid"], made["metadata"]["resourceVersion"])
        if replicas:
            self._tell_size(deployment, name, 0, replicas)

    async def _find(self, deployment: Obj, name: str) -> None:
        """Handles a taken name: either the new set already exists and the copy will show it, or the name belongs to another
        set, and the hash must change."""
        meta = deployment["metadata"]
        there = await self._sets.get(name, meta["namespace"])
        owner = plain_controller_of(there)
        if (
            owner is not None
            and owner["uid"] == meta["uid"]
            and essence(there["spec"]["template"]) == essence(deployment["spec"]["template"])
        ):
            self._writes.wrote(meta["uid"], there["metadata"]["resourceVersion"])
            return
        collisions = ((deployment.get("status") or {}).get("collisionCount") or 0) + 1
        patch = {"status": {"collisionCount": collisions}}
        await self._deployments.change(deployment, patch, subresource="status")
        raise Conflict(
            f"replica set {meta['namespace']}/{name} does not belong to this deployment; choosing another name"
        )

    async def _clean_up(self, deployment: Obj, old: list[Obj]) -> None:
        """Deletes sets without pods beyond the history limit, lowest revision first, once the rollout is complete."""
        limit = deployment["spec"].get("revisionHistoryLimit")
        if limit is None or not complete(deployment, deployment.get("status") or {}):
            return
        kept = [each for each in old if each["metadata"].get("deletionTimestamp") is None]
        kept.sort(key=lambda each: (revision_of(each), age(each)))
        for each in kept[: max(0, len(kept) - limit)]:
            meta, status = each["metadata"], each.get("status") or {}
            unseen = meta.get("generation", 0) > (status.get("observedGeneration") or 0)
            if not (each["spec"].get("replicas", 1) or status.get("replicas") or unseen):
                with suppress(NotFound):
                    await self._sets.remove(each)

    # --- what is said ---

    async def _report(self, deployment: Obj, refused: str = "") -> Again | None:
        new, old = self._split(deployment)
        status, counts = deployment.get("status") or {}, counts_of(deployment, new, old)
        standing = RolloutState(deployment, counts, new, old, self._now(), refused)
        wanted = {**counts, "conditions": standing.conditions()}
        patch: Obj = {}
        if any((status.get(name) or 0) != value for name, value in wanted.items()):
            patch["status"] = wanted
        revision = None if new is None else annotations_of(new).get(REVISION)
        if revision is not None and annotations_of(deployment).get(REVISION) != revision:
            patch["metadata"] = {"annotations": {REVISION: revision}}
        if patch:
            await self._deployments.change(deployment, patch, subresource="status")
        progress = conditions.found(wanted["conditions"], "Progressing")
        if progress is None or progress["reason"] in (DONE, STUCK, PAUSED):
            return None
        return Again(max(1.0, standing.seconds_left(progress) + 1), "the rollout may be stuck then")

    # --- writes ---

    async def _patch_set(self, deployment: Obj, replica_set: Obj, patch: Obj) -> None:
        changed = await self._sets.change(replica_set, patch)
        self._writes.wrote(deployment["metadata"]["uid"], changed["metadata"]["resourceVersion"])


class _Refused(Exception):
    """The server refuses the new replica set."""

    def __init__(self, error: StatusError, message: str) -> None:
        super().__init__(message)
        self.error, self.message = error, message


def _size(replica_set: Obj) -> Size:
    """The size of a set. A status may be older than the size: a set that must shrink keeps at most its new size."""
    wanted = replica_set["spec"].get("replicas", 1)
    available = (replica_set.get("status") or {}).get("availableReplicas") or 0
    return Size(replica_set["metadata"]["name"], wanted, min(available, wanted), age(replica_set))


def _deployment_of(replica_set: Obj) -> Key | None:
    owner = plain_controller_of(replica_set)
    if owner is None or (owner.get("apiVersion"), owner.get("kind")) != (GROUP, KIND):
        return None
    return replica_set["metadata"]["namespace"], owner["name"]
