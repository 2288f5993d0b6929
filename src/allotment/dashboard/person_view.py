"""What one person sees of the cluster: read with their own identity, so that the server lets through what they may see and nothing else.

All pages of one sort that are open as this person share it. It follows what their rights say that they may; when those change it is of no
use any more, and another takes its place (``views``). What is made of it is told by ``fleet_view`` and ``machine_view``.
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
"""Is told of each part that changes; None: the view is over."""
PODS = "pods"
"""The part of all views that is the pods without a node."""


class PersonView:
    """Kept up while :meth:`run` runs. ``over`` is set when the person's rights are no longer these."""

    def __init__(self, client: Client, rights: Rights, *followed: Informer[Any]) -> None:
        """``followed`` is what it is made of besides pods."""
        self.rights = rights
        self.over = False
        self.viewers: set[Viewer] = set()
        self._followed: Sequence[Informer[Any]] = followed
        self._pods = [Informer(client.of(Pod), each, fields="spec.nodeName=") for each in rights.pods.each()]
        for informer in self._pods:
            informer.on_change(lambda old, new: self.tell(PODS))

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in (*self._followed, *self._pods):
                tasks.create_task(informer.run())

    async def ready(self, seconds: float) -> bool:
        """Whether all is known that there was at the start; waits for it so long. A right that was taken just now is in the way for ever."""
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
        """Those without a node."""
        return [pod for informer in self._pods for pod in informer.all()]
