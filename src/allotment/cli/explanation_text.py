"""An explanation, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from allotment.allocator.reasons import FITS
from allotment.cli.claim_description import device_document, device_row, show_problems
from allotment.cli.explanation import Explanation, State
from allotment.cli.table import GROUPS_SHOWN, folded, show_rejection, tally
from allotment.cli.usage_table import plural
from allotment.scheduler.diagnosis import counted

if TYPE_CHECKING:
    from allotment.allocator.reasons import AskReason
    from allotment.cli.placement import Rejection
    from allotment.cli.screen import Screen
    from allotment.cli.usage_document import Document
    from allotment.usage.remedies import Remedy

_STYLES = {
    State.PLACED: "bold green",
    State.ENDED: "bold",
    State.FITS: "bold green",
    State.MAY_FIT: "bold yellow",
    State.WAITS: "bold yellow",
    State.NOWHERE: "bold red",
}
_BEGINNINGS = {State.WAITS: "waits: ", State.NOWHERE: "does not fit: "}
_DETAILS = 3


def show_explanation(told: Explanation, screen: Screen, *, wide: bool) -> None:
    """The reason first; then what each node lacks, nodes that fail alike together; then what would help."""
    subject = (f"{told.what} {told.namespace}/{told.name}", _STYLES[told.state])
    screen.line(subject, f" {_BEGINNINGS.get(told.state, '')}{told.reason}")
    if told.said and told.said != told.reason:
        screen.line(("its condition says: ", "dim"), told.said)
    if told.hidden is not None and told.state is not State.MAY_FIT:
        screen.line(_sentence(str(told.hidden)))
    if told.devices:
        screen.heading("Devices")
        columns = ("request", "device", "pool", "driver", "node", "share", "published")
        screen.table(columns, [device_row(each) for each in told.devices])
    show_problems(told.problems, screen)
    _show_nodes(told.rejections, screen, wide=wide)
    if told.state is State.NOWHERE:
        _show_remedies(told, screen)


def _show_nodes(rejections: Sequence[Rejection], screen: Screen, *, wide: bool) -> None:
    if not rejections:
        return
    screen.heading("Node by node")
    groups = folded(rejections)
    for group in groups if wide else groups[:GROUPS_SHOWN]:
        show_rejection(_worded(group), screen, explain=wide)
    more = 0 if wide else sum(map(len, groups[GROUPS_SHOWN:]))
    if more:
        screen.line(f"... and {plural(more, 'more node')}; -o wide shows all", indent=2)


def _worded(group: Sequence[Rejection]) -> Sequence[Rejection]:
    """The scheduler's words are for several nodes."""
    if len(group) > 1 or group[0].reason is not None:
        return group
    return [replace(group[0], words=counted(1, group[0].words).removeprefix("1 "))]


def _show_remedies(told: Explanation, screen: Screen) -> None:
    found, cut = told.remedies.found, told.remedies.cut
    if not any(rejection.reason for rejection in told.rejections):
        return  # devices are not what is lacking
    screen.heading("What would help")
    for remedy in found:
        screen.line(("fits ", "green"), remedy.words, indent=2)
    if not found:
        screen.line("no single change" + (" that was tried" if cut else ""), indent=2)
    if cut:
        screen.line("the search was cut short; other changes may help too", indent=2)
    if found and told.hidden is not None:
        screen.line("as far as you can see; claims you may not see may be in the way", indent=2)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


# --- for programs ---


def explanation_document(told: Explanation) -> Document:
    """``certain`` is false where claims that the caller may not see may hold what looks free."""
    document: Document = {
        told.what: f"{told.namespace}/{told.name}",
        "state": str(told.state),
        "reason": told.reason,
        "condition": told.said or None,
        "node": told.node or None,
        "devices": [device_document(each) for each in told.devices],
        "problems": [
            {"kind": each.kind, "message": each.message, "nextStep": each.step} for each in told.problems
        ],
        "nodes": [_group(group) for group in folded(told.rejections)],
        "remedies": [_remedy(each) for each in told.remedies.found],
        "searchCut": told.remedies.cut,
        "certain": told.hidden is None or told.state is State.NOWHERE,
    }
    if told.hidden is not None:
        document["hidden"] = {"held": told.hidden.held, "of": told.hidden.free}
    return document


def _group(rejections: Sequence[Rejection]) -> Document:
    first = _worded(rejections)[0]
    document: Document = {"nodes": [each.node for each in rejections], "reason": first.words}
    if first.reason is not None:
        document["requests"] = [_ask(ask) for ask in first.reason.asks]
    return document


def _ask(ask: AskReason) -> Document:
    reasons = []
    for (code, text), count in tally(ask).most_common():
        if code != FITS:
            details = {
                each.detail: None
                for each in ask.devices
                if (each.code, each.text) == (code, text) and each.detail
            }
            reasons.append({"code": code, "text": text, "count": count, "details": list(details)[:_DETAILS]})
    return {
        "claim": ask.claim,
        "request": ask.request,
        "needed": ask.needed,
        "fitting": ask.fitting,
        "devices": len(ask.devices),
        "reasons": reasons,
    }


def _remedy(remedy: Remedy) -> Document:
    return {
        "kind": str(remedy.kind),
        "claim": remedy.claim,
        "request": remedy.request or None,
        "value": remedy.value,
        "words": f"fits {remedy.words}",
        "node": remedy.node,
    }
