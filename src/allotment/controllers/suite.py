"""All controllers by name, put together for a server; kinds that the server does not have when they start are left out.

A cluster with devices needs ``claims`` and ``device-taints``. ``workloads``, ``nodes`` and ``volumes`` do the work of
kube-controller-manager, so they need not run on a real cluster. ``parameters`` translates vendors' parameters for claims with
KEP-4381 semantic parameters (v1alpha2). ``pools`` counts what is left. ``overlays`` reports whether NodeOverlays can be
applied. ``simulation`` simulates the nodes that are marked for it. ``machines`` launches and terminates machines for
NodeClaims, and ``autoscaling`` decides which machines these are; both run only on request. A plan may take seconds, so
``autoscaling`` should run in a process where it delays nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from prometheus_client import CollectorRegistry

from allotment.api.apps import DaemonSet
from allotment.api.autoscaling import NodeClaim, NodeGroup, NodeOverlay, NodePool
from allotment.api.batch import PodGroup
from allotment.api.meta import ApiStruct
from allotment.api.pools import ResourcePool
from allotment.api.resource import DeviceTaintRule
from allotment.api.semantic import NodeResourceSlice, ResourceClass
from allotment.api.storage import PersistentVolume
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.client.client import Client
from allotment.client.discovery import Discovery, discover
from allotment.client.form import ResourcePath, resource_of
from allotment.client.places import PLACES, place_of
from allotment.client.recorder import Recorder
from allotment.client.shared_informers import Informers
from allotment.controllers.autoscaling.followed_cluster import FollowedCluster
from allotment.controllers.autoscaling.metrics import AutoscalingMetrics, HourlyCosts
from allotment.controllers.autoscaling.overlays import Overlays
from allotment.controllers.autoscaling.provisioning import Provisioning
from allotment.controllers.autoscaling.scale_down import ScaleDown
from allotment.controllers.claims.claim_release import ClaimRelease
from allotment.controllers.claims.metrics import ClaimCreations, ClaimNumbers, SemanticNumbers
from allotment.controllers.claims.template_claims import TemplateClaims
from allotment.controllers.controller import Controller, Reconciler
from allotment.controllers.machines import provider as providers
from allotment.controllers.machines.group_provider import GroupMembers, GroupProvider
from allotment.controllers.machines.lifecycle import MachineLifecycle
from allotment.controllers.machines.market import Market
from allotment.controllers.machines.metrics import MachineNumbers
from allotment.controllers.machines.pod_events import PodEvents
from allotment.controllers.machines.simulated_provider import SimulatedMachines, SimulatedProvider
from allotment.controllers.machines.sizes import SourceSizes
from allotment.controllers.machines.sweep import Sweep
from allotment.controllers.names import (
    AUTOSCALING,
    CLAIMS,
    DEVICE_TAINTS,
    MACHINES,
    NODES,
    OVERLAYS,
    PARAMETERS,
    POOLS,
    SIMULATION,
    VOLUMES,
    WORKLOADS,
)
from allotment.controllers.nodes.node_lifecycle import NodeLifecycle
from allotment.controllers.nodes.orphaned_pods import OrphanedPods
from allotment.controllers.pools.followed_usage import FollowedUsage
from allotment.controllers.pools.metrics import PoolNumbers
from allotment.controllers.pools.pool_heartbeat import PoolHeartbeat
from allotment.controllers.pools.pool_status_requests import PoolStatusRequests
from allotment.controllers.pools.resource_pools import Pools
from allotment.controllers.semantic.parameters import Parameters
from allotment.controllers.semantic.translator import installed
from allotment.controllers.semantic.vendor_kinds import VendorKinds
from allotment.controllers.simulation.driver import SimulatedDrivers
from allotment.controllers.simulation.heartbeat import SimulatedHeartbeat
from allotment.controllers.simulation.kubelet import SimulatedKubelet
from allotment.controllers.taints.device_taint_eviction import DeviceTaintEviction
from allotment.controllers.taints.node_taint_eviction import TaintEviction
from allotment.controllers.volumes.binder import VolumeBinder
from allotment.controllers.volumes.ephemeral_claims import EphemeralClaims
from allotment.controllers.volumes.protection import VolumeProtection
from allotment.controllers.workloads.deployments import Deployments
from allotment.controllers.workloads.disruption_budgets import DisruptionBudgets
from allotment.controllers.workloads.jobs import Jobs
from allotment.controllers.workloads.replica_sets import ReplicaSets
from allotment.scheduler.config.configuration import DEFAULT, Configuration

log = logging.getLogger(__name__)

NO_MACHINES = Catalogue()
CLAIM_WORKERS = 128
POOL_WORKERS = 32
MACHINE_WORKERS = 32
"""How many writes of claims or pools may be in flight at once, so that the server can commit them together."""


Reader = Callable[[Catalogue], None]


class Runs(Protocol):
    """A controller, or something on which one depends."""

    async def run(self) -> None:
        """Works until cancelled."""


@dataclass(frozen=True, slots=True)
class ControllerParts:
    """What controllers are made of. Their metrics go to ``registry``, if there is one; ``catalogue`` has the machines that
    can be launched, by ``provider``; ``scheduling`` says how the scheduler decides, for simulations of its decisions."""

    client: Client
    informers: Informers
    recorder: Recorder
    served: Discovery
    registry: CollectorRegistry | None = None
    catalogue: Catalogue = NO_MACHINES
    provider: str = SimulatedProvider.name
    scheduling: Configuration = DEFAULT
    readers: list[Reader] = field(
        default_factory=list
    )  # the users of the catalogue, to be notified of a new one

    def place_of(self, type_: type[ApiStruct]) -> ResourcePath | None:
        return place_of(type_, self.served)


def _claims(parts: ControllerParts) -> list[Runs]:
    creations, groups = None, parts.place_of(PodGroup) is not None
    if parts.registry is not None:
        creations = ClaimCreations(parts.registry)
        ClaimNumbers(parts.informers, parts.registry)
    made = TemplateClaims(parts.client, parts.informers, parts.recorder, groups=groups, creations=creations)
    return [
        Controller(made, workers=CLAIM_WORKERS),
        Controller(ClaimRelease(parts.client, parts.informers, groups=groups), workers=CLAIM_WORKERS),
    ]


def _device_taints(parts: ControllerParts) -> list[Runs]:
    rules = parts.place_of(DeviceTaintRule)
    return [Controller(DeviceTaintEviction(parts.client, parts.informers, parts.recorder, rules=rules))]


def _pools(parts: ControllerParts) -> list[Runs]:
    """Nothing if the server has no pools. Requests are answered on the embedded server only, because Kubernetes does that
    itself."""
    place = parts.place_of(ResourcePool)
    if place is None:
        return []
    rules, node_slices = parts.place_of(DeviceTaintRule), parts.place_of(NodeResourceSlice)
    followed = FollowedUsage(parts.informers, rules=rules, node_slices=node_slices)
    numbers = PoolNumbers(parts.registry)
    made: list[Runs] = [
        Controller(
            Pools(parts.client, parts.informers, followed, place=place, numbers=numbers), workers=POOL_WORKERS
        )
    ]
    made.append(Controller(PoolHeartbeat(parts.client, followed, numbers), workers=1))
    if place.api_version == resource_of(ResourcePool).api_version:
        made.append(Controller(PoolStatusRequests(parts.client, parts.informers, followed)))
    return made


def _overlays(parts: ControllerParts) -> list[Runs]:
    """Nothing if the server has no overlays. One worker, because one evaluation gives all answers."""
    place = parts.place_of(NodeOverlay)
    if place is None:
        return []
    pools, groups = parts.place_of(NodePool), parts.place_of(NodeGroup)
    made = Overlays(parts.client, parts.informers, parts.catalogue, place=place, pools=pools, groups=groups)
    parts.readers.append(made.use)
    return [Controller(made, workers=1)]


def _market(parts: ControllerParts) -> Market:
    pools, groups, overlays = (parts.place_of(each) for each in (NodePool, NodeGroup, NodeOverlay))
    made = Market(parts.informers, parts.catalogue, pools=pools, groups=groups, overlays=overlays)
    parts.readers.append(made.use)
    return made


def _machines(parts: ControllerParts) -> list[Runs]:
    """Nothing if the server has no NodeClaims."""
    client, informers, recorder = parts.client, parts.informers, parts.recorder
    place = parts.place_of(NodeClaim)
    if place is None:
        return []
    pools, groups, market = parts.place_of(NodePool), parts.place_of(NodeGroup), _market(parts)
    trees = parts.place_of(NodeResourceSlice)
    provider = _provider(
        parts.provider, providers.Surroundings(client, informers, market, place, groups, trees)
    )
    numbers = MachineNumbers(informers.at(place, NodeClaim), parts.registry)
    lifecycle = MachineLifecycle(
        client, informers, recorder, provider, market, place=place, trees=trees, numbers=numbers
    )
    more = provider.reconcilers() if isinstance(provider, providers.ProviderWithControllers) else ()
    return [
        Controller(lifecycle, workers=MACHINE_WORKERS),
        Controller(Sweep(client, informers, recorder, provider, place=place), workers=1),
        Controller(SourceSizes(client, informers, claims=place, pools=pools, groups=groups)),
        Controller(PodEvents(client, informers, place=place)),
        *(Controller(each, workers=MACHINE_WORKERS) for each in more),
    ]


def _provider(name: str, surroundings: providers.Surroundings) -> providers.Provider:
    makers: dict[str, providers.Maker] = {
        **providers.installed(name),
        SimulatedProvider.name: SimulatedProvider,
        GroupProvider.name: GroupProvider,
    }
    if name not in makers:
        raise ImportError(f"there is no provider {name}: it must be one of {', '.join(sorted(makers))}")
    return makers[name](surroundings)


def _autoscaling(parts: ControllerParts) -> list[Runs]:
    """Nothing if the server has no NodeClaims. One worker, because all pods are planned together."""
    place = parts.place_of(NodeClaim)
    if place is None:
        return []
    kinds: tuple[type[ApiStruct], ...] = (*PLACES, DaemonSet)
    served = {kind: found for kind in kinds if (found := parts.place_of(kind)) is not None}
    cluster = FollowedCluster(parts.informers, served, parts.scheduling)
    market = _market(parts)
    numbers = AutoscalingMetrics(parts.registry)
    if parts.registry is not None:
        HourlyCosts(parts.informers.at(place, NodeClaim), market, parts.registry)
    shared = (parts.client, parts.informers, parts.recorder, cluster, market)
    made = (kind(*shared, place=place, numbers=numbers) for kind in (Provisioning, ScaleDown))
    return [Controller(each, workers=1) for each in made]


def _plain(
    *kinds: Callable[[Client, Informers, Recorder], Reconciler[Any]],
) -> Callable[[ControllerParts], list[Runs]]:
    def make(parts: ControllerParts) -> list[Runs]:
        return [Controller(kind(parts.client, parts.informers, parts.recorder)) for kind in kinds]

    return make


def _parameters(parts: ControllerParts) -> list[Runs]:
    """Nothing if the server has no such claims; without translators, only metrics."""
    classes, found = parts.place_of(ResourceClass), installed()
    translators = found.translators
    for fault in found.faults:
        log.error("%s", fault)
    if classes is None or not (translators or parts.registry):
        return []
    kinds = VendorKinds(parts.client, parts.informers, [each.kind for each in translators])
    if parts.registry is not None:
        SemanticNumbers(parts.informers, parts.registry, kinds.is_served, classes=classes)
    if not translators:
        return [kinds]
    made = Parameters(
        parts.client, parts.informers, parts.recorder, kinds, translators, api_version=classes.api_version
    )
    return [kinds, Controller(made)]


def _volumes(parts: ControllerParts) -> list[Runs]:
    """Nothing if the server has no volumes. Binding has one worker, so that no two claims get one volume."""
    if parts.place_of(PersistentVolume) is None:
        return []
    binder = VolumeBinder(parts.client, parts.informers, parts.recorder)
    protection = VolumeProtection(parts.client, parts.informers)
    return [Controller(binder, workers=1), Controller(protection), *_plain(EphemeralClaims)(parts)]


def _simulation(parts: ControllerParts) -> list[Runs]:
    slices = parts.place_of(NodeResourceSlice)
    kubelet = SimulatedKubelet(parts.client, parts.informers, parts.recorder, node_slices=slices)
    others = _plain(SimulatedHeartbeat, SimulatedDrivers)
    return [Controller(kubelet, workers=CLAIM_WORKERS), *others(parts)]


_MAKERS: dict[str, Callable[[ControllerParts], Sequence[Runs]]] = {
    CLAIMS: _claims,
    DEVICE_TAINTS: _device_taints,
    POOLS: _pools,
    PARAMETERS: _parameters,
    WORKLOADS: _plain(Deployments, ReplicaSets, Jobs, DisruptionBudgets),
    NODES: _plain(NodeLifecycle, OrphanedPods, TaintEviction),
    VOLUMES: _volumes,
    OVERLAYS: _overlays,
    SIMULATION: _simulation,
    MACHINES: _machines,
    AUTOSCALING: _autoscaling,
}


RIGHTS: dict[str, tuple[str, ...]] = {
    CLAIMS: (*TemplateClaims.rights, *ClaimRelease.rights),
    DEVICE_TAINTS: DeviceTaintEviction.rights,
    POOLS: (*Pools.rights, *PoolHeartbeat.rights),
    PARAMETERS: Parameters.rights,
    WORKLOADS: (*Deployments.rights, *ReplicaSets.rights, *Jobs.rights, *DisruptionBudgets.rights),
    NODES: (*NodeLifecycle.rights, *OrphanedPods.rights, *TaintEviction.rights),
    VOLUMES: (*VolumeBinder.rights, *VolumeProtection.rights, *EphemeralClaims.rights),
    OVERLAYS: Overlays.rights,
    SIMULATION: (*SimulatedKubelet.rights, *SimulatedHeartbeat.rights, *SimulatedDrivers.rights),
    MACHINES: (*MachineLifecycle.rights, *Sweep.rights, *SourceSizes.rights, *PodEvents.rights),
    AUTOSCALING: (*Provisioning.rights, *ScaleDown.rights),
}
"""What each may do, in the lines of ``api.rights``."""
EMBEDDED_RIGHTS = {POOLS: PoolStatusRequests.rights}
"""What some do besides on the embedded server. Elsewhere Kubernetes does it."""
PROVIDER_RIGHTS = {SimulatedProvider.name: SimulatedMachines.rights, GroupProvider.name: GroupMembers.rights}
"""What providers of machines do besides. Those of other packages bring rights of their own."""


async def controllers(
    names: Iterable[str],
    client: Client,
    informers: Informers,
    recorder: Recorder,
    registry: CollectorRegistry | None = None,
    catalogue: Catalogue = NO_MACHINES,
    provider: str = SimulatedProvider.name,
    scheduling: Configuration = DEFAULT,
    readers: list[Reader] | None = None,
) -> list[Runs]:
    """The controllers of these names, not running yet. Their informers are requested. ``readers`` collects the functions to
    call when the catalogue changes. Raises ImportError for a provider that cannot be loaded; a translator that cannot be used
    is left out, and the log says so."""
    served = await discover(client)
    parts = ControllerParts(client, informers, recorder, served, registry, catalogue, provider, scheduling)
    made = [each for name in names for each in _MAKERS[name](parts)]
    if readers is not None:
        readers += parts.readers
    return made


async def run(made: Iterable[Runs]) -> None:
    """Runs controllers until cancelled. Their informers must be running, and have their first lists."""
    async with asyncio.TaskGroup() as tasks:
        for each in made:
            tasks.create_task(each.run())
