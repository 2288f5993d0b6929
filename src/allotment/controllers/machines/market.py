"""The machines that can be launched now: the catalogue with the cluster's own pools, groups and overlays, evaluated on demand
after a change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allotment.api.autoscaling import NodeClaim, NodeGroup, NodeOverlay, NodePool
from allotment.api.rights import READ
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.catalogue.node_claims import machine_of
from allotment.autoscaler.catalogue.overlays import evaluate
from allotment.client.form import ResourcePath
from allotment.client.shared_informers import Informers

RIGHTS = (
    f"{READ}: karpenter.sh: nodeoverlays,nodepools",
    f"{READ}: allotment.dev: nodegroups",
)


class Market:
    """Follows a server's NodePools, NodeGroups and NodeOverlays; None: the server does not have the kind.

    The ``on_change`` functions are called when machines may have changed; nothing is evaluated for that.
    """

    def __init__(
        self,
        informers: Informers,
        catalogue: Catalogue,
        *,
        pools: ResourcePath | None = None,
        groups: ResourcePath | None = None,
        overlays: ResourcePath | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._machines: tuple[Machine, ...] | None = None
        self.on_change: list[Callable[[], None]] = []
        self._pools = informers.at(pools, NodePool) if pools is not None else None
        self._groups = informers.at(groups, NodeGroup) if groups is not None else None
        self._overlays = informers.at(overlays, NodeOverlay) if overlays is not None else None
        for informer in (self._pools, self._groups, self._overlays):
            if informer is not None:
                informer.on_change(self._changed)

    def use(self, catalogue: Catalogue) -> None:
        """Switches to another catalogue."""
        self._catalogue = catalogue
        self._look_again()

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Returns the same objects as long as nothing has changed."""
        if self._machines is None:
            catalogue = self._catalogue.with_pools(
                self._pools.all() if self._pools is not None else (),
                self._groups.all() if self._groups is not None else (),
            )
            overlays = self._overlays.all() if self._overlays is not None else ()
            self._machines = evaluate(catalogue, overlays).machines
        return self._machines

    def machine_of(self, claim: NodeClaim) -> Machine | None:
        return machine_of(claim, self.machines)

    def _changed(self, old: Any, new: Any) -> None:
        """Statuses do not matter."""
        if old is None or new is None or _content(old) != _content(new):
            self._look_again()

    def _look_again(self) -> None:
        self._machines = None
        for told in self.on_change:
            told()


def _content(obj: Any) -> Any:
    meta = obj.metadata
    return obj.spec, meta.uid, meta.annotations, meta.deletion_timestamp
