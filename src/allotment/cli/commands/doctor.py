"""``allot doctor``: what is wrong with devices in a cluster, and what to do about it."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import click

from allotment.cli.options.source_options import NAME, TABLE, WIDE, source_options

if TYPE_CHECKING:
    from allotment.cli.render.screen import Screen
    from allotment.insight.findings import Finding
    from allotment.insight.snapshot import Snapshot
    from allotment.insight.source import ClusterSource

_FINDINGS_SHOWN = 20


@click.command(name="doctor")
@source_options(TABLE, WIDE, NAME)
def command(source: ClusterSource, output: str) -> int:
    """Finds what keeps devices from being used, and names the next step for each finding.

    The findings are: pods that run with deleted claims; claims that hold devices nobody uses, whose users are gone, that wait
    to be deleted, or that hold devices which are no longer published; devices allocated twice; pools that are incomplete,
    invalid, or have several devices of one name; slices of old generations, and of nodes that are gone or not ready. With -n,
    only claims in these namespaces are reported. Nothing is changed.

    \b
    Examples:  allot doctor
               allot doctor -o json | jq '.findings[].nextStep'

    Exit code: 0 nothing is wrong, 1 something is wrong, 2 no answer could be given.
    """
    from datetime import UTC, datetime

    from allotment.api.core import Node, Pod
    from allotment.api.text import printable
    from allotment.cli.render.screen import open_screen
    from allotment.cli.render.usage_table import show_notes
    from allotment.insight.findings import findings
    from allotment.insight.snapshot import USE, look

    snapshot = look(source, (*USE, Node, Pod))
    found = [each for each in findings(snapshot, datetime.now(UTC)) if source.wants(each.namespace)]
    if output in (TABLE, WIDE):
        show_notes(snapshot.notes)
        _show(found, snapshot, source, open_screen(), most=None if output == WIDE else _FINDINGS_SHOWN)
    elif output == NAME:
        for each in found:
            click.echo(printable(each.object))
    else:
        from allotment.cli.render.document import written_out

        document = {"findings": [_document(each) for each in found], "notes": snapshot.notes}
        click.echo(written_out(document, output))
    return 1 if found else 0


def _show(
    found: list[Finding], snapshot: Snapshot, source: ClusterSource, screen: Screen, *, most: int | None
) -> None:
    from allotment.api.text import plural
    from allotment.insight.findings import KINDS
    from allotment.insight.manifest_cluster import name_of

    if not found:
        asked = sum(source.wants(name_of(each.metadata)[0]) for each in snapshot.claims)
        pools, claims = plural(len(snapshot.pools()), "pool"), plural(asked, "claim")
        whose = snapshot.whose(source.namespaces)
        screen.line(("Nothing is wrong", "green"), f" with {pools} and {claims} of {whose}.")
        return
    for kind, group in groupby(found, key=lambda each: each.kind):
        alike = list(group)
        screen.heading(f"{kind} ({len(alike)}): {KINDS[kind]}")
        for each in alike[:most]:
            screen.line((each.subject, "bold red"), f" {each.message}")
            screen.line(f"next: {each.step}", indent=2)
        if most is not None and len(alike) > most:
            screen.line(f"... and {len(alike) - most} more; -o wide shows all")


def _document(finding: Finding) -> dict[str, str | None]:
    kind, _, name = finding.object.partition("/")
    return {
        "kind": finding.kind,
        "resource": kind,
        "namespace": finding.namespace or None,
        "name": name,
        "message": finding.message,
        "nextStep": finding.step,
    }
