"""An explanation for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from allotment.allocator.phrases import of_one
from allotment.allocator.reasons import FITS
from allotment.insight.claim_facts import device_document
from allotment.insight.explain.explanation import Explanation
from allotment.insight.placement.rejections import folded, in_common, tally

if TYPE_CHECKING:
    from allotment.allocator.reasons import AskReason
    from allotment.insight.placement.rejections import Rejection
    from allotment.insight.usage_document import Document
    from allotment.usage.remedies import Remedy


_MOST_DETAILS = 3


def worded(group: Sequence[Rejection]) -> Sequence[Rejection]:
    """Puts the scheduler's words, which are for several nodes, into those for one."""
    if len(group) > 1 or group[0].reason is not None:
        return group
    return [replace(group[0], words=of_one(group[0].words))]


def explanation_document(told: Explanation) -> Document:
    """``certain`` is false if a caller with more rights might get another answer."""
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
    first = worded(rejections)[0]
    reason = first.words if len(rejections) == 1 else in_common(rejections)
    document: Document = {"nodes": [each.node for each in rejections], "reason": reason}
    if first.reason is not None:
        alike = [each.reason.asks for each in rejections if each.reason is not None]
        document["requests"] = [_ask(asks) for asks in zip(*alike, strict=True)]
    return document


def _ask(alike: Sequence[AskReason]) -> Document:
    """One request, counted on one of the nodes, with the values that differ between the devices of all nodes."""
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
                "details": list(details.get((code, text), ()))[:_MOST_DETAILS],
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
