"""Plans on request: they are made one after the other, and requests for a plan that is already being made share it.

The caller provides the way to make a plan: beside the event loop, with a time limit. A plan is identified by its person and
by the version of what that person sees (``machine_view``), so nobody gets a plan that was made with another person's rights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from allotment.api.status import TooManyRequests
from allotment.apiserver.auth.identity import Identity
from allotment.dashboard.shared_views import Person, person_of

MOST_PLANS = 8
"""How many plans may be in progress or waiting."""

Planner = Callable[[Identity], Awaitable[dict[str, Any]]]
"""Makes a plan for all pods that wait now, from what a person sees of the cluster, in the form that the page reads. Raises
StatusError."""


class Plans:
    """The plans in progress, each shared by all who ask for it."""

    def __init__(self, plan: Planner) -> None:
        self._plan = plan
        self._turn = asyncio.Lock()
        self._asked: dict[tuple[Person, str], asyncio.Task[dict[str, Any]]] = {}

    async def of(self, identity: Identity, version: str) -> dict[str, Any]:
        """Raises StatusError. A plan continues when the person who asked for it has left, because another may have asked for
        it too."""
        key = (person_of(identity), version)
        task = self._asked.get(key)
        if task is None:
            if len(self._asked) >= MOST_PLANS:
                raise TooManyRequests(
                    "too many plans are already in progress; try again", {"retryAfterSeconds": 5}
                )
            task = self._asked[key] = asyncio.create_task(self._made(identity))
            task.add_done_callback(lambda done: self._done(key, done))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Cancels the plans in progress."""
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
            task.exception()  # reported to the person who asked, if they are still connected
