"""A dry run decides as the scheduler would, sees its own decisions, and ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.api.core import Pod, PodCondition
from allotment.api.meta import ApiStruct
from allotment.api.resource import ResourceClaim
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.core import Scheduler
from allotment.scheduler.dry_run import DryRun, DryRunDecision
from tests.allocator import build
from tests.builders.typed import claim, node, pod, slice_
from tests.thoroughness import examples

NOW = 1_700_000_000.0
ANY = build.class_("any")


def decided(*objects: ApiStruct) -> dict[str, DryRunDecision]:
    core = Scheduler(Cluster(), DEFAULT.rosters())
    decisions = DryRun(core, NOW).run(objects)
    core.validate()
    return {decision.name: decision for decision in decisions}


def stored(name: str, count: int = 1) -> ResourceClaim:
    """A claim as a server has it."""
    made = claim(name, build.request(class_name="any", count=count))
    return replace(made, metadata=replace(made.metadata, resource_version="7"))


def wants(name: str, count: int = 1, priority: int = 0) -> list[ApiStruct]:
    """A claim, and a pod that wants it."""
    return [stored(f"{name}-claim", count), pod(name, claims={"d": f"{name}-claim"}, priority=priority)]


def says(words: str) -> Callable[[Pod], Pod]:
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=words)
    return lambda of: replace(of, status=replace(of.status, conditions=(condition,)))


@dataclass(frozen=True)
class Case:
    objects: Sequence[ApiStruct]
    nodes: dict[str, str]  # pod → where it goes, "" for nowhere
    devices: dict[str, int] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)  # pod → words that its reason has


CASES = {
    "nobody waits": Case([node("n"), pod("there", node="n")], {}),
    "a pod without claims": Case([node("n"), pod("p")], {"p": "n"}),
    "a device each": Case(
        [ANY, node("n"), slice_("n", "d0", "d1"), *wants("a"), *wants("b")],
        {"a": "n", "b": "n"},
        {"a": 1, "b": 1},
    ),
    "the second finds nothing left": Case(
        [ANY, node("n"), slice_("n", "d0"), *wants("a", priority=1), *wants("b")],
        {"a": "n", "b": ""},
        {"a": 1},
        {"b": "0/1 nodes"},
    ),
    "two share a claim": Case(
        [ANY, node("n"), slice_("n", "d0"), stored("c"), pod("a", claims=["c"]), pod("b", claims=["c"])],
        {"a": "n", "b": "n"},
        {"a": 1, "b": 1},
    ),
    "a claim that is not there": Case(
        [node("n"), pod("p", claims=["c"])], {"p": ""}, why={"p": "does not exist"}
    ),
    "a template that nobody has served": Case(
        [node("n"), pod("p", templates={"d": "t"})], {"p": ""}, why={"p": "has not been made"}
    ),
    "another scheduler's pod is not ours": Case([node("n"), pod("p", scheduler="other")], {}),
    "no room, and whoever would have to go stays": Case(
        [node("n", cpu=1), pod("small", cpu=1, node="n", priority=0), pod("big", cpu=1, priority=9)],
        {"big": ""},
        why={"big": "0/1 nodes"},
    ),
    "devices that must get ready first": Case(
        [
            ANY,
            node("n"),
            slice_("n", build.device("d0", binding=("attached",))),
            *wants("p"),
        ],
        {"p": "n"},
        {"p": 1},
        {"p": "ready"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_it_says(name: str) -> None:
    case = CASES[name]
    found = decided(*case.objects)
    assert {key: decision.node for key, decision in found.items()} == case.nodes
    assert {key: len(each.devices) for key, each in found.items() if each.devices} == case.devices
    for key, words in case.why.items():
        assert words in found[key].why


def test_a_reason_that_the_pod_says_already_is_told_too() -> None:
    """The core does not repeat itself, so the reason comes from the pod."""
    first = decided(node("n", cpu=1), pod("p", cpu=2))["p"].why
    again = decided(node("n", cpu=1), says(first)(pod("p", cpu=2)))["p"].why
    assert first
    assert again == first


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.lists(st.integers(1, 4), max_size=6))
def test_nothing_is_given_twice_and_nothing_free_would_have_done(sizes: list[int], asked: list[int]) -> None:
    objects: list[ApiStruct] = [ANY]
    for number, size in enumerate(sizes):
        objects += [node(f"n{number}"), slice_(f"n{number}", *(f"d{each}" for each in range(size)))]
    for number, count in enumerate(asked):
        objects += wants(f"p{number}", count)
    found = decided(*objects)
    taken = Counter(device for decision in found.values() for device in decision.devices)
    assert not taken or max(taken.values()) == 1
    left = [
        size - sum(device.split("/")[1] == f"n{number}" for device in taken)
        for number, size in enumerate(sizes)
    ]
    for number, count in enumerate(asked):
        decision = found[f"p{number}"]
        assert len(decision.devices) == (count if decision.fits else 0)
        assert decision.fits or max(left) < count
        assert decision.fits is not bool(decision.why)
