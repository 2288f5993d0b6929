"""Gangs: whole or not at all, whatever the order of their pods, and as often as trying everything finds a way."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.allocator.allocate import Allocator
from allotment.allocator.outcome import Allocated
from allotment.api.core import Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import ResourceClaim
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.gangs.gang import Gang, GangNeed
from allotment.scheduler.gangs.session import Session
from allotment.scheduler.placement import Placement, Placer
from tests.allocator import build
from tests.builders.typed import (
    HOSTNAME,
    ZONE,
    claim,
    cluster,
    near,
    node,
    pod,
    pod_affinity,
    slice_,
    spread,
)
from tests.thoroughness import examples

ANY = build.class_("any")
BIG = build.class_("big", f'{build.mine("size")} == "big"')


@dataclass
class Member:
    pod: Pod
    claim: ResourceClaim | None


def member(name: str, *, cls: str = "any", count: int = 1, cpu: int = 1, shared: str = "") -> Member:
    """A pod with a claim of its own, or (``shared``) one that others name too; count 0: none."""
    if not count:
        return Member(pod(name, cpu=cpu, group="gang"), None)
    named = shared or f"{name}-claim"
    wish = claim(named, build.request(class_name=cls, count=count))
    return Member(pod(name, cpu=cpu, claims={"d": named}, group="gang"), wish)


def device_node(name: str, big: int, small: int, cpu: int = 16, zone: str = "") -> list[ApiStruct]:
    devices = [build.device(f"b{n}", attributes={"size": "big"}) for n in range(big)]
    devices += [build.device(f"s{n}", attributes={"size": "small"}) for n in range(small)]
    return [node(name, cpu=cpu, zone=zone or None), slice_(name, *devices)]


def world(nodes: Sequence[list[ApiStruct]], members: Sequence[Member]) -> Cluster:
    claims = {each.claim.metadata.name: each.claim for each in members if each.claim is not None}
    objects = [obj for each in nodes for obj in each]
    return cluster(ANY, BIG, *objects, *claims.values(), *(each.pod for each in members))


def attempt(
    made: Cluster, members: Sequence[Member], need: int, topology: tuple[str, ...] = ()
) -> list[Placement] | NoNode:
    session = Session(made, Placer(made, DEFAULT.rosters()))
    pods = [made.pods[f"default/{each.pod.metadata.name}"] for each in members]
    result = session.place(Gang("default/gang", need, None, "", topology), pods, GangNeed(need), now=0.0)
    made.validate()
    return result


def test_all_members_get_a_place() -> None:
    members = [member(f"p{n}") for n in range(6)]
    made = world([device_node("a", 2, 2), device_node("b", 0, 2)], members)

    placed = attempt(made, members, 6)

    assert isinstance(placed, list)
    assert sorted(each.node for each in placed) == ["a"] * 4 + ["b"] * 2


def test_nothing_stays_of_a_gang_that_does_not_fit() -> None:
    members = [member(f"p{n}") for n in range(5)]
    made = world([device_node("a", 2, 2)], members)

    refused = attempt(made, members, 5)

    assert isinstance(refused, NoNode)
    assert "only 4 of 5 pods" in refused.words
    assert not made.assumed
    assert len(made.fleet.ledger) == 0


def test_more_than_the_minimum_is_taken_if_it_fits() -> None:
    members = [member(f"p{n}") for n in range(4)]
    made = world([device_node("a", 0, 3)], members)

    placed = attempt(made, members, 2)

    assert isinstance(placed, list)
    assert len(placed) == 3


def test_one_that_takes_anything_leaves_what_only_another_can_use() -> None:
    """One by one, the first member may take the only big device; together they both fit."""
    members = [member("modest"), member("picky", cls="big")]
    made = world([device_node("a", 1, 1)], members)

    placed = attempt(made, members, 2)

    assert isinstance(placed, list)
    assert len(placed) == 2


def test_members_that_share_a_claim_go_to_its_node() -> None:
    members = [member("one", shared="common"), member("two", shared="common"), member("three", count=2)]
    made = world([device_node("a", 0, 1), device_node("b", 0, 2)], members)

    placed = attempt(made, members, 3)

    assert isinstance(placed, list)
    where = {each.cycle.pod.name: each.node for each in placed}
    assert where == {"one": "a", "two": "a", "three": "b"}


def test_a_gang_with_a_topology_stays_in_one_domain() -> None:
    members = [member(f"p{n}") for n in range(3)]
    nodes = [
        device_node("a", 0, 2, zone="east"),
        device_node("b", 0, 1, zone="west"),
        device_node("c", 0, 2, zone="west"),
    ]
    made = world(nodes, members)

    placed = attempt(made, members, 3, topology=(ZONE,))

    assert isinstance(placed, list)
    assert {each.node for each in placed} == {"b", "c"}


def test_a_gang_with_a_topology_that_no_domain_can_hold() -> None:
    members = [member(f"p{n}") for n in range(4)]
    made = world([device_node("a", 0, 2, zone="east"), device_node("b", 0, 2, zone="west")], members)

    refused = attempt(made, members, 4, topology=(ZONE,))

    assert isinstance(refused, NoNode)
    assert "in east" in refused.words


def test_a_domain_where_the_search_was_given_up_does_not_hide_another() -> None:
    apart = pod_affinity(apart=[near({"app": "x"}, HOSTNAME)])
    members = [
        Member(pod(f"p{n}", labels={"app": "x"}, affinity=apart, group="gang"), None) for n in range(2)
    ]
    made = world([[node("a", zone="east")], [node("b", zone="west")], [node("c", zone="west")]], members)

    placed = attempt(made, members, 2, topology=(ZONE,))

    assert isinstance(placed, list)
    assert {each.node for each in placed} == {"b", "c"}


# --- against trying everything ---


@dataclass
class Problem:
    nodes: list[tuple[int, int, int]]  # big devices, small devices, cpus
    members: list[tuple[str, int, int, str]]  # class, count, cpus, shared claim
    need: int


@st.composite
def problems(draw: st.DrawFn, nodes: int = 3, pods: int = 5) -> Problem:
    size = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 4))
    wish = st.tuples(
        st.sampled_from(["any", "big"]),
        st.integers(0, 2),
        st.integers(1, 2),
        st.sampled_from(["", "", "", "common"]),
    )
    members = draw(st.lists(wish, min_size=1, max_size=pods))
    return Problem(
        draw(st.lists(size, min_size=1, max_size=nodes)), members, draw(st.integers(1, len(members)))
    )


def members_of(problem: Problem) -> list[Member]:
    made = []
    for number, (cls, count, cpu, shared) in enumerate(problem.members):
        if shared:  # one claim, one wish
            cls, count = "any", 1
        made.append(member(f"p{number}", cls=cls, count=count, cpu=cpu, shared=shared))
    return made


def most_by_trying_everything(problem: Problem, members: Sequence[Member]) -> int:
    nodes = [device_node(f"n{n}", *size) for n, size in enumerate(problem.nodes)]
    slices = [obj for _, obj in nodes]
    allocator = Allocator(slices, [ANY, BIG])  # type: ignore[arg-type]  # the second of each pair is the slice
    best = 0
    for choice in product(range(-1, len(nodes)), repeat=len(members)):
        placed = sum(place >= 0 for place in choice)
        if placed > best and _holds(problem, members, nodes, allocator, choice):
            best = placed
    return best


def _holds(
    problem: Problem,
    members: Sequence[Member],
    nodes: list[list[ApiStruct]],
    allocator: Allocator,
    choice: tuple[int, ...],
) -> bool:
    shared = {
        choice[n] for n, each in enumerate(members) if each.claim and each.claim.metadata.name == "common"
    }
    if len(shared - {-1}) > 1:
        return False  # a device of one node cannot be used on two
    for place, size in enumerate(problem.nodes):
        here = [each for each, at in zip(members, choice, strict=True) if at == place]
        if sum(problem.members[n][2] for n, at in enumerate(choice) if at == place) > size[2]:
            return False
        claims = {each.claim.metadata.name: each.claim for each in here if each.claim is not None}
        if claims:
            outcome = allocator.allocate(nodes[place][0], list(claims.values()))  # type: ignore[arg-type]  # the first is the node
            if not isinstance(outcome, Allocated):
                return False
    return True


@settings(max_examples=examples(60), deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_a_gang_fits_if_and_only_if_there_is_a_way(problem: Problem, shuffle: random.Random) -> None:
    members = members_of(problem)
    most = most_by_trying_everything(problem, members)
    shuffle.shuffle(members)
    made = world([device_node(f"n{n}", *size) for n, size in enumerate(problem.nodes)], members)

    placed = attempt(made, members, problem.need)

    assert isinstance(placed, list) == (most >= problem.need)
    if isinstance(placed, list):
        assert problem.need <= len(placed) <= most


@pytest.mark.soak
@settings(max_examples=1000, deadline=None)
@given(problems(nodes=4, pods=6), st.randoms(use_true_random=False))
def test_many_gangs_fit_if_and_only_if_there_is_a_way(problem: Problem, shuffle: random.Random) -> None:
    members = members_of(problem)
    most = most_by_trying_everything(problem, members)
    shuffle.shuffle(members)
    made = world([device_node(f"n{n}", *size) for n, size in enumerate(problem.nodes)], members)

    assert isinstance(attempt(made, members, problem.need), list) == (most >= problem.need)


# --- where nodes depend on each other ---


def fabric(count: int) -> ApiStruct:
    """Devices that every node reaches."""
    return build.slice_(*build.devices(count, "f"), name="fabric", pool="fabric", on=None, everywhere=True)


@st.composite
def fabrics(draw: st.DrawFn) -> tuple[list[int], int, list[int], int]:
    """Devices of each node, devices that all reach, devices that each member wants, and how many members are needed."""
    local = draw(st.lists(st.integers(0, 2), min_size=1, max_size=3))
    wanted = draw(st.lists(st.integers(1, 2), min_size=1, max_size=5))
    return local, draw(st.integers(0, 3)), wanted, draw(st.integers(1, len(wanted)))


def fits_with_fabric(local: Sequence[int], shared: int, wanted: Sequence[int], need: int) -> bool:
    """By trying everything: what a node's members want beyond its own devices comes from the fabric."""
    for choice in product(range(-1, len(local)), repeat=len(wanted)):
        if sum(place >= 0 for place in choice) >= need:
            here = [
                sum(w for w, at in zip(wanted, choice, strict=True) if at == n) for n in range(len(local))
            ]
            if sum(max(0, want - have) for want, have in zip(here, local, strict=True)) <= shared:
                return True
    return False


@settings(max_examples=examples(60), deadline=None)
@given(fabrics())
def test_with_devices_that_all_nodes_reach_a_no_is_sure_or_said_to_be_given_up(
    problem: tuple[list[int], int, list[int], int],
) -> None:
    local, shared, wanted, need = problem
    members = [member(f"p{n}", count=count) for n, count in enumerate(wanted)]
    nodes = [device_node(f"n{n}", 0, count) for n, count in enumerate(local)]
    made = world([*nodes, [fabric(shared)]], members)

    placed = attempt(made, members, need)

    if fits_with_fabric(local, shared, wanted, need):
        assert isinstance(placed, list) or "gave up the search" in placed.words
    else:
        assert isinstance(placed, NoNode)


def test_a_member_leaves_the_devices_that_all_reach_to_those_who_have_no_others() -> None:
    members = [member(f"p{n}") for n in range(4)]
    made = world([device_node("a", 0, 2), device_node("b", 0, 0), [fabric(2)]], members)

    placed = attempt(made, members, 4)

    assert isinstance(placed, list)


APART = pod_affinity(apart=[near({"app": "x"}, HOSTNAME)])
TOGETHER = pod_affinity(near=[near({"app": "x"}, ZONE)])
SPREAD = [spread(ZONE, {"app": "x"}, skew=1)]


@st.composite
def neighbourhoods(draw: st.DrawFn) -> tuple[list[tuple[str, int]], int, int, str]:
    """Zones and cpus of nodes, how many members of one cpu there are and are needed, and which rule they have."""
    nodes = draw(
        st.lists(st.tuples(st.sampled_from(["east", "west"]), st.integers(0, 3)), min_size=1, max_size=4)
    )
    count = draw(st.integers(1, 5))
    return nodes, count, draw(st.integers(1, count)), draw(st.sampled_from(["apart", "together", "spread"]))


def fits_with_neighbours(nodes: Sequence[tuple[str, int]], need: int, rule: str) -> bool:
    """By trying how many members each node could have. Spreading: zones differ by one at most, in some order of placing."""
    for counts in product(*[range(cpus + 1) for _, cpus in nodes]):
        if sum(counts) != need:
            continue
        zones = {zone: 0 for zone, _ in nodes}
        for (zone, _), count in zip(nodes, counts, strict=True):
            zones[zone] += count
        if rule == "apart" and max(counts) <= 1:
            return True
        if rule == "together" and sum(bool(count) for count in zones.values()) <= 1:
            return True
        if rule == "spread" and max(zones.values()) - min(zones.values()) <= 1:
            return True
    return False


@settings(max_examples=examples(80), deadline=None)
@given(neighbourhoods())
def test_with_rules_about_neighbours_a_no_is_sure_or_said_to_be_given_up(
    problem: tuple[list[tuple[str, int]], int, int, str],
) -> None:
    nodes, count, need, rule = problem
    rules: dict[str, dict[str, Any]] = {
        "apart": {"affinity": APART},
        "together": {"affinity": TOGETHER},
        "spread": {"spread": SPREAD},
    }
    members = [
        Member(pod(f"p{n}", cpu=1, labels={"app": "x"}, group="gang", **rules[rule]), None)
        for n in range(count)
    ]
    made = world([[node(f"n{n}", cpu=cpu, zone=zone)] for n, (zone, cpu) in enumerate(nodes)], members)

    placed = attempt(made, members, need)

    if fits_with_neighbours(nodes, need, rule):
        assert isinstance(placed, list) or "gave up the search" in placed.words
    else:
        assert isinstance(placed, NoNode)


def test_a_gang_of_many_kinds_of_pods_does_not_take_for_ever() -> None:
    members = [member(f"p{n}", cpu=n + 1, count=1) for n in range(24)]
    made = world([device_node(f"n{n}", 2, 2, cpu=30) for n in range(6)], members)

    refused = attempt(made, members, 24)

    assert isinstance(refused, NoNode)
    assert "gave up the search; one after another only" in refused.words
