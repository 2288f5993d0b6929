"""``allot controllers``: the controllers alone, on any cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.apiserver.auth import users
from allotment.cli.options.catalog import catalog_option
from allotment.cli.options.feature_gates import feature_gates_option
from allotment.cli.options.service_options import connection_options, service_options
from allotment.controllers import names
from allotment.insight.catalogue_files import read_files

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from allotment.client.client import Client
    from allotment.daemons.service import Service

NAME = "controllers"


def _names(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(part.strip() for part in (value or "").split(",") if part.strip()))
    for name in chosen:
        if name not in names.ALL:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(names.ALL)}")
    if value is not None and not chosen:
        raise click.BadParameter(f"name some of {', '.join(names.ALL)}")
    return chosen


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
    name = "autoscaler" if only and set(only) <= set(names.ON_REQUEST) else NAME
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
    from allotment.daemons import rights
    from allotment.daemons.components import Components, WantedComponents
    from allotment.daemons.service import check_rights, serve
    from allotment.insight.connecting import connected
    from allotment.insight.errors import Failure
    from allotment.insight.remarks import remark

    async with connected(service.kubeconfig, service.context, service.lease) as client:
        chosen = only or tuple(name for name in await _usual(client, catalog) if name not in switched_off)
        if names.POOLS in chosen and not await _may_count(client):
            if only:
                raise Failure(f"pools: {_COUNTER}", _BE_COUNTER)
            remark(f"the controller pools does not run: {_COUNTER}; {_BE_COUNTER}")
            chosen = tuple(name for name in chosen if name != names.POOLS)
        await check_rights(
            client, service.name, await rights.of_controllers(service, client, chosen, provider)
        )
        remark(f"controllers: {', '.join(chosen)}")

        async def work(registry: CollectorRegistry) -> None:
            await Components(
                WantedComponents(None, chosen, catalog, provider), client, client, registry
            ).run()

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

    served = await discover(client)
    if served.has(semantic.API_VERSION, "noderesourceslices"):
        return tuple(name for name in names.NAMES if name != names.SIMULATION)
    optional: dict[str, type[ApiStruct]] = {
        names.POOLS: ResourcePool,
        **({names.OVERLAYS: NodeOverlay} if catalog else {}),
    }
    return (
        names.CLAIMS,
        names.DEVICE_TAINTS,
        *(name for name, kind in optional.items() if place_of(kind, served)),
    )


_COUNTER = f"this server lets only the user {users.CONTROLLERS} write them"
_BE_COUNTER = f"`allot kubeconfig --user {users.CONTROLLERS}` gives that user's kubeconfig"


async def _may_count(client: Client) -> bool:
    """Whether the caller may write ResourcePools here. The embedded server checks the user's name; a real one checks rights
    only."""
    from allotment.api.pools import ResourcePool
    from allotment.client.discovery import discover
    from allotment.client.form import resource_of
    from allotment.client.places import place_of

    if place_of(ResourcePool, await discover(client)) != resource_of(ResourcePool):
        return True
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    review = await client.plain(asked["apiVersion"], "selfsubjectreviews", namespaced=False).create(asked)
    return bool(review["status"]["userInfo"].get("username") == users.CONTROLLERS)
