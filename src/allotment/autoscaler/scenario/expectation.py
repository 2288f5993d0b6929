"""Whether a step of a scenario met its author's expectations and, if not, what happened instead."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allotment.api.scenario import Expect
    from allotment.scheduler.pod import PodInfo


def unmet(
    expect: Expect, pods: Mapping[str, PodInfo], why: Mapping[str, str], *, refused: bool
) -> Iterator[str]:
    """The expectations that do not hold, in sentences; ``why`` has the reasons of waiting pods."""
    if expect.refused and not refused:
        yield "the step should have been refused, but was done"
    for name in expect.running:
        yield from _unlike(name, pods, why, waits=False)
    for name in expect.pending:
        yield from _unlike(name, pods, why, waits=True)
    if expect.counts is not None:
        running = sum(bool(each.node) for each in pods.values())
        yield from _miscounted("run", expect.counts.running, running)
        yield from _miscounted("wait", expect.counts.pending, len(pods) - running)


def _miscounted(word: str, wanted: int | None, there: int) -> Iterator[str]:
    if wanted is not None and wanted != there:
        yield f"{wanted} pods should {word}, but {there} do"


def _unlike(name: str, pods: Mapping[str, PodInfo], why: Mapping[str, str], *, waits: bool) -> Iterator[str]:
    """Pods with a name or pattern that do something else."""
    key, word = name if "/" in name else f"default/{name}", "wait" if waits else "run"
    meant = [each for each in pods if fnmatchcase(each, key)] if "*" in key else [key] if key in pods else []
    if not meant:
        yield f"pod {key} should {word}, but there is none"
    wrong = [each for each in meant if bool(pods[each].node) == waits]
    if wrong:
        told = f"runs on node {pods[wrong[0]].node}" if waits else f"waits: {why.get(wrong[0], '')}"
        more = f" ({len(wrong)} of {len(meant)} such pods)" if len(meant) > 1 else ""
        yield f"pod {wrong[0]} should {word}, but {told}{more}"
