"""Writes into the status of each NodeOverlay whether it can be applied to the catalogue and the pools, and how it conflicts
with other overlays.

One evaluation gives the answer for every overlay. It is made once for all recent changes, when the first overlay is
reconciled. Only conditions that differ are written; conditions of others stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment.api.autoscaling import NodeGroup, NodeOverlay, NodePool
from allotment.api.codec import to_builtins
from allotment.api.rights import READ
from allotment.api.timestamps import timestamp
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.autoscaler.catalogue.overlay_status import conditions
from allotment.autoscaler.catalogue.overlays import OverlayFinding, evaluate
from allotment.client.client import Client, Collection
from allotment.client.form import Obj, ResourcePath, Typed
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.clock import Now, real_time
from allotment.controllers.conditions import put


class Overlays:
    """The reconciler; its keys are names of overlays. ``pools`` and ``groups`` say where the server has these, if it has
    them."""

    name = "overlays"
    rights = (
        f"{READ}: karpenter.sh: nodeoverlays,nodepools",
        f"{READ}: allotment.dev: nodegroups",
        "patch: karpenter.sh: nodeoverlays/status",
    )

    def __init__(
        self,
        client: Client,
        informers: Informers,
        catalogue: Catalogue,
        *,
        place: ResourcePath,
        pools: ResourcePath | None = None,
        groups: ResourcePath | None = None,
        now: Now = real_time,
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._overlays = Collection(client, place, Typed(NodeOverlay))
        self._seen = informers.at(place, NodeOverlay)
        self._pools = informers.at(pools, NodePool) if pools is not None else None
        self._groups = informers.at(groups, NodeGroup) if groups is not None else None
        self._catalogue, self._now = catalogue, now
        self._findings: Mapping[str, OverlayFinding] | None = None
        self._seen.on_change(self._changed)
        if self._pools is not None:
            self._pools.on_change(self._changed)
        if self._groups is not None:
            self._groups.on_change(self._changed)

    def use(self, catalogue: Catalogue) -> None:
        """Switches to another catalogue."""
        self._catalogue = catalogue
        self._look_again()

    def _changed(self, old: Any, new: Any) -> None:
        """An overlay, a pool or a group. Their statuses do not matter to the others."""
        if (
            old is None
            or new is None
            or (old.spec, old.metadata.generation) != (new.spec, new.metadata.generation)
        ):
            self._look_again()
        elif isinstance(new, NodeOverlay):
            self.queue.add(new.metadata.name)

    def _look_again(self) -> None:
        self._findings = None
        for overlay in self._seen.all():
            self.queue.add(overlay.metadata.name)

    async def reconcile(self, key: str) -> None:
        finding = self._found().get(key)
        overlay = self._seen.get(key)
        if overlay is None or finding is None:
            return
        present = [_plain(each) for each in overlay.status.conditions]
        wanted, now = present, timestamp(self._now())
        for condition in conditions(finding):
            wanted = put(wanted, _plain(condition), now)
        if wanted != present:
            await self._overlays.change(overlay, {"status": {"conditions": wanted}}, subresource="status")

    def _found(self) -> Mapping[str, OverlayFinding]:
        if self._findings is None:
            catalogue = self._catalogue.with_pools(
                self._pools.all() if self._pools is not None else (),
                self._groups.all() if self._groups is not None else (),
            )
            self._findings = evaluate(catalogue, self._seen.all()).findings
        return self._findings


def _plain(condition: Any) -> Obj:
    """Without a time that is not set yet."""
    return {name: value for name, value in to_builtins(condition).items() if value is not None}
