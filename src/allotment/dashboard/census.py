"""What the dashboard itself counts: how many devices there are in each state, over time. It also reads the names of
namespaces.

It reads as a user of its own, who may read ResourcePools and namespaces, but no claims. ResourcePools hold only counts. So
the dashboard itself knows nothing that it must hide from users who may see ResourcePools. The names of namespaces only
determine in which namespaces a person's rights are checked; nobody gets to see them.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from allotment.api.pools import ResourcePool
from allotment.api.rights import READ
from allotment.api.status import NotFound, StatusError
from allotment.client.client import Client
from allotment.client.informer import Informer
from allotment.client.transport import Disconnected
from allotment.dashboard.timeline import BUCKET_SECONDS, Timeline
from allotment.usage.counter import API_VERSION, NAME, NAMESPACE, PLURAL, RENEW_SECONDS, standstill
from allotment.usage.published import published
from allotment.usage.summary import NOTHING, Summary

SAMPLE_SECONDS = BUCKET_SECONDS / 2  # so that no bucket stays empty, even if a sample is late


RIGHTS = (
    f"{READ}: core: namespaces",
    f"{READ}: ours: resourcepools",
    f"get: coordination.k8s.io: leases: {NAME}",
)


class Census:
    """Counts while :meth:`run` runs."""

    def __init__(self, client: Client) -> None:
        self._namespaces = Informer(client.plain("v1", "namespaces", namespaced=False))
        self._pools = Informer(client.of(ResourcePool))
        self._pools.on_change(self._count)
        self._leases = client.plain(API_VERSION, PLURAL)
        self.standstill = ""  # whether the counts are old, in words
        self.total = NOTHING
        self.timeline = Timeline()
        self._began = time.time()
        self._begun = time.monotonic()

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._namespaces.run())
            tasks.create_task(self._pools.run())
            tasks.create_task(self._sample())
            tasks.create_task(self._look_at_counter())

    async def synced(self) -> None:
        await self._namespaces.synced()

    def namespaces(self) -> list[str]:
        return [obj["metadata"]["name"] for obj in self._namespaces.all()]

    def past(self) -> dict[str, Any]:
        """The timeline in the page's form."""
        line = self.timeline
        return {"began": self._began, "width": line.width, "points": line.points()}

    async def _sample(self) -> None:
        await self._pools.synced()
        while True:
            if len(self._pools):
                self.timeline.note(time.monotonic() - self._begun, self.total)
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _look_at_counter(self) -> None:
        """Checks whether a controller keeps the counts up to date."""
        await self._pools.synced()
        while True:
            with suppress(StatusError, Disconnected):
                self.standstill = await self._standstill()
            await asyncio.sleep(RENEW_SECONDS)

    async def _standstill(self) -> str:
        if not len(self._pools):
            return ""
        try:
            return standstill(await self._leases.get(NAME, NAMESPACE), datetime.now(UTC))
        except NotFound:
            return standstill(None, datetime.now(UTC))

    def _count(self, old: ResourcePool | None, new: ResourcePool | None) -> None:
        now = published(new) if new is not None else NOTHING
        self.total = _without(self.total + now, published(old) if old is not None else NOTHING)


def _without(total: Summary, part: Summary) -> Summary:
    return Summary(
        total.total - part.total,
        total.allocated - part.allocated,
        total.available - part.available,
        total.unavailable - part.unavailable,
        total.partially_allocated - part.partially_allocated,
    )
