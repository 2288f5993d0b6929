"""How many more fit: worked examples, and random problems beside brute force."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.allocator.pool import PoolID
from allotment.api.codec import decode
from allotment.api.core import Node
from allotment.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from allotment.usage.remaining import Fits, Remaining, remaining
from tests import bruteforce
from tests.allocator.build import (
    ANY,
    DRIVER,
    claim,
    counter_set,
    device,
    devices,
    draw,
    match,
    node,
    policed,
    request,
    selector,
    slice_,
    taint,
    toleration,
    where,
)
from tests.allocator.oracle import evaluate, tangle
from tests.thoroughness import examples
from tests.usage.build import holder, part, rule

ONE = claim(request())


def ask(
    wanted: ResourceClaim, slices: Sequence[ResourceSlice], *holders: ResourceClaim, **more: Any
) -> Remaining:
    nodes = more.pop("nodes", None) or [node("n1"), node("n2")]
    return remaining(wanted, nodes=nodes, slices=slices, classes=[ANY], claims=holders, **more)


def on_nodes(found: Remaining) -> dict[str, str]:
    return {name: str(fits) for name, fits in found.nodes.items()}


def on_pools(found: Remaining) -> dict[str, str]:
    return {id.pool: str(fits) for id, fits in found.pools.items()}


def local(pool: str, on: str, *found: Any, **more: Any) -> ResourceSlice:
    return slice_(*(found or devices(3)), name=f"{pool}-slice", pool=pool, on=on, **more)


def test_free_devices_of_each_node_add_up() -> None:
    found = ask(ONE, [local("p1", "n1"), local("p2", "n2")], holder("a", part("d0", pool="p1")))
    assert on_nodes(found) == {"n1": "2", "n2": "3"}
    assert on_pools(found) == {"p1": "2", "p2": "3"}
    assert found.cluster == Fits(5)


def test_a_claim_for_two_leaves_one_over() -> None:
    found = ask(claim(request(count=2)), [local("p1", "n1")])
    assert on_nodes(found) == {"n1": "1", "n2": "0"}
    assert found.cluster == Fits(1)


def test_pools_of_one_node_are_counted_each_by_itself() -> None:
    slices = [local("p1", "n1", *devices(3)), local("p2", "n1", *devices(1))]
    found = ask(claim(request(count=2)), slices)
    assert on_nodes(found)["n1"] == "2"  # the third and the fourth are of different pools
    assert on_pools(found) == {"p1": "1", "p2": "0"}


def test_what_several_nodes_reach_counts_once_in_the_cluster() -> None:
    found = ask(ONE, [slice_(*devices(3), pool="net", everywhere=True), local("p1", "n1")])
    assert on_nodes(found) == {"n1": "6", "n2": "3"}
    assert on_pools(found) == {"net": "3", "p1": "3"}
    assert found.cluster == Fits(6)


def test_what_all_nodes_reach_alike_is_as_much_as_one_of_them_can_have() -> None:
    """With a proof, also where the first choice takes up too much."""
    common: dict[str, Any] = {"pool": "net", "everywhere": True, "of": 2}
    parts = [
        device("whole", draws=[draw("card", m="2")]),
        *[device(f"h{n}", draws=[draw("card", m="1")]) for n in range(2)],
    ]
    slices = [
        slice_(*parts, **common),
        slice_(name="counters", counters=[counter_set("card", m="2")], **common),
    ]
    found = ask(ONE, slices)
    assert found.nodes == {"n1": Fits(2), "n2": Fits(2)}
    assert found.cluster == Fits(2)
    beside = ask(
        ONE, [*slices, local("p1", "n1", device("x"))]
    )  # not alike any more, and drawing on counters
    assert beside.cluster == Fits(3, exact=False)


def test_pools_that_a_node_does_not_reach_do_not_count_there() -> None:
    slices = [slice_(*devices(2), pool="net", on=selector(where("zone", "In", "a")))]
    found = ask(ONE, slices, nodes=[node("n1", zone="a"), node("n2", zone="b")])
    assert on_nodes(found) == {"n1": "2", "n2": "0"}
    assert found.cluster == Fits(2)


def test_a_pool_whose_node_is_gone_has_room_for_nothing() -> None:
    found = ask(ONE, [local("p1", "n1"), local("p9", "n9")])
    assert found.pools[PoolID(DRIVER, "p9")] == Fits(0, words="its node does not exist")
    assert found.cluster == Fits(3)


def test_shares_fill_a_device_up() -> None:
    nic = device("nic", shared=True, capacity={"bandwidth": policed("10G", "1G", min="1G", step="1G")})
    share = part("nic", pool="p1", share="s", consumes={"bandwidth": "3G"})
    found = ask(claim(request(capacity={"bandwidth": "2G"})), [local("p1", "n1", nic)], holder("a", share))
    assert on_nodes(found) == {"n1": "3", "n2": "0"}


def test_tainted_devices_are_for_those_who_tolerate_it() -> None:
    slices = [local("p1", "n1", device("d0", taints=[taint("k")]), device("d1"), device("d2"))]
    rules = [rule("r", device="d1")]
    assert str(ask(ONE, slices, rules=rules).cluster) == "1"
    tolerant = claim(request(tolerates=[toleration(operator="Exists")]))
    assert str(ask(tolerant, slices, rules=rules).cluster) == "3"


def test_first_choices_that_take_up_too_much_are_made_again() -> None:
    """One after the other, the first claim would get the whole card; four quarters fit."""
    card = [
        local(
            "p1",
            "n1",
            device("whole", draws=[draw("card", m="4")]),
            *[device(f"q{n}", draws=[draw("card", m="1")]) for n in range(4)],
            of=2,
        ),
        slice_(name="counters", pool="p1", on="n1", counters=[counter_set("card", m="4")], of=2),
    ]
    assert ask(ONE, card).nodes["n1"] == Fits(4)
    assert ask(ONE, card, holder("a", part("q1", pool="p1"))).nodes["n1"] == Fits(3)
    assert ask(ONE, card, steps=0).nodes["n1"] == Fits(1, exact=False)  # no step for a proof


def test_constraints_hold_within_each_claim() -> None:
    slices = [local("p1", "n1", *[device(f"d{n}", numa=n // 3) for n in range(6)])]
    assert str(ask(claim(request(count=2), constraints=[match("numa")]), slices).nodes["n1"]) == "2"


def test_a_bound_makes_it_at_least() -> None:
    found = ask(ONE, [local("p1", "n1", *devices(5))], limit=3)
    assert str(found.nodes["n1"]) == "at least 3"
    assert str(found.cluster) == "at least 3"
    assert str(ask(ONE, [local("p1", "n1", *devices(2))], limit=3).cluster) == "2"


def test_what_takes_nothing_fits_without_end() -> None:
    assert str(ask(claim(request(admin=True)), [local("p1", "n1")], limit=50).nodes["n1"]) == "at least 50"


def test_admin_access_is_not_in_the_way_of_later_claims() -> None:
    wanted = claim(request("watch", admin=True), request("use"))
    found = ask(wanted, [local("p1", "n1", *devices(3))])
    # each uses one and watches another, be that in use or not; all together, the third would find none to watch
    assert found.nodes["n1"] == Fits(3, exact=False)


def test_a_claim_that_makes_no_sense_fits_nowhere_and_says_why() -> None:
    found = ask(claim(request(class_name="unknown")), [local("p1", "n1")])
    assert found.cluster.number == 0
    assert "unknown" in found.cluster.words


def test_an_incomplete_pool_has_no_room() -> None:
    assert ask(ONE, [local("p1", "n1", of=2)]).cluster == Fits(0)


def test_a_device_that_was_promised_twice_is_taken_once() -> None:
    twice = [holder(name, part("d0", pool="p1")) for name in ("a", "b")]
    assert ask(ONE, [local("p1", "n1")], *twice).cluster == Fits(2)


def test_equal_nodes_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from allotment.usage import remaining as module

    filled: list[str] = []
    fill = module._most

    def noted(fleet: Any, view: Any, place: Any, *more: Any) -> Any:
        filled.append(place.name)
        return fill(fleet, view, place, *more)

    monkeypatch.setattr(module, "_most", noted)
    nodes = [node(f"n{n}") for n in range(20)]
    slices = [local(f"p{n}", f"n{n}") for n in range(20)]
    found = ask(ONE, slices, holder("a", part("d0", pool="p3")), nodes=nodes)
    assert found.cluster == Fits(59)
    assert len(filled) == 2


def most(problem: dict[str, Any], upto: int) -> int | None:
    """How many copies of the claim brute force can place; None if it is too hard."""
    for number in range(1, upto + 1):
        answer = bruteforce.allocate({**problem, "claims": problem["claims"] * number}, evaluate, 20_000)
        if answer.get("exhausted"):
            return None
        if not answer["ok"]:
            return number - 1
    return upto


def one_by_one(problem: dict[str, Any], upto: int) -> int | None:
    """How many copies brute force places one after the other; None if it is too hard."""
    held: dict[str, list[Any]] = {
        "allocatedDevices": list(problem["allocatedDevices"]),
        "allocatedSharedDeviceIDs": [],
        "allocatedCapacityDevices": [],
    }
    for number in range(upto):
        answer = bruteforce.allocate({**problem, **held}, evaluate, 20_000)
        if answer.get("exhausted"):
            return None
        if not answer["ok"]:
            return number
        for got in answer["results"][0]["devices"].get("results", ()):
            if not got.get("adminAccess"):
                shared = "shareID" in got
                held["allocatedSharedDeviceIDs" if shared else "allocatedDevices"].append(got)
                held["allocatedCapacityDevices"] += [got] if shared else []
    return upto


def modest(claim: dict[str, Any], requests: int) -> dict[str, Any]:
    """The claim with its first requests only, so that it fits more often, and the constraints and configurations for these."""
    devices = claim["spec"]["devices"]
    kept = devices["requests"][:requests]
    names = {each["name"] for each in kept}

    def of_kept(each: dict[str, Any]) -> bool:
        return {name.partition("/")[0] for name in each.get("requests") or ()} <= names

    rest = {
        key: [each for each in devices.get(key) or () if of_kept(each)] for key in ("constraints", "config")
    }
    return {**claim, "spec": {"devices": {"requests": kept, **rest}}}


@settings(max_examples=examples(150))
@given(st.integers(0, 2**32), st.sets(st.integers(0, 9), max_size=3), st.integers(1, 2))
def test_brute_force_finds_no_more_and_no_less(seed: int, taken: set[int], requests: int) -> None:
    rng = random.Random(seed)
    problem = tangle(rng)
    problem = {name: problem[name] for name in ("node", "slices", "classes", "claims")}
    problem["claims"] = [modest(problem["claims"][0], requests)]
    ids = [
        {"driver": each["spec"]["driver"], "pool": each["spec"]["pool"]["name"], "device": found["name"]}
        for each in problem["slices"]
        for found in each["spec"].get("devices", ())
        if not found.get("allowMultipleAllocations")
    ]
    held = [id for number, id in enumerate(ids) if number in taken]
    problem["allocatedDevices"] = held
    wanted = json.loads(json.dumps(problem))
    found = remaining(
        decode(ResourceClaim, wanted["claims"][0]),
        nodes=[decode(Node, wanted["node"])],
        slices=[decode(ResourceSlice, each) for each in wanted["slices"]],
        classes=[decode(DeviceClass, each) for each in wanted["classes"]],
        claims=[holder("held", *[part(id["device"], pool=id["pool"], driver=id["driver"]) for id in held])],
        limit=4,
    )
    (fits,) = found.nodes.values()
    greedy, true = one_by_one(problem, 4), most(problem, 4)
    if greedy is None or true is None:
        return
    if any(
        (each.get("exactly") or {}).get("adminAccess")
        for each in problem["claims"][0]["spec"]["devices"]["requests"]
    ):
        assert fits == Fits(greedy, fits.number == 0, fits.words)  # together, fewer fit
    elif fits.exact:
        assert fits.number == true
    else:
        assert greedy <= fits.number <= true


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.sampled_from(["n1", "n2", None]), st.integers(0, 3)), max_size=4),
    st.sets(st.integers(0, 8)),
)
def test_one_device_each_in_the_cluster_is_every_free_device_once(
    pools: list[tuple[str | None, int]], taken: set[int]
) -> None:
    slices = [
        slice_(*devices(count), name=f"s{n}", pool=f"p{n}", on=on, everywhere=True if on is None else None)
        for n, (on, count) in enumerate(pools)
    ]
    every = [part(f"d{d}", pool=f"p{n}") for n, (_, count) in enumerate(pools) for d in range(count)]
    held = [each for number, each in enumerate(every) if number in taken]
    found = ask(ONE, slices, holder("held", *held))
    assert found.cluster == Fits(len(every) - len(held))
    free = {id.pool: fits.number for id, fits in found.pools.items()}
    assert sum(free.values()) == found.cluster.number


SHAPES = [
    ONE,
    claim(request(count=2)),
    claim(request(capacity={"m": "1"})),
    claim(request("a"), request("b", capacity={"m": "2"})),
    claim(request(count=2), constraints=[match("kind")]),
]
FORMS = [
    device("d0", kind="x"),
    device("d1", kind="y"),
    device("d2", kind="x", shared=True, capacity={"m": "4"}),
    device("d3", kind="y", draws=[draw("card", c="2")], capacity={"m": "2"}),
    device("d4", kind="x", draws=[draw("card", c="1")], capacity={"m": "1"}),
    device("d5", kind="x", draws=[draw("card", c="1")]),
]
CARD = counter_set("card", c="2")
HOMES = ["n1", "n2", "n3", None]  # None: all of them reach it
POOLS = st.lists(
    st.tuples(st.sampled_from(HOMES), st.sets(st.sampled_from(range(6)), max_size=4)), max_size=4
)


def pool_slices(number: int, home: str | None, forms: set[int]) -> list[ResourceSlice]:
    common: dict[str, Any] = {"pool": f"p{number}", "on": home, "everywhere": home is None or None, "of": 2}
    return [
        slice_(*[FORMS[form] for form in sorted(forms)], name=f"s{number}", **common),
        slice_(name=f"c{number}", counters=[CARD], **common),
    ]


@settings(max_examples=examples(120))
@given(POOLS, st.sampled_from(SHAPES), st.sets(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=3))
def test_a_node_among_others_is_as_it_is_alone(
    pools: list[tuple[str | None, set[int]]], wanted: ResourceClaim, taken: set[tuple[int, int]]
) -> None:
    """Neither does it matter that equal nodes are asked once, nor what was tried on other nodes before."""
    slices = [each for n, (home, forms) in enumerate(pools) for each in pool_slices(n, home, forms)]
    held = holder("held", *[part(f"d{form}", pool=f"p{pool}") for pool, form in sorted(taken)])
    nodes = [node(name) for name in ("n1", "n2", "n3")]
    found = ask(wanted, slices, held, nodes=nodes, limit=8)
    alone = {each.metadata.name: ask(wanted, slices, held, nodes=[each], limit=8) for each in nodes}
    assert found.nodes == {name: each.nodes[name] for name, each in alone.items()}
    numbers = [fits.number for fits in found.nodes.values()]
    assert max(numbers) <= found.cluster.number <= sum(numbers)
    for id, fits in found.pools.items():
        mine = [each for each in slices if each.spec.pool.name == id.pool]
        assert fits == ask(wanted, mine, held, nodes=nodes, limit=8).cluster
