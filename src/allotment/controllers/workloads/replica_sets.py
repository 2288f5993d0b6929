"""Replica sets: exactly as many pods of one template as requested.

1. Pods that match the selector and have no controller are adopted; the set's own pods that no longer match are released.
2. Missing pods are created, in batches of 1, 2, 4, …, so that a quota which allows none refuses one request and not a
   thousand. Surplus pods are deleted, those with the least to lose first: not bound, pending, not ready, several on a node,
   new.
3. The status contains the counts from before these changes. The pods' changes bring the key back.

``made_pods.py`` explains why this is correct with an old copy and lost replies. A creation that the server refuses leads to
an event, the condition ReplicaFailure, and a later attempt. The garbage collector deletes the pods of a deleted set.

Left out of upstream's order of deletion: restarts of containers, and the rounding of ages to powers of two.
"""

from __future__ import annotations

from collections.abc import Callable

from allotment.api.core import Pod
from allotment.api.label_selector import selector_of
from allotment.api.rights import READ
from allotment.api.status import Conflict, NotFound, StatusError
from allotment.api.timestamps import timestamp
from allotment.client.client import Client
from allotment.client.form import Obj
from allotment.client.informer import Key
from allotment.client.recorder import Recorder
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers import conditions
from allotment.controllers.clock import Now, real_time
from allotment.controllers.controller import Again
from allotment.controllers.ownership import controller_of, controller_reference, plain_controller_of
from allotment.controllers.pod_state import finished, seconds_to_available
from allotment.controllers.workloads import made_pods
from allotment.controllers.workloads.adoption import NAMESPACE, Adoption
from allotment.controllers.workloads.growing_batches import in_growing_batches
from allotment.controllers.workloads.made_pods import (
    Offspring,
    from_template,
    random_suffix,
)
from allotment.controllers.workloads.surplus_pods import first_to_go
from allotment.controllers.workloads.workload_events import WorkloadEvents

GROUP, KIND = "apps/v1", "ReplicaSet"
BURST = 500
"""How many pods are created or deleted in one call, as upstream."""


class ReplicaSets:
    """The reconciler; its keys are namespace and name of a replica set."""

    name = "replica-sets"
    rights = (
        *made_pods.RIGHTS,
        f"{READ}: apps: replicasets",
        "patch: apps: replicasets/status",
        "update: apps: replicasets/finalizers",
    )

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        *,
        now: Now = real_time,
        suffix: Callable[[], str] = random_suffix,
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue()
        self._sets = client.plain(GROUP, "replicasets")
        self._seen = informers.plain(GROUP, "replicasets")
        self._offspring = Offspring(client, informers, now, suffix)
        self._pods = informers.of(Pod)
        self._adoption = Adoption((GROUP, KIND), self._sets, self._seen, self._pods, self._offspring)
        self._events = WorkloadEvents(recorder, GROUP, KIND)
        self._now = now
        self._seen.on_change(self._set_changed)
        self._pods.on_change(self._pod_changed)

    # --- what brings a key ---

    def _set_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None and old is not None:
            self._offspring.forget(old["metadata"]["uid"])
        elif new is not None:
            self.queue.add((new["metadata"]["namespace"], new["metadata"]["name"]))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            owner = None if pod is None else controller_of(pod)
            if pod is not None and owner is not None and owner.kind == KIND and owner.api_version == GROUP:
                self.queue.add((pod.metadata.namespace, owner.name))
        for key in self._adoption.claimants(old, new):
            self.queue.add(key)

    # --- one set ---

    async def reconcile(self, key: Key) -> Again | None:
        found = self._seen.get(key[1], key[0])
        if found is None:
            return None
        await self._offspring.settled(found["metadata"]["uid"])
        replica_set = self._seen.get(key[1], key[0])
        selector = selector_of(replica_set["spec"].get("selector")) if replica_set is not None else None
        if replica_set is None or selector is None:
            return None
        going = replica_set["metadata"].get("deletionTimestamp") is not None
        if not going:
            await self._adoption.claim(replica_set, selector, self._counts)
            await self._offspring.settled(replica_set["metadata"]["uid"])
        owned = self._offspring.of(replica_set["metadata"]["uid"])
        pods = self._offspring.active(pod for pod in owned if selector.matches(pod.metadata.labels))
        failure = None if going else await self._resize(replica_set, pods)
        await self._report(replica_set, pods, failure)
        if failure is not None:
            raise failure
        return self._next_availability(replica_set, pods)

    def _counts(self, pod: Pod) -> bool:
        """Whether a pod counts towards the size of a set: neither ended nor being deleted."""
        return not finished(pod) and not self._offspring.going(pod)

    async def _resize(self, replica_set: Obj, pods: list[Pod]) -> StatusError | None:
        """Creates or deletes pods to reach the requested number. Returns the server's refusal, for the status."""
        surplus = len(pods) - replica_set["spec"].get("replicas", 1)
        try:
            if surplus < 0:
                await in_growing_batches(
                    min(-surplus, BURST),
                    lambda _: self._create(replica_set),
                    self._events.refused(replica_set, "creat"),
                )
            elif surplus > 0:
                ranked = first_to_go(pods, self._pods_of_siblings(replica_set))
                ranked.sort(key=lambda pod: not self._offspring.in_doubt(pod))
                await in_growing_batches(
                    min(surplus, BURST),
                    lambda number: self._delete(replica_set, ranked[number]),
                    self._events.refused(replica_set, "delet"),
                )
        except (Conflict, NotFound):
            raise
        except StatusError as exc:
            return exc
        return None

    async def _create(self, replica_set: Obj) -> None:
        meta = replica_set["metadata"]
        reference = controller_reference(GROUP, KIND, meta["name"], meta["uid"])
        pod = from_template(replica_set["spec"]["template"], reference)
        name = await self._offspring.create(meta["uid"], pod, f"{meta['name']}-", meta["namespace"])
        if name is not None:
            self._events.created(replica_set, name)

    async def _delete(self, replica_set: Obj, pod: Pod) -> None:
        if await self._offspring.delete(pod):
            self._events.deleted(replica_set, pod.metadata.name)

    def _pods_of_siblings(self, replica_set: Obj) -> list[Pod]:
        """The pods of all sets of the same owner: among a deployment's old pods, those go first whose node has a new one."""
        meta = replica_set["metadata"]
        owner = plain_controller_of(replica_set)
        siblings = [replica_set]
        if owner is not None:
            others = (
                (each, plain_controller_of(each)) for each in self._seen.by(NAMESPACE, meta["namespace"])
            )
            siblings = [each for each, theirs in others if theirs and theirs["uid"] == owner["uid"]]
        return [pod for each in siblings for pod in self._offspring.of(each["metadata"]["uid"])]

    # --- what is said ---

    async def _report(self, replica_set: Obj, pods: list[Pod], failure: StatusError | None) -> None:
        status = replica_set.get("status") or {}
        wanted = self._status(replica_set, pods)
        old = list(status.get("conditions") or ())
        new = conditions.without(old, "ReplicaFailure") if failure is None else old
        if failure is not None and conditions.found(old, "ReplicaFailure") is None:
            missing = len(pods) < replica_set["spec"].get("replicas", 1)
            condition = {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate" if missing else "FailedDelete",
                "message": failure.message,
            }
            new = conditions.put(old, condition, timestamp(self._now()))
        if new != old:
            wanted["conditions"] = new or None
        if any(status.get(name, 0) != value for name, value in wanted.items()):
            await self._sets.change(replica_set, {"status": wanted}, subresource="status")

    def _status(self, replica_set: Obj, pods: list[Pod]) -> Obj:
        spec, now = replica_set["spec"], self._now()
        labels = (spec["template"].get("metadata") or {}).get("labels") or {}
        waits = [seconds_to_available(pod, spec.get("minReadySeconds") or 0, now) for pod in pods]
        return {
            "replicas": len(pods),
            "fullyLabeledReplicas": sum(labels.items() <= pod.metadata.labels.items() for pod in pods),
            "readyReplicas": sum(wait is not None for wait in waits),
            "availableReplicas": sum(wait is not None and wait <= 0 for wait in waits),
            "observedGeneration": replica_set["metadata"].get("generation", 0),
        }

    def _next_availability(self, replica_set: Obj, pods: list[Pod]) -> Again | None:
        seconds = replica_set["spec"].get("minReadySeconds") or 0
        waits = [seconds_to_available(pod, seconds, self._now()) for pod in pods]
        after = min((wait for wait in waits if wait is not None and wait > 0), default=None)
        return None if after is None else Again(after, "a pod counts as available then")
