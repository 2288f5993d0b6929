"""An explanation, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from allotment.allocator.reasons import FITS
from allotment.api.text import plural
from allotment.cli.claim_description import device_document, device_row, show_problems
from allotment.cli.explanation import Explanation, State
from allotment.cli.table import GROUPS_SHOWN, folded, in_common, show_rejection, tally
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
BEGINNINGS = {State.WAITS: "waits: ", State.NOWHERE: "does not fit: "}
_DETAILS = 3


def show_explanation(told: Explanation, screen: Screen, *, wide: bool) -> None:
    """The reason first; then what would help; then what each node lacks, nodes that fail alike together."""
    subject = (f"{told.what} {told.namespace}/{told.name}", _STYLES[told.state])
    screen.line(subject, f" {BEGINNINGS.get(told.state, '')}{told.reason}")
    if told.said and told.said != told.reason:
        screen.line(("its condition says: ", "dim"), told.said)
    if told.hidden is not None and told.state is not State.MAY_FIT:
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
        show_rejection(_worded(group), screen, explain=False)
    more = sum(map(len, groups[GROUPS_SHOWN:]))
    if more:
        screen.line(f"... and {plural(more, 'more node')}; -o wide shows all", indent=2)


def _show_each(group: Sequence[Rejection], screen: Screen) -> None:
    """Device by device, on the nodes that were looked at so closely; the others look the same."""
    if group[0].reason is None:
        show_rejection(_worded(group), screen, explain=True)
        return
    own = [each for each in group if each.reason is not None and each.reason.node == each.node]
    for each in own:
        show_rejection([each], screen, explain=True)
    if len(group) > len(own):
        screen.line(f"... and {plural(len(group) - len(own), 'more node')} like that", indent=2)


def _worded(group: Sequence[Rejection]) -> Sequence[Rejection]:
    """The scheduler's words are for several nodes."""
    if len(group) > 1 or group[0].reason is not None:
        return group
    return [replace(group[0], words=counted(1, group[0].words).removeprefix("1 "))]


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
        screen.line("the search was cut short; other changes may help too", indent=2)
    if found and told.hidden is not None:
        screen.line("as far as you can see; claims you may not see may be in the way", indent=2)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


# --- for programs ---


def explanation_document(told: Explanation) -> Document:
    """``certain`` is false where the answer may be another for who sees more."""
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
        "hints": list(told.hints),
        "searchCut": told.remedies.cut,
        "certain": told.certain,
    }
    if told.hidden is not None:
        document["hidden"] = {"held": told.hidden.held, "of": told.hidden.free}
    return document


def _group(rejections: Sequence[Rejection]) -> Document:
    first = _worded(rejections)[0]
    reason = first.words if len(rejections) == 1 else in_common(rejections)
    document: Document = {"nodes": [each.node for each in rejections], "reason": reason}
    if first.reason is not None:
        alike = [each.reason.asks for each in rejections if each.reason is not None]
        document["requests"] = [_ask(asks) for asks in zip(*alike, strict=True)]
    return document


def _ask(alike: Sequence[AskReason]) -> Document:
    """One request, counted on one of the nodes, with what is different between devices of all of them."""
    first = alike[0]
    details: dict[tuple[str, str], dict[str, None]] = {}
    for device in (device for ask in alike for device in ask.devices if device.detail):
        details.setdefault((device.code, device.text), {})[device.detail] = None
    return {
        "claim": first.claim,
        "request": first.request,
        "needed": first.needed,
        "fitting": first.fitting,
        "devices": len(first.devices),
        "reasons": [
            {
                "code": code,
                "text": text,
                "count": count,
                "details": list(details.get((code, text), ()))[:_DETAILS],
            }
            for (code, text), count in tally(first).most_common()
            if code != FITS
        ],
    }


def _remedy(remedy: Remedy) -> Document:
    return {
        "kind": str(remedy.kind),
        "claim": remedy.claim or None,
        "request": remedy.request or None,
        "value": remedy.value,
        "words": f"fits {remedy.words}",
        "node": remedy.node,
    }
