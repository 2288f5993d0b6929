"""Volumes in what-if and in plans: a new machine must reach them, and what a pod got others cannot have."""

from __future__ import annotations

from allotment.api.scenario import AddNodes, Expect
from allotment.autoscaler.scenario.scenario import ScenarioStep
from allotment.autoscaler.scenario.step_actions import ScenarioSimulation
from allotment.autoscaler.simulate.simulation import BoundPod
from allotment.scheduler.diagnosis import NoNode
from tests.autoscaler.build import type_
from tests.autoscaler.builders import picture, simulation
from tests.autoscaler.provision.test_provisioner import plan_for
from tests.builders.typed import node
from tests.scheduler.storage import DRIVER, MADE, claim, csi_node, driver, kind, pod, taken, volume


def test_a_machine_is_launched_in_the_zone_of_the_volume_although_another_is_cheaper() -> None:
    mine = claim("c", bound="v")
    there = [mine, taken(volume(zone="west"), mine)]
    found, _ = plan_for([pod("p", "c", cpu=1)], type_("t", {"east": "1", "west": "3"}), there=there)
    assert [each.machine.offering.zone for each in found.nodes] == ["west"]


def test_no_machine_is_launched_for_a_volume_that_only_one_node_reaches() -> None:
    mine = claim("c", bound="v")
    full = node("n", cpu=1, zone="a")
    there = [mine, taken(volume(on="n"), mine), full]
    found, _ = plan_for([pod("p", "c", cpu=2)], type_("t"), there=there)
    assert found.nodes == ()
    assert [each.pod for each in found.pending] == ["default/p"]


def test_no_machine_is_launched_for_a_pod_whose_claim_does_not_exist() -> None:
    found, _ = plan_for([pod("p", "c", cpu=1)], type_("t"))
    assert not found.nodes
    assert 'persistentvolumeclaim "c" not found' in found.pending[0].why


def test_pods_with_volumes_that_are_to_be_made_are_planned_for_like_others() -> None:
    there = [kind(MADE, DRIVER, zones=["west"]), *(claim(name, storage_class=MADE) for name in "cde")]
    pods = [pod(f"p-{name}", name, cpu=2) for name in "cde"]
    found, _ = plan_for(pods, type_("t", {"east": "1", "west": "3"}), there=there)
    assert [each.machine.offering.zone for each in found.nodes] == ["west"]
    assert not found.pending


def test_a_machine_will_have_the_storage_driver_that_keeps_pods_from_nodes_without_it() -> None:
    """Its CSINode comes when the driver's DaemonSet runs there; a node that is there and has none is not chosen."""
    there = [driver(insists=True), kind(MADE, DRIVER), claim("c", storage_class=MADE), node("n", cpu=8)]
    found, _ = plan_for([pod("p", "c", cpu=1)], type_("t"), there=there)
    assert [[place.pod for place in each.places] for each in found.nodes] == [["default/p"]]
    assert not found.existing


def test_a_copy_of_a_node_takes_as_many_volumes_as_the_node() -> None:
    there = simulation(
        node("a"),
        csi_node("a", {DRIVER: 1}),
        kind(MADE, DRIVER),
        *(claim(name, storage_class=MADE) for name in "cd"),
    )
    ScenarioSimulation(there).play(ScenarioStep(1, "", "addNodes", AddNodes(like="a", name="b"), Expect()))
    assert isinstance(there.simulate_bind_pod(pod("p", "c"), "b-1"), BoundPod)
    told = there.simulate_bind_pod(pod("q", "d"), "b-1")
    assert isinstance(told, NoNode)
    assert told.words == "node b-1 exceeds max volume count"
    there.validate()


def test_what_a_pod_got_is_bound_to_it_and_a_fork_takes_it_back() -> None:
    cluster = simulation(node("a"), kind(), claim("c"), claim("d"), volume(on="a"))
    before = picture(cluster)
    with cluster.trial():
        assert isinstance(cluster.simulate_bind_pod(pod("p", "c"), "a"), BoundPod)
        told = cluster.simulate_bind_pod(pod("q", "d"), "a")
        assert isinstance(told, NoNode)
        assert "didn't find available persistent volumes to bind" in told.words
        cluster.validate()
    assert picture(cluster) == before
    assert isinstance(cluster.simulate_bind_pod(pod("q", "d"), "a"), BoundPod)
    cluster.validate()


def test_who_may_not_see_volumes_is_told_nothing_about_them() -> None:
    cluster = simulation(node("a"))
    cluster.cluster.storage.known = False
    assert cluster.fits(pod("p", "c")) == "a"
