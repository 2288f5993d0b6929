"""``allot overlays``: which overlay applies to which machine, what the machine looks like then, and which overlays conflict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.options.catalog import catalog_option
from allotment.cli.options.data_folder import KUBECONFIG_HELP
from allotment.cli.options.source_options import NAME, TABLE, WIDE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allotment.api.autoscaling import NodeGroup, NodeOverlay, NodePool
    from allotment.api.manifests.manifest import Located
    from allotment.autoscaler.catalogue.overlays import OverlaidCatalogue

Objects = tuple["list[NodeOverlay]", "list[NodePool]", "list[NodeGroup]"]


@click.command(name="overlays")
@catalog_option
@click.option(
    "--type",
    "type_",
    metavar="NAME",
    help="show only this instance type and its overlays, with every device",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help=KUBECONFIG_HELP,
)
@click.option("--context", metavar="NAME", help="of the kubeconfig; default: its current one")
@click.option(
    "--offline",
    multiple=True,
    type=click.Path(),
    metavar="FILE|DIR",
    help="read NodeOverlays, NodePools and NodeGroups from manifests instead of a server; - is standard input; repeatable",
)
@click.option(
    "-o", "--output", type=click.Choice([TABLE, WIDE, NAME, "json", "yaml"]), default=TABLE, show_default=True
)
def command(
    catalog: tuple[str, ...],
    type_: str | None,
    kubeconfig: Path | None,
    context: str | None,
    offline: tuple[str, ...],
    output: str,
) -> int:
    """Shows what NodeOverlays change about the machines in a catalogue: prices, extended resources, devices.

    Overlays, pools and groups come from the server or from --offline files, and from the catalogue. If the catalogue has an
    object of the same name, the server's replaces it. Attributes whose value is known only once a machine runs are shown as
    <1>, <2>, …: equal numbers mean that the values will be equal.

    \b
    Examples:  allot overlays --catalog types.yaml --offline overlays.yaml
               allot overlays --catalog types.yaml --type gpu-h100-8

    Exit code: 0 all overlays can be applied, 1 some cannot, 2 no answer could be given.
    """
    from allotment.api.text import printable
    from allotment.autoscaler.catalogue.overlays import evaluate
    from allotment.cli.render.overlay_table import document, show
    from allotment.cli.render.screen import open_screen
    from allotment.insight.catalogue_files import read_files

    if offline and (kubeconfig or context):
        raise click.UsageError("--offline reads files and no server: leave out --kubeconfig, --context")
    catalogue = read_files(catalog)
    overlays, pools, groups = _from_files(offline) if offline else _from_server(kubeconfig, context)
    found = evaluate(catalogue.with_pools(pools, groups), overlays)
    if type_ is not None:
        found = _of_type(found, type_)
    if output in (TABLE, WIDE):
        show(found, open_screen(), wide=output == WIDE, each=type_ is not None)
    elif output == NAME:
        for name in found.findings:
            click.echo(printable(f"nodeoverlay/{name}"))
    else:
        from allotment.cli.render.document import written_out

        click.echo(written_out(document(found), output))
    return 1 if any(each.errors or each.conflicts for each in found.findings.values()) else 0


def _of_type(found: OverlaidCatalogue, type_: str) -> OverlaidCatalogue:
    from dataclasses import replace

    from allotment.insight.absent import absent

    machines = tuple(each for each in found.machines if each.type == type_)
    if not machines:
        raise absent("machine of type", type_, {each.type for each in found.machines}, "allot overlays")
    names = {each.name for each in machines}
    findings = {name: each for name, each in found.findings.items() if names & set(each.applies)}
    return replace(found, machines=machines, findings=findings)


def _from_files(names: Sequence[str]) -> Objects:
    """Reads the objects from files. Objects of other kinds are ignored, and so are fields that a newer server has written."""
    from allotment.insight.errors import BadInput
    from allotment.insight.manifest_files import read_objects

    reading = read_objects(names)
    if reading.complaints:
        raise BadInput(reading.complaints)
    return _sorted_out(reading.found)


def _sorted_out(found: Sequence[Located]) -> Objects:
    from allotment.api.autoscaling import NodeGroup, NodeOverlay, NodePool

    objects = [each.obj for each in found]
    return (
        [each for each in objects if isinstance(each, NodeOverlay)],
        [each for each in objects if isinstance(each, NodePool)],
        [each for each in objects if isinstance(each, NodeGroup)],
    )


def _from_server(kubeconfig: Path | None, context: str | None) -> Objects:
    import uvloop

    from allotment.insight.errors import Failure, NoAnswer

    try:
        return uvloop.run(_ask(kubeconfig, context))
    except Failure as exc:
        raise NoAnswer(exc.message, exc.hint) from exc


async def _ask(kubeconfig: Path | None, context: str | None) -> Objects:
    from allotment.api.autoscaling import NodeGroup, NodeOverlay, NodePool
    from allotment.api.status import StatusError
    from allotment.client.client import Collection
    from allotment.client.discovery import discover
    from allotment.client.form import Typed
    from allotment.client.places import place_of
    from allotment.insight.connecting import connected
    from allotment.insight.errors import Failure

    async with connected(kubeconfig, context, "allotment-view") as client:
        served = await discover(client)
        overlays, pools, groups = (place_of(kind, served) for kind in (NodeOverlay, NodePool, NodeGroup))
        if overlays is None:
            raise Failure(
                "the server has no nodeoverlays.karpenter.sh",
                "kubectl apply -f src/allotment/autoscaler/crds.yaml defines them",
            )
        try:
            return (
                (await Collection(client, overlays, Typed(NodeOverlay)).list()).items,
                (await Collection(client, pools, Typed(NodePool)).list()).items if pools is not None else [],
                (await Collection(client, groups, Typed(NodeGroup)).list()).items
                if groups is not None
                else [],
            )
        except StatusError as exc:
            raise Failure(
                str(exc), "this requires the right to list nodeoverlays, nodepools and nodegroups"
            ) from exc
