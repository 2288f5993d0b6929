"""Whether a node can go: who moves where, who goes along, and what holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct, OwnerReference
from allotment.api.resource import ResourceClaim
from allotment.autoscaler.errors import NoSuchNode
from allotment.autoscaler.simulate.drain import CannotDrain, Drained, drain
from allotment.autoscaler.simulate.simulation import Simulation
from tests.allocator import build
from tests.autoscaler.builders import (
    GPU,
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
from tests.builders.typed import claim, node, pod, slice_
from tests.scheduler.plugins.device_world import noted, owned
from tests.scheduler.test_preemption import budget


def of(kind: str, who: Pod) -> Pod:
    """A pod with such an owner."""
    owner = OwnerReference(api_version="apps/v1", kind=kind, name="owner", uid="uid-owner", controller=True)
    return replace(who, metadata=replace(who.metadata, owner_references=(owner,)))


def mirror(who: Pod) -> Pod:
    return replace(who, metadata=replace(who.metadata, annotations={"kubernetes.io/config.mirror": "x"}))


ADMIN = build.request(admin=True)


@dataclass(frozen=True)
class Case:
    objects: Sequence[ApiStruct]  # n1 is drained
    pods: Sequence[Pod]  # bound to n1
    moved: dict[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    held: dict[str, str] = field(default_factory=dict)  # pods that hold it, with a part of each reason
    claims: tuple[str, ...] = ()  # that hold it


CASES = {
    "nobody is on it": Case([node("n1")], []),
    "a pod without devices moves": Case([node("n1"), node("n2")], [pod("p")], {"p": "n2"}),
    "a pod moves and gets devices there": Case(
        [*machines("n1", "n2"), claim("c")], [pod("p", claims=["c"])], {"p": "n2"}
    ),
    "users of one claim move together": Case(
        [*machines("n1", "n2", "n3"), claim("c")],
        [pod("p", claims=["c"]), pod("q", claims=["c"])],
        {"p": "n2", "q": "n2"},
    ),
    "extended resources": Case([gpu_class(), *machines("n1", "n2")], [pod("p", more={GPU: 2})], {"p": "n2"}),
    "semantic claims": Case([*trees("n1", "n2"), semantic_claim("c")], [semantic_pod("c")], {"c": "n2"}),
    "one of several finds no place": Case(
        [*machines("n1"), *machines("n2", devices=["d0"]), claim("c"), claim("d")],
        [pod("p", claims=["c"]), pod("q", claims=["d"])],
        held={"default/q": "0/1 nodes: 1 has every any in use"},
    ),
    "nobody else has such devices": Case(
        [*machines("n1"), node("n2"), claim("c")],
        [pod("p", claims=["c"])],
        held={"default/p": "0/1 nodes: 1 has no any"},
    ),
    "no other node": Case([node("n1")], [pod("p")], held={"default/p": "0/0 nodes"}),
    "a daemon goes along": Case([node("n1"), node("n2")], [of("DaemonSet", pod("p"))], gone=("p",)),
    "a static pod goes along": Case(
        [node("n1"), node("n2")], [mirror(pod("p")), of("Node", pod("q"))], gone=("p", "q")
    ),
    "a daemon with a device goes along": Case(
        [*machines("n1", "n2"), claim("c")], [of("DaemonSet", pod("p", claims=["c"]))], gone=("p",)
    ),
    "who only looks at devices moves if it can": Case(
        [*machines("n1", "n2"), claim("c", ADMIN)], [pod("p", claims=["c"])], {"p": "n2"}
    ),
    "who only looks at devices goes along if it cannot": Case(
        [*machines("n1"), node("n2"), claim("c", ADMIN)], [pod("p", claims=["c"])], gone=("p",)
    ),
    "a budget protects": Case(
        [node("n1"), node("n2"), budget(1, app="web")],
        [pod("p", labels={"app": "web"}), pod("q", labels={"app": "web"})],
        held={"default/q": "budget"},
    ),
    "a budget does not protect daemons": Case(
        [node("n1"), node("n2"), budget(0, app="web")],
        [of("DaemonSet", pod("p", labels={"app": "web"}))],
        gone=("p",),
    ),
    "an immediate claim holds it, and its pod": Case(
        [*trees("n1", "n2"), semantic_claim("c", "Immediate")],
        [semantic_pod("p", "c")],
        held={"ns/p": "ruled out by the pod's claims"},
        claims=("ns/c",),
    ),
    # One after another, the small pod would take the only place of the large one.
    "another order is found": Case(
        [node("n1", cpu=16), node("n2", cpu=4), node("n3", cpu=3)],
        [pod("a", cpu=3), pod("b", cpu=4)],
        {"b": "n2", "a": "n3"},
    ),
}


def bound(case: Case) -> Simulation:
    there = simulation(*case.objects)
    for each in case.pods:
        bind(there, each, "n1")
    return there


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_whether_a_node_can_go(case: Case) -> None:
    there = bound(case)
    before = picture(there)
    found = drain(there, "n1")
    there.validate()
    assert there.depth == 0
    if case.held:
        assert isinstance(found, CannotDrain)
        assert found.claims == case.claims
        assert found.pods.keys() == case.held.keys()
        for key, words in case.held.items():
            assert words in found.pods[key]
        assert picture(there) == before
        return
    assert isinstance(found, Drained), found
    assert {each.pod.metadata.name: each.node for each in found.moved} == case.moved
    assert tuple(each.metadata.name for each in found.gone) == case.gone
    assert "n1" not in there.objects(Node)
    assert {each.metadata.name for each in there.objects(Pod).values()} == set(case.moved)
    for key in there.objects(ResourceClaim):
        assert not any(device.startswith("n1/") for device in devices_of(there, key))


def test_those_who_matter_most_are_placed_first() -> None:
    there = bound(Case([node("n1"), node("n2", cpu=4)], [pod("a", cpu=4), pod("z", cpu=4, priority=9)]))
    found = drain(there, "n1")
    assert isinstance(found, CannotDrain)
    assert list(found.pods) == ["default/a"]


def test_an_immediate_claim_holds_a_node_though_nobody_uses_it() -> None:
    there = bound(CASES["an immediate claim holds it, and its pod"])
    there.simulate_evict_pod(semantic_pod("p", "c"), "n1")
    before = picture(there)
    found = drain(there, "n1")
    assert isinstance(found, CannotDrain)
    assert (found.pods, found.claims) == ({}, ("ns/c",))
    assert picture(there) == before
    there.validate()


def test_claims_that_were_made_for_a_daemon_go_with_it() -> None:
    who = noted(of("DaemonSet", pod("p", templates={"gpu": "t"})), gpu="p-gpu")
    there = simulation(*machines("n1"), owned(claim("p-gpu"), who), who)
    bind(there, who, "n1")
    assert isinstance(drain(there, "n1"), Drained)
    assert not there.objects(ResourceClaim)
    there.validate()


def test_a_drain_on_trial_leaves_nothing() -> None:
    there = bound(CASES["users of one claim move together"])
    before = picture(there)
    with there.trial():
        assert isinstance(drain(there, "n1"), Drained)
    assert picture(there) == before
    there.validate()


def test_a_node_stays_while_its_devices_are_used_from_elsewhere() -> None:
    there = simulation(node("n2"), claim("c"))
    there.simulate_add_node(node("n1"), [slice_("n1", "d0", on=None, everywhere=True)])
    bind(there, pod("p", claims=["c"]), "n2")
    found = drain(there, "n1")
    assert isinstance(found, CannotDrain)
    assert found.pods == {"default/p": "it uses devices of node n1 from elsewhere"}
    there.validate()


def test_a_node_that_is_not_there_cannot_be_drained() -> None:
    with pytest.raises(NoSuchNode):
        drain(simulation(), "n1")


def test_the_slices_that_went_are_told() -> None:
    there = simulation(node("n1"), slice_("n1", "d0"))
    found = drain(there, "n1")
    assert isinstance(found, Drained)
    assert [each.metadata.name for each in found.node.slices] == ["slice-n1"]
