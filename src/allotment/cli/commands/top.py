"""``allot top``: the cluster on one screen, updated live. It prints one picture if asked to, in a pipe, or as a document."""

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

_PATIENCE_SECONDS = 5.0
"""How many seconds a single picture may take to explain pods. The other pods are shown with their own condition."""
_COLUMNS = 120  # in a pipe, unless COLUMNS says otherwise
_SAVED = "saved manifests"


@click.command(name="top")
@click.option("--once", is_flag=True, help="print one picture and exit, as in a pipe")
@click.option(
    "--interval", type=click.FloatRange(0.1, 60), default=0.5, show_default=True, metavar="SECONDS",
    help="least time between two pictures",
)  # fmt: skip
@source_options(TABLE)
def command(once: bool, interval: float, source: ClusterSource, output: str) -> int:
    """Shows nodes with their devices, waiting pods with the reasons, and pools, live.

    Keys: q quits, / filters, s sorts, Tab and the arrows move through the lists, h explains signs and keys. Changes appear as
    they happen. If the server goes away, the last picture stays until it is back.

    \b
    Examples:  allot top
               allot top --once -o json | jq '.pending[] | "\\(.pod): \\(.reason)"'
               allot top --offline cluster.yaml

    Exit code: 0 shown, 2 no answer could be given.
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


def _glance(snapshot: Snapshot, source: ClusterSource) -> Overview:
    from allotment.insight.overview import overview_of
    from allotment.insight.waiting_pods import WaitingPods

    end = time.monotonic() + _PATIENCE_SECONDS
    pending = WaitingPods(snapshot, source.namespaces).told(datetime.now(UTC), lambda: time.monotonic() < end)
    return overview_of(snapshot, pending)


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
    """Reads the cluster before it opens the screen, so that errors are reported as usual."""
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
    """Turns the garbage collector on again: unlike other commands, this one does not end after it has read."""
    from allotment.daemons.memory import spare_collector

    spare_collector()
    gc.enable()
