"""Plans that people ask for: one is made after the other, and who asks for the same while it is made gets the same.

How one is made is the caller's: beside the event loop, within some time. What a plan is of is told by its person and by the version of what
that person sees (``machine_view``), so nobody gets one that was made with another's rights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from allotment.api.status import TooManyRequests
from allotment.apiserver.auth.identity import Identity
from allotment.dashboard.shared_views import Person, person_of

ASKED = 8
"""Plans that are made or wait for that."""

Planner = Callable[[Identity], Awaitable[dict[str, Any]]]
"""A plan for all that waits now, as somebody sees the cluster, in the form that the page reads. Raises StatusError."""


class Plans:
    """See the module."""

    def __init__(self, plan: Planner) -> None:
        self._plan = plan
        self._turn = asyncio.Lock()
        self._asked: dict[tuple[Person, str], asyncio.Task[dict[str, Any]]] = {}

    async def of(self, identity: Identity, version: str) -> dict[str, Any]:
        """Raises StatusError. A plan goes on when who asked for it has gone: another may have, too."""
        key = (person_of(identity), version)
        task = self._asked.get(key)
        if task is None:
            if len(self._asked) >= ASKED:
                raise TooManyRequests("other plans are made already; try again", {"retryAfterSeconds": 5})
            task = self._asked[key] = asyncio.create_task(self._made(identity))
            task.add_done_callback(lambda done: self._done(key, done))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Ends those that are being made."""
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _made(self, identity: Identity) -> dict[str, Any]:
        async with self._turn:
            return await self._plan(identity)

    def _done(self, key: tuple[Person, str], task: asyncio.Task[dict[str, Any]]) -> None:
        del self._asked[key]
        if not task.cancelled():
            task.exception()  # told to who asked, if they are still there
