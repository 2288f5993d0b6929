"""Scenarios, read from text: the steps to simulate, with the objects that they bring along.

A scenario is as strict as a catalogue: all errors in its steps are reported together, with file, line, step and field. What
can only be known when a step is simulated (whether a node exists) is not an error here: the step is then refused.

Everything is bounded, because a few words can ask for very many pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from allotment.api import scenario as form
from allotment.api import semantic
from allotment.api.apps import DaemonSet
from allotment.api.batch import PodDisruptionBudget, PodGroup, Queue, VolcanoPodGroup
from allotment.api.codec import DecodeError, decode, unknown_fields
from allotment.api.core import Namespace, Node, Pod
from allotment.api.manifests.manifest import Located, ManifestError, read_manifest
from allotment.api.manifests.preparation import prepared
from allotment.api.meta import ApiStruct
from allotment.api.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from allotment.api.scenario import AddNodes, Expect, Submit
from allotment.api.storage import KINDS as STORAGE
from allotment.api.validation import ExpressionChecker
from allotment.autoscaler.scenario.step_rules import MOST_NODES, MOST_PODS, VERBS, wrong, wrongly_expected
from allotment.autoscaler.simulate.forkable_cluster import Slice, publisher
from allotment.autoscaler.simulate.workload_pods import (
    VERSIONS,
    Workload,
    is_unread_owner,
    is_workload,
    unread_owners,
    workload_of,
)

__all__ = ["CheckedScenario", "ScenarioError", "read_scenario"]

MOST_SCENARIO_STEPS = 500
"""The size of a scenario; what its steps may ask for is bounded too (``step_rules``)."""
SUBMITTED: tuple[type[ApiStruct], ...] = (
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    semantic.ResourceClaim,
    semantic.ResourceClaimTemplate,
    semantic.ResourceClass,
    semantic.ResourceClassParameters,
    semantic.ResourceClaimParameters,
    DeviceClass,
    DeviceTaintRule,
    PodGroup,
    VolcanoPodGroup,
    Queue,
    PodDisruptionBudget,
    DaemonSet,
    Namespace,
    *STORAGE,
)

Read = Callable[[str], list[Located]]
"""Reads the objects of a file that a step names. Raises ManifestError, or OSError or ValueError if it cannot be read at all."""


class ScenarioError(ValueError):
    """The scenario is invalid. ``complaints`` are lines such as ``scenario.yaml:7: step 2: drainNode.name: …``."""

    def __init__(self, complaints: Iterable[str]) -> None:
        self.complaints = list(complaints)
        super().__init__("\n".join(self.complaints))


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    """One step. ``wish`` is the verb's own part of ``api.scenario.ScenarioStep``, None for a step with only expectations."""

    number: int  # from 1
    name: str  # for people; may be empty
    verb: str  # a key of VERBS; empty for a step with only expectations
    wish: ApiStruct | None
    expect: Expect
    objects: tuple[ApiStruct, ...] = ()  # that it brings along
    workloads: tuple[Workload, ...] = ()  # that it brings along, as a source of pods
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedScenario:
    name: str
    steps: tuple[ScenarioStep, ...]


def read_scenario(text: str, source: str, read: Read, check: ExpressionChecker) -> CheckedScenario:
    """The scenario in a text; ``source`` names it in errors, ``check`` checks CEL expressions. Raises ScenarioError."""
    try:
        found = read_manifest(text, source)
    except ManifestError as exc:
        raise ScenarioError([str(exc)]) from exc
    if len(found) != 1 or not isinstance(found[0].obj, form.Scenario):
        what = ", ".join(each.kind for each in found[:5]) or "nothing"
        hint = f"must be one Scenario of {form.API_VERSION}, but is {what}"
        raise ScenarioError([f"{source}:{found[0].line if found else 1}: {hint}"])
    return _ScenarioReader(found[0], found[0].obj, read, check).scenario()


class _ScenarioReader:
    """Reads one scenario. Errors are collected and raised together."""

    def __init__(
        self, located: Located, written: form.Scenario, read: Read, check: ExpressionChecker
    ) -> None:
        self._located = located
        self._written = written
        self._read = read
        self._check = check
        self._complaints: list[str] = []
        self._nodes = 0
        self._pods = 0

    def scenario(self) -> CheckedScenario:
        self._complaints += map(str, self._located.unknown_fields())
        raw = self._written.steps
        if not raw:
            self._complain("steps", "a scenario needs at least one step")
        if len(raw) > MOST_SCENARIO_STEPS:
            self._complain(
                "steps", f"has {len(raw)} steps, at most {MOST_SCENARIO_STEPS} are allowed; split it"
            )
            raw = raw[:MOST_SCENARIO_STEPS]
        steps = [self._step(number, each) for number, each in enumerate(raw, 1)]
        for count, most, what in ((self._nodes, MOST_NODES, "nodes"), (self._pods, MOST_PODS, "pods")):
            if count > most:
                self._complain("steps", f"its steps ask for {count} {what}, at most {most} are allowed")
        if self._complaints:
            raise ScenarioError(self._complaints)
        return CheckedScenario(
            self._written.metadata.name, tuple([each for each in steps if each is not None])
        )

    def _complain(self, path: str, message: str, number: int = 0) -> None:
        """``path`` is within the step, if there is a number."""
        whole = (
            f"steps[{number - 1}].{path}" if number and path else f"steps[{number - 1}]" if number else path
        )
        where = f"{self._located.source}:{self._located.line_of(whole)}"
        step = f"step {number}: " if number else ""
        self._complaints.append(f"{where}: {step}{path}: {message}" if path else f"{where}: {step}{message}")

    # --- one step ---

    def _step(self, number: int, raw: Any) -> ScenarioStep | None:
        if not isinstance(raw, dict):
            self._complain("", f"must be an object with one of {', '.join(VERBS)}", number)
            return None
        try:
            step = decode(form.Step, raw)
        except DecodeError as exc:
            self._complain(exc.path, exc.message, number)
            return None
        for entry in unknown_fields(form.Step, raw):
            path, _, guess = entry.partition(" (")
            self._complain(path, f"unknown field ({guess}" if guess else "unknown field", number)
        verbs = [verb for verb in VERBS if raw.get(verb) is not None]
        if len(verbs) > 1 or not (verbs or step.expect):
            told = f"has {' and '.join(verbs)}: make a step of each" if verbs else "does nothing"
            self._complain("", f"{told}; a step has one of {', '.join(VERBS)}, or only expect", number)
            return None
        verb = verbs[0] if verbs else ""
        wish: Any = getattr(step, VERBS[verb]) if verb else None
        found = _Brought()
        for path, message in (*wrong(verb, wish), *wrongly_expected(step.expect, verb)):
            self._complain(path, message, number)
        if verb == "addNodes":
            found = self._new_nodes(number, wish)
        elif verb == "submit":
            found = self._submitted(number, wish)
        elif verb == "scale":
            self._pods += max(0, wish.replicas or 0)
        elif verb == "taintDevice" and wish.rule is not None:
            found = self._brought(number, verb, ["rule"], None, (DeviceTaintRule,))
        expect = step.expect or Expect()
        return ScenarioStep(
            number, step.name or "", verb, wish, expect, *map(tuple, (found.objects, found.workloads, found.notes()))
        )  # fmt: skip

    def _new_nodes(self, number: int, wish: AddNodes) -> _Brought:
        if not (wish.manifests or wish.file):
            self._nodes += max(1, wish.count or 1)
            return _Brought()
        kinds = (Node, ResourceSlice, semantic.NodeResourceSlice)
        found = self._brought(number, "addNodes", _manifests(wish), wish.file, kinds)
        names = [each.metadata.name for each in found.objects if isinstance(each, Node)]
        self._nodes += len(names)
        if not names and not self._complaints:
            self._complain("addNodes", "has no Node", number)
        for each in found.objects:
            if (
                isinstance(each, Slice)
                and publisher(each) not in names
                and (publisher(each) or len(names) > 1)
            ):
                words = (
                    f"slice {each.metadata.name} is of none of the nodes: set spec.nodeName to one of them"
                )
                self._complain("addNodes", words, number)
        return found

    def _submitted(self, number: int, wish: Submit) -> _Brought:
        if bool(wish.manifests) == bool(wish.file):
            return _Brought()  # already reported
        found = self._brought(number, "submit", _manifests(wish), wish.file, SUBMITTED)
        self._pods += sum(isinstance(each, Pod) for each in found.objects)
        self._pods += sum(each.replicas for each in found.workloads)
        return found

    # --- what a step brings along ---

    def _brought(
        self, number: int, verb: str, paths: Sequence[str], file: str | None, kinds: tuple[type, ...]
    ) -> _Brought:
        found, workloads = _Brought(), Pod in kinds
        for each in self._objects(number, verb, paths, file):
            if workloads and is_workload(each):
                read = workload_of(each)
                self._complaints += map(str, (*read.unknown, *read.errors))
                if read.workload is not None:
                    found.workloads.append(read.workload)
                continue
            obj, errors = prepared(each, self._check)
            self._complaints += map(str, (*each.unknown_fields(), *errors))
            if isinstance(obj, Pod) and obj.spec.node_name:
                self._complaints.append(
                    str(each.error("spec.nodeName", "leave it out: the simulation chooses a node"))
                )
            if isinstance(obj, kinds):
                found.objects.append(obj)
            elif workloads and is_unread_owner(each):
                found.unread.append(each)
            elif workloads and obj is None:  # Services and the like: they do not affect the places of pods
                found.ignored[each.kind] += 1
            else:
                names = ", ".join(
                    dict.fromkeys([*(kind.__name__ for kind in kinds), *(VERSIONS if workloads else ())])
                )
                self._complaints.append(
                    str(each.error("kind", f"{each.kind} cannot be given here; {names} can"))
                )
        return found

    def _objects(self, number: int, verb: str, paths: Sequence[str], file: str | None) -> list[Located]:
        """The objects in a verb's fields, or in the file that it names."""
        try:
            if file:
                return self._read(file)
            places = [f"steps[{number - 1}].{verb}.{path}" for path in paths]
            return [each for place in places for each in self._located.inside(place)]
        except ManifestError as exc:
            self._complaints.append(str(exc))
        except OSError as exc:
            self._complain(f"{verb}.file", f"{file}: {(exc.strerror or str(exc)).lower()}", number)
        except ValueError as exc:
            self._complain(f"{verb}.file", f"{file}: {exc}", number)
        return []


@dataclass(slots=True)
class _Brought:
    objects: list[Any] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    unread: list[Located] = field(default_factory=list)

    def notes(self) -> list[str]:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.ignored.items()))
        ignored = [f"ignored, because they do not affect the places of pods: {kinds}"] if kinds else []
        return [*ignored, *unread_owners(self.unread)]


def _manifests(wish: AddNodes | Submit) -> list[str]:
    return [f"manifests[{index}]" for index in range(len(wish.manifests))]
