"""Simulates a scenario step by step: each step is done or refused, then all waiting pods are placed as the scheduler would,
and the changes are reported.

Waiting pods are placed by priority, then by age, gangs as a whole or not at all. Because a pod may have to be near one that
is placed later, pods without a place are tried again as long as that places any. Claims from templates are created as the
claim controller would.

:func:`rehearse` leaves the simulation as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.api import semantic
from allotment.api.batch import PodGroup
from allotment.api.claim_marks import POD_CLAIM_NAME
from allotment.api.core import Pod
from allotment.api.meta import OwnerReference, key_of
from allotment.api.resource import ResourceClaim, ResourceClaimTemplate
from allotment.autoscaler.errors import StepRefused
from allotment.autoscaler.scenario.differences import SimulationDifferences
from allotment.autoscaler.scenario.expectation import unmet
from allotment.autoscaler.scenario.step_actions import ScenarioSimulation
from allotment.autoscaler.scenario.step_outcome import Outcome, PendingPod
from allotment.autoscaler.scenario.step_title import titled
from allotment.autoscaler.simulate.pending_pods import (
    Template,
    from_template,
    made_entries,
    make_claims,
    names_like,
)
from allotment.autoscaler.simulate.pod_quotas import refusals
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.gangs.gang import gang_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allotment.autoscaler.catalogue.machine import Machine
    from allotment.autoscaler.scenario.scenario import CheckedScenario, ScenarioStep
    from allotment.autoscaler.simulate.simulation import Simulation
    from allotment.scheduler.pod import PodInfo

__all__ = ["rehearse"]

PLACING_ROUNDS = 5
"""How often waiting pods are tried in one step."""


def rehearse(
    simulation: Simulation, scenario: CheckedScenario, machines: Sequence[Machine] = (), *, stop: bool = False
) -> Iterator[Outcome]:
    """The outcome of each step, with the beginning first. Until the last one was taken, or the iterator closed, the
    simulation is in the state after the steps so far; afterwards, it is as it was. ``stop``: no steps after one that did not
    meet its expectations."""
    with simulation.trial():
        rehearsal = ScenarioRun(simulation, machines)
        try:
            yield rehearsal.begin()
            for step in scenario.steps:
                outcome = rehearsal.attempt(step)
                yield outcome
                if stop and not outcome.ok:
                    return
        finally:
            simulation.obstacles.refuse({})


class ScenarioRun:
    """One run of a scenario. It changes the simulation, so have a fork open."""

    def __init__(self, simulation: Simulation, machines: Sequence[Machine] = ()) -> None:
        self._simulation = simulation
        self._steps = ScenarioSimulation(simulation, machines)
        self._arrived: dict[str, int] = {}  # pods that came with a step
        self._why: dict[str, str] = {}  # waiting pods
        self._since: dict[str, int] = {}
        self._chronicle = SimulationDifferences(simulation)

    def begin(self) -> Outcome:
        """Places the waiting pods in the cluster as it is."""
        self._settle(0)
        news = self._chronicle.look()
        return Outcome(number=0, name="", verb="", title="as it is", news=news, waits=self._waits())

    def attempt(self, step: ScenarioStep) -> Outcome:
        """Tries a step. If it is refused, nothing has changed."""
        refused, holders, notes = "", dict[str, str](), list(step.notes)
        try:
            with self._simulation.trial() as trial:
                notes += self._steps.play(step)
                trial.keep()
        except StepRefused as exc:
            refused, holders = str(exc), dict(exc.holders)
        else:
            if step.verb:
                self._settle(step.number)
        return Outcome(
            number=step.number,
            name=step.name,
            verb=step.verb,
            title=titled(step),
            news=self._chronicle.look(),
            waits=self._waits(),
            refused=refused,
            expected_refusal=bool(step.expect.refused),
            holders=holders,
            notes=tuple(notes),
            unmet=tuple(unmet(step.expect, self._simulation.cluster.pods, self._why, refused=bool(refused))),
        )

    def _waits(self) -> tuple[PendingPod, ...]:
        return tuple([PendingPod(key, why, self._since[key]) for key, why in sorted(self._why.items())])

    # --- placing ---

    def _settle(self, number: int) -> None:
        """Places all pods that can be placed; ``_why`` has the reasons for the others."""
        self._create()
        self._make_claims()
        for _ in range(PLACING_ROUNDS):
            placed, self._why = False, {}
            for entry in self._queue(number):
                placed = self._place(entry) or placed
            if not placed or not self._why:
                break
        self._since = {key: self._since.get(key, number) for key in self._why}

    def _create(self) -> None:
        """Finds out which of the steps' pods no server would create. They are checked again after each step, because their
        controllers would try again."""
        there, brought = self._simulation.objects(Pod), self._steps.brought
        asking = [there[key] for key in brought if key in there]
        others = [pod for key, pod in there.items() if key not in brought]
        found = refusals(self._simulation.cluster, asking, others)
        self._steps.brought = dict.fromkeys(found)
        self._simulation.obstacles.refuse(found)

    def _queue(self, number: int) -> list[list[PodInfo]]:
        """Waiting pods, each by itself or with its gang, in the order of the decisions."""
        found: dict[str, list[PodInfo]] = {}
        for key, info in self._simulation.cluster.pods.items():
            if info.node or info.leaving:
                continue
            self._arrived.setdefault(key, number)
            group = self._simulation.cluster.groups.get(info.group)
            gang = gang_of(info.group, group) if group is not None else None
            found.setdefault(f"gang {info.group}" if gang is not None else key, []).append(info)
        return sorted(found.values(), key=lambda entry: min(map(self._rank, entry)))

    def _rank(self, info: PodInfo) -> tuple[int, int, str, str]:
        created = info.pod.metadata.creation_timestamp or ""
        return -info.priority, self._arrived[info.key], created, info.key

    def _place(self, entry: list[PodInfo]) -> bool:
        """Places a pod or a gang; True if any pod was placed."""
        group = self._simulation.cluster.groups.get(entry[0].group)
        if group is None or gang_of(entry[0].group, group) is None:
            found = self._simulation.schedule(entry[0].pod)
            if isinstance(found, NoNode):
                self._why[entry[0].key] = found.words
            return not isinstance(found, NoNode)
        bound = self._simulation.schedule_gang(entry[0].group)
        words = bound.words if isinstance(bound, NoNode) else "its gang runs without it: no more members fit"
        placed = set() if isinstance(bound, NoNode) else {key_of(each.pod) for each in bound}
        for each in entry:
            if each.key not in placed:
                own = self._simulation.obstacles.of(each)
                self._why[each.key] = own.words if own is not None else words
        return bool(placed)

    def _make_claims(self) -> None:
        """Creates the missing claims from templates, for groups and for waiting pods."""
        waiting = sorted(
            (each for each in self._simulation.cluster.pods.values() if not each.node), key=self._in_order
        )
        make_claims(self._simulation, [each.pod for each in waiting])
        templates: dict[str, Template] = {
            **self._simulation.objects(ResourceClaimTemplate),
            **self._simulation.objects(semantic.ResourceClaimTemplate),
        }
        for name in {each.group for each in waiting if each.pod.spec.resource_claims}:
            group = self._simulation.cluster.groups.get(name)
            if isinstance(group, PodGroup):
                self._make_group_claims(group, templates)

    def _in_order(self, info: PodInfo) -> tuple[str, str]:
        """The order in which claims are created: that of the pods."""
        return info.pod.metadata.creation_timestamp or "", info.key

    def _make_group_claims(self, group: PodGroup, templates: dict[str, Template]) -> None:
        made, meta = made_entries(self._simulation, group.metadata.uid), group.metadata
        there, obstacles = self._simulation.objects(ResourceClaim), self._simulation.obstacles
        for entry in group.spec.resource_claims:
            template = templates.get(f"{meta.namespace}/{entry.resource_claim_template_name or ''}")
            if template is None or entry.name in made or meta.namespace in self._simulation.cluster.ending:
                continue
            names = names_like(f"{meta.name}-{entry.name}")
            name = next(each for each in names if f"{meta.namespace}/{each}" not in there)
            claim = from_template((meta.namespace, name), Pod(metadata=meta), template)
            owner = OwnerReference(
                api_version=group.api_version, kind=group.kind, name=meta.name, uid=meta.uid, controller=True
            )
            marks = {**claim.metadata.annotations, POD_CLAIM_NAME: entry.name}
            metadata = replace(
                claim.metadata,
                owner_references=(owner,),
                annotations=marks,
                uid=f"claim {meta.namespace}/{name}",
            )
            if obstacles.name_taken(group, entry.name):
                continue
            if not obstacles.quotas.refusal(meta.namespace, claim):
                self._simulation.put(replace(claim, metadata=metadata))
