"""Simulates device drivers that prepare devices before a pod is bound to them (binding conditions).

A scheduler that allocates a device with binding conditions writes the allocation and waits. A real driver then attaches the
device, for example, and reports each condition in the claim's ``status.devices``; after that, the pod is bound. The
simulation only reports: the conditions become true some seconds after the allocation, as the pool's slices say (see
``marks``). Conditions that mean that binding failed never occur.

Reports are applied (server-side apply), as drivers do, so that they own only their conditions, and other drivers' entries
stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from allotment.api.resource import (
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from allotment.api.rights import READ
from allotment.api.timestamps import timestamp
from allotment.client.client import Client
from allotment.client.form import Obj
from allotment.client.recorder import Recorder
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.clock import Now, left, real_time
from allotment.controllers.controller import Again
from allotment.controllers.simulation.marks import binding_seconds
from allotment.controllers.simulation.prepare import ClaimKey, PoolKey

_BY_POOL = "simulation: pool"


class SimulatedDrivers:
    """Reconciles claims whose devices have binding conditions."""

    name = "simulated-drivers"
    rights = (
        f"{READ}: resource.k8s.io: resourceclaims,resourceslices",
        "patch: resource.k8s.io: resourceclaims/status",
        "arbitrary-node:patch: resource.k8s.io: resourceclaims/driver",
    )

    def __init__(
        self, client: Client, informers: Informers, recorder: Recorder, *, now: Now = real_time
    ) -> None:
        self.queue: WorkQueue[ClaimKey] = WorkQueue()
        self._now = now
        self._client_claims = client.plain("resource.k8s.io/v1", "resourceclaims")
        self._claims, self._slices = informers.of(ResourceClaim), informers.of(ResourceSlice)
        self._slices.add_index(_BY_POOL, lambda slice: (PoolKey(slice.spec.driver, slice.spec.pool.name),))
        self._claims.on_change(self._changed)

    def _changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None and _unready(new):
            self.queue.add(ClaimKey(new.metadata.namespace, new.metadata.name))

    async def reconcile(self, key: ClaimKey) -> Again | None:
        claim = self._claims.get(key.name, key.namespace)
        allocation = claim.status.allocation if claim is not None else None
        if claim is None or allocation is None:
            return None
        if not _unready(claim):
            return None
        waits = [(result, self._wait(result, allocation)) for result in _conditional(allocation)]
        simulated = [(result, wait) for result, wait in waits if wait is not None]
        if not simulated:
            return None
        if (wait := max(wait for _, wait in simulated)) > 0:
            return Again(wait, "its devices are not ready yet")
        report = _report(claim, [result for result, _ in simulated], timestamp(self._now()))
        await self._client_claims.apply(report, manager=self.name, subresource="status", force=True)
        return None

    def _wait(self, result: DeviceRequestAllocationResult, allocation: AllocationResult) -> float | None:
        """Seconds until the device is ready; None if its driver is not simulated."""
        slices = self._slices.by(_BY_POOL, PoolKey(result.driver, result.pool))
        told = [seconds for slice in slices if (seconds := binding_seconds(slice)) is not None]
        if not told:
            return None
        since = allocation.allocation_timestamp
        return left(since, max(told), self._now()) if since is not None else 0.0


def _conditional(allocation: AllocationResult) -> list[DeviceRequestAllocationResult]:
    return [result for result in allocation.devices.results if result.binding_conditions]


def _unready(claim: ResourceClaim) -> bool:
    """Whether a device of the claim has a binding condition that is not yet true."""
    conditional = _conditional(claim.status.allocation) if claim.status.allocation is not None else ()
    if not conditional:
        return False
    true = {
        (each.driver, each.pool, each.device, each.share_id or "", condition.type)
        for each in claim.status.devices
        for condition in each.conditions
        if condition.status == "True"
    }
    return any(
        (*_device(result), type_) not in true for result in conditional for type_ in result.binding_conditions
    )


def _device(result: DeviceRequestAllocationResult) -> tuple[str, str, str, str]:
    return result.driver, result.pool, result.device, result.share_id or ""


def _report(claim: ResourceClaim, results: Sequence[DeviceRequestAllocationResult], now: str) -> Obj:
    """What the drivers of these devices report: every condition is met."""
    meta = claim.metadata
    return {
        "apiVersion": claim.api_version,
        "kind": claim.kind,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        },
        "status": {
            "devices": [
                {
                    "driver": result.driver,
                    "pool": result.pool,
                    "device": result.device,
                    **({"shareID": result.share_id} if result.share_id else {}),
                    "conditions": [
                        {
                            "type": type_,
                            "status": "True",
                            "reason": "Simulated",
                            "message": "the simulated driver is done",
                            "lastTransitionTime": now,
                        }
                        for type_ in result.binding_conditions
                    ],
                }
                for result in results
            ]
        },
    }
