"""``allot explain``: why a pod or a claim has no devices, and which single change would help."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from allotment.cli.options.source_options import TABLE, WIDE, source_options
from allotment.cli.render.help import CommandGroup
from allotment.insight.explain.answer import within

if TYPE_CHECKING:
    from allotment.insight.explain.explanation import Explanation
    from allotment.insight.snapshot import Snapshot
    from allotment.insight.source import ClusterSource

_patience = click.option(
    "--patience", type=click.FloatRange(0, 600), default=5.0, show_default=True, metavar="SECONDS",
    help="how long to search for changes that would help",
)  # fmt: skip


@click.group(name="explain", cls=CommandGroup)
def command() -> None:
    """Explains why a pod or a claim does not fit: the reason, what each node lacks, and which single change would help.

    Each suggested change was tried: a smaller count or capacity, a constraint or selector removed, a taint tolerated, a claim
    released. Nothing is written.

    \b
    Examples:  allot explain pod team-a/train-0
               allot explain claim -n team-a train -o json

    Exit code: 0 it is placed or fits, 1 it does not fit or does not exist, 2 no answer could be given.
    """


@command.command(name="pod", short_help="where it runs, or why it has no node")
@click.argument("name")
@_patience
@source_options(TABLE, WIDE)
def explain_pod(name: str, patience: float, source: ClusterSource, output: str) -> int:
    """Shows the node and the devices of a pod or, if it has no node, explains why, as the scheduler would.

    NAME is the name of the pod, or NAMESPACE/NAME.

    \b
    Example:  allot explain pod team-a/train-0
    """
    from allotment.insight.explain.pod import named_pod, told_of_pod

    source, plain = _placed_in(source, name)
    snapshot = _look(source)
    pod = named_pod(snapshot, plain, source.namespaces)
    return _print(told_of_pod(pod, snapshot, datetime.now(UTC), within(patience)), snapshot, output)


@command.command(name="claim", short_help="which devices it has, or why it has none")
@click.argument("name")
@_patience
@source_options(TABLE, WIDE)
def explain_claim(name: str, patience: float, source: ClusterSource, output: str) -> int:
    """Shows which devices a claim has or, if it has none, explains why, as if for a pod that needs nothing else.

    NAME is the name of the claim, or NAMESPACE/NAME.

    \b
    Example:  allot explain claim team-a/train
    """
    from allotment.insight.claim_facts import named_claim
    from allotment.insight.explain.claim import told_of_claim

    source, plain = _placed_in(source, name)
    snapshot = _look(source)
    claim = named_claim(snapshot, plain, source.namespaces)
    return _print(told_of_claim(claim, snapshot, datetime.now(UTC), within(patience)), snapshot, output)


def _placed_in(source: ClusterSource, name: str) -> tuple[ClusterSource, str]:
    namespace, _, plain = name.rpartition("/")
    return (replace(source, namespaces=(namespace,)) if namespace else source), plain


def _look(source: ClusterSource) -> Snapshot:
    from allotment.insight.explain.trial_scheduler import KINDS
    from allotment.insight.snapshot import look

    return look(source, KINDS)


def _print(told: Explanation, snapshot: Snapshot, output: str) -> int:
    from allotment.cli.render.explanation_text import show_explanation
    from allotment.insight.explain.document import explanation_document

    if output in (TABLE, WIDE):
        from allotment.cli.render.screen import open_screen
        from allotment.cli.render.usage_table import show_notes

        show_notes(snapshot.notes)
        show_explanation(told, open_screen(), wide=output == WIDE)
    else:
        from allotment.cli.render.document import written_out

        click.echo(written_out({**explanation_document(told), "notes": snapshot.notes}, output))
    return 0 if told.well else 1
