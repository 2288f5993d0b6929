"""Semantic claims in the scheduling cycle: carried in v1 objects, allocated from partition trees."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.allocator.outcome import Allocated
from allotment.allocator.pool import DeviceID
from allotment.allocator.semantic import SemanticBook, allocate_semantic
from allotment.api import semantic
from allotment.api.codec import decode, to_builtins
from allotment.api.conversion.v1alpha2 import from_v1, to_v1
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct, ObjectMeta
from allotment.api.resource import ResourceClaim
from allotment.scheduler.binding.step import WriteClaim
from allotment.scheduler.devices.semantic_claim import carried, carried_holdings, is_carrier
from allotment.scheduler.framework import Cycle, StatusCode
from tests.allocator import build
from tests.allocator.trees import (
    DRIVER,
    card,
    class_parameters,
    leaf,
    parameters,
    request,
    resource_class,
    slice_of,
)
from tests.allocator.trees import claim as tree_claim
from tests.builders.typed import claim as v1_claim
from tests.builders.typed import node, pod
from tests.scheduler.plugins.device_world import World, fleet, user

FINALIZER = "semantic.dra.k8s.io/delete-protection"
BIG = 'quantities["memory"] >= "32Gi"'
SMALL = 'quantities["memory"] <= "8Gi"'


def semantic_claim(
    name: str = "c", ref: str | None = "p", mode: str | None = None, **more: Any
) -> ResourceClaim:
    """A semantic claim as v1 shows it."""
    found = tree_claim(name, ref, **more)
    found = replace(
        found,
        metadata=ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}", resource_version="1"),
        spec=replace(found.spec, allocation_mode=mode),
    )
    return decode(ResourceClaim, to_v1(to_builtins(found)))


def user_pod(name: str = "p", *claims: str) -> Pod:
    return pod(name, namespace="ns", claims=list(claims or ("c",)))


def world(*objects: ApiStruct, wish: str = BIG, nodes: int = 1, **more: Any) -> World:
    there = World(resource_class(), parameters("p", request(wish), **more))
    for number in range(1, nodes + 1):
        there.show(node(f"n{number}"), slice_of(card("a"), on=f"n{number}", name=f"s{number}"))
    return there.show(*objects)


def written(steps: object) -> WriteClaim:
    assert isinstance(steps, list)
    (step,) = steps
    assert isinstance(step, WriteClaim)
    return step


def stored(found: ResourceClaim, step: WriteClaim) -> ResourceClaim:
    """The claim as the server has it after the write."""
    document = to_builtins(found)
    document["status"] = {"reservedFor": [to_builtins(step.consumer)], **(step.document or {})}
    return decode(ResourceClaim, document)


def test_a_carried_claim_is_known_by_its_configuration() -> None:
    assert is_carrier(semantic_claim())
    read = carried(semantic_claim())
    assert read is not None
    assert read.spec.resource_class_name == "cards"
    assert carried(v1_claim("c")) is None
    assert carried_holdings(v1_claim("c")) is None


def test_an_allocation_is_written_as_both_versions_tell_it() -> None:
    there = world(semantic_claim(), nodes=2, vendor_parameters={"mode": "exclusive"}, shareable=True)
    assert there.fitting(user_pod()) == ["n1", "n2"]
    _, steps = there.place(user_pod(), "n2")
    step = written(steps)
    assert (step.claim, step.finalizer, step.keep) == ("ns/c", FINALIZER, False)
    shown = stored(semantic_claim(), step)
    told = from_v1(to_builtins(shown))["status"]
    (handle,) = told["allocation"]["resourceHandles"]
    assert told["driverName"] == DRIVER
    assert told["allocation"]["shareable"] is True
    assert handle["semanticData"]["vendorClaimParameters"] == {"mode": "exclusive"}
    assert handle["semanticData"]["nodeName"] == "n2"
    assert [each["id"] for each in handle["semanticData"]["partitionable"]["instances"]] == ["a/whole/gpu"]
    assert shown.status.allocation is not None
    assert [(r.driver, r.pool) for r in shown.status.allocation.devices.results] == [(DRIVER, "n2")]


def test_what_is_written_and_shown_again_holds_the_same() -> None:
    there = world(semantic_claim())
    cycle, steps = there.place(user_pod(), "n1")
    held = there.cluster.fleet.ledger.holdings("ns/c")
    assert [each.device for each in held] == [DeviceID(DRIVER, "n1", "a/whole/gpu")]
    shown = stored(semantic_claim(), written(steps))
    there.cluster.claims.acknowledged("ns/c", 1)
    there.cluster.change(semantic_claim(), shown)
    assert not there.cluster.claims.flights
    assert there.cluster.fleet.ledger.holdings("ns/c") == held
    there.cluster.validate()
    fresh = world(shown)
    assert fresh.cluster.fleet.ledger.holdings("ns/c") == held
    fresh.show(semantic_claim("d"))
    assert fresh.words(user_pod("q", "d")) == {"n1": "have every matching cards in use"}
    there.plugin.unreserve(cycle, there.cluster.nodes["n1"])


def test_using_one_way_to_split_a_card_locks_the_others() -> None:
    there = world(
        semantic_claim("whole"), parameters("small", request(SMALL)), semantic_claim("part", "small")
    )
    cycle, _ = there.place(user_pod("q", "part"), "n1")
    (status,) = there.verdicts(there.cycle(user_pod("p", "whole"))).values()
    assert (status.words, status.code) == ("have every cards split another way", StatusCode.UNSCHEDULABLE)
    there.plugin.unreserve(cycle, there.cluster.nodes["n1"])
    there.cluster.validate()
    assert there.fitting(user_pod("p", "whole")) == ["n1"]


def test_immediate_claims_stay_allocated() -> None:
    there = world(semantic_claim(mode="Immediate"))
    _, steps = there.place(user_pod(), "n1")
    assert written(steps).keep
    shown = stored(semantic_claim(mode="Immediate"), replace_consumer(written(steps)))
    there = world(shown)
    assert there.plugin.post_filter(there.cycle(user_pod()), {}) is None


def replace_consumer(step: WriteClaim) -> WriteClaim:
    return WriteClaim(step.claim, step.allocation, user(user_pod()), step.finalizer, document=step.document)


@pytest.mark.parametrize("shareable", [True, False])
def test_a_claim_is_shared_only_if_its_parameters_say_so(shareable: bool) -> None:
    first = world(semantic_claim(), shareable=shareable)
    _, steps = first.place(user_pod(), "n1")
    there = world(stored(semantic_claim(), written(steps)), shareable=shareable)
    if shareable:
        cycle = there.cycle(user_pod("q"))
        assert cycle.names == frozenset({"n1"})
        there.plugin.reserve(cycle, there.cluster.nodes["n1"])
        second = written(there.plugin.pre_bind(cycle, there.cluster.nodes["n1"]))
        assert (second.allocation, second.document, second.finalizer) == (None, None, FINALIZER)
    else:
        assert "is in use and not shareable" in there.refused(user_pod("q"))


@pytest.mark.parametrize("shareable", [True, False])
def test_in_a_gang_as_well(shareable: bool) -> None:
    there = world(semantic_claim(), shareable=shareable)
    there.place(pod("a", namespace="ns", claims=["c"], group="team"), "n1")
    second = pod("b", namespace="ns", claims=["c"], group="team")
    if shareable:
        assert there.cycle(second).names == frozenset({"n1"})
    else:
        assert "is in use and not shareable" in there.refused(second)


FAULTS: dict[str, tuple[list[ApiStruct], str]] = {
    "no class": ([], "there is no ResourceClass 'cards'"),
    "a class whose driver allocates": (
        [resource_class(semantic=None)],
        "class cards does not set semanticParameters",
    ),
    "no parameters": ([resource_class()], "there is no ResourceClaimParameters ns/p"),
    "a selector that does not compile": (
        [resource_class(), parameters("p", request("memory >"))],
        "does not compile",
    ),
}


@pytest.mark.parametrize(("objects", "words"), FAULTS.values(), ids=FAULTS)
def test_what_is_wrong_with_a_claim_is_said(objects: list[ApiStruct], words: str) -> None:
    there = World(*fleet("n1"), *objects, semantic_claim())
    assert words in there.refused(user_pod())


def test_a_tree_that_cannot_be_read_is_said_of_its_node() -> None:
    broken = slice_of(leaf("a"), leaf("a"), on="n2", name="twice")
    there = world(semantic_claim(), node("n2"), broken)
    (words,) = there.words(user_pod()).values()
    assert words.startswith("cannot judge the pod's claims: ")
    assert "'a' is defined twice" in words
    assert "ns/c" not in words


FAILING = "1 / 0 == 1"

FAILURES: dict[str, list[str]] = {
    "alone": [FAILING],
    "before another that nothing matches": [FAILING, "false"],
    "for more than there are": [FAILING] * 9,
}


@pytest.mark.parametrize("wishes", FAILURES.values(), ids=FAILURES)
def test_a_selector_that_fails_is_said_of_the_node_as_for_v1(wishes: list[str]) -> None:
    there = World(resource_class(), parameters("p", request(*wishes)), semantic_claim())
    there.show(node("n1"), slice_of(card("a"), on="n1"))
    said = "cannot judge the pod's claims: ResourceClaimParameters ns/p, request r0: CEL runtime error: "
    assert there.words(user_pod())["n1"].startswith(said)


def test_class_parameters_narrow_and_changes_are_heard() -> None:
    there = World(
        node("n1"), slice_of(leaf("small", "8Gi"), leaf("big", "32Gi"), on="n1"), semantic_claim(ref=None)
    )
    there.show(resource_class(parameters="narrow"), class_parameters("narrow", BIG))
    _, steps = there.place(user_pod(), "n1")
    assert written(steps).allocation is not None
    there = World(node("n1"), slice_of(leaf("small", "8Gi"), on="n1"), semantic_claim(ref=None))
    there.show(resource_class(parameters="narrow"), class_parameters("narrow", BIG))
    assert there.fitting(user_pod()) == []
    position = there.cluster.log.end
    there.cluster.change(class_parameters("narrow", BIG), class_parameters("narrow", SMALL))
    assert there.cluster.log.since(position) == ["n1"]
    assert there.fitting(user_pod()) == ["n1"]


def test_a_node_without_trees_says_the_same_when_parameters_go() -> None:
    """Nobody is told of such nodes when parameters change, and what is remembered of them must stay true."""
    there = world(semantic_claim(), node("n2"))
    cycle = there.cycle(user_pod())
    before = there.verdicts(cycle)["n2"]
    assert before.words == "have no cards"
    position = there.cluster.log.end
    there.cluster.change(parameters("p", request(BIG)), None)
    assert "n2" not in (there.cluster.log.since(position) or ())
    assert there.verdicts(cycle)["n2"] == before


def test_slices_come_move_and_go() -> None:
    there = world(semantic_claim(), node("n2"))
    assert there.fitting(user_pod()) == ["n1"]
    moved = slice_of(card("a"), on="n2", name="s1")
    there.cluster.change(slice_of(card("a"), on="n1", name="s1"), moved)
    assert there.fitting(user_pod()) == ["n2"]
    there.cluster.change(moved, None)
    assert there.fitting(user_pod()) == []
    there.cluster.validate()


def test_what_is_withdrawn_stays_counted() -> None:
    """A driver that shrinks its tree gives nothing away of what is in use."""
    there = world(semantic_claim(), semantic_claim("d"), wish=SMALL)
    there.place(user_pod(), "n1")
    there.cluster.change(None, slice_of(card("b"), on="n1", name="s1"))
    assert there.cluster.semantic.in_use("n1") == 1
    assert there.fitting(user_pod("q", "d")) == ["n1"], "the other card"
    there.cluster.change(None, slice_of(card("a"), on="n1", name="s1"))
    cycle, steps = there.place(user_pod("q", "d"), "n1")
    given = written(steps).allocation
    assert given is not None
    assert [each.device for each in given.devices.results] == ["a/parts/rest/quarters/q1"]
    there.plugin.unreserve(cycle, there.cluster.nodes["n1"])
    there.cluster.validate()


def test_carried_and_v1_claims_of_one_pod_are_reserved_together() -> None:
    there = world(semantic_claim(), v1_claim("v1", namespace="ns"), *fleet("gpus"), nodes=1)
    both = user_pod("p", "c", "v1")
    assert there.fitting(both) == []
    there.show(build.slice_(build.device("d0"), name="more", pool="n1", on="n1"))
    assert there.fitting(both) == ["n1"]
    cycle, steps = there.place(both, "n1")
    assert {step.claim for step in steps if isinstance(step, WriteClaim)} == {"ns/c", "ns/v1"}
    there.plugin.unreserve(cycle, there.cluster.nodes["n1"])
    assert not there.cluster.fleet.ledger.claims()


def test_equal_claims_have_one_shape_within_a_namespace() -> None:
    """Parameters are found in the claim's namespace."""
    there = world(semantic_claim("c"), semantic_claim("d"))
    elsewhere = replace(semantic_claim("e"), metadata=ObjectMeta(name="e", namespace="other", uid="e"))
    there.show(
        elsewhere, replace(parameters("p", request(BIG)), metadata=ObjectMeta(name="p", namespace="other"))
    )
    shapes = [
        there.plugin.shape(there.cycle(each))
        for each in (user_pod("p", "c"), user_pod("q", "d"), pod("r", namespace="other", claims=["e"]))
    ]
    assert shapes[0] == shapes[1] != shapes[2]


def test_suitable_nodes_of_a_class_count() -> None:
    where = build.selector(build.where("zone", "In", "east"))
    there = World(resource_class(suitable_nodes=where), parameters("p", request(BIG)), semantic_claim())
    there.show(node("n1", labels={"zone": "east"}), slice_of(card("a"), on="n1", name="s1"))
    there.show(node("n2"), slice_of(card("a"), on="n2", name="s2"))
    assert there.fitting(user_pod()) == ["n1"]
    there.cluster.change(None, node("n2", labels={"zone": "east"}))
    assert there.fitting(user_pod()) == ["n1", "n2"]


def test_nodes_with_instances_in_use_are_preferred() -> None:
    there = world(semantic_claim("c"), semantic_claim("d"), wish=SMALL, nodes=2)
    there.place(user_pod("q", "d"), "n2")
    scores = there.scores(user_pod("p", "c"))
    assert scores["n2"] > scores["n1"]


def test_seed_0_objects_wake_pods() -> None:
    there = world(semantic_claim())
    there.show(user_pod())
    info = there.cluster.pods["ns/p"]
    kinds = {wake.kind for wake in there.plugin.wakes}
    for changed in (
        slice_of(card("a")),
        resource_class(),
        parameters("p", request(BIG)),
        class_parameters("q", BIG),
    ):
        assert type(changed) in kinds
        assert there.plugin.helps(info, None, changed, there.cluster)
    assert semantic.NodeResourceSlice in kinds


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_verdicts_are_those_of_a_fresh_allocator(seed: int) -> None:
    random = Random(seed)
    trees = {f"n{number}": random.randint(0, 2) for number in range(1, 4)}
    slices = [
        slice_of(*[card(f"card-{number}") for number in range(count)], on=name, name=f"s-{name}")
        for name, count in trees.items()
        if count
    ]
    wishes = {"big": BIG, "half": 'quantities["memory"] == "16Gi"', "small": SMALL}
    objects = [parameters(name, request(*[wish] * random.randint(1, 2))) for name, wish in wishes.items()]
    there = World(resource_class(), *objects, *slices, *[node(name) for name in trees])
    book = SemanticBook([resource_class()], [], objects)
    held: dict[str, tuple[Cycle, str, list[DeviceID]]] = {}
    for number in range(12):
        if held and random.random() < 0.3:
            cycle, name, _ = held.pop(random.choice(list(held)))
            there.plugin.unreserve(cycle, there.cluster.nodes[name])
            there.cluster.validate()
            continue
        wanted = semantic_claim(f"c{number}", random.choice(list(wishes)))
        there.show(wanted)
        of = user_pod(f"p{number}", f"c{number}")
        in_use = [id for _, _, ids in held.values() for id in ids]
        read = carried(wanted)
        assert read is not None
        fitting = [
            name
            for name in trees
            if isinstance(allocate_semantic(node(name), slices, book, [read], in_use), Allocated)
        ]
        assert there.fitting(of) == fitting
        if fitting:
            name = random.choice(fitting)
            cycle, steps = there.place(of, name)
            given_ = written(steps).allocation
            assert given_ is not None
            ids = [DeviceID(each.driver, each.pool, each.device) for each in given_.devices.results]
            held[of.metadata.name] = (cycle, name, ids)
