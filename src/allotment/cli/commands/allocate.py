"""``allot allocate``: manifests in, who got what and why the rest does not fit out."""

from __future__ import annotations

import sys

import click

from allotment.allocator.strategy import FIRST_FIT, STRATEGIES


@click.command(name="allocate")
@click.option(
    "-f", "--filename", "files", multiple=True, type=click.Path(), metavar="FILE|DIR",
    help="manifests: a file, a folder of .yaml, .yml and .json files, or - for standard input; repeatable",
)  # fmt: skip
@click.option("--node", metavar="NAME", help="try this node only")
@click.option(
    "--strategy", type=click.Choice(STRATEGIES), default=FIRST_FIT, show_default=True,
    help="first-fit is Kubernetes' order; best-fit keeps large and scarce devices for those who need them",
)  # fmt: skip
@click.option("--explain", is_flag=True, help="every node, request and device, with what rules it out")
@click.option(
    "-o", "--output", type=click.Choice(["table", "yaml", "json"]), default="table", show_default=True
)
@click.option("--lenient", is_flag=True, help="unknown fields are noted, not refused")
@click.option("--ndjson", is_flag=True, help="for programs: one problem a line in, one answer a line out")
def command(
    files: tuple[str, ...],
    node: str | None,
    strategy: str,
    explain: bool,
    output: str,
    lenient: bool,
    ndjson: bool,
) -> int:
    """Chooses devices for every pending claim and pod.

    Reads any mix of Node, ResourceSlice, DeviceClass, ResourceClaim, ResourceClaimTemplate, Pod and DeviceTaintRule,
    and the v1alpha2 kinds with partitionable resources. Deployments, Jobs, DaemonSets and other owners stand for the pods that
    they come to. Extended resources are served by the node or by the DeviceClass that names them. Claims that are
    allocated already keep what they have.

    Exit code: 0 all placed, 1 some do not fit, 2 bad input.
    """
    if ndjson:
        from allotment.cli.ndjson.problem_line import allocate_line
        from allotment.cli.ndjson.stream import serve

        return serve(allocate_line, sys.stdin.buffer, sys.stdout.buffer)
    if not files:
        raise click.UsageError("nothing to read: give manifests with -f FILE|DIR, or -f - for standard input")
    from allotment.cel.expression_check import check_expression
    from allotment.insight.errors import BadInput
    from allotment.insight.manifest_cluster import gather
    from allotment.insight.manifest_files import read_objects
    from allotment.insight.placement.placing import place

    cluster = gather(read_objects(files), check_expression, lenient=lenient, workloads=True)
    known = [each.metadata.name for each in cluster.nodes]
    if node is not None and node not in known:
        raise BadInput([f"--node {node}: there is no such node; known are {', '.join(known) or 'none'}"])
    placement = place(cluster, strategy=strategy, only_node=node, explain=explain)
    if output == "table":
        from allotment.cli.render.allocation_table import show
        from allotment.cli.render.screen import open_screen

        show(placement, open_screen(), explain=explain)
    else:
        from allotment.cli.render.document import as_document, written_out

        click.echo(written_out(as_document(placement, explain=explain), output))
    return 1 if placement.refused else 0
