"""The whole loop in one process, against the embedded server: scheduler, claims, workloads, machines that are played, and autoscaling, each
as in production but that nothing waits without need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from allotment.api.autoscaling import NodeClaim, NodeGroup, NodeOverlay, NodePool
from allotment.api.batch import PodDisruptionBudget, PodGroup
from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import ResourceSlice
from allotment.apiserver.auth.identity import Identity
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.client.form import Obj, ResourcePath, resource_of
from allotment.client.places import PLACES
from allotment.controllers.autoscaling.batch import Batch
from allotment.controllers.autoscaling.followed_cluster import FollowedCluster
from allotment.controllers.autoscaling.metrics import AutoscalingMetrics
from allotment.controllers.autoscaling.provisioning import Provisioning
from allotment.controllers.autoscaling.scale_down import ScaleDown
from allotment.controllers.claims.claim_release import ClaimRelease
from allotment.controllers.claims.template_claims import TemplateClaims
from allotment.controllers.machines.market import Market
from allotment.controllers.workloads.replica_sets import ReplicaSets
from allotment.scheduler.cluster import Cluster as Known
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.core import Scheduler
from allotment.scheduler.driver import Driver
from tests.autoscaler.build import Json, catalogue, gpus, pool, type_
from tests.builders.plain import claim_template, pod
from tests.controllers.cluster import Cluster, Component
from tests.controllers.failing import Failing
from tests.controllers.machines import world as machines

SCHEDULER = Identity("allotment:scheduler", ("system:authenticated",))
FREELY: Json = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
CLAIMS = resource_of(NodeClaim)


def at_once(name: str = "p", annotations: dict[str, str] | None = None, **spec: Any) -> NodePool:
    """A pool whose machines come at once, and go as soon as nobody needs them."""
    marks = {**machines.AT_ONCE, **(annotations or {})}
    template = {"metadata": {"annotations": marks}, "spec": {"requirements": spec.pop("requirements", [])}}
    return pool(name, **{"disruption": FREELY, **spec, "template": template})


TYPES = catalogue(
    type_("two", {"a": "2", "b": "3"}, dynamicResources=gpus(2)),
    type_("four", {"a": "5"}, dynamicResources=gpus(4)),
    at_once(),
)


async def autoscaling(
    cluster: Cluster, types: Catalogue = TYPES, failing: Failing | None = None
) -> Component:
    """A process of its own, as in ``allot up``."""
    part = cluster.component(through=(failing or Failing()).through)
    shared = Market(
        part.informers,
        types,
        pools=resource_of(NodePool),
        groups=resource_of(NodeGroup),
        overlays=resource_of(NodeOverlay),
    )
    places: dict[type[ApiStruct], ResourcePath] = {
        kind: PLACES[kind][0] for kind in (PodGroup, PodDisruptionBudget)
    }
    followed = FollowedCluster(part.informers, places)
    given = (part.client, part.informers, part.recorder, followed, shared)
    more: Any = {"place": CLAIMS, "numbers": AutoscalingMetrics()}
    await part.start(
        Provisioning(*given, batch=Batch(idle=0.1), **more),
        ScaleDown(*given, settle=0.02, pause=0.02, **more),
        workers=1,
    )
    return part


@asynccontextmanager
async def looping(
    cluster: Cluster, types: Catalogue = TYPES, *, autoscaled: bool = True
) -> AsyncIterator[None]:
    """Everything at work while the block runs, and the class and the templates that pods need."""
    await cluster.create(GPUS, *(wanting(count) for count in (1, 2, 4)))
    for kind in (NodeClaim, Node, ResourceSlice):
        cluster.seen.of(kind)
    await machines.running(cluster, types=types)
    controllers = cluster.component()
    given = (controllers.client, controllers.informers)
    await controllers.start(
        TemplateClaims(*given, controllers.recorder),
        ClaimRelease(*given),
        ReplicaSets(*given, controllers.recorder),
    )
    scheduler = cluster.component(SCHEDULER)
    core = Scheduler(Known(), DEFAULT.rosters())
    await scheduler.start()
    driving = asyncio.create_task(
        Driver(core, scheduler.client, scheduler.informers, scheduler.recorder).run()
    )
    if autoscaled:
        await autoscaling(cluster, types)
    try:
        yield
    finally:
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)


# --- what tests bring ---

GPUS: Obj = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
}


def wanting(count: int) -> Obj:
    """A template of claims for so many GPUs."""
    return claim_template(f"gpus-{count}", "gpu", namespace="default", count=count)


def gpu_pod(name: str, gpus: int = 1, **spec: Any) -> Obj:
    container = {"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    entry = {"name": "gpu", "resourceClaimTemplateName": f"gpus-{gpus}"}
    grace = {"terminationGracePeriodSeconds": 0, **spec}
    return pod(name, containers=[container], resourceClaims=[entry], **grace)


async def end(cluster: Cluster, *names: str) -> None:
    for name in names:
        await cluster.admin.of(Pod).delete(name, "default")


# --- what tests see ---


def running(cluster: Cluster) -> dict[str, str]:
    """Pods that run, each with its node."""
    return {
        each.metadata.name: each.spec.node_name or ""
        for each in cluster.seen.of(Pod).all()
        if each.status.phase == "Running" and each.metadata.deletion_timestamp is None
    }


def kinds(cluster: Cluster) -> dict[str, str]:
    """Nodes, each with ``type/zone``."""
    return {
        each.metadata.name: "/".join(
            each.metadata.labels[key]
            for key in ("node.kubernetes.io/instance-type", "topology.kubernetes.io/zone")
        )
        for each in cluster.seen.of(Node).all()
    }
