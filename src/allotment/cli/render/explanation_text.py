"""An explanation, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from allotment.api.text import plural
from allotment.cli.render.allocation_table import GROUPS_SHOWN, show_rejection
from allotment.cli.render.claim_text import device_row, show_problems
from allotment.insight.explain.document import worded
from allotment.insight.explain.explanation import BEGINNINGS, Explanation, Outlook
from allotment.insight.placement.rejections import folded

if TYPE_CHECKING:
    from allotment.cli.render.screen import Screen
    from allotment.insight.placement.rejections import Rejection

_STYLES = {
    Outlook.PLACED: "bold green",
    Outlook.ENDED: "bold",
    Outlook.FITS: "bold green",
    Outlook.MAY_FIT: "bold yellow",
    Outlook.WAITS: "bold yellow",
    Outlook.NOWHERE: "bold red",
}


def show_explanation(told: Explanation, screen: Screen, *, wide: bool) -> None:
    """Shows the reason first, then the changes that would help, then what each node lacks; nodes that fail for the same
    reasons are grouped."""
    subject = (f"{told.what} {told.namespace}/{told.name}", _STYLES[told.state])
    screen.line(subject, f" {BEGINNINGS.get(told.state, '')}{told.reason}")
    if told.said and told.said != told.reason:
        screen.line(("its condition says: ", "dim"), told.said)
    if told.hidden is not None and told.state is not Outlook.MAY_FIT:
        screen.line(_sentence(str(told.hidden)))
    if told.devices:
        screen.heading("Devices")
        columns = ("request", "device", "pool", "driver", "node", "share", "published")
        screen.table(columns, [device_row(each) for each in told.devices])
    show_problems(told.problems, screen)
    if told.short or told.hints:
        _show_remedies(told, screen)
    _show_nodes(told.rejections, screen, wide=wide)


def _show_nodes(rejections: Sequence[Rejection], screen: Screen, *, wide: bool) -> None:
    if not rejections:
        return
    screen.heading("Node by node")
    groups = folded(rejections)
    if wide:
        for group in groups:
            _show_each(group, screen)
        return
    for group in groups[:GROUPS_SHOWN]:
        show_rejection(worded(group), screen, explain=False)
    more = sum(map(len, groups[GROUPS_SHOWN:]))
    if more:
        screen.line(f"... and {plural(more, 'more node')}; -o wide shows all", indent=2)


def _show_each(group: Sequence[Rejection], screen: Screen) -> None:
    """Shows each device of the nodes that were examined in detail; the other nodes look the same."""
    if group[0].reason is None:
        show_rejection(worded(group), screen, explain=True)
        return
    own = [each for each in group if each.reason is not None and each.reason.node == each.node]
    for each in own:
        show_rejection([each], screen, explain=True)
    if len(group) > len(own):
        screen.line(f"... and {plural(len(group) - len(own), 'more node')} like that", indent=2)


def _show_remedies(told: Explanation, screen: Screen) -> None:
    found, cut = told.remedies.found, told.remedies.cut
    screen.heading("What would help" if told.short else "Worth a look")
    for remedy in found:
        screen.line(("fits ", "green"), remedy.words, indent=2)
    for hint in told.hints:
        screen.line(hint, indent=2)
    if not found and told.short:
        screen.line("no single change" + (" that was tried" if cut else ""), indent=2)
    if cut:
        screen.line("the search ran out of time; other changes may help too", indent=2)
    if found and told.hidden is not None:
        screen.line(
            "this considers only what you may see; claims that you may not see may be in the way", indent=2
        )


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


# --- for programs ---
