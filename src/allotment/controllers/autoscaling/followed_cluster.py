"""One simulation of the cluster, kept up to date by informers: started once, then updated with every change.

Changes are collected, and applied when a plan needs the simulation; an object that changed several times is applied once. So
following costs almost nothing while there is nothing to decide, and a plan sees one state from beginning to end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment.api.core import Namespace, Node, Pod, ResourceQuota
from allotment.api.meta import ApiStruct, key_of
from allotment.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.api.rights import READ
from allotment.autoscaler.simulate.simulation import Simulation, start_simulation
from allotment.client.form import ResourcePath
from allotment.client.shared_informers import Informers
from allotment.controllers.claims.claim_users import claim_name
from allotment.scheduler import driver
from allotment.scheduler.config.configuration import DEFAULT, Configuration

_ALWAYS: tuple[type[ApiStruct], ...] = (
    Node,
    Namespace,
    DeviceClass,
    ResourceSlice,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceQuota,
    Pod,
)
RIGHTS = (
    *driver.READS,
    f"{READ}: core: resourcequotas",
    f"{READ}: resource.k8s.io: resourceclaimtemplates",
    f"{READ}: apps: daemonsets",
)


class FollowedCluster:
    """Follows what schedulers read, and also claim templates and quotas. ``places`` says where the server has the kinds that
    not every server has; ``configuration`` is that of the scheduler whose decisions are simulated."""

    def __init__(
        self,
        informers: Informers,
        places: Mapping[type[ApiStruct], ResourcePath],
        configuration: Configuration = DEFAULT,
    ) -> None:
        self._simulation = start_simulation((), configuration=configuration, claim_name=claim_name)
        self._changed: dict[tuple[type[ApiStruct], str], ApiStruct | None] = {}
        for kind in _ALWAYS:
            informers.of(kind).on_change(self._note)
        for kind, place in places.items():
            informers.at(place, kind).on_change(self._note)

    def _note(self, old: Any, new: Any) -> None:
        shown = new if new is not None else old
        self._changed[type(shown), key_of(shown)] = new

    def at(self, now: float) -> Simulation:
        """The cluster as it is known now. Try changes in forks; close all of them before the next call."""
        simulation = self._simulation
        assert not simulation.depth, "a fork of the simulation is still open"
        changed, self._changed = self._changed, {}
        for (kind, key), new in changed.items():
            if new is None and (gone := simulation.objects(kind).get(key)) is not None:
                simulation.drop(gone)
        simulation.load(new for new in changed.values() if new is not None)
        simulation.now = now
        return simulation
