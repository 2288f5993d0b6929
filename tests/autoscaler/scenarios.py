"""Scenarios in the form in which people write them, tried on small clusters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from allotment.api.codec import to_builtins
from allotment.api.manifests.manifest import Located, read_manifest
from allotment.api.meta import ApiStruct
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.scenario.scenario import CheckedScenario, read_scenario
from allotment.autoscaler.scenario.scenario_run import rehearse
from allotment.autoscaler.scenario.step_outcome import Outcome
from allotment.autoscaler.simulate.simulation import Simulation
from allotment.cel.expression_check import check_expression
from tests.autoscaler.builders import picture, simulation

Json = dict[str, Any]


def scenario(*steps: Json, files: Mapping[str, str] | None = None, **more: Any) -> CheckedScenario:
    """A scenario of these steps. ``files`` are those that it may name, with their text."""
    given = files or {}

    def read(name: str) -> list[Located]:
        if name not in given:
            raise FileNotFoundError(2, "No such file or directory", name)
        return read_manifest(given[name], name)

    written = {"apiVersion": "allotment.dev/v1", "kind": "Scenario", "steps": list(steps), **more}
    return read_scenario(json.dumps(written, indent=1), "s.yaml", read, check_expression)


def submit(*objects: ApiStruct | Json, **more: Any) -> Json:
    manifests = [each if isinstance(each, dict) else to_builtins(each) for each in objects]
    return {"submit": {"manifests": manifests}, **more}


def tried(
    there: Simulation | Sequence[ApiStruct], *steps: Json, machines: Sequence[Machine] = (), **more: Any
) -> list[Outcome]:
    """What came of the steps, the beginning left out. The simulation is checked after each, and must be as it was in the end."""
    on = there if isinstance(there, Simulation) else simulation(*there)
    before, found = picture(on), []
    for outcome in rehearse(on, scenario(*steps), machines, **more):
        on.validate()
        assert on.depth == 1
        found.append(outcome)
    assert picture(on) == before
    on.validate()
    assert on.depth == 0
    return found[1:]


def told(outcome: Outcome) -> dict[str, str]:
    """What became of each pod: ``placed n1``, ``moved n1 n2``, ``lost n1``."""
    return {
        each.pod.removeprefix("default/"): " ".join(
            filter(None, (str(each.turn), each.before, each.after if each.after != each.before else ""))
        )
        for each in outcome.news.changes
    }


def workload(kind: str, name: str, pod: ApiStruct, **spec: Any) -> Json:
    """A Deployment, Job or the like of such pods."""
    raw = to_builtins(pod)
    template = {"metadata": {"labels": raw["metadata"].get("labels", {})}, "spec": raw["spec"]}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"template": template, **spec}}
