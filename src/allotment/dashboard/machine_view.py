"""Machines as one person may see them: the pools and groups from which they come, the requested machines, and the machines
that can be launched.

A thread computes what overlays change in the catalogue. It does so when the input has changed, with a least time between two
computations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any

from allotment.api.autoscaling import NodeClaim, NodeGroup, NodeOverlay, NodePool
from allotment.api.core import Pod
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.client.client import Client
from allotment.client.informer import Informer
from allotment.dashboard.machine_choice import MachineChoice, choice_of
from allotment.dashboard.person_view import PersonView
from allotment.dashboard.rights import Rights

SOURCES, CLAIMS, CHOICE = "sources", "claims", "choice"
"""The parts, besides pods: pools and groups; requested machines; machines that can be launched."""
EVALUATION_PAUSE_SECONDS = 0.25
"""The least time from one evaluation of overlays to the next."""


class MachineView(PersonView):
    """The machines that one person may see. ``choice`` exists once the view is ready."""

    choice: MachineChoice

    def __init__(self, client: Client, rights: Rights, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._pools, self._groups = Informer(client.of(NodePool)), Informer(client.of(NodeGroup))
        self._claims, self._overlays = Informer(client.of(NodeClaim)), Informer(client.of(NodeOverlay))
        self._stale, self._evaluated = asyncio.Event(), asyncio.Event()
        self._pools.on_change(self._changed(SOURCES))
        self._groups.on_change(self._changed(SOURCES))
        self._overlays.on_change(self._changed(CHOICE))
        self._claims.on_change(lambda old, new: self.tell(CLAIMS))
        followed: Mapping[Informer[Any], bool] = {
            self._pools: rights.node_pools,
            self._groups: rights.node_groups,
            self._claims: rights.node_claims,
            self._overlays: rights.overlays,
        }
        super().__init__(client, rights, *[each for each, may in followed.items() if may])

    def _changed(self, part: str) -> Callable[[Any, Any], None]:
        def changed(old: Any, new: Any) -> None:
            if old is None or new is None or _state(old) != _state(new):
                self._stale.set()
            self.tell(part)

        return changed

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._evaluate())

    async def _begun(self) -> None:
        await super()._begun()
        await self._evaluated.wait()

    async def _evaluate(self) -> None:
        await super()._begun()
        while True:
            self._stale.clear()
            all_of = self.catalogue.with_pools(self._pools.all(), self._groups.all())
            self.choice = await asyncio.to_thread(choice_of, all_of, self._overlays.all())
            self._evaluated.set()
            self.tell(CHOICE)
            await asyncio.sleep(EVALUATION_PAUSE_SECONDS)
            await self._stale.wait()

    # --- what there is ---

    def pools(self) -> list[NodePool]:
        """The cluster's pools, and those of the catalogue that are not in the cluster."""
        return _together(self.catalogue.pools, self._pools.all())

    def groups(self) -> list[NodeGroup]:
        return _together(self.catalogue.groups, self._groups.all())

    def claims(self) -> list[NodeClaim]:
        return self._claims.all()

    def waiting(self) -> list[Pod]:
        """The pods for which a plan would be made."""
        return [pod for pod in self.pods() if pod.status.phase in (None, "Pending")]

    def version(self) -> str:
        """The version of a plan's input: if it differs, the plan may differ. Nodes are left out, because they change all the
        time."""
        informers = (self._pools, self._groups, self._overlays, self._claims)
        objects = [*self.waiting(), *[each for informer in informers for each in informer.all()]]
        return blake2b(repr(sorted(map(_state, objects))).encode(), digest_size=8).hexdigest()


def _state(obj: Any) -> tuple[str, int]:
    """Changes with the spec, but not with the status."""
    return obj.metadata.uid, obj.metadata.generation or 0


def _together(files: Mapping[str, Any], cluster: Iterable[Any]) -> list[Any]:
    named = {**files, **{each.metadata.name: each for each in cluster}}
    return [named[name] for name in sorted(named)]
