"""Faults of other autoscalers that this one must not have."""

from __future__ import annotations

import pytest

from allotment.api.core import Pod
from allotment.api.resource import ResourceClaim
from allotment.autoscaler.errors import NodeInUse
from allotment.autoscaler.simulate.simulation import Simulation
from allotment.scheduler.diagnosis import NoNode
from tests.allocator import build
from tests.autoscaler.builders import (
    GPU,
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
    users_of,
)
from tests.builders.typed import claim, node, pod, slice_
from tests.scheduler.devices.test_node_allocatable import bearing, mapping
from tests.scheduler.plugins.device_world import allocated, cards, user
from tests.usage.build import rule


def refused(there: Simulation, who: Pod, on: str = "n1") -> str:
    found = there.simulate_bind_pod(who, on)
    assert isinstance(found, NoNode)
    return found.words


def test_no_partial_state_after_an_error_half_way_through_a_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two claims are written one after the other, then the pod: whatever breaks, all of it is taken back."""
    who = pod("p", claims=["a", "b"])
    for fails_at in range(3):
        there = simulation(*machines("n1"), claim("a"), claim("b"), who)
        before, put = picture(there), there.put
        count = iter(range(9))

        def breaks(obj: object, put=put, count=count, fails_at=fails_at) -> None:  # type: ignore[no-untyped-def]  # bound early
            if next(count) == fails_at:
                raise RuntimeError("broken")
            put(obj)

        monkeypatch.setattr(there, "put", breaks)
        with pytest.raises(RuntimeError, match="broken"):
            there.simulate_bind_pod(who, "n1")
        monkeypatch.setattr(there, "put", put)
        there.validate()
        assert picture(there) == before
        assert there.depth == 0
        bind(there, who, "n1")


def test_no_partial_state_after_a_pod_that_gets_only_some_of_its_claims() -> None:
    there = simulation(*machines("n1", devices=["d0"]), claim("a"), claim("b"))
    refused(there, pod("p", claims=["a", "b"]))
    there.validate()
    assert devices_of(there, "default/a") == []
    bind(there, pod("q", claims=["b"]), "n1")


def test_a_shared_claim_does_not_keep_its_allocation_on_a_node_that_was_removed() -> None:
    users = [pod("p", claims=["c"]), pod("q", claims=["c"])]
    there = simulation(*machines("n1"), claim("c"))
    for each in users:
        bind(there, each, "n1")
    there.simulate_add_node(node("n2"), [slice_("n2", "d0")])
    for each in users:
        with pytest.raises(NodeInUse):
            there.simulate_remove_node("n1")
        there.simulate_evict_pod(each, "n1")
    there.simulate_remove_node("n1")
    assert devices_of(there, "default/c") == []
    for each in users:
        assert there.fits(each) == "n2"
        bind(there, each, "n2")
    assert devices_of(there, "default/c") == ["n2/d0"]


def test_a_claim_that_was_shared_by_pods_which_ended_does_not_stay_behind_either() -> None:
    held = allocated(claim("c"), "d0", on="n1", users=[user(pod("p")), user(pod("q"))])
    there = simulation(*machines("n1", "n2"), held, pod("p", node="n1", claims=["c"], phase="Succeeded"))
    assert there.simulate_remove_node("n1").released == ("default/c",)
    assert users_of(there, "default/c") == []
    assert there.fits(pod("r", claims=["c"])) == "n2"
    there.validate()


def test_pods_with_extended_resources_do_not_all_see_the_same_free_device() -> None:
    there = simulation(gpu_class(), *machines("n1", devices=["d0", "d1"]))
    for name in ("p", "q"):
        bind(there, pod(name, more={GPU: 1}), "n1")
    refused(there, pod("r", more={GPU: 1}))
    assert sorted(key for each in there.objects(ResourceClaim) for key in devices_of(there, each)) == [
        "n1/d0",
        "n1/d1",
    ]
    there.simulate_evict_pod(pod("p"), "n1")
    bind(there, pod("r", more={GPU: 1}), "n1")


def test_a_taint_rule_counts_for_nodes_that_are_there_and_for_those_that_come() -> None:
    who, wish = asking("p")
    there = simulation(*machines("n1", devices=["d0"]), rule("r", driver=build.DRIVER), wish)
    refused(there, who)
    there.simulate_add_node(node("n2"), [slice_("n2", "d0")])
    refused(there, who, "n2")
    with there.trial():
        there.drop(rule("r", driver=build.DRIVER))
        assert there.fits(who) == "n1"
        there.validate()
    refused(there, who)
    tolerant = build.request(tolerates=[build.toleration("broken", "Exists")])
    there.put(claim("p", tolerant))
    assert there.fits(who) == "n1"
    there.validate()


def test_a_shared_device_is_used_only_as_far_as_its_shares_go() -> None:
    nic = build.device("nic", shared=True, capacity={"bandwidth": "10"})
    wish = build.request(capacity={"bandwidth": "4"})
    there = simulation(*machines("n1", devices=[nic]), *[claim(name, wish) for name in "abc"])
    for name in "ab":
        bind(there, pod(name, claims=[name]), "n1")
    refused(there, pod("c", claims=["c"]))
    there.put(claim("c", build.request(capacity={"bandwidth": "2"})))
    bind(there, pod("c", claims=["c"]), "n1")
    there.simulate_evict_pod(pod("a"), "n1")
    assert there.cluster.fleet.ledger.consumed(build.device_id("nic", "n1")) == {"bandwidth": 6 * 10**9}
    there.validate()


def test_a_card_that_is_cut_is_used_only_as_far_as_its_counters_go() -> None:
    parts = [build.device(f"half{number}", draws=[build.draw("card", slots="1")]) for number in range(3)]
    there = simulation(*cards("n1", *parts, slots="2"), *[claim(name) for name in "abc"])
    for name in "ab":
        bind(there, pod(name, claims=[name]), "n1")
    refused(there, pod("c", claims=["c"]))
    there.simulate_evict_pod(pod("a"), "n1")
    bind(there, pod("c", claims=["c"]), "n1")


def test_a_tree_that_is_split_one_way_is_not_split_another() -> None:
    there = simulation(
        *trees("n1", wish='quantities["memory"] <= "8Gi"'), *[semantic_claim(n) for n in "abc"]
    )
    for name in "ab":
        bind(there, semantic_pod(name), "n1")
    refused(there, semantic_pod("c"))
    there.simulate_evict_pod(semantic_pod("a"), "n1")
    bind(there, semantic_pod("c"), "n1")


@pytest.mark.parametrize("admin", [False, True])
def test_a_node_is_not_removed_under_its_users(admin: bool) -> None:
    who, wish = asking("p", build.request(admin=admin))
    there = simulation(*machines("n1"), wish)
    bind(there, who, "n1")
    before = picture(there)
    with pytest.raises(NodeInUse, match="pod default/p"):
        there.simulate_remove_node("n1")
    assert picture(there) == before
    there.validate()


def test_a_shared_claims_node_selector_counts_for_the_second_pod() -> None:
    there = simulation(*machines("n1", "n2"), claim("c"))
    bind(there, pod("p", claims=["c"]), "n1")
    assert "ruled out by the pod's claims" in refused(there, pod("q", claims=["c"]), "n2")


def test_devices_that_cost_the_node_something_cost_it_here_too() -> None:
    """And no longer once the pod is gone, or the binding is taken back."""
    cores = [bearing(f"d{number}", cpu=mapping(deviceMultiplier="2")) for number in range(2)]
    there = simulation(*machines("n1", cpu=4, devices=cores), claim("a"), claim("b"))
    first, second = pod("a", cpu=1, claims=["a"]), pod("b", cpu=1, claims=["b"])
    with there.trial():
        bind(there, first, "n1")
        assert "too little cpu for the pod and what its devices take" in refused(there, second)
        with there.trial():
            there.simulate_evict_pod(first, "n1")
            bind(there, second, "n1")
        there.validate()
        refused(there, second)
    there.validate()
    bind(there, second, "n1")
