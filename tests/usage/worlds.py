"""Random clusters that get in their own way: few names, so that slices, claims and rules meet."""

from __future__ import annotations

from hypothesis import strategies as st

from allotment.api.meta import ApiStruct
from allotment.api.resource import (
    Device,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from tests.allocator.build import DRIVER, counter_set, device, draw, slice_, taint
from tests.allocator.trees import DRIVER as TREES
from tests.allocator.trees import card, leaf, slice_of
from tests.usage.build import holder, part, rule
from tests.usage.test_trees import tree_claim

POOLS = ["p1", "p2"]
NAMES = [f"d{number}" for number in range(5)]


def _device(name: str, form: str) -> Device:
    match form:
        case "tainted":
            return device(name, taints=[taint("k")])
        case "shared":
            return device(name, shared=True, capacity={"m": "4"})
        case "large":
            return device(name, draws=[draw("card", c="4")])
        case "small":
            return device(name, draws=[draw("card", c="1")])
        case _:
            return device(name)


DEVICES = st.builds(
    _device, st.sampled_from(NAMES), st.sampled_from(["plain", "tainted", "shared", "large", "small"])
)


@st.composite
def slices(draw_: st.DrawFn) -> ResourceSlice:
    """A pool is mostly meant to be of two slices, one of devices and one of counters; a third disturbs."""
    pool, number = draw_(st.sampled_from(POOLS)), draw_(st.sampled_from([0, 0, 0, 1, 1, 2]))
    found = [] if number == 1 else draw_(st.lists(DEVICES, max_size=5, unique_by=lambda each: each.name))
    return slice_(
        *found,
        name=f"{pool}-{number}",
        pool=pool,
        generation=draw_(st.sampled_from([2, 2, 2, 2, 2, 2, 1, 3])),
        of=draw_(st.sampled_from([2, 2, 2, 2, 2, 2, 1, 3])),
        counters=[counter_set("card", c=draw_(st.sampled_from(["2", "4", "5"])))] if number == 1 else [],
    )


@st.composite
def whole_pools(draw_: st.DrawFn) -> list[ResourceSlice]:
    """Pools that are complete and valid."""
    return [
        each
        for pool in draw_(st.lists(st.sampled_from(POOLS), unique=True, min_size=1))
        for each in (
            slice_(
                *draw_(st.lists(DEVICES, min_size=2, max_size=5, unique_by=lambda each: each.name)),
                name=f"{pool}-0",
                pool=pool,
                of=2,
            ),
            slice_(
                name=f"{pool}-1",
                pool=pool,
                of=2,
                counters=[counter_set("card", c=draw_(st.sampled_from(["4", "5"])))],
            ),
        )
    ]


@st.composite
def parts(draw_: st.DrawFn) -> DeviceRequestAllocationResult:
    share = draw_(st.sampled_from([None, "s1", "s2"]))
    return part(
        draw_(st.sampled_from(NAMES)),
        pool=draw_(st.sampled_from(POOLS)),
        driver=draw_(st.sampled_from([DRIVER] * 7 + ["other.example.com"])),
        share=share,
        consumes={"m": draw_(st.sampled_from(["1", "2", "4"]))} if share else None,
        admin=draw_(st.sampled_from([None, None, None, True])),
    )


@st.composite
def claims(draw_: st.DrawFn) -> ResourceClaim:
    name = draw_(st.sampled_from(["c0", "c1", "c2", "c3"]))
    return holder(name, *draw_(st.lists(parts(), max_size=3)), namespace=draw_(st.sampled_from(["x", "y"])))


@st.composite
def rules(draw_: st.DrawFn) -> DeviceTaintRule:
    return rule(
        draw_(st.sampled_from(["r0", "r1"])),
        driver=draw_(st.sampled_from([None, DRIVER, TREES])),
        pool=draw_(st.sampled_from([None, *POOLS])),
        device=draw_(st.sampled_from([None, *NAMES])),
        effect=draw_(st.sampled_from(["NoSchedule", "None"])),
    )


TREE_SLICES = st.builds(
    lambda name, instance: slice_of(instance, name=name),
    st.sampled_from(["t0", "t1"]),
    st.sampled_from([card("card"), leaf("single"), leaf("card")]),
)
TREE_CLAIMS = st.builds(
    tree_claim,
    st.sampled_from(["c4", "c5"]),
    st.sampled_from(["card", "single", "card/whole/gpu", "card/parts/half", "card/parts/rest/quarters/q0"]),
)


def objects() -> st.SearchStrategy[ApiStruct]:
    """Anything that usage follows from."""
    return st.one_of(slices(), slices(), slices(), claims(), claims(), rules(), TREE_SLICES, TREE_CLAIMS)
