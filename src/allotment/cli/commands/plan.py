"""``allot plan``: which machines to add for waiting pods, at what price, and why some pods stay pending."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allotment.cli.options.catalog import catalog_option
from allotment.cli.options.source_options import TABLE, WIDE, source_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allotment.api.meta import ApiStruct
    from allotment.autoscaler.catalogue.catalogue import Catalogue
    from allotment.insight.pending_work import Waiting
    from allotment.insight.source import ClusterSource


@click.command(name="plan")
@click.option(
    "-f", "--filename", "files", multiple=True, type=click.Path(), metavar="FILE|DIR",
    help="pods to plan for, with any claims, templates, classes and groups that the cluster does not have; - is standard input; "
    "default: the pods that wait in the cluster",
)  # fmt: skip
@catalog_option
@click.option(
    "--compare", multiple=True, type=click.Path(exists=True), metavar="FILE|DIR",
    help="a second catalogue to plan with, for comparison; without instance types (only overlays, pools) it is laid over --catalog",
)  # fmt: skip
@click.option(
    "--consolidate", is_flag=True,
    help="the reverse: which nodes can be removed, and which cheaper machines replace them",
)  # fmt: skip
@click.option("--empty", is_flag=True, help="use no cluster: plan as if there were no node yet")
@click.option(
    "--cheapest-alternative", is_flag=True,
    help="choose the cheapest of a claim's alternatives (firstAvailable) instead of the first available one",
)  # fmt: skip
@source_options(TABLE, WIDE)
def command(
    files: tuple[str, ...],
    catalog: tuple[str, ...],
    compare: tuple[str, ...],
    consolidate: bool,
    empty: bool,
    cheapest_alternative: bool,
    source: ClusterSource,
    output: str,
) -> int:
    """Plans which machines to add for waiting pods: the cheapest, with a proof of how close to the minimum their price is.

    Pods go to existing nodes where they fit. For the others, machines are chosen from the catalogue, and every pod is tried
    on its machine as the scheduler would. Gangs are placed whole or not at all. Nothing is created.

    \b
    Examples:  allot plan -f pods.yaml --catalog types.yaml --empty
               allot plan --catalog types.yaml --compare overlays.yaml
               allot plan --catalog types.yaml --offline cluster.yaml -o json
               allot plan --consolidate --catalog types.yaml

    Exit code: 0 every pod has a place in the plan, 1 some stay pending, 2 no answer could be given.
    """
    if empty and (source.offline or source.kubeconfig or source.context):
        raise click.UsageError("--empty uses no cluster: leave out --offline, --kubeconfig, --context")
    if not catalog:
        raise click.UsageError(
            "there are no machines to choose from: name files with InstanceTypes with --catalog"
        )
    if consolidate:
        if files or compare or empty or cheapest_alternative:
            words = "leave out -f, --compare, --empty, --cheapest-alternative"
            raise click.UsageError(f"--consolidate works on the nodes and pods of a cluster: {words}")
        return _consolidate(catalog, source, output)
    from allotment.cli.render.plan_table import document, show, show_alternative, show_comparison
    from allotment.cli.render.screen import open_screen
    from allotment.insight.catalogue_files import read_files
    from allotment.insight.planning import has_alternatives, planned

    first = read_files(catalog)
    waiting, own = _look(files, source, empty=empty)
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
        from allotment.cli.render.document import written_out

        told = document(plans[0])
        if compare:
            told["compared"] = document(plans[1])
        click.echo(written_out({**told, "notes": waiting.notes}, output))
    return 1 if plans[0].pending else 0


def _consolidate(catalog: Sequence[str], source: ClusterSource, output: str) -> int:
    from datetime import UTC, datetime

    from allotment.cli.render.consolidation_table import document, show
    from allotment.cli.render.screen import open_screen
    from allotment.insight.catalogue_files import read_files
    from allotment.insight.planning import consolidated

    waiting, own = _look((), source, empty=False)
    now = datetime.now(UTC).timestamp()
    found, before = consolidated(waiting, read_files(catalog), own, now=now)
    if output in (TABLE, WIDE):
        screen = open_screen()
        for note in waiting.notes:
            screen.line((f"note: {note}", "dim"))
        show(found, before, screen, wide=output == WIDE)
    else:
        from allotment.cli.render.document import written_out

        click.echo(written_out({**document(found, before), "notes": waiting.notes}, output))
    return 0


def _look(files: Sequence[str], source: ClusterSource, *, empty: bool) -> tuple[Waiting, Sequence[ApiStruct]]:
    """The waiting pods, and the cluster's own overlays, pools and groups of nodes."""
    from allotment.insight.manifest_cluster import name_of
    from allotment.insight.manifest_files import Reading
    from allotment.insight.pending_work import read

    mine, reading = read(files, workloads=True) if files else ([], Reading())
    found, own = _read(mine, source, empty=empty)
    found.notes += reading.notes
    found.pods = [pod for pod in found.pods if source.wants(name_of(pod.metadata)[0])]
    return found, own


def _read(
    mine: Sequence[ApiStruct], source: ClusterSource, *, empty: bool
) -> tuple[Waiting, Sequence[ApiStruct]]:
    from allotment.insight.pending_work import read, waiting
    from allotment.insight.planning import KINDS, SOURCES, waiting_in
    from allotment.insight.snapshot import look

    if empty:
        return waiting(mine, (), tainted=True), ()
    if source.offline:
        cluster, reading = read(source.offline)
        found = waiting(mine, cluster, tainted=True)
        found.notes += reading.notes
        return found, [each.obj for each in reading.found if isinstance(each.obj, SOURCES)]
    return waiting_in(look(source, KINDS), mine)


def _laid_over(first: Catalogue, second: Catalogue) -> Catalogue:
    from allotment.autoscaler.catalogue.catalogue import Catalogue

    if second.types:
        return second
    return Catalogue(
        first.types,
        {**first.pools, **second.pools},
        {**first.groups, **second.groups},
        {**first.overlays, **second.overlays},
    )
