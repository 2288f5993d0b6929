"""What comes of each verb, of refused steps, and of expectations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.api.codec import to_builtins
from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceTaintRule, DeviceToleration, ResourceClaim, ResourceSlice
from allotment.autoscaler.scenario.scenario_run import ScenarioRun, rehearse
from allotment.autoscaler.scenario.step_outcome import Outcome
from allotment.autoscaler.simulate.simulation import Simulation, start_simulation
from tests.allocator import build
from tests.autoscaler.build import GPU, evaluated, gpus, type_
from tests.autoscaler.build import pool as node_pool
from tests.autoscaler.builders import (
    asking,
    bind,
    devices_of,
    gpu_class,
    machines,
    picture,
    semantic_claim,
    semantic_pod,
    simulation,
    trees,
)
from tests.autoscaler.scenarios import Json, scenario, submit, told, tried, workload
from tests.autoscaler.simulate.test_drain import of
from tests.builders.typed import HOSTNAME, claim, near, node, pod, pod_affinity, slice_
from tests.scheduler.gang_builders import group
from tests.scheduler.test_preemption import budget

DRIVER = build.DRIVER
EVICT = {"driver": DRIVER, "pool": "n1", "effect": "NoExecute"}


def template(name: str = "t", namespace: str = "default") -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": to_builtins(claim("c"))["spec"]},
    }


def cluster(*bound: tuple[Pod, str], others: Sequence[ApiStruct] = ()) -> Simulation:
    """Two nodes of two devices, and pods on their nodes that use a claim of their name each, or what they say."""
    there = simulation(*machines("n1", "n2"), *others)
    for who, where in bound:
        for entry in who.spec.resource_claims:
            if f"default/{entry.resource_claim_name}" not in there.objects(ResourceClaim):
                there.put(claim(entry.resource_claim_name or ""))
        bind(there, who, where)
    return there


def user(name: str, **more: Any) -> Pod:
    return pod(name, claims=[name], **more)


@dataclass(frozen=True)
class Case:
    there: Simulation | Sequence[ApiStruct]
    step: Json
    told: dict[str, str] = field(default_factory=dict)
    waits: dict[str, str] = field(default_factory=dict)  # with a part of each reason
    refused: str = ""
    by: tuple[str, ...] = ()
    devices: tuple[int, int] | None = None  # in use, of how many


TWO = workload("Deployment", "web", pod("p", cpu=1, labels={"app": "web"}), replicas=2)

CASES: dict[str, Any] = {
    # --- nodes ---
    "a node comes, and who waited goes there": lambda: Case(
        [node("n1", cpu=1), *asking("p")],
        {"addNodes": {"manifests": [to_builtins(node("n2")), to_builtins(slice_("n2", "d0"))]}},
        {"p": "placed n2"},
        devices=(1, 1),
    ),
    "copies of a node": lambda: Case(
        cluster((user("a"), "n1"), (user("b"), "n1"), (user("c"), "n2"), (user("d"), "n2"), others=[*asking("e"), *asking("f")]),
        {"addNodes": {"like": "n1", "count": 1, "name": "twin"}},
        {"e": "placed twin-1", "f": "placed twin-1"},
        devices=(6, 6),
    ),
    "a copy of a node with semantic trees": lambda: Case(
        [*trees("n1"), semantic_claim("c"), semantic_pod("c"), semantic_claim("d"), semantic_pod("d")],
        {"addNodes": {"like": "n1"}},
        {"ns/d": "placed new-1"},
    ),
    "a node that already exists": lambda: Case(
        cluster(), {"addNodes": {"manifests": [to_builtins(node("n1"))]}}, refused="node n1 already exists"
    ),
    "a copy of nothing": lambda: Case(cluster(), {"addNodes": {"like": "n9"}}, refused="there is no node n9"),
    "a type that is not there": lambda: Case(
        cluster(), {"addNodes": {"type": "t9"}}, refused="no instance type t9; name one with --catalog"
    ),
    "a node without users goes": lambda: Case(cluster((user("a"), "n2")), {"removeNode": "n1"}, devices=(1, 2)),
    "a node in use stays": lambda: Case(
        cluster((user("a"), "n1")),
        {"removeNode": "n1"},
        refused="devices there are in use by 1 pod: drain it, or remove it with force",
        by=("default/a",),
        devices=(1, 4),
    ),
    "who uses no devices does not hold a node": lambda: Case(
        cluster((pod("a"), "n1")), {"removeNode": "n1"}, {"a": "moved n1 n2"}
    ),
    "a machine that breaks down": lambda: Case(
        cluster((user("a"), "n1"), (user("b"), "n2"), (user("c"), "n2")),
        {"removeNode": {"name": "n1", "force": True}},
        {"a": "lost n1"},
        {"a": "1 has every any in use"},
        devices=(2, 2),
    ),
    "a daemon goes with its node": lambda: Case(
        cluster((of("DaemonSet", pod("a")), "n1")), {"removeNode": "n1"}, {"a": "gone n1"}
    ),
    "a node is drained": lambda: Case(
        cluster((user("a"), "n1")), {"drainNode": "n1"}, {"a": "moved n1 n2"}, devices=(1, 2)
    ),
    "a node that cannot be drained": lambda: Case(
        cluster((user("a"), "n1"), (user("b"), "n2"), (user("c"), "n2")),
        {"drainNode": "n1"},
        refused="it is held by 1 pod",
        by=("default/a",),
    ),
    "a budget keeps a node": lambda: Case(
        cluster((pod("a", labels={"app": "web"}), "n1"), others=[budget(0, app="web")]),
        {"drainNode": "n1"},
        refused="it is held by 1 pod",
        by=("default/a",),
    ),
    "an immediate claim keeps a node": lambda: Case(
        [*trees("n1", "n2"), semantic_claim("c", "Immediate"), semantic_pod("p", "c")],
        {"drainNode": "n1"},
        refused="it is held by 1 pod and 1 claim",
        by=("ns/p", "ns/c"),
    ),
    "no such node": lambda: Case(cluster(), {"drainNode": "n9"}, refused="there is no node n9"),
    # --- work ---
    "a pod with its claim": lambda: Case(cluster(), submit(*asking("a")), {"a": "placed n1"}, devices=(1, 4)),
    "a claim of a template": lambda: Case(
        cluster(), submit(pod("a", templates={"gpu": "t"}), template()), {"a": "placed n1"}, devices=(1, 4)
    ),
    "a template that is missing": lambda: Case(
        cluster(), submit(pod("a", templates={"gpu": "t"})), {}, {"a": "claim"}
    ),
    "an extended resource": lambda: Case(
        [gpu_class(), *machines("n1")],
        submit(pod("a", more={"vendor.com/gpu": 2}), pod("b", more={"vendor.com/gpu": 1})),
        {"a": "placed n1"},
        {"b": "1 has"},
        devices=(2, 2),
    ),
    "more than there is room for": lambda: Case(
        machines("n1"),
        submit(*asking("a"), *asking("b"), *asking("c", priority=1)),
        {"a": "placed n1", "c": "placed n1"},
        {"b": "0/1 nodes: 1 has every any in use"},
        devices=(2, 2),
    ),
    "a gang is placed whole": lambda: Case(
        cluster(), submit(group("g", 3), *(each for n in "abc" for each in asking(n, group="g"))),
        {"a": "placed n1", "b": "placed n1", "c": "placed n2"}, devices=(3, 4),
    ),
    "or not at all": lambda: Case(
        machines("n1"),
        submit(group("g", 3), *(each for n in "abc" for each in asking(n, group="g"))),
        {},
        dict.fromkeys("abc", "gang default/g: only 2 of 3 pods that it needs fit"),
        devices=(0, 2),
    ),
    "a gang that is not complete": lambda: Case(
        cluster(), submit(group("g", 3), *asking("a", group="g")), {}, {"a": "gang"}
    ),
    "a group's own claim": lambda: Case(
        cluster(),
        submit(
            group("g", 2, claims=[{"name": "gpu", "resourceClaimTemplateName": "t"}]),
            *(pod(n, group="g", templates={"gpu": "t"}) for n in "ab"),
            template(),
        ),
        {"a": "placed n1", "b": "placed n1"},
        devices=(1, 4),
    ),
    "somebody else's scheduler": lambda: Case(cluster(), submit(pod("a", scheduler="other")), {"a": "placed n1"}),
    "a deployment": lambda: Case(cluster(), submit(TWO), {"web-0": "placed n1", "web-1": "placed n2"}),
    "a job runs as many as it may": lambda: Case(
        cluster(),
        submit(workload("Job", "j", pod("p"), parallelism=3, completions=2)),
        {"j-0": "placed n1", "j-1": "placed n2"},
    ),
    "a job that is suspended": lambda: Case(cluster(), submit(workload("Job", "j", pod("p"), suspend=True))),
    "a pod that already exists": lambda: Case(
        cluster((pod("a"), "n1")), submit(pod("a")), refused="Pod default/a already exists"
    ),
    "a pod is deleted, and its devices are free": lambda: Case(
        [*machines("n1", devices=["d0"]), *asking("a"), *asking("b")],
        {"delete": {"kind": "Pod", "name": "a"}},
        {"a": "gone n1", "b": "placed n1"},
        devices=(1, 1),
    ),
    "a claim in use stays": lambda: Case(
        cluster((user("a"), "n1")), {"delete": {"kind": "ResourceClaim", "name": "a"}},
        refused="it is in use by 1 pod", by=("default/a",),
    ),
    "a claim that nobody uses goes": lambda: Case(
        cluster(others=[claim("a")]), {"delete": {"kind": "ResourceClaim", "name": "a"}}
    ),
    "no such pod": lambda: Case(
        cluster(), {"delete": {"kind": "Pod", "name": "a"}}, refused="there is no Pod default/a"
    ),
    "no such deployment": lambda: Case(
        cluster(), {"delete": {"kind": "Deployment", "name": "a"}}, refused="there is no Deployment default/a"
    ),
    "a deployment of the cluster grows": lambda: Case(
        cluster((replica("web-x-1"), "n1")),
        {"scale": {"kind": "Deployment", "name": "web", "replicas": 3}},
        {"web-0": "placed n2", "web-1": "placed n1"},
    ),
    "a deployment of the cluster shrinks": lambda: Case(
        cluster((replica("web-x-1"), "n1"), (replica("web-x-2"), "n2")),
        {"scale": {"kind": "Deployment", "name": "web", "replicas": 1}},
        {"web-x-2": "gone n2"},
    ),
    "a deployment of the cluster goes": lambda: Case(
        cluster((replica("web-x-1"), "n1")), {"delete": {"kind": "Deployment", "name": "web"}}, {"web-x-1": "gone n1"}
    ),
    "nobody knows what its pods are like": lambda: Case(
        cluster(), {"scale": {"kind": "Job", "name": "a", "replicas": 1}}, refused="there is no Job default/a"
    ),
    # --- devices ---
    "a device breaks, and its user moves": lambda: Case(
        cluster((user("a"), "n1")), {"taintDevice": {**EVICT, "device": "d0"}}, {"a": "moved n1"}
    ),
    "who tolerates it stays": lambda: Case(
        tolerant(None), {"taintDevice": {**EVICT, "key": "broken"}}
    ),
    # the scheduler takes a toleration for one, however short it is
    "who tolerates it for a while comes back": lambda: Case(tolerant(60), {"taintDevice": {**EVICT, "key": "broken"}}),
    "who has the device stays if nobody evicts": lambda: Case(
        cluster((user("a"), "n1"), others=[*asking("z", priority=-1)]), {"taintDevice": {**EVICT, "effect": "NoSchedule"}}
    ),
    "a rule as it would be applied": lambda: Case(
        cluster((user("a"), "n1")), {"taintDevice": {"rule": rule("r", pool="n1")}}, {"a": "moved n1 n2"}
    ),
    "nothing to taint": lambda: Case(
        cluster(), {"taintDevice": {**EVICT, "device": "d9"}}, refused="no device is selected"
    ),
    "a pool grows": lambda: Case(
        [*machines("n1", devices=["d0"]), *asking("a"), *asking("b"), *asking("c")],
        {"resizePool": {"driver": DRIVER, "pool": "n1", "devices": 2}},
        {"b": "placed n1"},
        devices=(2, 2),
    ),
    "a pool grows beyond a slice": lambda: Case(
        machines("n1", devices=["d0"]), {"resizePool": {"driver": DRIVER, "pool": "n1", "devices": 300}}, devices=(0, 300)
    ),
    "a pool shrinks, free devices first": lambda: Case(
        cluster((user("a"), "n1")), {"resizePool": {"driver": DRIVER, "pool": "n1", "devices": 1}}, devices=(1, 3)
    ),
    "a pool in use stays as it is": lambda: Case(
        cluster((user("a"), "n1"), (user("b"), "n1")),
        {"resizePool": {"driver": DRIVER, "pool": "n1", "devices": 1}},
        refused="of 1 device that must be removed, only 0 are free; force evicts the others' users",
        by=("default/b",),
    ),
    "a pool shrinks by force": lambda: Case(
        cluster((user("a"), "n1"), (user("b"), "n1")),
        {"resizePool": {"driver": DRIVER, "pool": "n1", "devices": 0, "force": True}},
        {"a": "moved n1 n2", "b": "moved n1 n2"},
        devices=(2, 2),
    ),
    "no such pool": lambda: Case(
        cluster(), {"resizePool": {"driver": DRIVER, "pool": "n9", "devices": 0}}, refused="has no pool n9; it has n1, n2"
    ),
    "no such driver": lambda: Case(
        cluster(), {"resizePool": {"driver": "x", "pool": "n9", "devices": 0}}, refused="it publishes nothing"
    ),
    "a pool that is cut from counters": lambda: Case(
        [node("n1"), slice_("n1", build.device("d0", draws=[build.draw("all", memory="1")]), counters=[build.counter_set("all", memory="2")])],
        {"resizePool": {"driver": DRIVER, "pool": "n1", "devices": 2}},
        refused="draw on shared counters",
    ),
    "like a device that is not there": lambda: Case(
        cluster(), {"resizePool": {"driver": DRIVER, "pool": "n1", "devices": 3, "like": "d7"}}, refused="there is no device d7"
    ),
}  # fmt: skip


def replica(name: str) -> Pod:
    """A pod of Deployment web, as the cluster's controllers make it."""
    made = of("ReplicaSet", pod(name, labels={"pod-template-hash": "x"}))
    [owner] = made.metadata.owner_references
    return replace(made, metadata=replace(made.metadata, owner_references=(replace(owner, name="web-x"),)))


def tolerant(seconds: int | None) -> Simulation:
    """Pod a has a device of n1 whose claim tolerates the taint ``broken``."""
    bears = DeviceToleration(key="broken", operator="Exists", effect="NoExecute", toleration_seconds=seconds)
    there = simulation(*machines("n1", "n2"), claim("a", build.request(tolerates=[bears])))
    bind(there, user("a"), "n1")
    return there


def rule(name: str, **selector: str) -> Json:
    taint = {"key": "broken", "effect": "NoExecute"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": taint},
    }


@pytest.mark.parametrize("made", CASES.values(), ids=CASES)
def test_what_comes_of_a_step(made: Any) -> None:
    case: Case = made()
    [found] = tried(case.there, case.step)
    assert case.refused in found.refused
    assert bool(found.refused) is bool(case.refused)
    assert tuple(found.holders) == case.by
    assert told(found) == case.told
    since = {each.pod.removeprefix("default/"): each.why for each in found.newly}
    assert since.keys() == case.waits.keys(), since
    for who, words in case.waits.items():
        assert words in since[who]
    if case.devices is not None:
        assert (found.news.census.devices.allocated, found.news.census.devices.total) == case.devices
    assert found.ok is not bool(case.refused)


def test_who_waits_is_placed_before_the_first_step() -> None:
    there = simulation(*machines("n1", devices=["d0"]), *asking("a"), *asking("b"))
    start = next(rehearse(there, scenario({"drainNode": "n1"})))
    assert told(start) == {"a": "placed n1"}
    assert [(each.pod, each.since) for each in start.waits] == [("default/b", 0)]
    assert (start.news.census.nodes, start.news.census.running, start.news.census.pending) == (1, 1, 1)


def test_a_machine_of_the_catalogue_the_cheapest_that_is_meant() -> None:
    found = evaluated(
        type_("t", {"a": "2", "b": "1", "b+": "0.5"}, dynamicResources=gpus(2)),
        node_pool("p"),
        node_pool("q"),
    )
    steps: list[Json] = [
        {"addNodes": {"type": "t", "count": 2}},
        {"addNodes": {"type": "t", "capacityType": "on-demand", "pool": "q"}},
        {"addNodes": {"type": "t", "zone": "a", "name": "x"}},
        {"addNodes": {"type": "t", "zone": "c"}},
        {"addNodes": {"type": "u"}},
    ]
    outcomes = tried([], *steps, machines=found.machines)
    assert [each.notes for each in outcomes] == [
        ("added new-1, new-2 from p (b/spot), 0.5 per hour each",),
        ("added new-3 from q (b/on-demand), 1 per hour",),
        ("added x-1 from p (a/on-demand), 2 per hour",),
        (),
        (),
    ]
    assert "is not offered there; offered are p/t/a/on-demand" in outcomes[3].refused
    assert outcomes[4].refused == "the catalogue has no instance type u; it has t"
    assert outcomes[2].news.census.devices.total == 8
    assert [*outcomes[2].news.drivers] == [GPU]


def test_what_is_out_of_stock_cannot_be_added() -> None:
    gone = [{"zone": "a", "capacityType": "on-demand", "price": "1", "available": False}]
    found = evaluated(type_("t", offerings=gone))
    [outcome] = tried([], {"addNodes": {"type": "t"}}, machines=found.machines)
    assert "out of stock" in outcome.refused


def test_devices_in_use_by_pool_driver_and_class() -> None:
    first, second = tried(machines("n1", "n2"), submit(*asking("a")), {"drainNode": "n1"})
    [(id, use)] = first.news.pools.items()
    assert (id.pool, use.before and use.before.allocated, use.after and use.after.allocated) == ("n1", 0, 1)
    assert first.news.classes == {build.CLASS: (0, 1)}
    assert {id.pool: use.after and use.after.allocated for id, use in second.news.pools.items()} == {
        "n1": None,
        "n2": 1,
    }
    assert second.news.classes == {}


def test_a_step_that_is_refused_changes_nothing_and_the_next_is_tried() -> None:
    steps: list[Json] = [{"drainNode": "n9"}, submit(*asking("a")), {"removeNode": "n1"}]
    outcomes = tried(cluster(), *steps)
    assert [each.ok for each in outcomes] == [False, True, False]
    assert told(outcomes[2]) == {}
    assert [each.ok for each in tried(cluster(), *steps, stop=True)] == [False]


def test_a_workload_that_was_refused_is_not_there() -> None:
    there = cluster((pod("a"), "n1"))
    first, second = tried(
        there, submit(TWO, pod("a")), {"scale": {"kind": "Deployment", "name": "web", "replicas": 3}}
    )
    assert first.refused
    assert "there is no Deployment default/web" in second.refused


def test_a_submitted_workload_is_scaled_to_nothing_and_back() -> None:
    def to(count: int) -> Json:
        return {"scale": {"kind": "Deployment", "name": "web", "replicas": count}}

    outcomes = tried(cluster(), submit(TWO), to(0), to(1), submit(TWO), {"delete": {"kind": "Deployment", "name": "web"}}, submit(TWO))  # fmt: skip
    assert [each.news.census.running for each in outcomes] == [2, 0, 1, 1, 0, 2]
    assert outcomes[3].refused == "Deployment default/web already exists: scale or delete it"


def test_pods_of_a_workload_get_claims_of_their_own_which_go_with_them() -> None:
    made = workload("Deployment", "d", pod("p", templates={"gpu": "t"}), replicas=3)
    there = simulation(*machines("n1", "n2"))
    rehearsal = ScenarioRun(there)
    rehearsal.begin()
    steps = scenario(
        submit(made, template()), {"scale": {"kind": "Deployment", "name": "d", "replicas": 1}}
    ).steps
    rehearsal.attempt(steps[0])
    assert sorted(there.objects(ResourceClaim)) == [f"default/d-{n}-gpu" for n in range(3)]
    rehearsal.attempt(steps[1])
    assert sorted(there.objects(ResourceClaim)) == ["default/d-0-gpu"]
    assert devices_of(there, "default/d-0-gpu") == ["n1/d0"]


def test_a_template_that_comes_later_serves_who_waits_for_it() -> None:
    first, second = tried(cluster(), submit(pod("a", templates={"gpu": "t"})), submit(template()))
    assert [each.pod for each in first.newly] == ["default/a"]
    assert told(second) == {"a": "placed n1"}


@pytest.mark.parametrize(
    ("seconds", "words"), [(None, "2 devices tainted"), (60, "2 devices tainted, 1 pod evicted")]
)
def test_how_many_a_taint_evicts_is_told(seconds: int | None, words: str) -> None:
    [outcome] = tried(tolerant(seconds), {"taintDevice": {**EVICT, "key": "broken"}})
    assert outcome.notes == (words,)


def test_a_taint_is_taken_away_with_its_rule() -> None:
    outcomes = tried(
        [*machines("n1", devices=["d0"]), *asking("a")],
        {"taintDevice": EVICT},
        {"delete": {"kind": "DeviceTaintRule", "name": "what-if-1"}},
    )
    assert [told(each) for each in outcomes] == [{"a": "lost n1"}, {"a": "placed n1"}]


def test_who_came_first_is_served_first() -> None:
    early, late = asking("z"), asking("a")
    outcomes = tried(
        [*machines("n1", devices=["d0"]), *asking("m")],
        submit(*early),
        submit(*late),
        {"delete": {"kind": "Pod", "name": "m"}},
    )
    assert told(outcomes[2]) == {"m": "gone n1", "z": "placed n1"}


def test_a_pod_that_nobody_makes_anew_is_marked() -> None:
    there = simulation(*machines("n1", devices=["d0"]), claim("a"), claim("b"))
    bind(there, user("a"), "n1")
    bind(there, of("ReplicaSet", pod("b")), "n1")
    [outcome] = tried(there, {"removeNode": {"name": "n1", "force": True}})
    assert {each.pod: each.orphan for each in outcome.news.changes} == {"default/a": True, "default/b": False}


def test_a_pod_near_one_that_is_placed_later_gets_another_chance() -> None:
    friend = pod("a", affinity=pod_affinity(near=[near({"app": "b"}, HOSTNAME)]), priority=5)
    [outcome] = tried([node("n1")], submit(friend, pod("b", labels={"app": "b"})))
    assert told(outcome) == {"a": "placed n1", "b": "placed n1"}


EXPECTATIONS: dict[str, tuple[Json, str]] = {
    "who runs": ({"running": ["a", "default/a", "*"]}, "pod default/b should run, but waits: 0/1 nodes"),
    "who waits": ({"pending": ["b", "a"]}, "pod default/a should wait, but runs on node n1"),
    "who is not there": ({"running": ["c"]}, "pod default/c should run, but there is none"),
    "nobody like that": ({"pending": ["other/*"]}, "pod other/* should wait, but there is none"),
    "how many": ({"counts": {"running": 1, "pending": 0}}, "0 pods should wait, but 1 do"),
}


@pytest.mark.parametrize(("expect", "words"), EXPECTATIONS.values(), ids=EXPECTATIONS)
def test_what_is_expected_and_does_not_hold(expect: Json, words: str) -> None:
    there = [*machines("n1", devices=["d0"]), *asking("a"), *asking("b")]
    [outcome] = tried(there, {"expect": expect})
    assert not outcome.ok
    assert len(outcome.unmet) == 1
    assert words in outcome.unmet[0]


def test_what_is_expected_and_holds() -> None:
    there = [*machines("n1", devices=["d0"]), *asking("a"), *asking("b")]
    counts = {"running": 1, "pending": 1}
    expect = {"running": ["a"], "pending": ["default/b"], "counts": counts}
    steps: list[Json] = [{"expect": expect}, {"removeNode": "n1", "expect": {**expect, "refused": True}}]
    assert all(each.ok for each in tried(there, *steps))
    [outcome] = tried(there, {"addNodes": {"like": "n1"}, "expect": {"refused": True}})
    assert outcome.unmet == ("the step should have been refused, but was done",)


# --- in general ---

NAMES = ("a", "b", "c")
NODES = ("n1", "n2", "new-1")


def _submit(name: str) -> Json:
    return submit(*asking(name))


STEPS = st.one_of(
    st.sampled_from(NAMES).map(_submit),
    st.sampled_from(NAMES).map(lambda name: {"delete": {"kind": "Pod", "name": name}}),
    st.sampled_from(NAMES).map(lambda name: {"delete": {"kind": "ResourceClaim", "name": name}}),
    st.sampled_from(NODES).map(lambda name: {"drainNode": name}),
    st.tuples(st.sampled_from(NODES), st.booleans()).map(lambda each: {"removeNode": {"name": each[0], "force": each[1]}}),
    st.sampled_from(NODES).map(lambda name: {"addNodes": {"like": name}}),
    st.tuples(st.sampled_from(NODES), st.sampled_from(["NoSchedule", "NoExecute"])).map(
        lambda each: {"taintDevice": {"driver": DRIVER, "pool": each[0], "device": "d0", "effect": each[1]}}
    ),
    st.tuples(st.sampled_from(NODES), st.integers(0, 3), st.booleans()).map(
        lambda each: {"resizePool": {"driver": DRIVER, "pool": each[0], "devices": each[1], "force": each[2]}}
    ),
    st.integers(0, 3).map(lambda count: {"scale": {"kind": "Deployment", "name": "web", "replicas": count}}),
    st.just(submit(workload("Deployment", "web", pod("p", templates={"gpu": "t"}), replicas=2))),
)  # fmt: skip


def _state(there: Simulation) -> tuple[Any, ...]:
    """What a scheduler can tell: nodes, devices, taints, and who holds what where."""
    return (
        dict(there.objects(Node)),
        dict(there.objects(ResourceSlice)),
        dict(there.objects(DeviceTaintRule)),
        {key: each.spec.node_name for key, each in there.objects(Pod).items()},
        {key: each.status for key, each in there.objects(ResourceClaim).items()},
    )


@given(st.lists(STEPS, max_size=6))
def test_step_by_step_is_as_starting_anew_after_each_step(steps: list[Json]) -> None:
    """One rehearsal that goes on is compared with a new simulation of the objects that the step before has left. Left out
    is what one who starts anew cannot know: which of several that wait came first, and what the pods of a workload were like."""
    there = simulation(*machines("n1", "n2", devices=["d0"]))
    there.put(next(iter(scenario(submit(template())).steps[0].objects)))
    with there.trial():
        rehearsal = ScenarioRun(there)
        rehearsal.begin()
        for step in scenario(*steps, {"expect": {}}).steps[:-1]:
            anew = start_simulation(list(there.all()))
            other = ScenarioRun(anew)
            other.begin()
            several = sum(not each.spec.node_name for each in there.objects(Pod).values()) > 1
            found = rehearsal.attempt(step)
            if (
                several
                or len(found.waits) > 1
                or (step.verb in ("scale", "submit", "delete") and "web" in str(step))
            ):
                continue
            assert _facts(other.attempt(step)) == _facts(found)
            assert _state(anew) == _state(there)
            there.validate()


def _facts(outcome: Outcome) -> tuple[Any, ...]:
    waits = {each.pod: each.why for each in outcome.waits}
    return (
        outcome.refused,
        outcome.holders,
        outcome.news.changes,
        waits,
        outcome.news.census,
        outcome.news.pools,
        outcome.news.classes,
    )


@given(st.lists(STEPS, min_size=1, max_size=6))
def test_in_the_end_all_is_as_it_was(steps: list[Json]) -> None:
    there = simulation(*machines("n1", "n2"), *asking("waits"))
    before = picture(there)
    for outcome in rehearse(there, scenario(*steps)):
        assert not outcome.refused or not outcome.news.changes
        users: dict[str, set[str]] = {}
        for key, each in there.objects(ResourceClaim).items():
            for device in devices_of(there, key):
                users.setdefault(device, set()).add(each.metadata.name)
        assert all(len(each) == 1 for each in users.values()), "a device is promised twice"
    assert picture(there) == before
    there.validate()
