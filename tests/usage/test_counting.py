"""In which state each device is, and that they add up: VISIBILITY's rules, case by case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from allotment.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.usage.pool import PoolUsage, compute_pool_usage
from tests.allocator.build import counter_set, device, devices, draw, policed, slice_, taint
from tests.usage.build import counts, holder, part, rule, states

FREE, TAKEN, PARTLY = "Available", "Allocated", "PartiallyAllocated"
TAINTED = "Unavailable Tainted"
EXHAUSTED = "Unavailable CountersExhausted"
INCOMPLETE = "Unavailable PoolIncomplete"
INVALID = "Unavailable PoolInvalid"


@dataclass(frozen=True)
class Case:
    name: str
    slices: Sequence[ResourceSlice]
    expect: dict[str, str]
    claims: Sequence[ResourceClaim] = ()
    rules: Sequence[DeviceTaintRule] = ()
    partly: int = 0
    errors: Sequence[str] = field(default_factory=tuple)  # a part of each


NIC = device("nic", capacity={"bandwidth": policed("10G", "1G", min="1G", step="1G")}, shared=True)
PARTS = [
    device("whole", draws=[draw("card", memory="40Gi")]),
    device("half", draws=[draw("card", memory="20Gi")]),
    device("quarter", draws=[draw("card", memory="10Gi")]),
]
CARD = [
    slice_(*PARTS, name="parts", of=2),
    slice_(name="counters", counters=[counter_set("card", memory="40Gi")], of=2),
]


def nic_share(name: str, amount: str) -> ResourceClaim:
    return holder(name, part("nic", share=name, consumes={"bandwidth": amount}))


CASES = [
    Case("nothing is held", [slice_(*devices(2))], {"d0": FREE, "d1": FREE}),
    Case("a pool without devices", [slice_()], {}),
    Case(
        "a claim without an allocation holds nothing", [slice_(*devices(1))], {"d0": FREE}, [ResourceClaim()]
    ),
    Case("a device of each kind", [slice_(*devices(2))], {"d0": TAKEN, "d1": FREE}, [holder("a", "d0")]),
    Case(
        "one claim may hold several",
        [slice_(*devices(2))],
        {"d0": TAKEN, "d1": TAKEN},
        [holder("a", "d0", "d1")],
    ),
    Case(
        "a device of another pool or driver that has the same name is another",
        [slice_(*devices(1))],
        {"d0": FREE},
        [holder("a", part("d0", pool="other")), holder("b", part("d0", driver="nic.example.com"))],
    ),
    # adminAccess
    Case(
        "admin access is not use", [slice_(*devices(1))], {"d0": FREE}, [holder("a", part("d0", admin=True))]
    ),
    Case(
        "admin access beside use",
        [slice_(*devices(1))],
        {"d0": TAKEN},
        [holder("a", part("d0", admin=True)), holder("b", "d0")],
    ),
    Case(
        "admin access draws nothing from counters",
        CARD,
        {"whole": FREE, "half": FREE, "quarter": FREE},
        [holder("a", part("whole", admin=True))],
    ),
    # taints
    Case("NoSchedule", [slice_(device("d", taints=[taint("k")]))], {"d": TAINTED}),
    Case("NoExecute", [slice_(device("d", taints=[taint("k", effect="NoExecute")]))], {"d": TAINTED}),
    Case(
        "an effect that keeps nothing off",
        [slice_(device("d", taints=[taint("k", effect="None")]))],
        {"d": FREE},
    ),
    Case(
        # Kubernetes 1.37 subtracts such a device twice
        "tainted and allocated is allocated, and counted once",
        [slice_(device("d0", taints=[taint("k")]), device("d1"))],
        {"d0": TAKEN, "d1": FREE},
        [holder("a", "d0")],
    ),
    Case("a rule for everything", [slice_(*devices(1))], {"d0": TAINTED}, rules=[rule("r")]),
    Case(
        "a rule for one device",
        [slice_(*devices(2))],
        {"d0": FREE, "d1": TAINTED},
        rules=[rule("r", device="d1")],
    ),
    Case("a rule for another pool", [slice_(*devices(1))], {"d0": FREE}, rules=[rule("r", pool="other")]),
    Case(
        "a rule that selects nothing", [slice_(*devices(1))], {"d0": FREE}, rules=[rule("r", selects=False)]
    ),
    Case("a rule without effect", [slice_(*devices(1))], {"d0": FREE}, rules=[rule("r", effect="None")]),
    # counters
    Case("nobody draws", CARD, {"whole": FREE, "half": FREE, "quarter": FREE}),
    Case(
        "the whole leaves nothing",
        CARD,
        {"whole": TAKEN, "half": EXHAUSTED, "quarter": EXHAUSTED},
        [holder("a", "whole")],
    ),
    Case(
        "a part leaves room for parts",
        CARD,
        {"whole": EXHAUSTED, "half": TAKEN, "quarter": FREE},
        [holder("a", "half")],
    ),
    Case(
        "groups lock each other out",
        [
            slice_(
                device("a", draws=[draw("card", groups=["halves"])]),
                device("b", draws=[draw("card", groups=["halves"])]),
                device("c", draws=[draw("card", groups=["quarters"])]),
                of=2,
            ),
            slice_(name="counters", counters=[counter_set("card")], of=2),
        ],
        {"a": TAKEN, "b": FREE, "c": "Unavailable LockedOut"},
        [holder("x", "a")],
    ),
    Case(
        "a pool that draws more than there is gives out nothing that draws",
        [
            slice_(
                device("a", draws=[draw("c1", m="2")]),
                device("b", draws=[draw("c2", m="1")]),
                device("free"),
                of=2,
            ),
            slice_(name="counters", counters=[counter_set("c1", m="1"), counter_set("c2", m="9")], of=2),
        ],
        {"a": TAKEN, "b": EXHAUSTED, "free": FREE},
        [holder("x", "a")],
        errors=["more of the pool's shared counters is in use"],
    ),
    # shares
    Case("a share leaves something", [slice_(NIC)], {"nic": PARTLY}, [nic_share("a", "9G")], partly=1),
    Case(
        "two shares", [slice_(NIC)], {"nic": PARTLY}, [nic_share("a", "4G"), nic_share("b", "5G")], partly=1
    ),
    Case("nothing is left", [slice_(NIC)], {"nic": TAKEN}, [nic_share("a", "4G"), nic_share("b", "6G")]),
    Case("less is left than the least share", [slice_(NIC)], {"nic": TAKEN}, [nic_share("a", "9500M")]),
    Case(
        # the default need not keep to its own policy
        "a default that is less than the least share",
        [
            slice_(
                device(
                    "nic", capacity={"bandwidth": policed("10G", "500M", min="1G", step="1G")}, shared=True
                )
            )
        ],
        {"nic": PARTLY},
        [nic_share("a", "9500M")],
        partly=1,
    ),
    Case(
        "the least of several values is left",
        [slice_(device("nic", capacity={"bandwidth": policed("10G", None, "1G", "4G")}, shared=True))],
        {"nic": PARTLY},
        [nic_share("a", "9G")],
        partly=1,
    ),
    Case(
        "shares of no capacity can always be had",
        [slice_(device("d", shared=True))],
        {"d": PARTLY},
        [holder("a", part("d", share="s"))],
        partly=1,
    ),
    Case(
        "of two capacities one is used up",
        [slice_(device("d", shared=True, capacity={"m": "4", "n": "4"}))],
        {"d": TAKEN},
        [holder("a", part("d", share="s", consumes={"m": "4", "n": "1"}))],
    ),
    Case("a device that is shared, held whole", [slice_(NIC)], {"nic": TAKEN}, [holder("a", "nic")]),
    Case(
        "a device that is not shared any more",
        [slice_(device("nic", capacity={"bandwidth": "10G"}))],
        {"nic": TAKEN},
        [nic_share("a", "1G")],
    ),
    Case(
        "a device that shrank below what is held",
        [slice_(device("nic", shared=True, capacity={"bandwidth": "1G"}))],
        {"nic": TAKEN},
        [nic_share("a", "5G")],
        errors=['device "nic": 5G of bandwidth are allocated, it has 1G'],
    ),
    Case(
        "a device promised twice counts once",
        [slice_(*devices(1))],
        {"d0": TAKEN},
        [holder("a", "d0"), holder("b", "d0")],
        errors=['device "d0" is in 2 allocations and can only be in one'],
    ),
    # what is not there
    Case(
        # Kubernetes 1.37 counts such devices as allocated
        "vanished devices count nowhere",
        [slice_(*devices(1))],
        {"d0": FREE},
        [holder("a", "gone"), holder("b", "gone")],
        errors=['device "gone" is in 2 allocations but is not published'],
    ),
    # generations
    Case(
        "older generations are ignored",
        [slice_(device("old"), name="a", generation=1), slice_(device("new"), name="b", generation=2)],
        {"new": FREE},
        errors=["1 slice of the older generation 1 ignored, the newest is 2"],
    ),
    Case(
        "a device of an older generation has vanished",
        [slice_(device("old"), name="a", generation=1), slice_(device("new"), name="b", generation=2)],
        {"new": FREE},
        [holder("x", "old")],
        errors=["older generation", 'device "old" is in 1 allocation'],
    ),
    Case(
        "an older generation makes no duplicate",
        [slice_(device("d"), name="a", generation=1), slice_(device("d"), name="b", generation=2)],
        {"d": FREE},
        errors=["older generation"],
    ),
    # completeness
    Case(
        # Kubernetes 1.37 tells nothing at all about such a pool
        "an incomplete pool has nothing available, and keeps what is allocated",
        [slice_(*devices(3), of=2)],
        {"d0": TAKEN, "d1": INCOMPLETE, "d2": INCOMPLETE},
        [holder("a", "d0")],
    ),
    Case(
        "more slices than announced are as bad",
        [slice_(device("a"), name="s1"), slice_(device("b"), name="s2")],
        {"a": INCOMPLETE, "b": INCOMPLETE},
    ),
    Case(
        "one slice that announces another number is enough",
        [slice_(device("a"), name="s1", of=2), slice_(device("b"), name="s2", of=3)],
        {"a": INCOMPLETE, "b": INCOMPLETE},
        errors=["announce different numbers of slices: 2, 3"],
    ),
    # validity
    Case(
        # Kubernetes 1.37 reports them as available
        "duplicates are one device each, and nothing is available",
        [slice_(device("d"), device("e"), name="s1", of=2), slice_(device("d"), name="s2", of=2)],
        {"d": INVALID, "e": INVALID},
        errors=['device "d" is published more than once, in s1 and s2'],
    ),
    Case(
        "what is allocated of an invalid pool is allocated",
        [slice_(device("d"), device("e"), name="s1", of=2), slice_(device("d"), name="s2", of=2)],
        {"d": TAKEN, "e": INVALID},
        [holder("a", "d")],
        errors=["more than once"],
    ),
    Case(
        "a counter set that is missing",
        [slice_(device("d", draws=[draw("card", memory="1Gi")]))],
        {"d": INVALID},
        errors=["counter set card not found"],
    ),
]


def compute(case: Case) -> PoolUsage:
    return compute_pool_usage(case.slices, case.claims, case.rules)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_states(case: Case) -> None:
    usage = compute(case)
    assert states(usage) == case.expect
    words = [state.partition(" ")[0] for state in case.expect.values()]
    assert counts(usage) == (
        len(words),
        words.count(TAKEN) + words.count(PARTLY),
        words.count(FREE),
        words.count("Unavailable"),
    )
    assert usage.summary.partially_allocated == case.partly
    assert len(usage.validation_errors) == len(case.errors), usage.validation_errors
    for part_of, error in zip(case.errors, usage.validation_errors, strict=True):
        assert part_of in error
    assert usage.hidden == 0


def conditions(usage: PoolUsage) -> tuple[bool, str, bool, str]:
    return usage.complete.holds, usage.complete.reason, usage.valid.holds, usage.valid.reason


@pytest.mark.parametrize(
    ("name", "expect"),
    [
        ("nothing is held", (True, "AllSlicesPresent", True, "ValidationPassed")),
        ("older generations are ignored", (True, "AllSlicesPresent", True, "ValidationPassed")),
        ("vanished devices count nowhere", (True, "AllSlicesPresent", True, "ValidationPassed")),
        (
            "an incomplete pool has nothing available, and keeps what is allocated",
            (False, "SlicesMissing", True, "ValidationPassed"),
        ),
        ("more slices than announced are as bad", (False, "TooManySlices", True, "ValidationPassed")),
        (
            "duplicates are one device each, and nothing is available",
            (True, "AllSlicesPresent", False, "DuplicateDevices"),
        ),
        ("a counter set that is missing", (True, "AllSlicesPresent", False, "InvalidSlices")),
    ],
)
def test_conditions(name: str, expect: tuple[bool, str, bool, str]) -> None:
    (case,) = [case for case in CASES if case.name == name]
    assert conditions(compute(case)) == expect


def test_an_incomplete_pool_with_duplicates_is_both() -> None:
    usage = compute_pool_usage([slice_(device("d"), device("d"), of=2)], [])
    assert conditions(usage) == (False, "SlicesMissing", False, "DuplicateDevices")
    assert states(usage) == {"d": INVALID}


def test_slice_counts_and_generation_are_of_the_newest() -> None:
    usage = compute_pool_usage(
        [
            slice_(name="a", generation=7, of=3),
            slice_(name="b", generation=7, of=3),
            slice_(name="c", generation=6, of=1),
        ],
        [],
    )
    assert (usage.observed_slices, usage.expected_slices, usage.generation) == (2, 3, 7)


def test_errors_are_cut_at_ten_and_their_total_is_told() -> None:
    claims = [holder(f"c{n}", f"gone-{n:02}") for n in range(10)]
    usage = compute_pool_usage([slice_()], claims)
    assert (len(usage.validation_errors), usage.truncated_error_count) == (10, 0)
    usage = compute_pool_usage([slice_()], [*claims, holder("one-more", "gone-10")])
    assert (len(usage.validation_errors), usage.truncated_error_count) == (10, 11)


def test_an_error_is_never_long() -> None:
    usage = compute_pool_usage([slice_()], [holder("a", "x" * 10_000)])
    assert len(usage.validation_errors[0]) == 256


def test_errors_name_no_claims() -> None:
    claims = [holder("secret", "gone", "d0", namespace="theirs"), holder("private", "d0", namespace="theirs")]
    told = " ".join(compute_pool_usage([slice_(*devices(1))], claims).validation_errors)
    assert "gone" in told
    assert "d0" in told
    assert not any(word in told for word in ("secret", "private", "theirs"))


def test_the_node_is_told_if_it_is_the_only_one() -> None:
    assert compute_pool_usage([slice_(on="n1")], []).node_name == "n1"
    two = [slice_(name="a", on="n1", of=2), slice_(name="b", on="n2", of=2)]
    assert compute_pool_usage(two, []).node_name == ""
    assert compute_pool_usage([slice_(everywhere=True)], []).node_name == ""


def test_slices_must_be_of_one_pool() -> None:
    with pytest.raises(ValueError, match="of 0"):
        compute_pool_usage([], [])
    with pytest.raises(ValueError, match="of 2"):
        compute_pool_usage([slice_(name="a", pool="p"), slice_(name="b", pool="q")], [])
