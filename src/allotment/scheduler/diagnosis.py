"""Why a pod fits nowhere, in one sentence with numbers: ``0/12 nodes: 8 have every gpu in use; 4 are cordoned``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from allotment.allocator.phrases import counted, several
from allotment.api.quantity import Quantity, QuantityError
from allotment.scheduler.framework import Status, StatusCode

MOST_REASONS = 8
_VALUE = re.compile(
    r"""(?<==)[\w.-]+(?=:No(?:Schedule|Execute)\b)"""
    r"""|(?<![\w.-])[0-9]+(?:\.[0-9]+)?(?:[kMGTPE]i?|m)?(?![\w.-])"""
    r"""|(?<=\()[^()]*(?=\)$)"""
)
"""Matches the value of a taint, a separate amount, or the values read from a device, which end a reason in brackets."""


@dataclass(frozen=True, slots=True)
class NoNode:
    """No node takes the pod. ``plugins`` are those whose verdicts a change could turn."""

    words: str
    plugins: frozenset[str]
    error: bool = False  # something is broken, as opposed to full
    resolvable: bool = True  # preemption may help on some node
    passing: bool = False  # not reported unless it lasts
    lasting: bool = False  # on all nodes: see ``Status``


def refused_by(status: Status) -> NoNode:
    """The refusal of a plugin that rejected the pod before any node was asked."""
    return NoNode(
        status.words,
        frozenset((status.plugin,)),
        error=status.code is StatusCode.ERROR,
        resolvable=status.code is StatusCode.UNSCHEDULABLE,
        passing=status.code is StatusCode.WAIT,
    )


def refused_everywhere(
    rejections: Mapping[Status, int], nodes: int, unasked: frozenset[str] = frozenset()
) -> NoNode:
    """The refusal if every node rejected the pod; ``rejections`` counts the nodes of each status. ``unasked`` names the plugins
    that stand for nodes without a status."""
    if not nodes:
        return NoNode("0/0 nodes: there are none in the cluster", unasked, resolvable=False)
    counts: dict[str, int] = {}
    for status, count in rejections.items():
        counts[status.words] = counts.get(status.words, 0) + count
    told = sorted(folded(counts).items(), key=lambda item: (-item[1], item[0]))
    parts = [counted(count, words) for words, count in told[:MOST_REASONS]]
    if len(told) > MOST_REASONS:
        parts.append(f"{sum(count for _, count in told[MOST_REASONS:])} for other reasons")
    others = nodes - sum(counts.values())
    if others:
        parts.append(counted(others, "are ruled out by the pod's claims or node names"))
    plugins = frozenset(status.plugin for status in rejections if status.plugin)
    if others or not all(status.plugin for status in rejections):  # no plugin: an unknown node
        plugins |= unasked
    return NoNode(
        f"0/{nodes} nodes: {'; '.join(parts)}",
        plugins,
        error=all(status.code is StatusCode.ERROR for status in rejections) and not others,
        resolvable=any(status.code is StatusCode.UNSCHEDULABLE for status in rejections),
    )


def folded(counts: Mapping[str, int]) -> dict[str, int]:
    """Combines reasons that differ only in values: ``have only 40Gi to 80Gi gpu``, ``(model is "a"; "b"; 3 more)``."""
    alike: dict[str, list[str]] = {}
    for words in sorted(counts):
        alike.setdefault(_VALUE.sub("#", words), []).append(words)
    return {_as_one(each): sum(counts[words] for words in each) for each in alike.values()}


def _as_one(alike: Sequence[str]) -> str:
    """One sentence for several that differ only in their values."""
    values = zip(*(_VALUE.findall(words) for words in alike), strict=True)
    spans = iter([_span(list(dict.fromkeys(each))) for each in values])
    return _VALUE.sub(lambda found: next(spans), alike[0])


def _span(values: list[str]) -> str:
    if len(values) == 1:
        return values[0]
    try:
        amounts = sorted(values, key=Quantity.parse)
    except QuantityError:
        return several(values)
    return f"{amounts[0]} to {amounts[-1]}"
