"""Detects nodes that have fallen silent, and marks them so that no new pods go there and the present ones move elsewhere.

A sign of life is a renewed Lease or a new heartbeat in the node's status. After 40 seconds of silence, the node's conditions
become Unknown. The Ready condition, whoever wrote it, determines the taints: False gives ``not-ready``, Unknown gives
``unreachable``, each with NoSchedule and NoExecute. When the node is Ready again, the taints are removed. The taint eviction
evicts the pods.

* *Silence is measured here*, from the arrival of a sign of life, on a monotonic clock, because the times that nodes write
  come from other clocks. A restart of this controller gives every node a fresh start.
* *A late controller does not judge.* If this controller itself runs much too late (its machine was suspended, or the server
  was away), that may be why the nodes seem silent, so they get a fresh start too.
* *A node without any sign of life is left alone*: somebody created it by hand, and nothing will ever renew it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from allotment.api.core import Node, NodeCondition, Taint
from allotment.api.rights import READ
from allotment.api.timestamps import timestamp
from allotment.client.client import Client, PatchType
from allotment.client.form import Obj
from allotment.client.recorder import EventType, Recorder, Subject
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.clock import Now, loop_time, real_time
from allotment.controllers.controller import Again

SILENCE_SECONDS = 40.0
LATE_SECONDS = 10.0
"""If a check of a node is late by this much, the controller was the cause, and not the node."""

LEASES = "kube-node-lease"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"

_TAINTS = {"False": NOT_READY, "Unknown": UNREACHABLE}
_EFFECTS = ("NoSchedule", "NoExecute")
_FROM_NODES = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that only a kubelet can report."""
_WHY = "NodeStatusUnknown"


class NodeLifecycle:
    """Reconciles nodes, by name. ``clock`` is monotonic; ``now`` is for times that people read."""

    name = "node-lifecycle"
    rights = (
        f"{READ}: core: nodes",
        f"{READ}: coordination.k8s.io: leases",
        "patch: core: nodes,nodes/status",
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
        self.queue: WorkQueue[str] = WorkQueue()
        self._recorder, self._now, self._clock = recorder, now, clock
        self._client_nodes = client.of(Node)
        self._nodes = informers.of(Node)
        self._heard: dict[str, float] = {}
        self._nodes.on_change(self._node_changed)
        informers.plain("coordination.k8s.io/v1", "leases").on_change(self._lease_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._heard.pop(old.metadata.name, None)
            return
        heartbeat = _heartbeat(new)
        if heartbeat and (old is None or heartbeat != _heartbeat(old)):
            self._heard[new.metadata.name] = self._clock()
        self.queue.add(new.metadata.name)

    def _lease_changed(self, old: Obj | None, new: Obj | None) -> None:
        lease = new or old
        if lease is None or lease["metadata"]["namespace"] != LEASES:
            return
        name = lease["metadata"]["name"]
        if new is None:
            if self._nodes.get(name) is None:  # it was renewed once more after its node was deleted
                self._heard.pop(name, None)
        elif old is None or old["spec"].get("renewTime") != new["spec"].get("renewTime"):
            first = name not in self._heard
            self._heard[name] = self._clock()
            if first:
                self.queue.add(name)

    async def reconcile(self, key: str) -> Again | None:
        node, heard = self._nodes.get(key), self._heard.get(key)
        if node is None or heard is None:
            return None
        left = heard + SILENCE_SECONDS - self._clock()
        if left < -LATE_SECONDS and _status(node, "Ready") != "Unknown":
            self._heard[key], left = self._clock(), SILENCE_SECONDS
        if left <= 0:
            node = await self._declare_silent(node)
        await self._taint(node)
        return Again(left, "to check for silence") if left > 0 else None

    async def _declare_silent(self, node: Node) -> Node:
        known = {each.type for each in node.status.conditions if each.status != "Unknown"}
        stale = [type_ for type_ in _FROM_NODES if type_ in known]
        if _status(node, "Ready") is None:
            stale.append("Ready")
        if not stale:
            return node
        time = timestamp(self._now())
        told = {
            "status": "Unknown",
            "reason": _WHY,
            "message": f"the node has given no sign of life for {SILENCE_SECONDS:.0f} s",
            "lastTransitionTime": time,
        }
        patch = {"status": {"conditions": [{"type": type_, **told} for type_ in stale]}}
        changed = await self._client_nodes.change(
            node, patch, type_=PatchType.STRATEGIC, subresource="status"
        )
        subject = Subject("v1", "Node", node.metadata.name, uid=node.metadata.uid)
        self._recorder.tell(subject, EventType.NORMAL, "NodeNotReady", told["message"])
        return changed

    async def _taint(self, node: Node) -> None:
        """Derives the node's taints from its Ready condition; other taints stay as they are."""
        wanted = _wanted_taints(node, timestamp(self._now()))
        if wanted != list(node.spec.taints):
            taints = [
                {"key": each.key, "value": each.value, "effect": each.effect, "timeAdded": each.time_added}
                for each in wanted
            ]
            await self._client_nodes.change(node, {"spec": {"taints": [_stated(taint) for taint in taints]}})


def _wanted_taints(node: Node, now: str) -> list[Taint]:
    key = _TAINTS.get(_status(node, "Ready") or "")
    kept = [taint for taint in node.spec.taints if taint.key == key or taint.key not in _TAINTS.values()]
    present = {(taint.key, taint.effect) for taint in kept}
    added = [
        Taint(key=key, effect=effect, time_added=now)
        for effect in _EFFECTS
        if key is not None and (key, effect) not in present
    ]
    return kept + added


def _status(node: Node, type_: str) -> str | None:
    return next((each.status for each in node.status.conditions if each.type == type_), None)


def _heartbeat(node: Node) -> str:
    conditions: Iterable[NodeCondition] = node.status.conditions
    return next((each.last_heartbeat_time or "" for each in conditions if each.type == "Ready"), "")


def _stated(taint: Obj) -> Obj:
    return {name: value for name, value in taint.items() if value is not None}
