"""What one person sees of the cluster. It is read with the person's own identity, so that the server enforces their rights.

All open pages of one kind share the view of their person. It reads what the person's rights allow. When these change, the
view becomes useless, and another one replaces it (``shared_views``). ``fleet_view`` and ``machine_view`` say what is made of
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from allotment.api.core import Pod
from allotment.client.client import Client
from allotment.client.informer import Informer
from allotment.dashboard.rights import Rights

Viewer = Callable[[Hashable | None], None]
"""Called with each part that changes; None: the view has ended."""
PODS = "pods"
"""The part of every view that has the pods without a node."""


class PersonView:
    """Kept up to date while :meth:`run` runs. ``over`` is set when the person's rights have changed."""

    def __init__(self, client: Client, rights: Rights, *followed: Informer[Any]) -> None:
        """``followed`` has the informers that it needs besides the one for pods."""
        self.rights = rights
        self.over = False
        self.viewers: set[Viewer] = set()
        self._followed: Sequence[Informer[Any]] = followed
        self._pods = [Informer(client.of(Pod), each, fields="spec.nodeName=") for each in rights.pods.each()]
        for informer in self._pods:
            informer.on_change(lambda old, new: self.tell(PODS))

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in (*self._followed, *self._pods):
                tasks.create_task(informer.run())

    async def ready(self, seconds: float) -> bool:
        """Whether everything that existed at the start is known; waits at most this long. If a right has just been revoked,
        this never becomes true."""
        try:
            async with asyncio.timeout(seconds):
                await self._begun()
        except TimeoutError:
            return False
        return True

    async def _begun(self) -> None:
        for informer in (*self._followed, *self._pods):
            await informer.synced()

    def tell(self, part: Hashable | None) -> None:
        for viewer in self.viewers:
            viewer(part)

    def pods(self) -> list[Pod]:
        """The pods without a node."""
        return [pod for informer in self._pods for pod in informer.all()]
