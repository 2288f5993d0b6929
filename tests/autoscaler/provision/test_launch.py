"""What is asked for when pods wait, given what is on its way; and what a machine on its way is to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from allotment.api.autoscaling import NODE_POOL, NodeClaim
from allotment.api.core import Node, NodeSpec, Pod
from allotment.api.meta import ApiStruct, Condition
from allotment.api.quantity import Quantity
from allotment.api.resource import ResourceSlice
from allotment.autoscaler.catalogue.node_claims import drivers_of, foreseen
from allotment.autoscaler.provision.launch import LaunchDecision, claim_name, decide
from allotment.autoscaler.simulate.simulation import Simulation
from tests.allocator.build import request
from tests.autoscaler.build import GPU, evaluated, gpus, pool, type_
from tests.autoscaler.builders import asking, simulation
from tests.autoscaler.simulate.test_pending_pods import refused, template
from tests.builders.typed import pod, taint
from tests.scheduler.gang_builders import group

CHEAP, DEAR = (
    type_("cheap", {"a": "2", "b": "3"}, dynamicResources=gpus(2)),
    type_("dear", {"a": "5"}, dynamicResources=gpus(4)),
)
SHOP = evaluated(CHEAP, DEAR, pool("p")).machines


def wanting(*names: str, **more: Any) -> list[ApiStruct]:
    """Pods that want a GPU each, and their claims."""
    found = [asking(name, request("gpu", f'device.driver == "{GPU}"'), **more) for name in names]
    return [each for who, wish in found for each in (refused(who), wish)]


def pods_of(there: Simulation) -> list[Pod]:
    return sorted(there.objects(Pod).values(), key=lambda each: each.metadata.name)


def launched(
    there: Simulation, claims: Sequence[NodeClaim] = (), shop: Any = SHOP, **more: Any
) -> LaunchDecision:
    before = list(there.all())
    found = decide(there, shop, claims, [each for each in pods_of(there) if not each.spec.node_name], **more)
    assert list(there.all()) == before, "deciding leaves nothing behind"
    return found


def told(decision: LaunchDecision) -> list[str]:
    return [f"{each.machine.type}/{each.machine.offering.zone}" for each in decision.launches]


def as_condition(claim: NodeClaim, **conditions: str) -> NodeClaim:
    """``Launched="True"``, or with a reason ``Launched="False Why"``."""
    made = tuple(
        Condition(type=type_, status=status, reason=reason or "Because")
        for type_, (status, _, reason) in ((key, value.partition(" ")) for key, value in conditions.items())
    )
    return replace(claim, status=replace(claim.status, conditions=made))


def test_a_claim_says_all_that_was_decided() -> None:
    there = simulation(*wanting("x", "y", cpu=1))
    [each] = launched(there).launches
    assert each.claim.metadata.labels[NODE_POOL] == "p"
    assert each.claim.spec.resources.requests == {"cpu": Quantity.parse(2), "pods": Quantity.parse(2)}
    assert drivers_of(each.claim) == [GPU]
    assert [who.metadata.name for who in each.pods] == ["x", "y"]


def test_who_uses_no_devices_waits_for_no_driver() -> None:
    [each] = launched(simulation(refused(pod("x", cpu=1)))).launches
    assert drivers_of(each.claim) == []


def test_names_follow_from_machine_and_pods() -> None:
    one, two = pod("one"), pod("two")
    names = {claim_name(machine, pods) for machine in SHOP for pods in ([one], [two], [one, two])}
    assert len(names) == 3 * len(SHOP)
    assert claim_name(SHOP[0], [one, two]) == claim_name(SHOP[0], [two, one])
    first = claim_name(SHOP[0], [one])
    assert claim_name(SHOP[0], [one], {first}) not in {*names, first}
    long = evaluated(CHEAP, pool("a" * 39 + ".b")).machines[0]
    assert len(claim_name(long, [one])) <= 63
    assert claim_name(long, [one]).startswith("a" * 39 + "-")


ON_THE_WAY = {
    "asked for": {},
    "launched": {"Launched": "True"},
    "registered": {"Launched": "True", "Registered": "True"},
}


@pytest.mark.parametrize("name", ON_THE_WAY)
def test_what_is_on_its_way_is_counted_on(name: str) -> None:
    there = simulation(*wanting("x", "y"))
    [first] = launched(there).launches
    coming = as_condition(first.claim, **ON_THE_WAY[name])
    found = launched(there, [coming])
    assert found.launches == ()
    assert {place.node for place in found.plan.existing} == {coming.metadata.name}
    more = simulation(*wanting("x", "y", "z"))
    assert told(launched(more, [coming])) == ["cheap/a"]  # for one of the three


def arriving(*names: str) -> tuple[Simulation, NodeClaim, Node, ResourceSlice]:
    """Pods that wait, the claim of the machine for them, and the node and the slice that are to come."""
    there = simulation(*wanting(*names))
    [first] = launched(there).launches
    coming = as_condition(first.claim, Launched="True", Registered="True")
    host, [published] = foreseen(coming, first.machine)
    return there, coming, host, published


def test_a_node_that_is_there_and_not_ready_is_counted_on_too() -> None:
    there, coming, host, _ = arriving("x")
    there.put(replace(host, spec=NodeSpec(taints=(taint("node.kubernetes.io/not-ready"),))))
    assert launched(there, [coming]).launches == ()


def test_what_was_published_is_taken_at_its_word() -> None:
    """Of the two devices that were foreseen only one came: the other pod needs another machine."""
    there, coming, host, published = arriving("x", "y")
    there.put_all(
        (host, replace(published, spec=replace(published.spec, devices=published.spec.devices[:1])))
    )
    assert told(launched(there, [coming])) == ["cheap/a"]


def test_a_part_of_a_pool_is_not_taken_for_the_whole() -> None:
    there, coming, host, published = arriving("x", "y")
    pool = replace(published.spec.pool, resource_slice_count=2)
    half = replace(published.spec, devices=published.spec.devices[:1], pool=pool)
    there.put_all((host, replace(published, spec=half)))
    assert launched(there, [coming]).launches == ()


def test_a_node_that_just_got_ready_may_not_have_been_heard_of() -> None:
    there, coming, *_ = arriving("x")
    ready = as_condition(coming, Launched="True", Initialized="True")
    assert launched(there, [ready], is_new=lambda claim: True).launches == ()
    assert told(launched(there, [ready])) == ["cheap/a"]  # it was, and its node is not there any more


def test_a_node_that_is_going_is_not_counted_on() -> None:
    there, coming, host, published = arriving("x")
    there.put_all((host, published))
    going = replace(coming, metadata=replace(coming.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    assert told(launched(there, [going])) == ["cheap/a"]
    assert launched(there, [as_condition(coming, Initialized="True")]).launches == ()


def test_what_could_not_be_had_is_left_out_until_its_claim_is_gone() -> None:
    there, claims, found = simulation(*wanting("x")), list[NodeClaim](), []
    while launches := launched(there, claims).launches:
        [each] = launches
        found.append(f"{each.machine.type}/{each.machine.offering.zone}")
        claims.append(as_condition(each.claim, Launched="False InsufficientCapacity"))
    assert found == ["cheap/a", "cheap/b", "dear/a"]
    assert [each.why for each in launched(there, claims).plan.pending] == ["no machine is available"]


def test_limits_count_what_is_on_its_way() -> None:
    shop = evaluated(CHEAP, pool("p", limits={"cpu": "8"})).machines
    there = simulation(*wanting("x"))
    [first] = launched(there, shop=shop).launches
    more = simulation(*wanting("x", "y", "z"))
    found = launched(more, [first.claim], shop)
    assert (found.launches, len(found.plan.pending)) == ((), 1)


def test_nothing_is_launched_without_a_pool_or_for_one_that_is_going() -> None:
    going = pool("p")
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    for shop in (evaluated(CHEAP), evaluated(CHEAP, going)):
        assert launched(simulation(*wanting("x")), shop=shop.machines).launches == ()


def test_claims_are_planned_for_before_they_are_made() -> None:
    there = simulation(template("t"), refused(pod("x", templates={"gpu": "t"})))
    found = launched(there)
    assert [len(place.devices) for new in found.plan.nodes for place in new.places] == [1]


def test_pods_of_other_schedulers_are_planned_for_as_ours_would_place_them() -> None:
    there = simulation(refused(pod("x", cpu=1, scheduler="somebody-else")))
    assert told(launched(there)) == ["cheap/a"]


# --- words ---


def test_a_pod_is_told_of_its_own_machine_and_a_gang_of_all_of_them() -> None:
    lone = launched(simulation(*wanting("x")))
    assert [words for _, words in lone.told()] == ["1 machine cheap in a is being launched, at 2 an hour"]
    there = simulation(
        group("gang", 5), *wanting("a", "b", "c", "d", "e", group="gang", cpu=4), *wanting("x", cpu=8)
    )
    found = launched(there, shop=evaluated(CHEAP, pool("p")).machines)
    told = {who.metadata.name: words for who, words in found.told()}
    assert told.pop("x") == "1 machine cheap in a is being launched, at 2 an hour"
    assert told == dict.fromkeys("abcde", "3 machines cheap in a are being launched, at 6 an hour")
