"""Reports that ResourcePools are up to date: one Lease for all pools, renewed every ten seconds while the counter knows the
cluster.

Its time is the moment up to which all pools show every change: if some cannot be written, it stands still with them, although
the counter runs.

A heartbeat in each pool would cost as many writes as there are pools and say no more; clients judge the lease with
``usage.counter``.
"""

from __future__ import annotations

from datetime import timedelta

from allotment.api.status import NotFound
from allotment.api.timestamps import fine_timestamp
from allotment.client.client import Client
from allotment.client.form import Obj
from allotment.client.work_queue import WorkQueue
from allotment.controllers.clock import Now, real_time
from allotment.controllers.controller import Again
from allotment.controllers.pools.followed_usage import FollowedUsage
from allotment.controllers.pools.metrics import PoolNumbers
from allotment.usage.counter import API_VERSION, LEASE_SECONDS, NAME, NAMESPACE, PLURAL, RENEW_SECONDS

HOLDER = "allotment-controllers"


class PoolHeartbeat:
    """Reconciles the one lease."""

    name = "pool-heartbeat"
    rights = (
        "create: coordination.k8s.io: leases",
        f"patch: coordination.k8s.io: leases: {NAME}",
    )

    def __init__(
        self, client: Client, followed: FollowedUsage, numbers: PoolNumbers, *, now: Now = real_time
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._leases = client.plain(API_VERSION, PLURAL)
        self._followed, self._numbers, self._now = followed, numbers, now
        self.queue.add(NAME)

    async def reconcile(self, key: str) -> Again:
        """Needs no precondition: it says that a controller counts now, whatever the lease said before."""
        await self._followed.synced()
        time = fine_timestamp(self._now() - timedelta(seconds=self._numbers.staleness()))
        spec: Obj = {"holderIdentity": HOLDER, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": time}
        try:
            await self._leases.patch(NAME, {"spec": spec}, NAMESPACE)
        except NotFound:
            meta = {"name": NAME, "namespace": NAMESPACE}
            await self._leases.create(
                {"apiVersion": API_VERSION, "kind": "Lease", "metadata": meta, "spec": spec}
            )
        return Again(RENEW_SECONDS, "the lease must be renewed")
