"""All controllers by name, put together for a server: what it does not serve is left out.

``claims`` and ``device-taints`` are what a cluster with devices cannot do without; the others are what kube-controller-manager does on a
real cluster, so that there only the first two need to run. ``simulation`` plays the nodes that are marked as simulated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from allotment.api import alpha2
from allotment.api.batch import SCHEDULING
from allotment.client.client import Client
from allotment.client.discovery import Discovery, discover
from allotment.client.informers import Informers
from allotment.client.recorder import Recorder
from allotment.controllers.claim_release import ClaimRelease
from allotment.controllers.controller import Controller, Reconciler
from allotment.controllers.deployments import Deployments
from allotment.controllers.device_taint_eviction import DeviceTaintEviction
from allotment.controllers.disruption_budgets import DisruptionBudgets
from allotment.controllers.jobs import Jobs
from allotment.controllers.metrics import ClaimCreations
from allotment.controllers.node_lifecycle import NodeLifecycle
from allotment.controllers.orphaned_pods import OrphanedPods
from allotment.controllers.replica_sets import ReplicaSets
from allotment.controllers.simulation.driver import SimulatedDrivers
from allotment.controllers.simulation.heartbeat import SimulatedHeartbeat
from allotment.controllers.simulation.kubelet import SimulatedKubelet
from allotment.controllers.taint_eviction import TaintEviction
from allotment.controllers.template_claims import TemplateClaims

CLAIMS, DEVICE_TAINTS, WORKLOADS, NODES, SIMULATION = (
    "claims",
    "device-taints",
    "workloads",
    "nodes",
    "simulation",
)
NAMES = (CLAIMS, DEVICE_TAINTS, WORKLOADS, NODES, SIMULATION)
CLAIM_WORKERS = 32
"""So many writes of claims may be on their way at once, for the server to commit them together."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What controllers are made of."""

    client: Client
    informers: Informers
    recorder: Recorder
    served: Discovery
    creations: ClaimCreations | None = None

    @property
    def groups(self) -> bool:
        return self.served.has(SCHEDULING, "podgroups")

    @property
    def semantic(self) -> bool:
        return self.served.has(alpha2.API_VERSION, "noderesourceslices")


def _claims(parts: Parts) -> list[Controller[Any]]:
    made = TemplateClaims(
        parts.client, parts.informers, parts.recorder, groups=parts.groups, creations=parts.creations
    )
    return [
        Controller(made, workers=CLAIM_WORKERS),
        Controller(ClaimRelease(parts.client, parts.informers, groups=parts.groups), workers=CLAIM_WORKERS),
    ]


def _plain(
    *kinds: Callable[[Client, Informers, Recorder], Reconciler[Any]],
) -> Callable[[Parts], list[Controller[Any]]]:
    def make(parts: Parts) -> list[Controller[Any]]:
        return [Controller(kind(parts.client, parts.informers, parts.recorder)) for kind in kinds]

    return make


def _simulation(parts: Parts) -> list[Controller[Any]]:
    kubelet = SimulatedKubelet(parts.client, parts.informers, parts.recorder, semantic=parts.semantic)
    others = _plain(SimulatedHeartbeat, SimulatedDrivers)
    return [Controller(kubelet, workers=CLAIM_WORKERS), *others(parts)]


_MAKERS: dict[str, Callable[[Parts], Sequence[Controller[Any]]]] = {
    CLAIMS: _claims,
    DEVICE_TAINTS: _plain(DeviceTaintEviction),
    WORKLOADS: _plain(Deployments, ReplicaSets, Jobs, DisruptionBudgets),
    NODES: _plain(NodeLifecycle, OrphanedPods, TaintEviction),
    SIMULATION: _simulation,
}


async def controllers(
    names: Iterable[str],
    client: Client,
    informers: Informers,
    recorder: Recorder,
    registry: CollectorRegistry | None = None,
) -> list[Controller[Any]]:
    """The controllers of these names, not running yet. Their informers are asked for."""
    creations = ClaimCreations(registry) if registry is not None else None
    parts = Parts(client, informers, recorder, await discover(client), creations)
    return [controller for name in names for controller in _MAKERS[name](parts)]


async def run(made: Iterable[Controller[Any]]) -> None:
    """Runs controllers until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        for controller in made:
            tasks.create_task(controller.run())
