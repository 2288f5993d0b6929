"""The end of a machine: the node accepts no new pods, its pods leave, the machine is terminated, the Node is deleted, and
then the claim.

Pods leave by the eviction API, so disruption budgets may hold them back, if necessary for ever. A ``terminationGracePeriod``
limits this: a pod is deleted regardless of budgets, early enough that its own grace period ends in time, and then the machine
is terminated with whatever is left on it. Pods that belong to the node (DaemonSets, static pods), and pods that tolerate the
taint, are not waited for.

Each step depends only on the present state, so a new process continues where the last one ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from allotment.api.autoscaling import NodeClaim
from allotment.api.core import Node, Pod
from allotment.api.cron import seconds
from allotment.api.rights import READ
from allotment.api.status import NotFound, TooManyRequests
from allotment.api.timestamps import moment
from allotment.api.toleration import tolerates
from allotment.autoscaler.catalogue.node_claims import DISRUPTED, TERMINATION
from allotment.autoscaler.simulate.drain import belongs_to_node
from allotment.client.client import Client
from allotment.client.recorder import EventType
from allotment.client.shared_informers import Informers
from allotment.controllers.clock import Now
from allotment.controllers.controller import Again
from allotment.controllers.machines.claim_status import ClaimStatus
from allotment.controllers.machines.membership import cordon
from allotment.controllers.machines.provider import Provider
from allotment.controllers.pod_state import BY_NODE, finished, node_of

RIGHTS = (
    f"delete,patch,{READ}: core: nodes",
    f"delete,{READ}: core: pods",
    "create: core: pods/eviction",
    "patch: karpenter.sh: nodeclaims",
)

DRAINED = "Drained"
DRAIN_SECONDS = 10.0
"""Seconds after which pods that a budget held back are evicted again."""
EVICT_SECONDS = 5.0
"""The same if the server asks to try later because a budget is being counted: other pods need not wait for that."""
TERMINATE_SECONDS = 5.0
DEFAULT_GRACE = 30


class Departure:
    """Brings claims that are being deleted to their end, step by step."""

    def __init__(
        self, client: Client, informers: Informers, provider: Provider, status: ClaimStatus, now: Now
    ) -> None:
        self._provider, self._status, self._now = provider, status, now
        self._client_nodes, self._client_pods = client.of(Node), client.of(Pod)
        self._pods = informers.of(Pod)
        self._pods.add_index(BY_NODE, node_of)

    async def step(self, claim: NodeClaim, nodes: Sequence[Node]) -> Again | None:
        """When to come again; None once the claim is about to disappear."""
        for node in nodes:
            claim, again = await self._empty(claim, node)
            if again is not None:
                return again
        if not await self._provider.terminate(claim.metadata.uid):
            return Again(TERMINATE_SECONDS, "its machine is being terminated")
        for node in nodes:
            with suppress(NotFound):
                await self._client_nodes.delete(node.metadata.name, uid=node.metadata.uid)
        self._status.tell(claim, EventType.NORMAL, "Terminated", "The machine has been terminated")
        others = [each for each in claim.metadata.finalizers if each != TERMINATION]
        await self._status.claims.change(claim, {"metadata": {"finalizers": others}})
        return None

    async def _empty(self, claim: NodeClaim, node: Node) -> tuple[NodeClaim, Again | None]:
        change = cordon(node)
        if change is not None:
            await self._client_nodes.change(node, change)
            self._status.tell(
                claim, EventType.NORMAL, "Draining", "The node accepts no more pods; its pods are leaving"
            )
        deadline = _deadline(claim)
        pods = [each for each in self._pods.by(BY_NODE, node.metadata.name) if _is_waited_for(each)]
        if not pods or (deadline is not None and deadline <= self._now()):
            told = f"with {len(pods)} pods left" if pods else "no pods are left"
            return await self._say(claim, "True", "Drained", told), None
        held = 0
        for pod in pods:
            held += not await self._send_off(pod, deadline)
        message = f"{len(pods)} pods are still running" + (
            f", {held} of them held back by disruption budgets" if held else ""
        )
        claim = await self._say(claim, "Unknown", "Draining", message)
        return claim, Again(self._patience(pods, deadline), "its pods are leaving")

    async def _send_off(self, pod: Pod, deadline: datetime | None) -> bool:
        """Whether the pod is leaving. Budgets apply until the remaining time equals the pod's own grace period."""
        meta = pod.metadata
        forced = deadline is not None and self._now() >= deadline - timedelta(seconds=_grace(pod))
        if meta.deletion_timestamp is not None:
            return True
        try:
            if forced and deadline is not None:
                grace = max(int((deadline - self._now()).total_seconds()), 1)
                await self._client_pods.delete(meta.name, meta.namespace, uid=meta.uid, grace_seconds=grace)
            else:
                async with asyncio.timeout(EVICT_SECONDS):
                    await self._client_pods.act(meta.name, "eviction", _eviction(pod), meta.namespace)
        except NotFound:
            return True
        except (TooManyRequests, TimeoutError):
            return False
        return True

    def _patience(self, pods: Iterable[Pod], deadline: datetime | None) -> float:
        if deadline is None:
            return DRAIN_SECONDS
        times = (deadline, *(deadline - timedelta(seconds=_grace(pod)) for pod in pods))
        ahead = [(each - self._now()).total_seconds() for each in times if each > self._now()]
        return min([DRAIN_SECONDS, *ahead])

    async def _say(self, claim: NodeClaim, status: str, reason: str, message: str) -> NodeClaim:
        condition = {"type": DRAINED, "status": status, "reason": reason, "message": message}
        return await self._status.write(claim, condition)


def _is_waited_for(pod: Pod) -> bool:
    """A pod that is leaving also counts, because its containers still run."""
    if finished(pod) or belongs_to_node(pod):
        return False
    return not any(tolerates(each, DISRUPTED) for each in pod.spec.tolerations)


def _deadline(claim: NodeClaim) -> datetime | None:
    """When the machine is terminated, whatever is on it; None: never."""
    begun = moment(claim.metadata.deletion_timestamp)
    patience = seconds(claim.spec.termination_grace_period or "")
    return begun + timedelta(seconds=patience) if begun is not None and patience is not None else None


def _grace(pod: Pod) -> int:
    grace = pod.spec.termination_grace_period_seconds
    return min(max(DEFAULT_GRACE if grace is None else grace, 0), 86_400 * 365)


def _eviction(pod: Pod) -> dict[str, object]:
    meta = pod.metadata
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": {"preconditions": {"uid": meta.uid}},
    }
