"""The cluster on which a scenario is simulated: a server's, with the caller's rights, one from files, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.api.apps import DaemonSet
from allotment.api.autoscaling import NodeGroup, NodeOverlay, NodePool
from allotment.api.batch import PodDisruptionBudget
from allotment.api.core import Node, Pod
from allotment.api.manifests.preparation import prepared
from allotment.api.resource import DeviceTaintRule
from allotment.autoscaler.simulate.simulation import Simulation, start_simulation
from allotment.cel.expression_check import check_expression
from allotment.controllers.claims.claim_users import claim_name
from allotment.insight.errors import BadInput
from allotment.insight.explain.trial_scheduler import (
    KINDS,
    hides_volumes,
    hold_hidden,
    insist_on_devices,
    note_guesses,
    objects_of,
    plenty,
)
from allotment.insight.manifest_files import Reading, read_objects
from allotment.insight.pending_work import checked, waiting
from allotment.insight.snapshot import Snapshot, look

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.insight.source import ClusterSource

SOURCES = (NodeOverlay, NodePool, NodeGroup)
"""The kinds in which a cluster describes the machines that can be launched."""


@dataclass(slots=True)
class ScenarioInput:
    """``objects`` are the cluster's, including waiting pods; ``sources`` are its objects about machines."""

    objects: list[ApiStruct] = field(default_factory=list)
    sources: list[ApiStruct] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: Snapshot | None = None  # the view of the caller, which may be incomplete; None: everything is known

    def simulation(self) -> Simulation:
        found = start_simulation(self.objects, claim_name=claim_name)
        if self.seen is not None:
            hold_hidden(found.cluster, self.seen)
        return found


def look_at_scene(source: ClusterSource, *, empty: bool) -> ScenarioInput:
    """Reads the cluster once. Raises NoAnswer, or BadInput for files."""
    if empty:
        return ScenarioInput()
    if source.offline:
        return _saved(source.offline)
    snapshot = look(source, (*KINDS, PodDisruptionBudget, DaemonSet, *SOURCES))
    insist_on_devices(snapshot)
    objects = [
        *objects_of(snapshot),
        *snapshot.some(PodDisruptionBudget),
        *snapshot.some(DaemonSet),
        *snapshot.some(Pod),
    ]
    scene = _scene(objects, [each for kind in SOURCES for each in snapshot.of(kind)])
    note_guesses(snapshot)
    scene.notes += snapshot.notes
    scene.seen = snapshot
    if any(hides_volumes(each, snapshot) for each in snapshot.some(Pod)):
        scene.notes.append(
            "you may not list everything that decides about volumes, so the pods' volumes are ignored"
        )
    return scene


def _saved(files: Sequence[str]) -> ScenarioInput:
    """The objects in files. Taint rules stay separate objects, so that a step can remove them."""
    reading = read_objects(files)
    rules = [each for each in reading.found if isinstance(each.obj, DeviceTaintRule)]
    made = [prepared(each, check_expression) for each in rules]
    complaints = [*reading.complaints, *(str(error) for _, errors in made for error in errors)]
    if complaints:
        raise BadInput(complaints)
    others = Reading([each for each in reading.found if not isinstance(each.obj, DeviceTaintRule)])
    objects = checked(others)
    sources = [each.obj for each in reading.found if isinstance(each.obj, SOURCES)]
    scene = _scene([*objects, *(rule for rule, _ in made if rule is not None)], sources)
    scene.notes += others.notes
    return scene


def _scene(objects: Sequence[ApiStruct], sources: Sequence[ApiStruct]) -> ScenarioInput:
    found = waiting((), objects, tainted=False)
    there = [plenty(each) if isinstance(each, Node) else each for each in found.objects]
    return ScenarioInput([*there, *found.pods], list(sources), found.notes)
