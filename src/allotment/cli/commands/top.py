"""``allot top``: the cluster on one screen, followed live. Once, in a pipe or as a document where that is asked for."""

from __future__ import annotations

import asyncio
import gc
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from allotment.cli.options.source_options import TABLE, source_options

if TYPE_CHECKING:
    from allotment.insight.overview import Overview
    from allotment.insight.snapshot import Snapshot
    from allotment.insight.source import ClusterSource

_PATIENCE = 5.0
"""Seconds in which pods are asked about for a single picture; those after that are told with their own condition."""
_COLUMNS = 120  # in a pipe, unless COLUMNS says otherwise
_SAVED = "saved manifests"


@click.command(name="top")
@click.option("--once", is_flag=True, help="print one picture and stop; so it is in a pipe too")
@click.option(
    "--interval", type=click.FloatRange(0.1, 60), default=0.5, show_default=True, metavar="SECONDS",
    help="between two pictures while things change",
)  # fmt: skip
@source_options(TABLE)
def command(once: bool, interval: float, source: ClusterSource, output: str) -> int:
    """Shows nodes with their devices, pods that wait and why, and pools, live.

    Keys: q quits, / filters, s sorts, Tab and arrows go through the lists, h explains signs and keys. Changes are watched as
    they happen; if the server goes away, the last picture stays until it is back.

    \b
    Examples:  allot top
               allot top --once -o json | jq '.pending[] | "\\(.pod): \\(.reason)"'
               allot top --offline cluster.yaml

    Exit code: 0 shown, 2 it could not be found out.
    """
    from allotment.cli.render.screen import TerminalScreen, open_screen

    if output == TABLE and not once and isinstance(open_screen(), TerminalScreen):
        _stay(source, interval)
        return 0
    from allotment.cli.render.usage_table import show_notes
    from allotment.insight.explain.trial_scheduler import KINDS
    from allotment.insight.overview import overview_document
    from allotment.insight.snapshot import look

    overview = _glance(look(source, KINDS), source)
    if output == TABLE:
        show_notes(overview.notes)
        _print(overview, _name(source))
    else:
        from allotment.cli.render.document import written_out

        click.echo(written_out(overview_document(overview), output))
    return 0


# --- once ---


def _glance(seen: Snapshot, source: ClusterSource) -> Overview:
    from allotment.insight.overview import overview_of
    from allotment.insight.waiting_pods import WaitingPods

    end = time.monotonic() + _PATIENCE
    pending = WaitingPods(seen, source.namespaces).told(datetime.now(UTC), lambda: time.monotonic() < end)
    return overview_of(seen, pending)


def _print(overview: Overview, name: str) -> None:
    from dataclasses import replace
    from shutil import get_terminal_size

    from allotment.cli.render.screen import open_screen
    from allotment.cli.render.top_frame import Setting, frame
    from allotment.cli.render.top_view import TopView

    screen, width = open_screen(), get_terminal_size((_COLUMNS, 1)).columns
    noted = replace(overview, notes=())  # they are on standard error
    for line in frame(noted, TopView(), Setting(name, datetime.now().astimezone()), width, None).lines:
        screen.line(*line)


def _name(source: ClusterSource) -> str:
    from allotment.insight.connecting import connection_of

    return _SAVED if source.offline else connection_of(source.kubeconfig, source.context).server


# --- live ---


def _stay(source: ClusterSource, interval: float) -> None:
    import uvloop

    from allotment.insight.errors import Failure, NoAnswer

    try:
        uvloop.run(_saved(source, interval) if source.offline else _served(source, interval))
    except Failure as exc:
        raise NoAnswer(exc.message, exc.hint) from exc


async def _saved(source: ClusterSource, interval: float) -> None:
    from allotment.cli.render.live_view import LiveView
    from allotment.insight.explain.trial_scheduler import KINDS
    from allotment.insight.snapshot import look

    overview = _glance(look(source, KINDS), source)
    await LiveView(_SAVED, interval, lambda _: overview, lambda: "").run()


async def _served(source: ClusterSource, interval: float) -> None:
    """The first look is taken before the screen is, so that what keeps it from being taken is told as ever."""
    from allotment.cli.render.live_view import LiveView
    from allotment.client.outage import OutageTeller
    from allotment.insight.connecting import connected, connection_of
    from allotment.insight.following import Following

    words: list[str] = []
    async with connected(source.kubeconfig, source.context, "allotment-top", words.append) as client:
        connection, outages = connection_of(source.kubeconfig, source.context), client.transport
        assert isinstance(outages, OutageTeller)
        following = Following(
            client,
            source.namespaces or (connection.namespace,),
            insist=source.all_namespaces,
            only=source.namespaces,
        )
        await following.begin()
        _collect_again()
        task = asyncio.ensure_future(following.run())
        try:
            alarm = lambda: words[-1] if outages.away else ""  # noqa: E731  # too small for a name of its own
            await LiveView(connection.server, interval, following.overview, alarm).run(task)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _collect_again() -> None:
    """This command does not end after it has read: what it makes from now on is to be collected."""
    from allotment.daemons.memory import spare_collector

    spare_collector()
    gc.enable()
