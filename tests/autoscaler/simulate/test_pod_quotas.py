"""Pods that files and steps bring, where a ResourceQuota has too little left for them: in a plan, and in what-if."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from allotment.api.batch import PriorityClass
from allotment.api.codec import decode, to_builtins
from allotment.api.core import Pod, ResourceQuota
from allotment.api.meta import ApiStruct, ObjectMeta
from allotment.autoscaler.provision.plan import Plan
from allotment.autoscaler.simulate.simulation import start_simulation
from allotment.insight.pending_work import waiting
from allotment.insight.planning import planned
from tests.allocator import build
from tests.autoscaler.build import catalogue, gpus, pool, type_
from tests.autoscaler.scenarios import submit, tried, workload
from tests.autoscaler.simulate.test_pending_pods import template
from tests.builders.typed import node, pod, slice_
from tests.scheduler.gang_builders import group

OFFERS = (type_("large", {"a": "1"}, dynamicResources=gpus(4)), pool("p"))


def quota(hard: dict[str, Any], namespace: str = "default", **spec: Any) -> ResourceQuota:
    metadata = {"name": "q", "namespace": namespace}
    return decode(ResourceQuota, {"metadata": metadata, "spec": {"hard": hard, **spec}})


def of_class(operator: str, *values: str) -> dict[str, Any]:
    test = {"scopeName": "PriorityClass", "operator": operator, "values": list(values)}
    return {"scopeSelector": {"matchExpressions": [test]}}


def classes(*names: str, default: str = "") -> list[PriorityClass]:
    return [PriorityClass(metadata=ObjectMeta(name=name), global_default=name == default) for name in names]


@dataclass(frozen=True)
class Case:
    """Pods ``asking`` in a cluster; ``words`` is part of what is said of each that is not created."""

    there: Sequence[ApiStruct]
    asking: Sequence[Pod]
    words: dict[str, str]


RUNS = pod("runs", cpu=2, node="n")
CASES = {
    "there is no quota": Case([RUNS], [pod("p")], {}),
    "a quota on pods that has room": Case([quota({"pods": 2}), RUNS], [pod("p")], {}),
    "a quota on pods": Case(
        [quota({"pods": 1}), RUNS],
        [pod("p")],
        {"p": "it cannot be created: quota q allows 1 of pods, 1 are used, and it needs 1"},
    ),
    "the first ones get what is left": Case(
        [quota({"pods": 3}), RUNS], [pod(name) for name in "abc"], {"c": "allows 3 of pods, 3 are used"}
    ),
    # Who is too large for what is left takes nothing of it.
    "one that is too large does not stand in the way of others": Case(
        [quota({"requests.cpu": 4}), RUNS],
        [pod("large", cpu=3), pod("small", cpu=2)],
        {"large": "quota q allows 4 of requests.cpu, 2 are used, and it needs 3"},
    ),
    "a quota on cpu, under its short name": Case(
        [quota({"cpu": 2}), RUNS], [pod("p", cpu=1)], {"p": "quota q allows 2 of cpu"}
    ),
    "a pod that asks for nothing of it": Case([quota({"requests.cpu": 2}), RUNS], [pod("p")], {}),
    "one that waits counts too": Case([quota({"pods": 1}), pod("waits")], [pod("p")], {"p": "1 are used"}),
    "one that has ended does not": Case([quota({"pods": 1}), pod("done", phase="Failed")], [pod("p")], {}),
    "but as an object it does": Case(
        [quota({"count/pods": 1}), pod("done", phase="Failed")],
        [pod("p")],
        {"p": "quota q allows 1 of count/pods"},
    ),
    "a quota of another namespace": Case([quota({"pods": 0}, namespace="team")], [pod("p")], {}),
    "a quota that counts no pods": Case([quota({"count/jobs.batch": 0})], [pod("p")], {}),
    "a quota for others, by scope": Case(
        [quota({"pods": 0}, scopes=["BestEffort"])],
        [pod("p"), pod("with", cpu=1)],
        {"p": "allows 0 of pods"},
    ),
    "a quota for a priority class": Case(
        [quota({"pods": 0}, **of_class("In", "high")), *classes("high", "low")],
        [pod("high", priority_class_name="high"), pod("low", priority_class_name="low")],
        {"high": "allows 0 of pods"},
    ),
    "a quota for the class that pods have by default": Case(
        [quota({"pods": 0}, **of_class("In", "low")), *classes("high", "low", default="low")],
        [pod("p")],
        {"p": "allows 0 of pods"},
    ),
    "too few of a gang are created": Case(
        [quota({"pods": 1}), group("gang", 2)],
        [pod(name, group="gang") for name in "ab"],
        {"a": "waits for 1 more pod of its gang, which needs 2", "b": "it cannot be created"},
    ),
    # The claim of the pod that is not created would be the one that the quota on claims has left.
    "who is not created gets no claims": Case(
        [
            quota({"requests.cpu": 1, "count/resourceclaims.resource.k8s.io": 1}),
            build.class_(),
            template("t"),
        ],
        [pod("a", cpu=2, templates={"d": "t"}), pod("b", cpu=1, templates={"d": "t"})],
        {"a": "it cannot be created"},
    ),
}


def plan(there: Sequence[ApiStruct], asking: Sequence[Pod]) -> Plan:
    return planned(waiting(asking, there, tainted=False), catalogue(*OFFERS))


@pytest.mark.parametrize("name", CASES)
def test_a_plan_has_no_machines_for_pods_that_no_server_creates(name: str) -> None:
    case = CASES[name]
    found = plan(case.there, case.asking)
    why = {each.pod.removeprefix("default/"): each.why for each in found.pending}
    assert why.keys() == case.words.keys()
    assert all(words in why[who] for who, words in case.words.items()), why
    bought = {place.pod.removeprefix("default/") for new in found.nodes for place in new.places}
    assert bought == {each.metadata.name for each in case.asking} - case.words.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_step_that_submits_them_tells_the_same(name: str) -> None:
    case = CASES[name]
    room = [node("n", cpu=64), slice_("n", *(f"d{number}" for number in range(4)))]
    [outcome] = tried([*room, *case.there], submit(*case.asking))
    why = {each.pod.removeprefix("default/"): each.why for each in outcome.waits}
    asked = {each.metadata.name for each in case.asking}
    assert why.keys() & asked == case.words.keys()
    assert all(words in why[who] for who, words in case.words.items()), why


def test_pods_of_the_cluster_were_let_in_and_are_planned_for() -> None:
    there = [quota({"pods": 1}), pod("a"), pod("b")]
    assert not plan(there, []).pending
    assert not plan(there, [pod("b")]).pending, "as it is in the cluster already"


def test_a_workload_gets_as_many_pods_as_the_quota_lets_it_have() -> None:
    of = workload("Deployment", "web", pod("p", cpu=1, labels={"app": "web"}), replicas=2)
    scaled = {"scale": {"kind": "Deployment", "namespace": "default", "name": "web", "replicas": 4}}
    there = [node("n", cpu=64), quota({"pods": 3})]
    first, second = tried(there, submit(of), scaled)
    assert (len(first.waits), [each.pod for each in second.waits]) == (0, ["default/web-3"])
    assert "quota q allows 3 of pods, 3 are used, and it needs 1" in second.waits[0].why


def test_a_pod_is_created_once_another_has_gone() -> None:
    there = [node("n", cpu=64), quota({"pods": 1}), pod("old", node="n")]
    gone = {"delete": {"kind": "Pod", "namespace": "default", "name": "old"}}
    first, second = tried(there, submit(pod("p")), gone)
    assert [each.pod for each in first.waits] == ["default/p"]
    assert second.waits == ()


def test_pods_of_a_refused_step_leave_no_trace() -> None:
    """The second pod of the step is there already, so the first one is not either; nobody has brought ``p`` when it comes again."""
    there = [node("n", cpu=64), quota({"pods": 2}), pod("old", node="n")]
    refused, done = tried(there, submit(pod("p"), pod("old")), submit(pod("p")))
    assert refused.refused
    assert done.waits == ()


def test_a_simulation_forgets_them_when_the_scenario_ends() -> None:
    there = start_simulation([node("n", cpu=64), quota({"pods": 0})])
    tried(there, submit(pod("p")))
    assert there.fits(pod("p")) == "n"


def test_documents_of_pods_are_read_as_servers_do() -> None:
    """What a quota counts follows from the pod as it is written out, amounts of init containers included."""
    document = to_builtins(pod("p", cpu=1))
    document["spec"]["initContainers"] = [{"name": "i", "resources": {"requests": {"cpu": "5"}}}]
    [left] = plan([quota({"requests.cpu": 4})], [decode(Pod, document)]).pending
    assert "and it needs 5" in left.why
