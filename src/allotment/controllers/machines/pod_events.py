"""Records on a node's claim when a pod last came to the node or left it: consolidation leaves a node alone for a while after
that.

As in Karpenter, a claim gets at most one write in ten seconds: minutes matter here, not seconds.
"""

from __future__ import annotations

from datetime import datetime

from allotment.api.autoscaling import NodeClaim
from allotment.api.core import Node, Pod
from allotment.api.rights import READ
from allotment.api.timestamps import moment, timestamp
from allotment.client.client import Client, Collection
from allotment.client.form import ResourcePath, Typed
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.clock import Now, real_time
from allotment.controllers.controller import Again
from allotment.controllers.pod_state import finished

POD_EVENT_PAUSE = 10.0
_BY_NODE = "machines: status.nodeName"


class PodEvents:
    """Reconciles claims that have a node, by the node's name."""

    name = "machine-pod-events"
    rights = (
        f"{READ}: core: nodes,pods",
        f"{READ}: karpenter.sh: nodeclaims",
        "patch: karpenter.sh: nodeclaims/status",
    )

    def __init__(
        self, client: Client, informers: Informers, *, place: ResourcePath, now: Now = real_time
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._now = now
        self._client_claims = Collection(client, place, Typed(NodeClaim))
        self._claims = informers.at(place, NodeClaim)
        self._claims.add_index(_BY_NODE, lambda claim: (claim.status.node_name or "",))
        self._latest: dict[str, datetime] = {}
        informers.of(Pod).on_change(self._changed)
        informers.of(Node).on_change(self._node_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is None:
            self._latest.pop(old.metadata.name, None)

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or not pod.spec.node_name or _presence(old) == _presence(new):
            return
        when = _bound_at(new) if old is None and new is not None else None
        node, event = pod.spec.node_name, when or self._now()
        if self._claims.by(_BY_NODE, node):
            self._latest[node] = max(event, self._latest.get(node, event))
            self.queue.add(node)

    async def reconcile(self, key: str) -> Again | None:
        latest = self._latest.get(key)
        claim = next(iter(self._claims.by(_BY_NODE, key)), None)
        if latest is None or claim is None or claim.metadata.deletion_timestamp is not None:
            self._latest.pop(key, None)
            return None
        known = moment(claim.status.last_pod_event_time)
        if known is not None and latest.replace(microsecond=0) <= known:
            self._latest.pop(key, None)
            return None
        wait = POD_EVENT_PAUSE - (self._now() - known).total_seconds() if known is not None else 0.0
        if wait > 0:
            return Again(min(wait, POD_EVENT_PAUSE), "the last write was a moment ago")
        patch = {"status": {"lastPodEventTime": timestamp(latest)}}
        await self._client_claims.change(claim, patch, subresource="status")
        return None


def _presence(pod: Pod | None) -> tuple[bool, bool, bool]:
    """The state of a pod that matters to its node: running, finished, leaving."""
    if pod is None or not pod.spec.node_name:
        return False, False, False
    return True, finished(pod), pod.metadata.deletion_timestamp is not None


def _bound_at(pod: Pod) -> datetime | None:
    """When a pod that is new to this process came to its node, perhaps long before."""
    bound = (each for each in pod.status.conditions if each.type == "PodScheduled")
    since = next((each.last_transition_time for each in bound), None)
    return moment(since or pod.metadata.creation_timestamp)
