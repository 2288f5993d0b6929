"""Terminates machines without a claim, and deletes claims without a machine. A crash, a lost reply or manual changes may
leave them behind.

Every two minutes, the provider lists all machines that it runs.

* *A machine* is left behind if its claim does not exist. Claims are older than their machines, so they are listed after the
  machines, and from the server: an old copy could make a new machine look abandoned.
* *A claim* has lost its machine if the machine was launched before the provider was asked, and is not in the answer.
"""

from __future__ import annotations

from contextlib import suppress

from allotment.api.autoscaling import NodeClaim
from allotment.api.core import Node
from allotment.api.rights import READ
from allotment.api.status import NotFound
from allotment.autoscaler.catalogue.node_claims import ClaimProgress, state_of
from allotment.client.client import Client
from allotment.client.form import ResourcePath
from allotment.client.recorder import EventType, Recorder
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.clock import Now, real_time
from allotment.controllers.controller import Again
from allotment.controllers.machines.claim_status import ClaimStatus
from allotment.controllers.machines.membership import follow_nodes
from allotment.controllers.machines.provider import Provider, Running

SWEEP_SECONDS = 120.0
ALL = "all"
"""The only key."""


class Sweep:
    """The reconciler."""

    name = "machine-sweep"
    rights = (
        f"delete,{READ}: karpenter.sh: nodeclaims",
        f"delete,{READ}: core: nodes",
    )

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        provider: Provider,
        *,
        place: ResourcePath,
        now: Now = real_time,
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._provider = provider
        self._claims, self._nodes = informers.at(place, NodeClaim), follow_nodes(informers)
        self._client_nodes = client.of(Node)
        self._status = ClaimStatus(client, place, recorder, now)
        self.queue.add(ALL)

    async def reconcile(self, key: str) -> Again | None:
        launched = [each for each in self._claims.all() if _has_machine(each)]
        running = await self._provider.machines()
        there = {each.metadata.uid for each in (await self._status.claims.list()).items} if running else set()
        for machine in running:
            if machine.claim not in there:
                await self._end(machine)
        ids = {each.id for each in running}
        for claim in launched:
            if claim.status.provider_id not in ids:
                await self._drop(claim)
        return Again(SWEEP_SECONDS, "something may have been left behind")

    async def _end(self, machine: Running) -> None:
        """Deletes the node first: if the process ends here, the machine leads to the rest."""
        for node in self._nodes.of(machine.id):
            with suppress(NotFound):
                await self._client_nodes.delete(node.metadata.name, uid=node.metadata.uid)
        await self._provider.terminate(machine.claim)

    async def _drop(self, claim: NodeClaim) -> None:
        self._status.tell(claim, EventType.WARNING, "MachineGone", "The provider no longer has this machine")
        with suppress(NotFound):
            await self._status.claims.delete(claim.metadata.name, uid=claim.metadata.uid)


def _has_machine(claim: NodeClaim) -> bool:
    return bool(claim.status.provider_id) and state_of(claim) not in (
        ClaimProgress.GOING,
        ClaimProgress.FAILED,
    )
