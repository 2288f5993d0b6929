"""``allot controllers``: the controllers alone, on any cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.options.catalog import catalog_option
from allotment.cli.options.feature_gates import feature_gates_option
from allotment.cli.options.service_options import connection_options, service_options
from allotment.insight.catalogue_files import read_files

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from allotment.client.client import Client
    from allotment.client.rights import Right
    from allotment.daemons.service import Service

NAME = "controllers"
CHOICES = (
    "claims",
    "device-taints",
    "pools",
    "parameters",
    "workloads",
    "nodes",
    "volumes",
    "overlays",
    "simulation",
    "machines",
    "autoscaling",
)
SCALING = frozenset({"machines", "autoscaling"})
"""A process that runs only these takes a lease of its own, so that other controllers may lead beside them."""
WRITES = {
    "claims": (
        "create,delete,patch: resource.k8s.io: resourceclaims",
        "patch: resource.k8s.io: resourceclaims/status",
        "patch: core: pods/status",
    ),
    "device-taints": ("delete: core: pods", "patch: core: pods/status"),
    "pools": (
        "create,delete: resource.k8s.io: resourcepools",
        "delete: resource.k8s.io: resourcepoolstatusrequests",
        "patch: resource.k8s.io: resourcepools/status,resourcepoolstatusrequests/status",
    ),
    "parameters": ("create,delete,patch: resource.k8s.io: resourceclaimparameters,resourceclassparameters",),
    "workloads": (
        "create,delete,patch: core: pods",
        "create,delete,patch: apps: replicasets",
        "patch: apps: deployments/status,replicasets/status",
        "patch: batch: jobs/status",
    ),
    "nodes": ("patch: core: nodes,nodes/status,pods/status", "delete: core: pods"),
    "volumes": (
        "create,delete,patch: core: persistentvolumes",
        "create,patch: core: persistentvolumeclaims",
        "patch: core: persistentvolumeclaims/status,persistentvolumes/status",
    ),
    "overlays": ("patch: karpenter.sh: nodeoverlays/status",),
    "simulation": ("patch: core: nodes/status,pods/status", "delete: core: pods"),
    "machines": (
        "delete,patch: karpenter.sh: nodeclaims",
        "patch: karpenter.sh: nodeclaims/status,nodepools/status",
        "patch: allotment.dev: nodegroups/status",
        "delete,patch: core: nodes",
        "delete: core: pods",
        "create: core: pods/eviction",
    ),
    "autoscaling": ("create,delete,patch: karpenter.sh: nodeclaims",),
}
"""What each controller may write besides events, in the form of ``rights.writing``."""
OPTIONAL = frozenset(
    {
        "resourcepools",
        "resourcepoolstatusrequests",
        "nodeoverlays",
        "nodeclaims",
        "nodepools",
        "nodegroups",
    }
)
"""Kinds that are written only if the server has them, each in the group in which the server has it."""


def _names(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in (value or "").split(",") if part.strip()))
    for name in names:
        if name not in CHOICES:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(CHOICES)}")
    if value is not None and not names:
        raise click.BadParameter(f"name some of {', '.join(CHOICES)}")
    return names


@click.command(name="controllers")
@connection_options
@click.option(
    "--only", metavar="NAME,…", callback=_names, help="run these controllers instead of the usual ones"
)
@catalog_option
@click.option(
    "--provider",
    default="simulated",
    show_default=True,
    metavar="NAME",
    help="where machines come from: simulated, groups, or a provider from an installed package",
)
@feature_gates_option
@service_options
def command(
    kubeconfig: Path | None,
    context: str | None,
    only: tuple[str, ...],
    catalog: tuple[str, ...],
    provider: str,
    switched_off: frozenset[str],
    leader_elect: bool,
    metrics_host: str,
    metrics_port: int | None,
    verbose: bool,
) -> int:
    """Runs the controllers for claims and, on request, others. The scheduler runs separately.

    \b
    claims         create claims from templates; free and delete unused ones
    device-taints  evict pods from devices with a NoExecute taint
    pools          count what is left of each pool of devices, in ResourcePools
    parameters     translate vendors' parameters for v1alpha2 claims
    workloads      Deployments, ReplicaSets, Jobs, PodDisruptionBudgets
    nodes          detect silent nodes, evict from tainted ones, remove orphans
    volumes        bind volumes to claims, create simulated and ephemeral ones
    overlays       report which NodeOverlays fit the machines of --catalog
    simulation     stand in for nodes with the label allotment.dev/simulated
    machines       launch and terminate machines for NodeClaims; on request
    autoscaling    add machines for waiting pods, remove idle ones; on request

    On a real cluster, only claims and device-taints run by default, because kube-controller-manager does the rest. Switch off
    its versions of the two with --controllers=*,-resourceclaim-controller,-device-taint-eviction-controller.
    The controller pools also runs there once examples/kubernetes/resource_pools.yaml has defined its kind. The controller
    overlays runs there with a --catalog, once examples/kubernetes/node_overlays.yaml has defined its kind; Karpenter has an
    overlay controller of its own. The controllers machines and autoscaling need the rights in
    examples/kubernetes/machines.yaml and autoscaling.yaml. Do not run them beside Karpenter, which does both.

    On the server of `allot up --no-controllers`, all controllers but simulation run. That server lets only the user
    allotment:controllers write ResourcePools, so run the controllers as that user: `allot kubeconfig --user
    allotment:controllers`.

    Exit code: 0 stopped by Ctrl-C or SIGTERM, 1 it could not start, or it failed.
    """
    import uvloop

    from allotment.cli.options.service_options import log_level
    from allotment.daemons.log import set_up
    from allotment.daemons.service import Service

    if unwanted := switched_off & set(only):
        raise click.UsageError(f"--only names {', '.join(unwanted)}, which --feature-gates switches off")
    set_up(log_level(verbose))
    name = "autoscaler" if only and SCALING.issuperset(only) else NAME
    service = Service(name, kubeconfig, context, leader_elect, metrics_host, metrics_port)
    read_files(catalog)  # report errors in these files before anything runs
    uvloop.run(_run(service, only, switched_off, catalog, provider))
    return 0


async def _run(
    service: Service,
    only: tuple[str, ...],
    switched_off: frozenset[str],
    catalog: tuple[str, ...],
    provider: str,
) -> None:
    from allotment.daemons.components import Components, WantedComponents
    from allotment.daemons.service import check_rights, serve
    from allotment.insight.connecting import connected
    from allotment.insight.errors import Failure
    from allotment.insight.remarks import remark

    async with connected(service.kubeconfig, service.context, service.lease) as client:
        names = only or tuple(name for name in await _usual(client, catalog) if name not in switched_off)
        if "pools" in names and not await _may_count(client):
            if only:
                raise Failure(f"pools: {_COUNTER}", _BE_COUNTER)
            remark(f"the controller pools does not run: {_COUNTER}; {_BE_COUNTER}")
            names = tuple(name for name in names if name != "pools")
        await check_rights(client, service.name, await rights_of(service, client, names, provider))
        remark(f"controllers: {', '.join(names)}")

        async def work(registry: CollectorRegistry) -> None:
            await Components(WantedComponents(None, names, catalog, provider), client, client, registry).run()

        await serve(service, client, work)


async def _usual(client: Client, catalog: tuple[str, ...]) -> tuple[str, ...]:
    """Only the embedded server has KEP-4381 semantic parameters (v1alpha2) in Kubernetes' own API group. It has no
    kube-controller-manager either."""
    from allotment.api import semantic
    from allotment.api.autoscaling import NodeOverlay
    from allotment.api.meta import ApiStruct
    from allotment.api.pools import ResourcePool
    from allotment.client.discovery import discover
    from allotment.client.places import place_of
    from allotment.controllers.suite import CLAIMS, DEVICE_TAINTS, NAMES, OVERLAYS, POOLS, SIMULATION

    served = await discover(client)
    if served.has(semantic.API_VERSION, "noderesourceslices"):
        return tuple(name for name in NAMES if name != SIMULATION)
    optional: dict[str, type[ApiStruct]] = {
        POOLS: ResourcePool,
        **({OVERLAYS: NodeOverlay} if catalog else {}),
    }
    return (CLAIMS, DEVICE_TAINTS, *(name for name, kind in optional.items() if place_of(kind, served)))


_COUNTER = "this server lets only the user allotment:controllers write them"
_BE_COUNTER = "`allot kubeconfig --user allotment:controllers` gives that user's kubeconfig"


async def _may_count(client: Client) -> bool:
    """Whether the caller may write ResourcePools here. The embedded server checks the user's name; a real one checks rights
    only."""
    from allotment.api.pools import ResourcePool
    from allotment.client.discovery import discover
    from allotment.client.form import resource_of
    from allotment.client.places import place_of
    from allotment.daemons.components import CONTROLLERS

    if place_of(ResourcePool, await discover(client)) != resource_of(ResourcePool):
        return True
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    review = await client.plain(asked["apiVersion"], "selfsubjectreviews", namespaced=False).create(asked)
    return bool(review["status"]["userInfo"].get("username") == CONTROLLERS)


async def rights_of(
    service: Service, client: Client, names: tuple[str, ...], provider: str = "simulated"
) -> list[Right]:
    """The rights that the controllers need on this server. To find out, they are constructed without being run: they then
    request the informers that they need."""
    from allotment.client.informers import Informers
    from allotment.client.recorder import Recorder
    from allotment.client.rights import leading, reading, writing
    from allotment.controllers import suite
    from allotment.daemons.service import NAMESPACE
    from allotment.insight.errors import Failure

    informers = Informers(client)
    try:
        recorder = Recorder(client, service.lease)
        await suite.controllers(names, client, informers, recorder, provider=provider)
    except ImportError as exc:
        raise Failure(str(exc), "install, repair or remove the package that provides it") from exc
    rights = reading(informers.resources()) + writing(("create,patch: core: events",))
    followed = {each.plural: each.api_version.rpartition("/")[0] for each in informers.resources()}
    for right in (right for name in names for right in writing(WRITES[name])):
        kind = right.resource.partition("/")[0]
        if kind not in OPTIONAL:
            rights.append(right)
        elif kind in followed:
            rights.append(replace(right, group=followed[kind]))
    return rights + (leading(service.lease, NAMESPACE) if service.leader_elect else [])
