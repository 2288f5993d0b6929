"""Single changes that would help: worked examples, bounds, and every change there is beside brute force."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from allotment.allocator.fleet import Fleet
from allotment.api.codec import decode
from allotment.api.core import Node
from allotment.api.quantity import Quantity
from allotment.api.resource import DeviceClass, DeviceConstraint, ResourceClaim, ResourceSlice
from allotment.usage.changes import ChangeKind
from allotment.usage.remedies import MOST_OFFERED, MOST_TAINT_KEYS, Remedies, remedies
from tests import bruteforce
from tests.allocator.build import (
    ANY,
    claim,
    counter_set,
    device,
    devices,
    distinct,
    draw,
    either,
    match,
    mine,
    node,
    policed,
    request,
    slice_,
    sub,
    taint,
    toleration,
)
from tests.allocator.oracle import evaluate, tangle
from tests.thoroughness import examples
from tests.usage.build import holder, part
from tests.usage.test_remaining import modest

Json = dict[str, Any]


def fleet_of(
    slices: Sequence[ResourceSlice], *holders: ResourceClaim, nodes: Sequence[Node] | None = None
) -> Fleet:
    fleet = Fleet(nodes or [node("n1"), node("n2")], slices, [ANY])
    for each in holders:
        assert each.status.allocation is not None
        fleet.ledger.commit(each.metadata.key, each.status.allocation)
    return fleet


def ask(fleet: Fleet, *claims: ResourceClaim, **more: Any) -> Remedies:
    more.setdefault("nodes", list(fleet.places))
    more.setdefault("releasable", fleet.ledger.claims())
    return remedies(fleet, claims, **more)


def words(found: Remedies) -> list[str]:
    return [each.words for each in found.found]


def local(*found: Any, pool: str = "p1", on: str = "n1", **more: Any) -> ResourceSlice:
    return slice_(*found, name=f"{pool}-slice", pool=pool, on=on, **more)


NUMAS = [device(f"d{n}", numa=n // 2) for n in range(4)]
CARD = [
    local(*[device(f"q{n}", draws=[draw("card", m="1")]) for n in range(4)], of=2),
    slice_(name="counters", pool="p1", on="n1", counters=[counter_set("card", m="2")], of=2),
]
NIC = device("nic", shared=True, capacity={"bandwidth": policed("10G", "1G", min="1G", step="1G")})
SHARE = part("nic", pool="p1", share="s", consumes={"bandwidth": "3G"})


@pytest.mark.parametrize(
    ("slices", "holders", "wanted", "offered"),
    [
        pytest.param(
            [local(*devices(3))],
            [holder("a", part("d0", pool="p1"))],
            claim(request(count=3)),
            ["with count ≤ 2 (request r asks for 3)", "if claim ns/a is released"],
            id="a smaller count, or somebody else's device",
        ),
        pytest.param(
            [local(*NUMAS)],
            [],
            claim(request(count=3), constraints=[match("numa")]),
            ["with count ≤ 2 (request r asks for 3)", "without matchAttribute gpu.example.com/numa"],
            id="a constraint",
        ),
        pytest.param(
            [local(*NUMAS)],
            [],
            claim(request("a", count=2), request("b"), constraints=[distinct("numa")]),
            [
                "with count ≤ 1 (request a asks for 2)",
                "without distinctAttribute gpu.example.com/numa",
            ],
            id="a constraint on different values",
        ),
        pytest.param(
            [local(device("d0", kind="x"))],
            [],
            claim(request("r", f'{mine("kind")} == "y"')),
            [f'without selector `{mine("kind")} == "y"` (request r)'],
            id="a selector",
        ),
        pytest.param(
            [local(device("d0", kind="x"))],
            [],
            claim(request("r", f'{mine("kind")} == "y"', f'{mine("kind")} == "z"')),
            [],
            id="two selectors are two changes",
        ),
        pytest.param(
            [local(device("d0", taints=[taint("hot", "yes"), taint("note", effect="None")]))],
            [],
            claim(request()),
            ["with a toleration of device taint hot (request r)"],
            id="a taint",
        ),
        pytest.param(
            [local(device("d0", taints=[taint("hot"), taint("hot", "v", "NoExecute")]))],
            [],
            claim(request(tolerates=[toleration("hot", "Exists", effect="NoSchedule")])),
            ["with a toleration of device taint hot (request r)"],
            id="the other effect of a taint",
        ),
        pytest.param(
            [local(device("d0", taints=[taint("hot"), taint("old")]))],
            [],
            claim(request()),
            [],
            id="two taints are two changes",
        ),
        pytest.param(
            [local(NIC)],
            [holder("a", SHARE)],
            claim(request(capacity={"bandwidth": "9G"})),
            ["with bandwidth ≤ 7G (request r asks for 9G)", "if claim ns/a is released"],
            id="less of a share",
        ),
        pytest.param(
            [local(device("d0", capacity={"memory": "40Gi"}))],
            [],
            claim(request(capacity={"memory": "80Gi"})),
            ["with memory ≤ 40Gi (request r asks for 80Gi)"],
            id="a smaller device",
        ),
        pytest.param(
            [local(device("d0", capacity={"memory": "512Mi"}))],
            [],
            claim(request(capacity={"memory": "100Gi"})),  # 64 Gi or more are counted in Gi
            ["with memory ≤ 512Mi (request r asks for 100Gi)"],
            id="a device smaller than the unit",
        ),
        pytest.param(
            [local(device("d0", capacity={"memory": "23034Mi"}))],
            [],
            claim(request(capacity={"memory": "100Gi"})),
            ["with memory ≤ 23034Mi (request r asks for 100Gi)"],
            id="few of a unit are counted in smaller ones",
        ),
        pytest.param(
            [local(device("d0", capacity={"memory": "10G"}))],
            [],
            claim(request(capacity={"memory": "1e999"})),
            ["with memory ≤ 10e9 (request r asks for 1e999)"],
            id="a number that no machine holds",
        ),
        pytest.param(
            CARD,
            [],
            claim(request(count=4)),
            ["with count ≤ 2 (request r asks for 4)"],
            id="counters",
        ),
        pytest.param(
            [local(*devices(3))],
            [holder("a", part("d1", pool="p1"))],
            claim(request(all=True)),
            ["with count ≤ 2 (request r asks for all)", "if claim ns/a is released"],
            id="fewer than all",
        ),
        pytest.param(
            [local(*devices(2))],
            [],
            claim(either("r", sub("many", count=5), sub("some", count=3))),
            [
                "with count ≤ 2 (request r/some asks for 3)",
                "with count ≤ 2 (request r/many asks for 5)",
            ],
            id="either alternative, the nearer first",
        ),
        pytest.param(
            [local(*devices(2)), local(*devices(1), pool="p2", on="n2")],
            [holder("both", part("d0", pool="p1"), part("d1", pool="p1")), holder("c", part("d0", pool="p2"))],
            claim(request()),
            ["if claim ns/c is released", "if claim ns/both is released"],
            id="the claim that holds least first",
        ),
        pytest.param(
            [local(*devices(2))],
            [holder("a", part("d0", pool="p1")), holder("b", part("d1", pool="p1"))],
            claim(request(count=2)),
            [],
            id="two claims are two changes",
        ),
        pytest.param(
            [local(*devices(1))],
            [holder("a", part("d0", pool="p1")), holder("watch", part("d0", pool="p1", admin=True))],
            claim(request()),
            ["if claim ns/a is released"],
            id="who only looks on is not in the way",
        ),
        pytest.param([], [], claim(request(count=4)), [], id="nothing helps without devices"),
        pytest.param(
            [local(*devices(1))], [], claim(request(class_name="none")), [], id="nor without the class"
        ),
    ],
)  # fmt: skip
def test_what_helps(
    slices: list[ResourceSlice], holders: list[ResourceClaim], wanted: ResourceClaim, offered: list[str]
) -> None:
    fleet = fleet_of(slices, *holders)
    found = ask(fleet, wanted)
    assert words(found) == offered
    assert not found.cut
    fleet.validate()  # it was left as it was
    assert set(fleet.ledger.claims()) == {each.metadata.key for each in holders}


def test_claims_of_one_pod_are_asked_for_together_and_told_apart() -> None:
    fleet = fleet_of([local(*devices(3))])
    found = ask(fleet, claim(request(count=2), name="a"), claim(request(count=2), name="b"))
    assert words(found) == [
        "with count ≤ 1 (claim ns/a, request r asks for 2)",
        "with count ≤ 1 (claim ns/b, request r asks for 2)",
    ]
    assert [each.claim for each in found.found] == ["ns/a", "ns/b"]


def test_only_nodes_and_claims_that_come_into_question() -> None:
    fleet = fleet_of(
        [local(*devices(1)), local(*devices(2), pool="p2", on="n2")],
        holder("mine", part("d0", pool="p1")),
        holder("foreign", part("d0", pool="p2")),
    )
    wanted = claim(request(count=2))
    found = ask(fleet, wanted, nodes=["n1", "gone"], releasable=["ns/mine", "ns/unknown"])
    assert words(found) == []
    found = ask(fleet, wanted, nodes=["n2"], releasable=["ns/mine"])
    assert [(each.words, each.node) for each in found.found] == [
        ("with count ≤ 1 (request r asks for 2)", "n2")
    ]


def test_claims_of_the_same_namespace_come_first() -> None:
    theirs = holder("a", part("d0", pool="p1"), namespace="else")
    fleet = fleet_of([local(*devices(2))], theirs, holder("z", part("d1", pool="p1")))
    assert words(ask(fleet, claim(request()))) == ["if claim ns/z is released", "if claim else/a is released"]


def test_a_pool_that_all_nodes_reach() -> None:
    fleet = fleet_of([slice_(*devices(1), pool="net", everywhere=True)], holder("a", part("d0", pool="net")))
    assert words(ask(fleet, claim(request()))) == ["if claim ns/a is released"]


# --- bounds ---


def crowd(number: int) -> Fleet:
    """Nodes with one device each, all in use."""
    return fleet_of(
        [local(device("d0"), pool=f"p{n}", on=f"n{n}") for n in range(number)],
        *[holder(f"c{n:04}", part("d0", pool=f"p{n}")) for n in range(number)],
        nodes=[node(f"n{n}") for n in range(number)],
    )


def test_only_so_many_changes_of_a_kind_are_offered() -> None:
    """Any of the requests may do without a device."""
    fleet = fleet_of([local(*devices(7))])
    wanted = claim(*[request(f"r{n}", count=2) for n in range(4)])
    assert len(ask(fleet, wanted, most=4).found) == 4
    assert not ask(fleet, wanted, most=4).cut
    found = ask(fleet, wanted, most=3)
    assert (len(found.found), found.cut) == (3, True)


def test_only_so_many_claims_are_offered() -> None:
    found = ask(crowd(MOST_OFFERED + 1), claim(request()))
    assert (len(found.found), found.cut) == (MOST_OFFERED, True)
    found = ask(crowd(MOST_OFFERED), claim(request()))
    assert (len(found.found), found.cut) == (MOST_OFFERED, False)


def test_only_so_many_questions_are_asked() -> None:
    fleet = crowd(8)
    found = ask(fleet, claim(request(count=2)), questions=3)  # one for the count, two for claims
    assert (len(found.found), found.cut) == (0, True)
    assert ask(fleet, claim(request(count=2)), questions=0) == Remedies((), cut=True)


def test_time_is_somebody_elses_and_may_be_up_at_any_moment() -> None:
    fleet = crowd(6)
    whole = ask(fleet, claim(request("r", "true", count=1)))
    for patience in range(40):
        left = iter([True] * patience)
        found = ask(fleet, claim(request("r", "true", count=1)), go_on=lambda left=left: next(left, False))
        assert set(found.found) <= set(whole.found)
        assert found.cut or found == whole
    fleet.validate()


def test_a_search_that_gives_up_is_told() -> None:
    slices = [local(*[device(f"d{n}", draws=[draw("card", m=str(n + 3))]) for n in range(12)], of=2)]
    slices.append(slice_(name="counters", pool="p1", on="n1", counters=[counter_set("card", m="40")], of=2))
    assert ask(fleet_of(slices), claim(request(count=11)), budget=2).cut


def test_hostile_sizes_are_bounded() -> None:
    """Devices with a taint each of its own, and a claim of all that may be written into one."""
    many = [device(f"d{n}", taints=[taint(f"k{n}")]) for n in range(MOST_TAINT_KEYS + 8)]
    wanted = claim(
        *[request(f"r{n}", *["false"] * 32, count=32, capacity={"m": "1Ei"}) for n in range(32)],
        constraints=[match(f"a{n}") for n in range(32)],
    )
    asked = 0

    def count() -> bool:
        nonlocal asked
        asked += 1
        return asked < 3_000

    found = ask(fleet_of([local(*many)]), wanted, go_on=count, questions=200)
    assert found == Remedies((), cut=True)
    assert asked < 3_000


# --- beside brute force ---


def asks_of(problem: Json) -> Iterator[tuple[str, str, Json]]:
    """Claim, request and wish of every request and alternative, to be changed in place."""
    for each in problem["claims"]:
        name = f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        for wanted in each["spec"]["devices"]["requests"]:
            if wanted.get("exactly"):
                yield name, wanted["name"], wanted["exactly"]
            for alternative in wanted.get("firstAvailable") or ():
                yield name, f"{wanted['name']}/{alternative['name']}", alternative


Target = tuple[str, str, str, str]  # kind, claim, request, what


def single_changes(problem: Json, holders: list[list[Json]]) -> Iterator[tuple[Target, Json]]:
    """Every problem that differs in one thing, with a name for what."""
    taints = {
        each["key"]
        for published in problem["slices"]
        for found in published["spec"].get("devices", ())
        for each in found.get("taints") or ()
        if each["effect"] in ("NoSchedule", "NoExecute")
    }
    for number, (name, wanted, wish) in enumerate(asks_of(problem)):

        def other(number: int = number) -> tuple[Json, Json]:
            copy = deepcopy(problem)
            return copy, list(asks_of(copy))[number][2]

        every = wish.get("allocationMode") == "All"
        for count in range(1, 12 if every else wish.get("count") or 1):
            copy, changed = other()
            changed |= {"allocationMode": "ExactCount", "count": count}
            yield ("count", name, wanted, ""), copy
        for index in range(len(wish.get("selectors") or ())):
            copy, changed = other()
            expression = changed["selectors"].pop(index)["cel"]["expression"]
            yield ("selector", name, wanted, " ".join(expression.split())), copy
        for key in taints:
            copy, changed = other()
            more = {"key": key, "operator": "Exists"}
            changed["tolerations"] = [*(changed.get("tolerations") or ()), more]
            yield ("toleration", name, wanted, key), copy
        for capacity, amount in ((wish.get("capacity") or {}).get("requests") or {}).items():
            for less in smaller(amount):
                copy, changed = other()
                changed["capacity"]["requests"][capacity] = less
                yield ("capacity", name, wanted, ""), copy
    for number, each in enumerate(problem["claims"]):
        name = f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        for index, relation in enumerate(each["spec"]["devices"].get("constraints") or ()):
            copy = deepcopy(problem)
            del copy["claims"][number]["spec"]["devices"]["constraints"][index]
            known = decode(DeviceConstraint, relation)
            yield ("constraint", name, "", known.match_attribute or known.distinct_attribute or ""), copy
    for number in range(len(holders)):
        rest = [id for index, held in enumerate(holders) if index != number for id in held]
        yield ("release", f"ns/h{number}", "", f"ns/h{number}"), {**problem, "allocatedDevices": rest}


def smaller(amount: str) -> list[str]:
    """The least whole amount, the least of the unit that it is written in, and some more."""
    whole, suffix = Quantity.parse(amount), amount.lstrip("-0123456789.")
    some = ["1", *(f"{number}{suffix}" for number in (1, 2, 3, 5, 8, 13))]
    return [each for each in some if Quantity.parse(each) < whole]


@settings(max_examples=examples(120))
@example(1382555, set(), False, 1)  # of all devices, 8Gi fit where neither 5Gi nor 12Gi do
@example(10293127, set(), False, 2)  # an amount below zero
@example(1218124, set(), False, 1)  # 2**63 - 1 bytes are asked for, and a few GiB are there
@given(st.integers(0, 2**32), st.sets(st.integers(0, 9), max_size=8), st.booleans(), st.integers(1, 3))
def test_what_is_offered_is_what_brute_force_finds(
    seed: int, taken: set[int], tainted: bool, requests: int
) -> None:
    rng = random.Random(seed)
    problem = tangle(rng)
    problem = {name: problem[name] for name in ("node", "slices", "classes", "claims")}
    problem["claims"] = [modest(each, requests) for each in problem["claims"]]
    if any(not each.get("cel") for _, _, wish in asks_of(problem) for each in wish.get("selectors") or ()):
        return  # no server accepts a selector without an expression
    if tainted:
        _taint_some(problem, rng)
    holders = _held(problem, taken)
    problem["allocatedDevices"] = [id for held in holders for id in held]
    before = bruteforce.allocate(problem, evaluate, 20_000)
    if before["ok"] or before.get("exhausted"):
        return
    helping: set[Target] = set()
    for target, changed in single_changes(problem, holders):
        answer = bruteforce.allocate(changed, evaluate, 20_000)
        if answer.get("exhausted"):
            return
        if answer["ok"]:
            helping.add(target)
    found = _asked(problem, holders)
    assert not found.cut
    offered = {
        (
            str(each.kind),
            each.claim,
            each.request,
            "" if each.kind in (ChangeKind.COUNT, ChangeKind.CAPACITY) else each.value,
        )
        for each in found.found
    }
    # Less capacity lets devices in that a wish for all must then take too: what helps is no matter of less or more.
    doubtful = {
        ("capacity", name, wanted, "")
        for name, wanted, wish in asks_of(problem)
        if wish.get("allocationMode") == "All"
    }
    assert offered - doubtful == helping - doubtful
    for each in found.found:  # and what was changed is what the words say
        if each.change is not None:
            changed = json.loads(json.dumps(problem))
            changed["claims"][each.change.number] = _plain(each.change.claim)
            assert bruteforce.allocate(changed, evaluate, 100_000)["ok"], each.words


def _taint_some(problem: Json, rng: random.Random) -> None:
    for published in problem["slices"]:
        for found in published["spec"].get("devices", ()):
            if rng.random() < 0.4:
                found["taints"] = [
                    {"key": rng.choice("ab"), "effect": rng.choice(["NoSchedule", "NoExecute"])}
                ]


def _held(problem: Json, taken: set[int]) -> list[list[Json]]:
    """Devices in use, by the claims that hold them, two each."""
    names = {
        (each["spec"]["driver"], each["spec"]["pool"]["name"], found["name"]): None
        for each in problem["slices"]
        for found in each["spec"].get("devices", ())
        if not found.get("allowMultipleAllocations")
    }
    ids = [{"driver": driver, "pool": pool, "device": name} for driver, pool, name in names]
    held = [id for number, id in enumerate(ids) if number in taken]
    return [held[start : start + 2] for start in range(0, len(held), 2)]


def _asked(problem: Json, holders: list[list[Json]]) -> Remedies:
    fleet = Fleet(
        [decode(Node, problem["node"])],
        [decode(ResourceSlice, each) for each in problem["slices"]],
        [decode(DeviceClass, each) for each in problem["classes"]],
    )
    for number, held in enumerate(holders):
        parts = [part(id["device"], pool=id["pool"], driver=id["driver"]) for id in held]
        allocation = holder(f"h{number}", *parts).status.allocation
        assert allocation is not None
        fleet.ledger.commit(f"ns/h{number}", allocation)
    return ask(
        fleet, *[decode(ResourceClaim, each) for each in problem["claims"]], budget=200_000, most=1_000
    )


def _plain(wanted: ResourceClaim) -> Json:
    from allotment.api.codec import to_builtins

    plain: Json = to_builtins(wanted)
    return plain
