"""``allot fit``: how many more claims of a shape fit, according to the allocator itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allotment.cli.options.source_options import TABLE, WIDE, source_options

if TYPE_CHECKING:
    from allotment.insight.source import ClusterSource


@click.command(name="fit")
@click.option(
    "-f", "--filename", "files", multiple=True, type=click.Path(), metavar="FILE|DIR",
    help="ResourceClaims or ResourceClaimTemplates, and any classes that the cluster does not have; - is standard input",
)  # fmt: skip
@source_options(TABLE, WIDE)
def command(files: tuple[str, ...], source: ClusterSource, output: str) -> int:
    """Computes how many more claims like those in FILE fit: in the cluster, on each node, and in each pool.

    Each claim or template is tried on its own against the devices that are free now; nothing is created. The nodes' numbers
    need not add up to the cluster's, because nodes may share devices. CPU, memory and node taints are ignored; cordoned nodes
    are left out.

    \b
    Examples:  allot fit -f claim.yaml
               allot fit -f claim.yaml --offline cluster.yaml -o json

    Exit code: 0 at least one more fits (of each), 1 none fits, 2 no answer could be given.
    """
    if not files:
        raise click.UsageError("nothing to try: give a ResourceClaim or ResourceClaimTemplate with -f FILE")
    from allotment.api import semantic
    from allotment.api.core import Node
    from allotment.api.resource import DeviceClass
    from allotment.cli.render.fit_table import show_fit
    from allotment.cli.render.screen import open_screen
    from allotment.cli.render.usage_table import show_notes
    from allotment.insight.fit import fit_document, how_many, read_shapes
    from allotment.insight.snapshot import USE, look

    shapes = read_shapes(files)
    early = (semantic.ResourceClass, semantic.ResourceClassParameters, semantic.ResourceClaimParameters)
    snapshot = look(source, (*USE, Node, DeviceClass, *early))
    answers = how_many(shapes, snapshot)
    if output in (TABLE, WIDE):
        screen = open_screen()
        show_notes(snapshot.notes)
        for number, answer in enumerate(answers):
            if number:
                screen.line("")
            show_fit(answer, screen, wide=output == WIDE)
    else:
        from allotment.cli.render.document import written_out

        document = {"claims": [fit_document(each) for each in answers], "notes": snapshot.notes}
        click.echo(written_out(document, output))
    return 0 if all(each.remaining.cluster.number for each in answers) else 1
