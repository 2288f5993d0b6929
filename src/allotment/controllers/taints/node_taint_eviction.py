"""Pods leave nodes that have a ``NoExecute`` taint, at once or when their toleration ends.

As in Kubernetes, the first matching toleration of a taint counts: without seconds, it tolerates the taint for ever; with
seconds, until then. A pod is evicted when the first of its taints is no longer tolerated.

Seconds count from the moment when both the taint and the pod were on the node, according to their own times (``timeAdded``
and the condition ``PodScheduled``), so that a restart of this controller does not begin them anew. People who taint a node
often leave the time out; then the seconds count from when this controller first saw the taint.
"""

from __future__ import annotations

from datetime import datetime

from allotment.api.core import Node, Pod, Taint, Toleration
from allotment.api.rights import READ
from allotment.api.timestamps import moment
from allotment.api.toleration import tolerates
from allotment.client.client import Client
from allotment.client.informer import Key
from allotment.client.recorder import Recorder
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.clock import Now, real_time
from allotment.controllers.controller import Again
from allotment.controllers.pod_state import BY_NODE, node_of
from allotment.controllers.taints import eviction
from allotment.controllers.taints.eviction import Evictions, EvictionWords, can_go, later

_WORDS = EvictionWords(
    "TaintManagerEviction",
    "DeletionByTaintManager",
    "its node has a NoExecute taint that it does not tolerate (any more)",
)


class TaintEviction:
    """Checks the pods of a node when its taints change, and a pod when it is bound or when its tolerations change."""

    name = "taint-eviction"
    rights = (
        *eviction.RIGHTS,
        f"{READ}: core: nodes",
    )

    def __init__(
        self, client: Client, informers: Informers, recorder: Recorder, *, now: Now = real_time
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue()
        self._now = now
        self._evictions = Evictions(client, recorder, _WORDS, now)
        self._noticed: dict[str, datetime] = {}  # pods by uid: since when they are seen on a tainted node
        self._nodes = informers.of(Node)
        self._pods = informers.of(Pod)
        self._pods.add_index(BY_NODE, node_of)
        self._pods.on_change(self._pod_changed)
        self._nodes.on_change(self._node_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if (node := new or old) is not None and evicting(old) != evicting(new):
            for pod in self._pods.by(BY_NODE, node.metadata.name):
                self.queue.add((pod.metadata.namespace, pod.metadata.name))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._evictions.forget(old.metadata.uid)
                self._noticed.pop(old.metadata.uid, None)
        elif new.spec.node_name and (old is None or _stand(old) != _stand(new)):
            self.queue.add((new.metadata.namespace, new.metadata.name))

    async def reconcile(self, key: Key) -> Again | None:
        namespace, name = key
        pod = self._pods.get(name, namespace)
        if pod is None or not can_go(pod):
            return None
        deadline = self._deadline(pod)
        if deadline is None:
            self._evictions.cancel(pod)
            return None
        if (again := self._evictions.wait(pod, deadline)) is None:
            await self._evictions.evict(pod)
        return again

    def _deadline(self, pod: Pod) -> datetime | None:
        """When the pod must leave. None: it may stay."""
        taints = evicting(self._nodes.get(pod.spec.node_name or ""))
        if not taints:
            self._noticed.pop(pod.metadata.uid, None)
            return None
        noticed = self._noticed.setdefault(pod.metadata.uid, self._now())
        ends = [_borne_until(pod, taint, noticed) for taint in taints]
        return min((end for end in ends if end is not None), default=None)


def evicting(node: Node | None) -> tuple[Taint, ...]:
    """The taints for which pods have to leave."""
    return () if node is None else tuple(taint for taint in node.spec.taints if taint.effect == "NoExecute")


def _stand(pod: Pod) -> tuple[str | None, tuple[Toleration, ...]]:
    return pod.spec.node_name, pod.spec.tolerations


def _borne_until(pod: Pod, taint: Taint, noticed: datetime) -> datetime | None:
    """None: for ever."""
    toleration = next((each for each in pod.spec.tolerations if tolerates(each, taint)), None)
    if toleration is None:
        return noticed
    if toleration.toleration_seconds is None:
        return None
    return later(_since(pod, taint, noticed), toleration.toleration_seconds)


def _since(pod: Pod, taint: Taint, noticed: datetime) -> datetime:
    added = moment(taint.time_added)
    bound = next((c.last_transition_time for c in pod.status.conditions if c.type == "PodScheduled"), None)
    scheduled = moment(bound)
    if added is None or scheduled is None:
        return noticed
    return min(max(added, scheduled), noticed)
