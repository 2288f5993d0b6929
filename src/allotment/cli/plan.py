"""``allot plan``: which machines to add for pods that wait, at what price, and why some pods stay pending."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allotment.cli.catalog import catalog_option
from allotment.cli.sight import TABLE, WIDE, sight_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allotment.api.meta import ApiStruct
    from allotment.autoscaler.catalogue import Catalogue
    from allotment.cli.plan_input import Waiting
    from allotment.cli.sight import Sight


@click.command(name="plan")
@click.option(
    "-f", "--filename", "files", multiple=True, type=click.Path(), metavar="FILE|DIR",
    help="pods to plan for, with claims, templates, classes and groups that the cluster does not have; - is standard input; "
    "default: the pods that wait in the cluster",
)  # fmt: skip
@catalog_option
@click.option(
    "--compare", multiple=True, type=click.Path(exists=True), metavar="FILE|DIR",
    help="another catalogue, to plan with side by side; one without instance types (overlays, pools) is laid over --catalog",
)  # fmt: skip
@click.option(
    "--consolidate", is_flag=True,
    help="the other way round: which nodes can go, and which cheaper machines come in their place",
)  # fmt: skip
@click.option("--empty", is_flag=True, help="no cluster at all: as if there were no node yet")
@click.option(
    "--cheapest-alternative", is_flag=True,
    help="of a claim's alternatives (firstAvailable) the one that costs least, in place of the first that can be had",
)  # fmt: skip
@sight_options(TABLE, WIDE)
def command(
    files: tuple[str, ...],
    catalog: tuple[str, ...],
    compare: tuple[str, ...],
    consolidate: bool,
    empty: bool,
    cheapest_alternative: bool,
    sight: Sight,
    output: str,
) -> int:
    """Tells which machines to add for pods that wait: the cheapest, with a proof of how far from the cheapest they can be.

    Pods go to nodes that exist where they fit. For the rest machines are chosen from the catalogue, and every pod is tried on
    its machine as the scheduler would. Gangs are placed whole or not at all. Nothing is created.

    \b
    Examples:  allot plan -f pods.yaml --catalog types.yaml --empty
               allot plan --catalog types.yaml --compare overlays.yaml
               allot plan --catalog types.yaml --offline cluster.yaml -o json
               allot plan --consolidate --catalog types.yaml

    Exit code: 0 every pod has a place in the plan, 1 some stay pending, 2 it could not be found out.
    """
    if empty and (sight.offline or sight.kubeconfig or sight.context):
        raise click.UsageError("--empty is without a cluster: leave out --offline, --kubeconfig, --context")
    if not catalog:
        raise click.UsageError("no machines to choose from: name files with InstanceTypes with --catalog")
    if consolidate:
        if files or compare or empty or cheapest_alternative:
            words = "leave out -f, --compare, --empty, --cheapest-alternative"
            raise click.UsageError(f"--consolidate is about the nodes and pods of a cluster: {words}")
        return _consolidate(catalog, sight, output)
    from allotment.cli.catalog import read_files
    from allotment.cli.plan_table import document, show, show_alternative, show_comparison
    from allotment.cli.planning import has_alternatives, planned
    from allotment.cli.screen import open_screen

    first = read_files(catalog)
    waiting, own = _look(files, sight, empty=empty)
    catalogues = [first, *([_laid_over(first, read_files(compare))] if compare else [])]
    plans = [planned(waiting, each, own, by_price=cheapest_alternative) for each in catalogues]
    if output in (TABLE, WIDE):
        screen = open_screen()
        for note in waiting.notes:
            screen.line((f"note: {note}", "dim"))
        show(plans[0], screen, wide=output == WIDE)
        if not cheapest_alternative and has_alternatives(waiting):
            show_alternative(plans[0], planned(waiting, first, own, by_price=True), screen)
        if compare:
            show_comparison(plans[0], plans[1], screen)
    else:
        from allotment.cli.document import written_out

        told = document(plans[0])
        if compare:
            told["compared"] = document(plans[1])
        click.echo(written_out({**told, "notes": waiting.notes}, output))
    return 1 if plans[0].pending else 0


def _consolidate(catalog: Sequence[str], sight: Sight, output: str) -> int:
    from datetime import UTC, datetime

    from allotment.cli.catalog import read_files
    from allotment.cli.consolidation_table import document, show
    from allotment.cli.planning import consolidated
    from allotment.cli.screen import open_screen

    waiting, own = _look((), sight, empty=False)
    now = datetime.now(UTC).timestamp()
    found, before = consolidated(waiting, read_files(catalog), own, now=now)
    if output in (TABLE, WIDE):
        screen = open_screen()
        for note in waiting.notes:
            screen.line((f"note: {note}", "dim"))
        show(found, before, screen, wide=output == WIDE)
    else:
        from allotment.cli.document import written_out

        click.echo(written_out({**document(found, before), "notes": waiting.notes}, output))
    return 0


def _look(files: Sequence[str], sight: Sight, *, empty: bool) -> tuple[Waiting, Sequence[ApiStruct]]:
    """The pods that wait, and the cluster's own overlays, pools and groups of nodes."""
    from allotment.autoscaler.workload import unread_owners
    from allotment.cli.cluster import name_of
    from allotment.cli.input import Reading
    from allotment.cli.plan_input import read

    mine, reading = read(files, workloads=True) if files else ([], Reading())
    found, own = _read(mine, sight, empty=empty)
    found.notes += unread_owners(reading.found)
    found.pods = [pod for pod in found.pods if sight.wants(name_of(pod.metadata)[0])]
    return found, own


def _read(mine: Sequence[ApiStruct], sight: Sight, *, empty: bool) -> tuple[Waiting, Sequence[ApiStruct]]:
    from allotment.cli.plan_input import read, waiting
    from allotment.cli.planning import KINDS, SOURCES, waiting_in
    from allotment.cli.seen import look

    if empty:
        return waiting(mine, (), tainted=True), ()
    if sight.offline:
        cluster, reading = read(sight.offline)
        return waiting(mine, cluster, tainted=True), [
            each.obj for each in reading.found if isinstance(each.obj, SOURCES)
        ]
    return waiting_in(look(sight, KINDS), mine)


def _laid_over(first: Catalogue, second: Catalogue) -> Catalogue:
    from allotment.autoscaler.catalogue import Catalogue

    if second.types:
        return second
    return Catalogue(
        first.types,
        {**first.pools, **second.pools},
        {**first.groups, **second.groups},
        {**first.overlays, **second.overlays},
    )
