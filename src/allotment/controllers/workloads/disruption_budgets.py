"""Disruption budgets: how many pods of a set may be disrupted now, as a limit for evictions and preemption.

The status is computed from the pods that match the selector: how many are expected (those that exist or, with a percentage or
``maxUnavailable``, the sizes that their controllers ask for), how many must be healthy, and how many are. The difference may
be disrupted.

An eviction takes its disruption from the status itself, and records the pod in ``disruptedPods``. Until the copy shows that
this pod is being deleted, it does not count as healthy here, so nothing is granted twice. A pod that still exists two minutes
later was not deleted after all, and counts again. Statuses are written with the version on which they are based, so an
eviction in between is never overwritten.

If the size is unknown (a controller that is neither a replica set nor a deployment), the budget allows no disruption, and its
condition says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from allotment.api.core import Pod
from allotment.api.label_selector import matches, selector_of
from allotment.api.rights import READ
from allotment.api.timestamps import timestamp
from allotment.client.client import Client
from allotment.client.form import Obj
from allotment.client.informer import Key
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers import conditions
from allotment.controllers.clock import Now, left, real_time
from allotment.controllers.controller import Again
from allotment.controllers.ownership import controller_of, plain_controller_of
from allotment.controllers.pod_state import is_ready
from allotment.controllers.workloads.adoption import NAMESPACE, namespace_of
from allotment.controllers.workloads.share_of_pods import share

GROUP, KIND = "policy/v1", "PodDisruptionBudget"
EVICTED_SECONDS = 120.0
"""Seconds until an evicted pod that still exists counts as healthy again."""


def _pod_namespace(pod: Pod) -> list[str]:
    return [pod.metadata.namespace]


@dataclass(frozen=True, slots=True)
class Expected:
    """How many pods there should be, and how many of them healthy. ``problem``: why that is unknown."""

    pods: int = 0
    healthy: int = 0
    problem: str = ""


class DisruptionBudgets:
    """The reconciler; its keys are namespace and name of a budget."""

    name = "disruption-budgets"
    rights = (
        f"{READ}: core: pods",
        f"{READ}: apps: deployments,replicasets",
        f"{READ}: policy: poddisruptionbudgets",
        "patch: policy: poddisruptionbudgets/status",
    )

    def __init__(
        self, client: Client, informers: Informers, recorder: Recorder, *, now: Now = real_time
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue()
        self._budgets = client.plain(GROUP, "poddisruptionbudgets")
        self._seen = informers.plain(GROUP, "poddisruptionbudgets")
        self._seen.add_index(NAMESPACE, namespace_of)
        self._pods = informers.of(Pod)
        self._pods.add_index(NAMESPACE, _pod_namespace)
        self._sets = informers.plain("apps/v1", "replicasets")
        self._deployments = informers.plain("apps/v1", "deployments")
        self._recorder = recorder
        self._now = now
        self._seen.on_change(self._budget_changed)
        self._pods.on_change(self._pod_changed)
        self._sets.on_change(self._size_changed)
        self._deployments.on_change(self._size_changed)

    # --- what brings a key ---

    def _budget_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None:
            self._add(new)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or (old is not None and new is not None and _matters(old) == _matters(new)):
            return
        for budget in self._seen.by(NAMESPACE, pod.metadata.namespace):
            selector = selector_of(budget["spec"].get("selector"))
            labels = [each.metadata.labels for each in (old, new) if each is not None]
            if selector is not None and any(map(selector.matches, labels)):
                self._add(budget)

    def _size_changed(self, old: Obj | None, new: Obj | None) -> None:
        if old is None or new is None or old["spec"].get("replicas") != new["spec"].get("replicas"):
            for budget in self._seen.by(NAMESPACE, (new or old or {})["metadata"]["namespace"]):
                self._add(budget)

    def _add(self, budget: Obj) -> None:
        self.queue.add((budget["metadata"]["namespace"], budget["metadata"]["name"]))

    # --- one budget ---

    async def reconcile(self, key: Key) -> Again | None:
        budget = self._seen.get(key[1], key[0])
        if budget is None or budget["metadata"].get("deletionTimestamp") is not None:
            return None
        selector, now = budget["spec"].get("selector"), self._now()
        pods = [pod for pod in self._pods.by(NAMESPACE, key[0]) if matches(selector, pod.metadata.labels)]
        disrupted = self._still_going(budget, pods, now)
        await self._report(budget, self._status(budget, pods, disrupted))
        waits = [left(at, EVICTED_SECONDS, now) for at in disrupted.values()]
        return Again(max(0.0, min(waits)), "an evicted pod should be gone by then") if waits else None

    def _still_going(self, budget: Obj, pods: list[Pod], now: datetime) -> dict[str, str]:
        """The evicted pods that the copy does not show as being deleted, and that may still be."""
        noted: dict[str, str] = (budget.get("status") or {}).get("disruptedPods") or {}
        found = {}
        for pod in pods:
            at = noted.get(pod.metadata.name)
            if at is None or pod.metadata.deletion_timestamp is not None:
                continue
            if left(at, EVICTED_SECONDS, now) > 0:
                found[pod.metadata.name] = at
            else:
                meta = pod.metadata
                subject = Subject("v1", "Pod", meta.name, meta.namespace, meta.uid)
                message = "The pod was evicted but not deleted; it counts for its disruption budget again"
                self._recorder.tell(subject, EventType.WARNING, "NotDeleted", message)
        return found

    def _status(self, budget: Obj, pods: list[Pod], disrupted: dict[str, str]) -> Obj:
        expected = self._expected(budget, pods)
        healthy = sum(
            is_ready(pod) and pod.metadata.deletion_timestamp is None and pod.metadata.name not in disrupted
            for pod in pods
        )
        spare = healthy - expected.healthy if expected.pods > 0 and not expected.problem else 0
        status = budget.get("status") or {}
        generation = budget["metadata"].get("generation", 0)
        condition = _condition(max(0, spare), generation, expected.problem)
        told = conditions.put(list(status.get("conditions") or ()), condition, timestamp(self._now()))
        gone = dict.fromkeys((status.get("disruptedPods") or {}).keys() - disrupted.keys())
        return {
            "currentHealthy": healthy,
            "desiredHealthy": expected.healthy,
            "expectedPods": expected.pods,
            "disruptionsAllowed": max(0, spare),
            "disruptedPods": {**disrupted, **gone},
            "observedGeneration": generation,
            "conditions": told,
        }

    def _expected(self, budget: Obj, pods: list[Pod]) -> Expected:
        spec = budget["spec"]
        least, most_missing = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most_missing is None and not isinstance(least, str):
            return Expected(len(pods) if least is not None else 0, least or 0)
        sizes: dict[str, int] = {}
        unknown = 0
        for pod in pods:
            owner = controller_of(pod)
            if (
                owner is None or owner.uid in sizes
            ):  # a pod without a controller is not expected to be replaced
                continue
            found = self._size(pod)
            if found is None:
                unknown += 1
            else:
                sizes[found[0]] = found[1]
        if unknown:
            message = (
                f"the size of the controllers of {unknown} pods is unknown; give minAvailable as a number"
            )
            return Expected(problem=message)
        total = sum(sizes.values())
        if most_missing is not None:
            return Expected(total, max(0, total - share(most_missing, total, round_up=True)))
        return Expected(total, share(least, total, round_up=True))

    def _size(self, pod: Pod) -> tuple[str, int] | None:
        """The controller that decides how many pods like this there are, and that number."""
        owner = controller_of(pod)
        if owner is None or (owner.api_version, owner.kind) != ("apps/v1", "ReplicaSet"):
            return None
        replica_set = self._sets.get(owner.name, pod.metadata.namespace)
        if replica_set is None or replica_set["metadata"]["uid"] != owner.uid:
            return None
        above = plain_controller_of(replica_set)
        if above is None or above.get("kind") != "Deployment":
            return owner.uid, replica_set["spec"].get("replicas", 1)
        deployment = self._deployments.get(above["name"], pod.metadata.namespace)
        if deployment is None or deployment["metadata"]["uid"] != above["uid"]:
            return None
        return above["uid"], deployment["spec"].get("replicas", 1)

    async def _report(self, budget: Obj, wanted: Obj) -> None:
        status = budget.get("status") or {}
        if any((status.get(name) or 0) != (value or 0) for name, value in wanted.items()):
            await self._budgets.change(budget, {"status": wanted}, subresource="status")


def _condition(spare: int, generation: int, problem: str) -> Obj:
    reason = "SyncFailed" if problem else "SufficientPods" if spare else "InsufficientPods"
    return {
        "type": "DisruptionAllowed",
        "status": "True" if spare else "False",
        "observedGeneration": generation,
        "reason": reason,
        "message": problem,
    }


def _matters(pod: Pod) -> tuple[dict[str, str], bool, bool]:
    meta = pod.metadata
    return meta.labels, is_ready(pod), meta.deletion_timestamp is not None
