"""``allot describe``: one pool, node or claim, device by device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allotment.cli.options.source_options import TABLE, WIDE, source_options
from allotment.cli.render.help import CommandGroup

if TYPE_CHECKING:
    from allotment.insight.snapshot import Snapshot
    from allotment.insight.source import ClusterSource
    from allotment.insight.usage_document import Document


@click.group(name="describe", cls=CommandGroup)
def command() -> None:
    """Shows one pool, node or claim in detail: each device, its state, and who holds it.

    \b
    Examples:  allot describe pool node-1
               allot describe node node-1 -o wide
               allot describe claim -n team-a train

    Exit code: 0 shown, 1 there is no such object, 2 no answer could be given.
    """


@command.command(name="pool", short_help="its devices, and who holds each of them")
@click.argument("name")
@source_options(TABLE, WIDE)
def describe_pool(name: str, source: ClusterSource, output: str) -> int:
    """Shows the devices of a pool: the state of each one, and who holds it or why nobody can.

    NAME is the name of the pool, DRIVER/POOL, or the name of its ResourcePool. If several pools have that name, all are
    shown.

    \b
    Example:  allot describe pool gpu.example.com/node-1
    """
    from allotment.cli.render.pool_description import named_pools, show_pool
    from allotment.cli.render.screen import open_screen
    from allotment.insight.snapshot import USE, look
    from allotment.insight.usage_document import pool_document

    snapshot = look(source, USE)
    pools = named_pools(snapshot, name)
    if output in (TABLE, WIDE):
        _begin(snapshot)
        screen = open_screen()
        for number, pool in enumerate(pools):
            if number:
                screen.line("")
            show_pool(pool, snapshot, screen, wide=output == WIDE)
        return 0
    return _print({"pools": [pool_document(pool, devices=True) for pool in pools]}, snapshot, output)


@command.command(name="node", short_help="its devices, pool by pool")
@click.argument("name")
@source_options(TABLE, WIDE)
def describe_node(name: str, source: ClusterSource, output: str) -> int:
    """Shows the devices of a node by pool, and which pools the node shares with other nodes.

    \b
    Example:  allot describe node node-1
    """
    from allotment.api.core import Node
    from allotment.cli.render.pool_description import named_node, node_document, show_node
    from allotment.cli.render.screen import open_screen
    from allotment.insight.snapshot import USE, look

    snapshot = look(source, (*USE, Node))
    usage = named_node(snapshot, name)
    if output in (TABLE, WIDE):
        _begin(snapshot)
        show_node(usage, snapshot, open_screen(), wide=output == WIDE)
        return 0
    return _print(node_document(usage, snapshot), snapshot, output)


@command.command(name="claim", short_help="what it requests, what it has, who uses it")
@click.argument("name")
@source_options(TABLE)
def describe_claim(name: str, source: ClusterSource, output: str) -> int:
    """Shows a claim: what it requests, which devices it has, who uses it, and what is wrong with it.

    NAME is the name of the claim, or NAMESPACE/NAME.

    \b
    Example:  allot describe claim team-a/train
    """
    from dataclasses import replace
    from datetime import UTC, datetime

    from allotment.cli.render.claim_text import show_claim
    from allotment.cli.render.screen import open_screen
    from allotment.insight.claim_facts import PARAMETERS, claim_document, facts_of, named_claim
    from allotment.insight.snapshot import USE, look

    namespace, _, plain = name.rpartition("/")
    if namespace:
        source = replace(source, namespaces=(namespace,))
    snapshot = look(source, (*USE, *PARAMETERS))
    now = datetime.now(UTC)
    facts = facts_of(named_claim(snapshot, plain, source.namespaces), snapshot, now)
    if output == TABLE:
        _begin(snapshot)
        show_claim(facts, open_screen(), now)
        return 0
    return _print(claim_document(facts), snapshot, output)


def _begin(snapshot: Snapshot) -> None:
    from allotment.cli.render.usage_table import show_notes

    show_notes(snapshot.notes)


def _print(document: Document, snapshot: Snapshot, output: str) -> int:
    from allotment.cli.render.document import written_out

    click.echo(written_out({**document, "notes": snapshot.notes}, output))
    return 0
