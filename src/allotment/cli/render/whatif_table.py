"""The outcome of a scenario, for people and for programs.

People see each step as soon as it was tried: its result, the pods that got, changed or lost their place, the pods that wait
since then, and the devices in use. At the end, the waiting pods are listed once more with their final reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from allotment.api.text import few, plural
from allotment.autoscaler.scenario.step_outcome import PodFate
from allotment.cli.render.plan_table import devices_cell
from allotment.cli.render.screen import Cell, Screen
from allotment.usage.summary import NOTHING, Summary

if TYPE_CHECKING:
    from allotment.autoscaler.scenario.scenario import CheckedScenario
    from allotment.autoscaler.scenario.step_outcome import (
        ClusterCounts,
        DevicesInUse,
        Outcome,
        PendingPod,
        PodChange,
    )

_ROWS_SHOWN = 20
"""How many pods of one step are named, unless all are requested."""
_STYLES = {PodFate.PLACED: "green", PodFate.MOVED: "cyan", PodFate.LOST: "red", PodFate.GONE: "dim"}


class Report:
    """Shows outcomes one after another. ``wide`` names every pod and device, and lists pools one by one."""

    def __init__(self, screen: Screen, *, wide: bool) -> None:
        self._screen = screen
        self._wide = wide
        self._seen: list[Outcome] = []

    @property
    def ok(self) -> bool:
        return all(each.ok for each in self._seen)

    def begin(self, scenario: CheckedScenario, notes: Iterable[str]) -> None:
        for note in notes:
            self._screen.line((f"note: {note}", "dim"))
        if scenario.name:
            self._screen.line((f"Scenario {scenario.name}", "bold"))

    def show(self, outcome: Outcome) -> None:
        """Shows one step."""
        self._seen.append(outcome)
        if not outcome.number:
            self._screen.line(f"At the start: {_counts(outcome.news.census)}")
        else:
            self._screen.heading(f"{outcome.number}. {outcome.name or outcome.title}")
            if outcome.name:
                self._screen.line(outcome.title)
        self._show_verdict(outcome)
        self._show_changes(outcome.news.changes)
        if outcome.newly:
            self._show_waits(outcome.newly)
        self._show_use(outcome)
        if outcome.number and outcome.ok and not (outcome.refused or self._has_news(outcome)):
            self._screen.line(("as expected" if not outcome.verb else "no pod changes its place", "dim"))

    def end(self, steps: int) -> None:
        """Shows the final state, and who waits."""
        last = self._seen[-1]
        self._screen.heading("At the end")
        self._screen.line(_counts(last.news.census))
        refused = [str(each.number) for each in self._seen if each.refused and not each.expected_refusal]
        unmet = [str(each.number) for each in self._seen if each.unmet]
        for numbers, words in ((refused, "refused"), (unmet, "not as expected")):
            if numbers:
                self._screen.line((f"{words}: {_steps(numbers)}", "red"))
        if last.number < steps:
            self._screen.line(
                (f"not tried: {_steps([str(n) for n in range(last.number + 1, steps + 1)])}", "red")
            )
        if last.waits:
            self._show_waits(last.waits)

    # --- parts of a step ---

    def _show_verdict(self, outcome: Outcome) -> None:
        if outcome.refused:
            style = "yellow" if outcome.expected_refusal else "red"
            expected = " (as expected)" if outcome.expected_refusal else ""
            self._screen.line((f"refused{expected}: ", style), outcome.refused)
            for why, names in _alike(outcome.holders.items()).items():
                self._screen.line((self._some(names), "bold"), f": {why}", indent=2)
        for note in outcome.notes:
            self._screen.line((note, "dim"))
        for each in outcome.unmet:
            self._screen.line(("not as expected: ", "red"), each)

    def _show_changes(self, changes: Sequence[PodChange]) -> None:
        shown = changes if self._wide else changes[:_ROWS_SHOWN]
        if shown:
            self._screen.table(("", "pod", "node", "devices"), [self._row(each) for each in shown])
        self._show_more(len(changes))
        orphans = [each.pod for each in changes if each.orphan]
        if orphans:
            words = f"no controller owns them, so nobody would recreate them: {few(orphans)}"
            self._screen.line((words, "yellow"))

    def _row(self, change: PodChange) -> list[Cell]:
        node = change.after or change.before
        if change.turn is PodFate.MOVED and change.before != change.after:
            node = f"{change.before} → {change.after}"
        devices = devices_cell(change.devices, wide=self._wide)
        return [(str(change.turn), _STYLES[change.turn]), change.pod, node, devices]

    def _show_waits(self, waits: Sequence[PendingPod]) -> None:
        """Groups the pods that have the same reason."""
        for why, pods in _alike((each.pod, each.why) for each in waits).items():
            start = "waits" if len(pods) == 1 else "wait"
            self._screen.line((f"{start} ", "red"), (self._some(pods), "bold"), f": {why or 'does not fit'}")

    def _some(self, names: Sequence[str]) -> str:
        return ", ".join(names) if self._wide else few(names)

    def _has_news(self, outcome: Outcome) -> bool:
        nodes = self._seen[-2].news.census.nodes if outcome.number else 0
        return bool(
            outcome.news.changes or outcome.newly or outcome.news.pools or outcome.news.census.nodes != nodes
        )

    def _show_use(self, outcome: Outcome) -> None:
        if not outcome.number:
            return
        before, after = self._seen[-2].news.census.nodes, outcome.news.census.nodes
        if before != after:
            self._screen.line((f"nodes: {before} → {after}", "dim"))
        pools = {f"{id.driver}/{id.pool}": use for id, use in outcome.news.pools.items()}
        for name, use in (pools if self._wide else outcome.news.drivers).items():
            told = f"devices of {name} in use: {_used(use.before)} → {_used(use.after)}"
            self._screen.line((told, "dim"))

    def _show_more(self, count: int) -> None:
        if count > _ROWS_SHOWN and not self._wide:
            self._screen.line((f"and {count - _ROWS_SHOWN} more; -o wide names them", "dim"))


def _alike(reasons: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The pods that have each reason."""
    found: dict[str, list[str]] = {}
    for who, why in reasons:
        found.setdefault(why, []).append(who)
    return found


def _counts(census: ClusterCounts) -> str:
    runs, waits = ("runs" if census.running == 1 else "run"), ("waits" if census.pending == 1 else "wait")
    pods = f"{plural(census.running, 'pod')} {runs}, {census.pending} {waits}"
    used = (
        f"{census.devices.allocated} of {plural(census.devices.total, 'device')} in use{_out(census.devices)}"
    )
    return f"{plural(census.nodes, 'node')}; {pods}; {used}"


def _used(summary: Summary | None) -> str:
    found = summary or NOTHING
    return f"{found.allocated} of {found.total}{_out(found)}"


def _out(summary: Summary) -> str:
    return f" ({summary.unavailable} unavailable)" if summary.unavailable else ""


def _steps(numbers: Sequence[str]) -> str:
    return f"step{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


# --- for programs ---


def document(scenario: CheckedScenario, outcomes: Sequence[Outcome], notes: Sequence[str]) -> dict[str, Any]:
    first, *steps = outcomes
    return {
        "scenario": scenario.name,
        "ok": all(each.ok for each in outcomes),
        "start": _state(first),
        "steps": [_step(each) for each in steps],
        "notTried": len(scenario.steps) - len(steps),
        "notes": list(notes),
    }


def _state(outcome: Outcome) -> dict[str, Any]:
    census = outcome.news.census
    return {
        "nodes": census.nodes,
        "running": census.running,
        "devices": _summary(census.devices),
        "changes": [_change(each) for each in outcome.news.changes],
        "pending": [{"pod": each.pod, "reason": each.why, "since": each.since} for each in outcome.waits],
    }


def _step(outcome: Outcome) -> dict[str, Any]:
    return {
        "number": outcome.number,
        "name": outcome.name,
        "verb": outcome.verb,
        "step": outcome.title,
        "done": not outcome.refused,
        "ok": outcome.ok,
        **({"refused": {"reason": outcome.refused, "by": dict(outcome.holders)}} if outcome.refused else {}),
        "unmet": list(outcome.unmet),
        "notes": list(outcome.notes),
        **_state(outcome),
        "drivers": {name: _use(use) for name, use in outcome.news.drivers.items()},
        "pools": [
            {"driver": id.driver, "pool": id.pool, **_use(use)} for id, use in outcome.news.pools.items()
        ],
        "classes": {name: {"before": a, "after": b} for name, (a, b) in outcome.news.classes.items()},
    }


def _change(change: PodChange) -> dict[str, Any]:
    return {
        "pod": change.pod,
        "change": str(change.turn),
        "from": change.before,
        "to": change.after,
        "devices": list(change.devices),
        "controlled": not change.orphan,
    }


def _use(use: DevicesInUse) -> dict[str, Any]:
    return {"before": _summary(use.before), "after": _summary(use.after)}


def _summary(summary: Summary | None) -> dict[str, int] | None:
    if summary is None:
        return None
    return {
        "total": summary.total,
        "allocated": summary.allocated,
        "available": summary.available,
        "unavailable": summary.unavailable,
    }
