"""ResourcePools: for each published pool, an object with the number of its devices and how many are left.

The key is a pool. The desired state is the pool's usage; the present state is the objects whose spec names the pool, under
any name. One object is created, updated or removed. A second one, or one for another node, is removed, because a spec never
changes.

After a change, a pool waits ``UPDATE_PAUSE`` seconds, so that a burst of claims costs one write, and no pool is written more
often than that. An object gets the name that KEP-5677 defines, if that name is valid and free. If another pool's object takes
the name at the same moment, the server refuses the creation, and the pool is reconciled again with another name.
"""

from __future__ import annotations

from collections.abc import Container

from allotment.allocator.pool import PoolID
from allotment.api.meta import ObjectMeta
from allotment.api.pools import ResourcePool, ResourcePoolSpec, ResourcePoolStatus
from allotment.api.rights import READ
from allotment.api.timestamps import timestamp
from allotment.client.client import Client, Collection
from allotment.client.form import ResourcePath, Typed, resource_of
from allotment.client.informer import Informer
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.clock import Now, real_time
from allotment.controllers.own_writes import OwnWrites
from allotment.controllers.pools import followed_usage
from allotment.controllers.pools.followed_usage import FollowedUsage
from allotment.controllers.pools.metrics import PoolNumbers
from allotment.controllers.pools.pool_status import pool_status, status_patch
from allotment.usage.names import pool_object_name
from allotment.usage.pool import PoolUsage

UPDATE_PAUSE = 0.2
"""Seconds. A change should be visible within a second."""
_BY_POOL = "pool"
_NATIVE = resource_of(ResourcePool)


class Pools:
    """The reconciler. ``place`` is where the server has ResourcePools."""

    name = "pools"
    rights = (
        *followed_usage.RIGHTS,
        f"create,delete,{READ}: ours: resourcepools",
        "patch: ours: resourcepools/status",
    )

    def __init__(
        self,
        client: Client,
        informers: Informers,
        followed: FollowedUsage,
        *,
        place: ResourcePath = _NATIVE,
        numbers: PoolNumbers | None = None,
        pause: float = UPDATE_PAUSE,
        now: Now = real_time,
    ) -> None:
        self.queue: WorkQueue[PoolID] = WorkQueue()
        self._followed, self._usage = followed, followed.usage
        self._api_version = place.api_version
        self._pools = Collection(client, place, Typed(ResourcePool))
        self._seen = informers.at(place, ResourcePool)
        self._seen.add_index(_BY_POOL, lambda pool: [pool_of(pool)])
        self._written: OwnWrites[PoolID] = OwnWrites(self._seen)
        self._numbers = numbers or PoolNumbers()
        self._numbers.follow(self._usage.claims, self._seen.__len__, self.queue.__len__)
        self._pause, self._now = pause, now
        followed.on_touch(self._touched)
        self._seen.on_change(self._changed)

    # --- what brings a key ---

    def _touched(self, id: PoolID) -> None:
        self._numbers.touched(id)
        self.queue.add_after(id, self._pause)

    def _changed(self, old: ResourcePool | None, new: ResourcePool | None) -> None:
        for id in {pool_of(each) for each in (old, new) if each is not None}:
            self.queue.add(id)

    # --- one pool ---

    async def reconcile(self, key: PoolID) -> None:
        await self._followed.synced()
        with self._numbers.syncing(key):
            await self._written.seen(key)
            await self._sync(key, self._usage.pool(key))

    async def _sync(self, id: PoolID, usage: PoolUsage | None) -> None:
        kept: ResourcePool | None = None
        for each in sorted(self._seen.by(_BY_POOL, id), key=_age):
            if kept is None and usage is not None and each.spec == _spec(usage):
                kept = each
            elif each.metadata.deletion_timestamp is None:
                await self._pools.delete(each.metadata.name, uid=each.metadata.uid)
        if usage is not None and kept is None:
            await self._make(usage)
        elif usage is not None and kept is not None and kept.metadata.deletion_timestamp is None:
            await self._update(kept, usage)

    async def _make(self, usage: PoolUsage) -> None:
        pool = ResourcePool(
            api_version=self._api_version,
            metadata=ObjectMeta(name=pool_object_name(usage.id, _TakenNames(self._seen, usage.id))),
            spec=_spec(usage),
            status=pool_status(usage, ResourcePoolStatus(), timestamp(self._now())),
        )
        made = await self._pools.create(pool)
        self._written.wrote(usage.id, made.metadata.resource_version)
        if made.status == ResourcePoolStatus():  # a custom resource is created without its status
            await self._update(made, usage)

    async def _update(self, pool: ResourcePool, usage: PoolUsage) -> None:
        status = pool_status(usage, pool.status, timestamp(self._now()))
        if status == pool.status:
            return
        patch = status_patch(status, pool.status)
        written = await self._pools.change(pool, patch, subresource="status")
        self._written.wrote(usage.id, written.metadata.resource_version)


class _TakenNames(Container[str]):
    """Names that an object of this pool cannot have."""

    def __init__(self, seen: Informer[ResourcePool], id: PoolID) -> None:
        self._seen, self._id = seen, id

    def __contains__(self, name: object) -> bool:
        found = self._seen.get(str(name))
        return found is not None and (
            pool_of(found) != self._id or found.metadata.deletion_timestamp is not None
        )


def pool_of(pool: ResourcePool) -> PoolID:
    """The pool of an object."""
    return PoolID(pool.spec.driver, pool.spec.pool_name)


def _spec(usage: PoolUsage) -> ResourcePoolSpec:
    return ResourcePoolSpec(driver=usage.driver, pool_name=usage.pool_name, node_name=usage.node_name or None)


def _age(pool: ResourcePool) -> tuple[str, str]:
    return pool.metadata.creation_timestamp or "", pool.metadata.name
