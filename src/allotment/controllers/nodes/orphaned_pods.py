"""Removes pods whose node no longer exists, so that their claims are released.

No kubelet is left that could report the end of the pod's containers. After 40 seconds (in which a node that was only
registered anew is back), and after the server itself has confirmed that the node does not exist, the pod is marked Failed and
deleted without a grace period. The condition ``DisruptionTarget`` lets a Job distinguish this from a failure of the program.
Pods that are already being deleted, and pods that were bound to a node that never existed, are treated in the same way.
"""

from __future__ import annotations

from collections.abc import Callable

from allotment.api.core import Node, Pod
from allotment.api.rights import READ
from allotment.api.status import NotFound
from allotment.api.timestamps import timestamp
from allotment.client.client import Client, PatchType
from allotment.client.informer import Key
from allotment.client.recorder import Recorder
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.clock import Now, loop_time, real_time
from allotment.controllers.controller import Again
from allotment.controllers.pod_state import BY_NODE, finished, node_of

ABSENT_SECONDS = 40.0


class OrphanedPods:
    """Reconciles pods that are bound to a node. ``clock`` is monotonic."""

    name = "orphaned-pods"
    rights = (
        f"{READ}: core: nodes,pods",
        "delete: core: pods",
        "patch: core: pods/status",
    )

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        *,
        now: Now = real_time,
        clock: Callable[[], float] = loop_time,
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue()
        self._now, self._clock = now, clock
        self._client_pods, self._client_nodes = client.of(Pod), client.of(Node)
        self._pods, self._nodes = informers.of(Pod), informers.of(Node)
        self._absent: dict[
            str, float
        ] = {}  # nodes that pods name, and since when they are known to be absent
        self._pods.add_index(BY_NODE, node_of)
        self._pods.on_change(self._pod_changed)
        self._nodes.on_change(self._node_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None and pod.spec.node_name and self._nodes.get(pod.spec.node_name) is None:
            self.queue.add((pod.metadata.namespace, pod.metadata.name))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self._absent.pop(new.metadata.name, None)
        elif old is not None:
            for pod in self._pods.by(BY_NODE, old.metadata.name):
                self.queue.add((pod.metadata.namespace, pod.metadata.name))

    async def reconcile(self, key: Key) -> Again | None:
        pod = self._pods.get(key[1], key[0])
        node = pod.spec.node_name if pod is not None else None
        if pod is None or not node or self._nodes.get(node) is not None:
            self._forget_unnamed()
            return None
        left = self._absent.setdefault(node, self._clock()) + ABSENT_SECONDS - self._clock()
        if left > 0:
            return Again(left, "its node may come back")
        if not await self._exists(node):
            await self._remove(pod)
        return None

    def _forget_unnamed(self) -> None:
        for node in [node for node in self._absent if not self._pods.by(BY_NODE, node)]:
            del self._absent[node]

    async def _exists(self, node: str) -> bool:
        try:
            await self._client_nodes.get(node)
        except NotFound:
            return False
        return True

    async def _remove(self, pod: Pod) -> None:
        meta = pod.metadata
        if not finished(pod):
            await self._client_pods.change(
                pod, _orphaned(timestamp(self._now())), type_=PatchType.STRATEGIC, subresource="status"
            )
        if (
            meta.deletion_grace_period_seconds != 0
        ):  # otherwise a finalizer holds it, and the deletion was already requested
            await self._client_pods.delete(meta.name, meta.namespace, uid=meta.uid, grace_seconds=0)


def _orphaned(now: str) -> dict[str, object]:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "the pod's node no longer exists",
        "lastTransitionTime": now,
    }
    return {"status": {"phase": "Failed", "conditions": [condition]}}
