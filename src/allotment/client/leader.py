"""Leader election with a Lease, by the same rules as Kubernetes' own components: one of several candidates works.

The candidate that writes its name into the lease leads, and must renew it. The election does not compare clocks of
different machines: a candidate takes over only after it has itself seen the lease unchanged for the whole duration. A
leader that cannot renew within ``renew_deadline`` stops before another may start, provided that clocks run at about the
same speed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from allotment.api.status import AlreadyExists, Conflict, NotFound, StatusError
from allotment.api.timestamps import fine_timestamp
from allotment.client.backoff import Backoff
from allotment.client.client import Client
from allotment.client.form import Obj
from allotment.client.transport import Disconnected

__all__ = ["LeaderElection", "LeaseTimes"]

log = logging.getLogger(__name__)

_RELEASE_TRIES = 8


def rights(lease: str) -> tuple[str, ...]:
    """To take part in the election for a lease."""
    return ("create: coordination.k8s.io: leases", f"get,update: coordination.k8s.io: leases: {lease}")


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Times in seconds. Unless ``duration`` > ``renew_deadline`` > ``retry``, two could lead at once."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry > 0:
            raise ValueError(f"{self}: duration must exceed renew_deadline, which must exceed retry")


class LeaderElection:
    """Takes part in the election for one lease. ``identity`` must differ between all candidates."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        *,
        times: LeaseTimes | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._leases = client.plain("coordination.k8s.io/v1", "leases")
        self._name, self._namespace, self._identity = name, namespace, identity
        self._times = times or LeaseTimes()
        self._now = now or (lambda: asyncio.get_running_loop().time())
        self._seen: tuple[str, str] | None = None  # holder and renew time when last read
        self._seen_at = 0.0
        self.leading = False

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Waits to become leader, then runs ``lead``; cancels it when the lead is lost, and competes again.

        Returns when ``lead`` returns. On return and on cancellation it releases the lease, so that others need not wait for
        it to expire.
        """
        while True:
            await self._win()
            log.info("%s leads %s/%s", self._identity, self._namespace, self._name)
            work = asyncio.ensure_future(lead())
            renewing = asyncio.ensure_future(self._renew_until_lost())
            try:
                await asyncio.wait({work, renewing}, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    await work
                    return
                log.warning("%s lost the lead of %s/%s", self._identity, self._namespace, self._name)
            finally:
                self.leading = False
                for task in (work, renewing):
                    task.cancel()
                await asyncio.gather(work, renewing, return_exceptions=True)
                await self._release()

    async def _win(self) -> None:
        while not await self._try():
            await asyncio.sleep(self._times.retry)
        self.leading = True

    async def _renew_until_lost(self) -> None:
        renewed_at = self._now()
        while True:
            left = self._times.renew_deadline - (self._now() - renewed_at)
            try:
                async with asyncio.timeout(left):
                    if await self._try():
                        renewed_at = self._now()
            except TimeoutError:
                return
            if self._now() - renewed_at >= self._times.renew_deadline:
                return
            await asyncio.sleep(self._times.retry)

    async def _try(self) -> bool:
        """Takes or renews the lease; False if another candidate has it or the server did not answer."""
        try:
            lease = await self._leases.get(self._name, self._namespace)
        except NotFound:
            return await self._create()
        except (StatusError, Disconnected) as exc:
            log.info("lease %s/%s: %s", self._namespace, self._name, exc)
            return False
        spec = lease.get("spec") or {}
        self._look(spec)
        if spec.get("holderIdentity") not in (None, "", self._identity) and not self._expired(spec):
            return False
        return await self._write(lease, self._claimed(spec))

    def _look(self, spec: Obj) -> None:
        seen = (spec.get("holderIdentity") or "", spec.get("renewTime") or "")
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._now()

    def _expired(self, spec: Obj) -> bool:
        duration = float(spec.get("leaseDurationSeconds") or self._times.duration)
        return self._now() - self._seen_at >= duration

    def _claimed(self, spec: Obj) -> dict[str, Any]:
        stamp = fine_timestamp(datetime.now(UTC))
        ours = spec.get("holderIdentity") == self._identity
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._times.duration)),
            "acquireTime": spec.get("acquireTime") if ours else stamp,
            "renewTime": stamp,
            "leaseTransitions": (spec.get("leaseTransitions") or 0) + (0 if ours else 1),
        }

    async def _create(self) -> bool:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {**self._claimed({}), "leaseTransitions": 0},
        }
        try:
            await self._leases.create(lease)
        except AlreadyExists:
            return False
        except (StatusError, Disconnected) as exc:
            log.info("lease %s/%s: %s", self._namespace, self._name, exc)
            return False
        return True

    async def _write(self, lease: Obj, spec: Obj) -> bool:
        """Replaces the lease in the state that was read: the server refuses ours after a concurrent write."""
        try:
            await self._leases.update({**lease, "spec": {**(lease.get("spec") or {}), **spec}})
        except Conflict:
            return False
        except (StatusError, Disconnected) as exc:
            log.info("lease %s/%s: %s", self._namespace, self._name, exc)
            return False
        return True

    async def _release(self) -> None:
        """Releases the lease.

        A cancelled renewal may still arrive; then we read the lease again. Until the server has stored it, the renewal
        blocks our write, but reads do not show it.
        """
        backoff = Backoff(0.02, 1.0)
        with suppress(StatusError, Disconnected):
            for _ in range(_RELEASE_TRIES):
                lease = await self._leases.get(self._name, self._namespace)
                if (lease.get("spec") or {}).get("holderIdentity") != self._identity:
                    return
                if await self._write(lease, {"holderIdentity": "", "leaseDurationSeconds": 1}):
                    return
                await asyncio.sleep(backoff.next())
