"""Why nodes were rejected, and which rejections are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from allotment.allocator.errors import nameless
from allotment.allocator.outcome import Allocated, GaveUp, InvalidInput, Outcome, Unsatisfiable
from allotment.allocator.phrases import gave_up
from allotment.allocator.reasons import FITS, AskReason, NodeReason
from allotment.api.core import Node


@dataclass(slots=True)
class Rejection:
    """Why a node was rejected: a sentence and, if devices are the reason, the whole tree. Without a node, it applies to all
    nodes."""

    node: str
    words: str
    reason: NodeReason | None = None


def rejection_of(node: Node, refusal: str | Outcome) -> Rejection:
    name = node.metadata.name
    match refusal:
        case Unsatisfiable():
            reason = refusal.reasons()
            return Rejection(name, str(reason), reason)
        case InvalidInput():
            return Rejection(name, str(refusal.error))
        case GaveUp():
            return Rejection(name, f"{gave_up(refusal.steps)}, neither found nor excluded")
        case Allocated():
            raise AssertionError("an allocation is no rejection")
        case words:
            return Rejection(name, words)


def folded(rejections: Sequence[Rejection]) -> list[list[Rejection]]:
    """Groups rejections that differ only in the names of devices, their holders and pools; the closest first."""
    groups: dict[object, list[Rejection]] = {}
    for rejection in rejections:
        reason = rejection.reason
        key: object = nameless(rejection.words)
        if reason is not None:
            asks = tuple((ask.request, ask.needed, tuple(sorted(tally(ask).items()))) for ask in reason.asks)
            key = asks, tuple(map(nameless, reason.pools))
        groups.setdefault(key, []).append(rejection)
    return sorted(groups.values(), key=lambda group: _closeness(group[0]), reverse=True)


def tally(ask: AskReason) -> Counter[tuple[str, str]]:
    """How many devices have each reason."""
    return Counter((device.code, device.text) for device in ask.devices)


def in_common(rejections: Sequence[Rejection]) -> str:
    """The common words of equal rejections; for several nodes, they leave out the names on a single node."""
    words = rejections[0].words
    return words if len(rejections) == 1 or rejections[0].reason is not None else nameless(words)


_CLOSE_CALLS = {"capacity": 2, "taint": 3, "constraint": 3, "groups": 4, "counters": 4, FITS: 5}
"""How close a device with this reason came. Reasons that are not listed, such as a selector, count as the farthest."""


def _closeness(rejection: Rejection) -> tuple[float, int]:
    """How much of the need a node covers, then how close its best device came."""
    if rejection.reason is None:
        return -1.0, 0
    asks = rejection.reason.asks
    filled = sum(min(ask.fitting, ask.needed) / max(ask.needed, 1) for ask in asks) / max(len(asks), 1)
    best = max((_CLOSE_CALLS.get(d.code, 1) for ask in asks if ask.short for d in ask.devices), default=0)
    return filled, best
