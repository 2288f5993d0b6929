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
from tests.allocator.trees import NODE, card, leaf, slice_of
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
    counters = draw_(st.booleans())
    found = [] if counters else draw_(st.lists(DEVICES, max_size=3, unique_by=lambda each: each.name))
    return slice_(
        *found,
        name=draw_(st.sampled_from(["s0", "s1", "s2", "s3"])),
        pool=draw_(st.sampled_from(POOLS)),
        generation=draw_(st.sampled_from([1, 1, 1, 2])),
        of=draw_(st.sampled_from([1, 2, 2, 3])),
        counters=[counter_set("card", c=draw_(st.sampled_from(["2", "4"])))] if counters else [],
    )


@st.composite
def parts(draw_: st.DrawFn) -> DeviceRequestAllocationResult:
    share = draw_(st.sampled_from([None, None, "s1", "s2"]))
    return part(
        draw_(st.sampled_from(NAMES)),
        pool=draw_(st.sampled_from(POOLS)),
        driver=draw_(st.sampled_from([DRIVER, DRIVER, DRIVER, "other.example.com"])),
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
    return st.one_of(slices(), slices(), claims(), claims(), rules(), TREE_SLICES, TREE_CLAIMS)


__all__ = ["NODE", "claims", "objects", "rules", "slices"]
