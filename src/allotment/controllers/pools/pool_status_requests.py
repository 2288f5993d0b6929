"""ResourcePoolStatusRequests: each gets one answer, from the usage that ResourcePools show, and is deleted an hour later.

The answer for a pool with errors has its counts and, in ``validationError``, the reason why nothing of it is available.
Upstream waits for such pools to become complete, and may never answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from allotment.api.pools import (
    COMPLETE,
    FAILED,
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestSpec,
)
from allotment.api.rights import READ
from allotment.api.timestamps import timestamp
from allotment.client.client import Client
from allotment.client.form import Obj
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.clock import Now, left, real_time
from allotment.controllers.controller import Again
from allotment.controllers.pools import followed_usage
from allotment.controllers.pools.followed_usage import FollowedUsage
from allotment.usage.partitions import PartitionError, PartitionKind
from allotment.usage.pool import PoolUsage
from allotment.usage.shareable import Shareable
from allotment.usage.usage import Usage

ANSWER_KEPT_SECONDS = 3600.0
"""How many seconds an answer stays, as upstream."""
POOLS_UNLESS_LIMITED = 100
ERROR_BYTES = 256
CAPACITIES_MAX = 32
"""The largest number in the API; of a pool with more, the first ones are reported, because otherwise nothing could be."""


class PoolStatusRequests:
    """The reconciler; its keys are names of requests."""

    name = "pool-status-requests"
    rights = (
        *followed_usage.RIGHTS,
        f"delete,{READ}: resource.k8s.io: resourcepoolstatusrequests",
        "patch: resource.k8s.io: resourcepoolstatusrequests/status",
    )

    def __init__(
        self, client: Client, informers: Informers, followed: FollowedUsage, *, now: Now = real_time
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._requests = client.of(ResourcePoolStatusRequest)
        self._seen = informers.of(ResourcePoolStatusRequest)
        self._followed, self._usage = followed, followed.usage
        self._now = now
        self._seen.on_change(self._changed)

    def _changed(self, old: ResourcePoolStatusRequest | None, new: ResourcePoolStatusRequest | None) -> None:
        if new is not None:
            self.queue.add(new.metadata.name)

    async def reconcile(self, key: str) -> Again | None:
        request = self._seen.get(key)
        if request is None or request.metadata.deletion_timestamp is not None:
            return None
        if request.status is None:
            await self._followed.synced()
            spec = request.spec
            status = answer(self._usage, spec, timestamp(self._now()))
            await self._requests.change(request, {"status": status}, subresource="status")
            return None  # its next change brings it back
        remaining = left(_answered(request), ANSWER_KEPT_SECONDS, self._now())
        if remaining > 0:
            return Again(remaining, "answers are kept for an hour")
        await self._requests.delete(key, uid=request.metadata.uid)
        return None


def answer(usage: Usage, spec: ResourcePoolStatusRequestSpec, now: str) -> Obj:
    """The status of a request: the matching pools, sorted by driver and name."""
    pools = [
        pool
        for pool in usage.pools()
        if pool.driver == spec.driver and spec.pool_name in (None, pool.pool_name)
    ]
    limit = POOLS_UNLESS_LIMITED if spec.limit is None else spec.limit
    told = [_told(pool, usage, spec.default_partition_type_attribute) for pool in pools[:limit]]
    wrong = sum("validationError" in each for each in told)
    condition = {
        "type": COMPLETE,
        "status": "True",
        "lastTransitionTime": now,
        "reason": "CalculationComplete",
        "message": f"{len(told)} of {len(pools)} matching pools reported, {wrong} of them with an error",
    }
    return {"poolCount": len(pools), "pools": told, "conditions": [condition]}


def _told(pool: PoolUsage, usage: Usage, attribute: str | None) -> Obj:
    summary = pool.summary
    told: Obj = {
        "driver": pool.driver,
        "poolName": pool.pool_name,
        "generation": pool.generation,
        "resourceSliceCount": pool.observed_slices,
        "totalDevices": summary.total,
        "allocatedDevices": summary.allocated,
        "availableDevices": summary.available,
        "unavailableDevices": summary.unavailable,
    }
    if pool.node_name:
        told["nodeName"] = pool.node_name
    error = _error(pool)
    if not error:
        told |= _shareable(usage.shareable(pool.id))
        try:
            told |= _partitions(usage.partitions(pool.id, attribute))
        except PartitionError as exc:
            error = str(exc)
    if error:
        told["validationError"] = cut(error)
    return told


def _partitions(kinds: Sequence[PartitionKind]) -> Obj:
    told = [
        {"attribute": kind.attribute, "type": kind.type, "total": kind.total, "allocatable": kind.allocatable}
        for kind in kinds
    ]
    return {"partitionSummary": told} if told else {}


def _shareable(shared: Shareable | None) -> Obj:
    if shared is None:
        return {}
    capacity = [
        {
            "name": each.name,
            "total": str(each.total),
            "consumed": str(each.consumed),
            "available": str(each.available),
        }
        for each in shared.capacity[:CAPACITIES_MAX]
    ]
    counts: Obj = {
        "fullyAvailableDevices": shared.fully,
        "partiallyAvailableDevices": shared.partially,
    }
    return {"shareableSummary": {**counts, "capacity": capacity} if capacity else counts}


def _error(pool: PoolUsage) -> str:
    """Why nothing can be allocated from a pool. For programs, upstream's word for an incomplete pool comes first."""
    if not pool.complete.holds:
        return f"PoolIncomplete: {pool.complete.message}"
    return "" if pool.valid.holds else f"{pool.valid.reason}: {pool.valid.message}"


def cut(text: str) -> str:
    """Cuts to the maximal length of an error, without splitting a character."""
    return text.encode()[:ERROR_BYTES].decode(errors="ignore")


def _answered(request: ResourcePoolStatusRequest) -> str | None:
    conditions: Sequence[Any] = request.status.conditions if request.status is not None else ()
    times = [each.last_transition_time for each in conditions if each.type in (COMPLETE, FAILED)]
    return times[0] if times else request.metadata.creation_timestamp
