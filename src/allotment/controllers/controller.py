"""Runs a reconciler: informers add keys to a queue, a few workers take them, and failures are retried later.

A reconciler takes one key, compares the present state with the desired one, and writes the difference. It is level-based: it
never relies on having seen every change, only on the present state, so it may be called at any time, twice, or after a crash.
It writes by patches with uid and version preconditions. A ``Conflict`` means that its copy was old; the change that made it
old brings the key back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from allotment.api.status import Conflict, NotFound, StatusError, Unavailable
from allotment.client.transport import Disconnected
from allotment.client.work_queue import QueueClosed, WorkQueue

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Again:
    """Return to this key after so many seconds, even if nothing changes."""

    after: float
    why: str


class Reconciler(Protocol[K]):
    """The part that differs between controllers. ``name`` identifies it in logs and metrics.

    The constructor takes what it reads and writes with (informers, client, recorder) and registers handlers that add keys to
    ``queue``; nothing else starts work.
    """

    name: str
    queue: WorkQueue[K]

    async def reconcile(self, key: K) -> Again | None:
        """Brings one key closer to its desired state. To be called again later, it raises StatusError or Disconnected."""
        ...


class Controller(Generic[K]):
    """Workers that take keys from a reconciler's queue until cancelled."""

    def __init__(self, reconciler: Reconciler[K], *, workers: int = 4) -> None:
        self.reconciler = reconciler
        self._workers = workers

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._workers):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        queue = self.reconciler.queue
        while True:
            try:
                key = await queue.get()
            except QueueClosed:
                return
            try:
                await self._one(key)
            finally:
                queue.done(key)

    async def _one(self, key: K) -> None:
        queue, name = self.reconciler.queue, self.reconciler.name
        try:
            again = await self.reconciler.reconcile(key)
        except (Conflict, NotFound) as exc:  # the copy was old; the change that made it old is on its way
            log.debug("%s %s: %s", name, key, exc)
            queue.retry(key)
        except (Disconnected, Unavailable) as exc:  # reported once for all controllers, see client.outage
            log.info("%s %s: %s", name, key, exc)
            queue.retry(key)
        except StatusError as exc:
            log.warning("%s %s: %s", name, key, exc)
            queue.retry(key)
        except Exception:
            log.exception("%s %s: failed", name, key)
            queue.retry(key)
        else:
            queue.forget(key)
            if again is not None:
                queue.add_after(key, again.after)
