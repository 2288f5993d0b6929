"""An inquiry says of one pod what the scheduler says, decides nothing, and knows which nodes lack devices alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.api.meta import ApiStruct
from allotment.api.resource import ResourceClaim
from allotment.scheduler.config.configuration import DEFAULT
from allotment.scheduler.inquiry import Inquiry, InquiryAnswer, released
from tests.allocator import build
from tests.builders.typed import claim, cluster, namespace, node, pod, slice_, spread, taint
from tests.scheduler.test_dry_run import ANY, NOW, decided, stored, wants
from tests.thoroughness import examples
from tests.usage.build import holder, part


def inquiry(*objects: ApiStruct) -> Inquiry:
    return Inquiry(cluster(*objects), DEFAULT.rosters())


def asked(*objects: ApiStruct, name: str = "p") -> InquiryAnswer:
    return inquiry(*objects).about(f"default/{name}", NOW)


def held(name: str, *devices: str, on: str) -> ResourceClaim:
    return holder(name, *[part(each, pool=on) for each in devices], namespace="default")


@dataclass(frozen=True)
class Case:
    objects: Sequence[ApiStruct]  # the pod is p
    words: str  # that the reason has; none: it fits
    short: tuple[str, ...] = ()


FULL = [ANY, node("n"), slice_("n", "d0"), held("other", "d0", on="n")]
CASES = {
    "fits": Case([ANY, node("n"), slice_("n", "d0"), *wants("p")], ""),
    "no device is left": Case([*FULL, *wants("p")], "1 has every any in use", ("n",)),
    "a gate": Case([node("n"), pod("p", gates=["g"])], "waiting for 1 scheduling gate"),
    "no claim": Case([node("n"), pod("p", claims=["c"])], "does not exist"),
    "no claim from the template yet": Case(
        [node("n"), pod("p", templates={"d": "t"})], "there is no ResourceClaimTemplate default/t"
    ),
    "no cpu": Case([node("n", cpu=1), pod("p", cpu=2)], "0/1 nodes: "),
    "no node": Case([pod("p")], "there are none in the cluster"),
    "no cpu where devices are, no devices where cpu is": Case(
        [
            *FULL,
            node("m", cpu=1),
            slice_("m", "d0"),
            stored("c"),
            pod("p", cpu=2, claims=["c"]),
        ],
        "0/2 nodes: ",
        ("n",),
    ),
    "a node that is cordoned or tainted lacks more than devices": Case(
        [
            *FULL,
            node("m", cordoned=True),
            node("o", taints=[taint("k")]),
            *wants("p"),
        ],
        "0/3 nodes: ",
        ("n",),
    ),
    "a node that spreading rules out lacks more than devices": Case(
        [
            ANY,
            namespace("default"),
            node("a", zone="a"),
            node("b", zone="b"),
            pod("there", labels={"app": "x"}, node="a"),
            stored("c"),
            pod("p", labels={"app": "x"}, claims=["c"], spread=[spread(selector={"app": "x"})]),
        ],
        "0/2 nodes: ",
        ("b",),
    ),
    "a class that is not there": Case([node("n"), slice_("n", "d0"), *wants("p")], "device class any"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_it_says(name: str) -> None:
    case = CASES[name]
    found = asked(*case.objects)
    assert bool(found.node) is not bool(case.words)
    assert case.words in (found.refusal.words if found.refusal is not None else "")
    assert found.short == case.short
    if case.short:
        assert found.claims


def test_nothing_is_decided() -> None:
    desk = inquiry(ANY, node("n"), slice_("n", "d0"), *wants("p"), *wants("q"))
    for _ in range(2):
        assert [desk.about(f"default/{name}", NOW).node for name in "pq"] == ["n", "n"]
    assert not desk.cluster.assumed
    assert not desk.cluster.fleet.ledger.claims()


def test_what_would_be_if_a_claim_were_different() -> None:
    desk = inquiry(*FULL, *wants("p"))
    other = desk.cluster.claims.objects["default/other"]
    with desk.supposing(other, released(other)):
        assert desk.about("default/p", NOW).node == "n"
    assert not desk.about("default/p", NOW).node
    mine = stored("p-claim", 2)
    with desk.supposing(stored("p-claim"), mine):
        refusal = desk.about("default/p", NOW).refusal
        assert refusal is not None
        assert "1 any, need 2" in refusal.words
    desk.cluster.fleet.validate()


def test_claims_of_a_pod_that_are_given_elsewhere() -> None:
    """Where they cannot be used, devices for its other claims would not help."""
    there = build.claim(build.request(), name="given", namespace="default")
    given = held("given", "d0", on="n")
    here = ResourceClaim(metadata=there.metadata, spec=there.spec, status=given.status)
    found = asked(
        ANY, node("n", cordoned=True), slice_("n", "d0"), here, claim("c"), pod("p", claims=["given", "c"])
    )
    assert found.short == ()


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([1, 4])), max_size=4),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_it_says_what_the_scheduler_says(nodes: list[tuple[int, int, int]], count: int, cpu: int) -> None:
    objects: list[ApiStruct] = [ANY]
    for number, (size, taken, cpus) in enumerate(nodes):
        name = f"n{number}"
        objects += [node(name, cpu=cpus), slice_(name, *(f"d{each}" for each in range(size)))]
        if min(size, taken):
            objects.append(held(f"h{number}", *(f"d{each}" for each in range(min(size, taken))), on=name))
    objects += [stored("c", count), pod("p", cpu=cpu, claims=["c"])]
    found, decision = asked(*objects), decided(*objects)["p"]
    assert found.node == decision.node
    assert (found.refusal.words if found.refusal is not None else "") == decision.why
    fitting = {
        f"n{n}"
        for n, (size, taken, cpus) in enumerate(nodes)
        if cpus >= cpu and max(size - taken, 0) >= count
    }
    lacking = {f"n{n}" for n, (_, _, cpus) in enumerate(nodes) if cpus >= cpu}
    assert set(found.short) == (set() if fitting else lacking)
