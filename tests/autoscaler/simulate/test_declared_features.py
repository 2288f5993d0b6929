"""Kubelet features that pods need, on machines that are not there yet: of all who add machines, by one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from allotment.allocator.suits import NODE_OPERATIONS
from allotment.api.autoscaling import NODE_GROUP, NODE_POOL
from allotment.api.codec import decode, to_builtins
from allotment.api.core import Node, NodeCondition, Pod
from allotment.api.meta import ApiStruct
from allotment.autoscaler.catalogue.node_claims import claim_of
from allotment.autoscaler.consolidate.consolidation import consolidate
from allotment.autoscaler.provision.fleet_totals import totals_of
from allotment.autoscaler.provision.launch import decide
from allotment.autoscaler.provision.lots import lots_of
from allotment.autoscaler.provision.machine_trials import claims_of
from allotment.autoscaler.simulate.declared_features import declaring
from allotment.autoscaler.simulate.expected_machines import expect
from allotment.autoscaler.simulate.pending_pods import pending
from allotment.insight.pending_work import waiting
from allotment.insight.planning import planned
from allotment.scheduler.plugins.node_declared_features import HOST_NETWORK_USERS as FEATURE
from tests.allocator import build
from tests.autoscaler.build import (
    GPU,
    catalogue,
    device,
    devices,
    evaluated,
    group,
    machine,
    pool,
    template,
    type_,
)
from tests.autoscaler.builders import simulation
from tests.autoscaler.provision.test_provisioner import plan_for
from tests.autoscaler.scenarios import submit, tried
from tests.autoscaler.simulate.test_pending_pods import refused
from tests.builders.typed import claim, node, pod

OFFERS = (type_("t"), pool("p"))
LACKS = f"does not declare the feature {FEATURE}"


def wants(name: str = "p", **more: object) -> Pod:
    document = to_builtins(pod(name, cpu=1, **more))  # type: ignore[arg-type]  # as ``pod`` has them
    document["spec"] |= {"hostNetwork": True, "hostUsers": False}
    return decode(Pod, document)


def of_pool(name: str, *features: str, label: str = NODE_POOL, owner: str = "p", ready: str = "") -> Node:
    """A node without room."""
    made = node(name, cpu=0, labels={label: owner}, features=features)
    conditions = (NodeCondition(type="Ready", status=ready),) if ready else ()
    return replace(made, status=replace(made.status, conditions=conditions))


CASES: dict[str, tuple[Sequence[ApiStruct], bool]] = {
    "the pool has no nodes": ([], False),
    "its node declares the feature": ([of_pool("a", FEATURE)], True),
    "its node declares another one": ([of_pool("a", "Other")], False),
    "all of its nodes do, among others": ([of_pool("a", FEATURE), of_pool("b", FEATURE, "Other")], True),
    # Such as a machine that came without it: no second one is bought.
    "one of its nodes does not": ([of_pool("a", FEATURE), of_pool("b")], False),
    "one that is not ready has not said yet": ([of_pool("a", FEATURE), of_pool("b", ready="False")], True),
    "only nodes of another pool do": ([of_pool("a", FEATURE, owner="other")], False),
    "only nodes of a group of that name do": ([of_pool("a", FEATURE, label=NODE_GROUP)], False),
}


def by_plan(there: Sequence[ApiStruct]) -> str:
    plan = planned(waiting([wants()], there, tainted=False), catalogue(*OFFERS))
    return next((each.why for each in plan.pending), "")


def by_autoscaler(there: Sequence[ApiStruct]) -> str:
    cluster = simulation(*there, refused(wants()))
    decision = decide(cluster, evaluated(*OFFERS).machines, (), pending(cluster))
    assert bool(decision.launches) is not bool(decision.plan.pending)
    return next((each.why for each in decision.plan.pending), "")


def by_machine_on_its_way(there: Sequence[ApiStruct]) -> str:
    offers = evaluated(*OFFERS).machines
    claim = claim_of(offers[0], {}, name="coming", pods=1)
    cluster = simulation(*there)
    with cluster.trial():
        expect(cluster, [claim], offers)
        found = cluster.fits(wants())
    return "" if found == "coming" else str(found)


def by_what_if(there: Sequence[ApiStruct]) -> str:
    step = {"addNodes": {"type": "t"}}
    _, outcome = tried(there, submit(wants()), step, machines=evaluated(*OFFERS).machines)
    return next((each.why for each in outcome.waits), "")


ANSWERS: dict[str, Callable[[Sequence[ApiStruct]], str]] = {
    "plan": by_plan,
    "autoscaler": by_autoscaler,
    "a machine on its way": by_machine_on_its_way,
    "what-if": by_what_if,
}


@pytest.mark.parametrize("who", ANSWERS)
@pytest.mark.parametrize("name", CASES)
def test_a_new_machine_declares_what_all_ready_nodes_of_its_pool_do(name: str, who: str) -> None:
    there, expected = CASES[name]
    said = ANSWERS[who](there)
    assert (said == "") is expected
    assert expected or FEATURE in said


def test_the_reason_names_the_feature_for_each_type() -> None:
    found, _ = plan_for([wants()], *OFFERS)
    [left] = found.pending
    assert dict(left.types) == {"t": LACKS}


def test_of_two_pools_the_one_whose_nodes_declare_it_is_chosen_though_it_costs_more() -> None:
    cluster = simulation(of_pool("a", FEATURE, owner="new"), of_pool("b", owner="old"))
    offers = evaluated(
        type_("cheap", {"a": "1"}), type_("dear", {"a": "5"}), pool("old"), pool("new")
    ).machines
    chosen = [each for each in offers if (each.type, each.source) in (("cheap", "old"), ("dear", "new"))]
    decision = decide(cluster, chosen, (), [wants()])
    assert [each.machine.source for each in decision.launches] == ["new"]


def test_nodes_of_a_group_are_like_each_other_too() -> None:
    offers = evaluated(group("g")).machines
    cluster = simulation(of_pool("a", FEATURE, label=NODE_GROUP, owner="g"))
    [made] = declaring(cluster, offers)
    assert made.features == (FEATURE,)


def test_machines_of_which_nothing_is_known_are_left_as_they_are() -> None:
    kept = machine(*OFFERS)
    assert declaring(simulation(of_pool("a", FEATURE, owner="other")), [kept]) == [kept]
    assert declaring(simulation(of_pool("a")), [kept]) == [kept]


def test_a_node_that_is_replaced_leaves_its_features_to_its_successor() -> None:
    """It is the only one of its pool, so that without it none would be left to tell."""
    large, small = type_("large", {"a": "9"}), type_("small", {"a": "1"})
    offers = evaluated(large, small, pool("p")).machines
    [dear] = [each for each in offers if each.type == "large"]
    old = node("old", cpu=8, labels={**dear.labels, NODE_POOL: "p"}, features=[FEATURE])
    owned = wants("web", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"})
    running = replace(owned, spec=replace(owned.spec, node_name="old"))
    found = consolidate(simulation(old, running), offers, {"old": 0.0}, now=1e6)
    assert [each.machine.type for each in found.machines] == ["small"]


def test_a_device_that_needs_a_feature_counts_for_what_machines_have_together() -> None:
    """One machine has a device for one pod; the other pod has that of the slice for nodes that declare the feature."""
    skipping = build.slice_(build.device("d"), everywhere=True, skips=["NodePrepareResources"])
    own = devices(template("gpus", GPU, device("gpu"), allNodes=True))
    pods = [pod(name, claims=[name]) for name in "xy"]
    cluster = simulation(of_pool("a", NODE_OPERATIONS), build.class_(), skipping, *map(claim, "xy"), *pods)
    machines = evaluated(type_("t", dynamicResources=own), pool("p")).machines
    lots, _ = lots_of([(each,) for each in pods], cluster)
    wanted = [claims_of(lot.sample, cluster) for lot in lots]
    totals = totals_of(cluster, machines, lots, wanted, prices={0: 1}, draws={0: ()}, limits=())
    assert totals.allow([0])
