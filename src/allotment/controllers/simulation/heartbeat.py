"""Keeps simulated nodes alive: a Lease renewed every ten seconds, and a true Ready condition.

Why Leases, when the process that simulates the nodes is also the one that judges them? Because nothing else then needs to
know which nodes are simulated. The node lifecycle controller, ours or that of Kubernetes, sees the same as for any node, and
removing the label from a node (or stopping this process) acts like a power failure. The cost is a tenth of a small write per
second and node. A node's second of the ten is derived from its name: the fleet does not renew all at once, and nodes with the
same second share the server's commits. The Ready condition is written only when it is not true.
"""

from __future__ import annotations

import zlib

from allotment.api.core import Node
from allotment.api.rights import READ
from allotment.api.status import NotFound
from allotment.api.timestamps import fine_timestamp, moment, timestamp
from allotment.client.client import Client, PatchType
from allotment.client.form import Obj
from allotment.client.recorder import Recorder
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.clock import Now, real_time
from allotment.controllers.controller import Again
from allotment.controllers.simulation.marks import is_simulated

LEASES = "kube-node-lease"
SLOTS = 10
"""One slot per second."""
RENEW_SECONDS = float(SLOTS)
LEASE_SECONDS = 40


class SimulatedHeartbeat:
    """Reconciles simulated nodes, by name."""

    name = "simulated-heartbeat"
    rights = (
        f"{READ}: core: nodes",
        f"{READ}: coordination.k8s.io: leases",
        "patch: core: nodes/status",
        f"create,patch: coordination.k8s.io: leases: @{LEASES}",
    )

    def __init__(
        self, client: Client, informers: Informers, recorder: Recorder, *, now: Now = real_time
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._now = now
        self._client_nodes = client.of(Node)
        self._client_leases = client.plain("coordination.k8s.io/v1", "leases")
        self._nodes = informers.of(Node)
        self._leases = informers.plain("coordination.k8s.io/v1", "leases")
        self._nodes.on_change(self._changed)

    def _changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None and is_simulated(new) and (not is_simulated(old) or not _is_ready(new)):
            self.queue.add(new.metadata.name)

    async def reconcile(self, key: str) -> Again | None:
        node = self._nodes.get(key)
        if node is None or not is_simulated(node):
            return None
        if not _is_ready(node):
            await self._report_ready(node)
        wait = self._until_renewal(key)
        if wait <= 0:
            await self._renew(node)
            wait = _until_turn(key, self._now().timestamp())
        return Again(wait, "its lease must be renewed")

    def _until_renewal(self, name: str) -> float:
        lease = self._leases.get(name, LEASES)
        renewed = moment(lease["spec"].get("renewTime")) if lease is not None else None
        if renewed is None:
            return 0.0
        due = renewed.timestamp() + _until_turn(name, renewed.timestamp())
        return min(
            due - self._now().timestamp(), RENEW_SECONDS
        )  # a clock that was set back is no reason to wait

    async def _renew(self, node: Node) -> None:
        """Needs no precondition: it says that the node lives now, whatever the lease said before."""
        name, time = node.metadata.name, fine_timestamp(self._now())
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": time}
        try:
            await self._client_leases.patch(name, {"spec": spec}, LEASES)
        except NotFound:
            await self._client_leases.create(_lease(node, spec))

    async def _report_ready(self, node: Node) -> None:
        time = timestamp(self._now())
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "a simulated node is always ready",
            "lastHeartbeatTime": time,
            "lastTransitionTime": time,
        }
        await self._client_nodes.change(
            node, {"status": {"conditions": [ready]}}, type_=PatchType.STRATEGIC, subresource="status"
        )


def _is_ready(node: Node) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)


def _until_turn(name: str, time: float) -> float:
    """Seconds until the node's next turn, and at least half a round."""
    turn = zlib.crc32(name.encode()) % SLOTS
    wait = (turn - time) % RENEW_SECONDS
    return wait if wait >= RENEW_SECONDS / 2 else wait + RENEW_SECONDS


def _lease(node: Node, spec: Obj) -> Obj:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node.metadata.name, "namespace": LEASES, "ownerReferences": [owner]},
        "spec": spec,
    }
