"""The machines that can be had: the catalogue's, for the pools and groups of the cluster, with its overlays; worked out anew when one
of them changes. Only what a pool or a group may have is launched, so without either there is nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allotment.api.autoscaling import NodeGroup, NodeOverlay, NodePool
from allotment.autoscaler.catalogue import Catalogue
from allotment.autoscaler.machine import Machine
from allotment.autoscaler.overlays import evaluate
from allotment.client.form import Resource
from allotment.client.informer import Informer
from allotment.client.informers import Informers


class Offers:
    """Where the server does not have one of the kinds, its place is None."""

    def __init__(
        self,
        informers: Informers,
        catalogue: Catalogue,
        *,
        pools: Resource | None,
        groups: Resource | None,
        overlays: Resource | None,
    ) -> None:
        self._catalogue = catalogue
        self._pools: Informer[NodePool] | None = informers.at(pools, NodePool) if pools else None
        self._groups: Informer[NodeGroup] | None = informers.at(groups, NodeGroup) if groups else None
        self._overlays: Informer[NodeOverlay] | None = (
            informers.at(overlays, NodeOverlay) if overlays else None
        )
        self._machines: tuple[Machine, ...] | None = None
        self._heard: list[Callable[[], None]] = []
        for informer in (self._pools, self._groups, self._overlays):
            if informer is not None:
                informer.on_change(self._changed)

    def on_change(self, hear: Callable[[], None]) -> None:
        """Has somebody told when there may be other machines than before."""
        self._heard.append(hear)

    def use(self, catalogue: Catalogue) -> None:
        """Goes by another catalogue from now on."""
        self._catalogue = catalogue
        self._look_again()

    def _changed(self, old: Any, new: Any) -> None:
        if old is None or new is None or old.spec != new.spec:  # a status does not matter
            self._look_again()

    def _look_again(self) -> None:
        self._machines = None
        for hear in self._heard:
            hear()

    @property
    def machines(self) -> tuple[Machine, ...]:
        """All of them, also those that are out of stock."""
        if self._machines is None:
            catalogue = self._catalogue.with_pools(
                [each for each in self._pools.all() if not each.metadata.deletion_timestamp]
                if self._pools is not None
                else (),
                self._groups.all() if self._groups is not None else (),
            )
            overlays = self._overlays.all() if self._overlays is not None else ()
            self._machines = tuple(each for each in evaluate(catalogue, overlays).machines if each.source)
        return self._machines
