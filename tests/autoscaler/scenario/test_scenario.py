"""Reading scenarios: what is wrong is told all at once, with line, step and field."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.api.codec import to_builtins
from allotment.autoscaler.scenario import step_rules as limits
from allotment.autoscaler.scenario.scenario import MOST_SCENARIO_STEPS, ScenarioError, read_scenario
from allotment.autoscaler.scenario.step_rules import VERBS
from allotment.cel.expression_check import check_expression
from tests.allocator import build
from tests.autoscaler.scenarios import Json, scenario, submit, workload
from tests.builders.typed import node, pod, slice_

NODE, SLICE = to_builtins(node("a")), to_builtins(slice_("b", "d0"))


def complaints(*steps: Any, **more: Any) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        scenario(*steps, **more)
    return caught.value.complaints


WRONG: dict[str, tuple[Any, str]] = {
    "not an object": ("drain", "step 1: must be an object with one of addNodes, removeNode"),
    "nothing to do": ({"name": "idle"}, "step 1: does nothing; a step has one of addNodes"),
    "two verbs": (
        {"removeNode": "a", "drainNode": "b"},
        "step 1: has removeNode and drainNode: make a step of each",
    ),
    "a misspelt verb": ({"drainNodes": "a"}, "step 1: drainNodes: unknown field (did you mean drainNode?)"),
    "a misspelt field": (
        {"removeNode": {"name": "a", "forced": True}},
        "step 1: removeNode.forced: unknown field (did you mean force?)",
    ),
    "a wrong type": (
        {"scale": {"kind": "Job", "name": "a", "replicas": "many"}},
        "step 1: scale.replicas: must be",
    ),
    "no name": ({"drainNode": {}}, "step 1: drainNode.name: is required"),
    "nodes of two origins": (
        {"addNodes": {"type": "t", "like": "a"}},
        "step 1: addNodes: needs exactly one of type, like, manifests and file, but has type and like",
    ),
    "nodes of no origin": ({"addNodes": {"count": 2}}, "file, but has none"),
    "a zone for a copy": (
        {"addNodes": {"like": "a", "zone": "z"}},
        "step 1: addNodes.zone: cannot be given beside like: leave it out",
    ),
    "no nodes at all": ({"addNodes": {"type": "t", "count": 0}}, "addNodes.count: must be from 1 to"),
    "too many nodes": (
        {"addNodes": {"type": "t", "count": limits.MOST_NODES + 1}},
        "addNodes.count: must be from 1 to",
    ),
    "slices without a node": ({"addNodes": {"manifests": [SLICE]}}, "step 1: addNodes: has no Node"),
    "a slice of another node": (
        {"addNodes": {"manifests": [NODE, SLICE]}},
        "slice slice-b is of none of the nodes",
    ),
    "a pod among nodes": (
        {"addNodes": {"manifests": [NODE, to_builtins(pod("p"))]}},
        "kind: Pod cannot be given here; Node, ResourceSlice, NodeResourceSlice can",
    ),
    "a node among pods": (submit(node("a")), "kind: Node cannot be given here; Pod, ResourceClaim"),
    "a pod that has its node": (submit(pod("p", node="a")), "spec.nodeName: leave it out"),
    "nothing submitted": ({"submit": {}}, "step 1: submit: needs exactly one of manifests and file"),
    "a file that is not there": (
        {"submit": "pods.yaml"},
        "step 1: submit.file: pods.yaml: no such file or directory",
    ),
    "an object without a kind": (submit({"apiVersion": "v1"}), "kind: must be a string"),
    "a claim that is not valid": (submit(build.claim(build.request("R!"))), "spec.devices.requests[0].name"),
    "a field that pods do not have": (
        submit({**to_builtins(pod("p")), "spec": {"containres": []}}),
        "spec.containres: unknown field (did you mean containers?)",
    ),
    "a workload without pods": (
        submit({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {}}),
        "spec.template: must have the spec of a pod",
    ),
    "a workload with a misspelt pod": (
        submit(workload("Job", "j", pod("p"), template={"spec": {"containres": []}})),
        "spec.template.spec.containres: unknown field",
    ),
    "a negative number of pods": (
        submit(workload("Deployment", "d", pod("p"), replicas=-1)),
        "spec.replicas: must be a whole number, zero or more",
    ),
    "an unknown kind to delete": (
        {"delete": {"kind": "Node", "name": "a"}},
        "step 1: delete.kind: 'Node' is not known: one of Deployment",
    ),
    "a pod to scale": ({"scale": {"kind": "Pod", "name": "a", "replicas": 1}}, "scale.kind: 'Pod' is not"),
    "no number": ({"scale": {"kind": "Job", "name": "a"}}, "step 1: scale.replicas: is required"),
    "no effect": ({"taintDevice": {"driver": "d"}}, "step 1: taintDevice.effect: is required: one of No"),
    "everything tainted": ({"taintDevice": {"effect": "NoExecute"}}, "needs driver, pool or device"),
    "a rule and more": (
        {"taintDevice": {"driver": "d", "rule": {}}},
        "step 1: taintDevice.rule: is a whole DeviceTaintRule",
    ),
    "a pool without a driver": (
        {"resizePool": {"pool": "p", "devices": 1}},
        "resizePool.driver: is required",
    ),
    "a name that is none": (
        {"drainNode": "a", "expect": {"running": ["a/b/c"]}},
        "step 1: expect.running[0]: must be a pod's name",
    ),
    "nothing that could be refused": (
        {"expect": {"refused": True}},
        "step 1: expect.refused: refers to the step",
    ),
    "fewer than none": (
        {"expect": {"counts": {"pending": -1}}},
        "expect.counts.pending: must be zero or more",
    ),
}


@pytest.mark.parametrize(("step", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_step(step: Any, words: str) -> None:
    found = complaints(step)
    assert any(words in each for each in found), found
    assert all(each.startswith("s.yaml:") for each in found)


def test_all_that_is_wrong_is_told_at_once_with_its_lines() -> None:
    text = "\n".join(
        [
            "apiVersion: allotment.dev/v1",
            "kind: Scenario",
            "steps:",
            "- drainNode: {}",
            "- submit:",
            "    manifests:",
            "    - apiVersion: v1",
            "      kind: Pod",
            "      metadata: {name: p}",
            "      spec:",
            "        containres: []",
            "- scale: {kind: Job, name: j, replicas: -1}",
        ]
    )
    with pytest.raises(ScenarioError) as caught:
        read_scenario(text, "s.yaml", lambda _: [], check_expression)
    assert [each.partition(" ")[0] for each in caught.value.complaints] == [
        "s.yaml:4:",
        "s.yaml:11:",
        "s.yaml:12:",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be one Scenario of allotment.dev/v1, but is nothing"),
        ("{", "s.yaml:"),
        (json.dumps(NODE), "must be one Scenario of allotment.dev/v1, but is Node"),
        ("apiVersion: allotment.dev/v1\nkind: Scenario", "steps: a scenario needs at least one step"),
        ("apiVersion: allotment.dev/v2\nkind: Scenario", "use allotment.dev/v1"),
        ("apiVersion: allotment.dev/v1\nkind: Scenario\nstep: []", "did you mean steps?"),
        ("apiVersion: allotment.dev/v1\nkind: Scenario\nsteps: 3", "steps: must be a list"),
    ],
)
def test_what_is_no_scenario(text: str, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_scenario(text, "s.yaml", lambda _: [], check_expression)
    assert words in str(caught.value)


def test_it_is_bounded() -> None:
    many: list[Json] = [{"drainNode": "a"}] * (MOST_SCENARIO_STEPS + 1)
    assert "at most 500 are allowed" in complaints(*many)[0]
    nodes = [{"addNodes": {"type": "t", "count": limits.MOST_NODES}}] * 2
    assert "ask for 10000 nodes, at most 5000" in complaints(*nodes)[0]
    pods = submit(workload("Deployment", "d", pod("p"), replicas=limits.MOST_PODS))
    more = {"scale": {"kind": "Deployment", "name": "d", "replicas": 1}}
    assert "ask for 20001 pods, at most 20000" in complaints(pods, more)[0]


def test_objects_of_files_and_what_does_not_matter() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [service, to_builtins(pod("p"))]})
    [step] = scenario({"submit": "pods.yaml"}, files={"pods.yaml": text}).steps
    assert [type(each).__name__ for each in step.objects] == ["Pod"]
    assert step.notes == ("ignored, because they do not affect the places of pods: 1 Service",)


def test_owners_of_pods_that_are_not_known_are_not_said_to_have_no_effect() -> None:
    pattern = {"template": {"spec": {"containers": [{"name": "c"}]}}}
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "j"}}
    [step] = scenario({"submit": {"manifests": [{**owner, "spec": {"replicatedJobs": [pattern]}}]}}).steps
    assert step.notes == (
        "the pods of 1 JobSet of jobset.x-k8s.io/v1alpha2 are not counted: give the pods themselves",
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*VERBS, "name", "file", "manifests", "kind", "expect", "rule"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.lists(JSON, max_size=3))
def test_whatever_is_written_is_read_or_complained_of(steps: list[Any]) -> None:
    with suppress(ScenarioError):
        assert len(scenario(*steps).steps) == len(steps)
