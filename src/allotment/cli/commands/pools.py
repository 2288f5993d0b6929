"""``allot pools``: the devices of each pool, and how many are left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allotment.cli.options.source_options import NAME, TABLE, WIDE, source_options

if TYPE_CHECKING:
    from allotment.insight.source import ClusterSource
    from allotment.usage.pool import PoolUsage


@click.command(name="pools")
@click.option("--driver", metavar="NAME", help="show only pools of this driver")
@click.option("--node", metavar="NAME", help="show only pools of this node")
@source_options(TABLE, WIDE, NAME)
def command(driver: str | None, node: str | None, source: ClusterSource, output: str) -> int:
    """Shows every pool of devices: how many are allocated, available, unavailable.

    This needs the right to list resourceslices. If you may not list the claims of all namespaces, the counts come from the
    server's ResourcePool objects; without these, they are shown as "unknown".

    \b
    Examples:  allot pools
               allot pools --driver gpu.example.com -o wide
               kubectl get resourceslices,resourceclaims -A -o yaml |
                 allot pools --offline -

    Exit code: 0 shown, 1 there is no such driver or node, 2 no answer could be given.
    """
    from allotment.api.text import printable
    from allotment.cli.render.screen import open_screen
    from allotment.cli.render.usage_table import show_notes, show_pools
    from allotment.insight.snapshot import USE, look
    from allotment.insight.usage_document import pool_document

    snapshot = look(source, USE)
    pools = _chosen(snapshot.pools(), driver, node)
    if output in (TABLE, WIDE):
        screen = open_screen()
        show_notes(snapshot.notes)
        show_pools(pools, screen, wide=output == WIDE)
    elif output == NAME:
        for pool in pools:
            click.echo(printable(f"{pool.driver}/{pool.pool_name}"))
    else:
        from allotment.cli.render.document import written_out

        documents = [pool_document(pool, devices=False) for pool in pools]
        click.echo(written_out({"pools": documents, "notes": snapshot.notes}, output))
    return 0


def _chosen(pools: list[PoolUsage], driver: str | None, node: str | None) -> list[PoolUsage]:
    from allotment.insight.absent import absent

    if driver is not None:
        found = [pool for pool in pools if pool.driver == driver]
        if not found:
            raise absent("driver", driver, {pool.driver for pool in pools}, "allot pools")
        pools = found
    if node is not None:
        found = [pool for pool in pools if pool.node_name == node]
        if not found:
            raise absent("pool of node", node, {pool.node_name for pool in pools}, "allot pools")
        pools = found
    return pools
