"""Which pools a node makes of slices, in what order, and what is wrong with the others."""

import random

import pytest

from allotment.allocator.errors import AllocationError
from allotment.allocator.features import ALL, Features
from allotment.allocator.pool import Pool
from allotment.api.resource import ResourceSlice
from tests.allocator.build import (
    counter_set,
    device,
    draw,
    node,
    pools,
    selector,
    slice_,
    where,
)

WITHOUT_PARTITIONS = Features(PartitionableDevices=False)
WITHOUT_GROUPS = Features(CompatibilityGroups=False)


def names(pool: Pool) -> list[str]:
    return [device.spec.name for device in pool.devices]


def only(slices: list[ResourceSlice], features: Features = ALL) -> Pool:
    (pool,) = pools(slices, features=features)
    return pool


# --- generations and completeness ---

OLD = slice_(device("old"), name="old", generation=1)
NEW = slice_(device("new"), name="new", generation=2)
HALF = slice_(device("half"), name="half", generation=2, of=2)
OTHER_HALF = slice_(device("other"), name="other", generation=2, of=2)


@pytest.mark.parametrize(
    ("slices", "devices"),
    [
        ([OLD], ["old"]),
        ([OLD, NEW], ["new"]),
        ([NEW, OLD], ["new"]),
        ([HALF, OTHER_HALF], ["half", "other"]),
        ([OTHER_HALF, OLD, HALF], ["half", "other"]),  # by the slices' names
    ],
)
def test_the_newest_generation_counts(slices: list[ResourceSlice], devices: list[str]) -> None:
    pool = only(slices)
    assert pool.usable
    assert names(pool) == devices


def test_a_pool_with_slices_missing_is_incomplete_and_has_no_devices() -> None:
    pool = only([OLD, HALF])
    assert pool.incomplete
    assert names(pool) == []
    assert (pool.slices, pool.announced, pool.generation) == (1, 2, 2)


def test_a_pool_with_slices_to_spare_is_incomplete_too() -> None:
    extra = [slice_(device(name), name=name) for name in "ab"]
    assert only(extra).incomplete


def test_an_old_generation_is_obsolete_if_a_newer_one_exists_on_other_nodes() -> None:
    here = slice_(device("here"), name="here", of=2)
    elsewhere = slice_(device("there"), name="there", on="node-2", generation=2, of=1)
    assert pools([here, elsewhere]) == []


def test_but_an_old_generation_that_is_complete_here_is_used() -> None:
    """Upstream looks at other nodes' slices only if those of this node are too few."""
    here = slice_(device("here"), name="here")
    elsewhere = slice_(device("there"), name="there", on="node-2", generation=2)
    assert names(only([here, elsewhere])) == ["here"]


def test_slices_of_other_nodes_complete_a_pool_and_keep_their_devices_to_themselves() -> None:
    here, there = slice_(device("here"), name="a", of=2), slice_(device("there"), name="b", on="node-2", of=2)
    pool = only([here, there])
    assert names(pool) == ["here"]
    assert [device.spec.name for device in pool.elsewhere] == ["there"]


# --- flaws ---

SET = counter_set("set", slots="2")
COSTS = [draw("set", slots="1")]


@pytest.mark.parametrize(
    ("slices", "flaw"),
    [
        pytest.param([slice_(device("a"), device("a"))], "duplicate device name a", id="twice in one slice"),
        pytest.param(
            [slice_(device("a"), name="x", of=2), slice_(device("a"), name="y", of=2)],
            "duplicate device name a",
            id="in two slices",
        ),
        pytest.param(
            [slice_(name="x", counters=[SET], of=2), slice_(name="y", counters=[SET], of=2)],
            "duplicate counter set name set",
            id="counter set twice",
        ),
        pytest.param(
            [slice_(device("a", draws=COSTS))],
            "device a: counter set set not found",
            id="no such counter set",
        ),
        pytest.param(
            [
                slice_(device("a", draws=[draw("set", lanes="1")]), name="x", of=2),
                slice_(name="y", counters=[SET], of=2),
            ],
            "device a: counter lanes not found in counter set set",
            id="no such counter",
        ),
        pytest.param(
            [
                slice_(device("a", draws=COSTS), name="x", of=3),
                slice_(device("b", draws=[draw("lost")]), name="y", of=3, on="node-2"),
                slice_(name="z", counters=[SET], of=3),
            ],
            "device b: counter set lost not found",
            id="of a device that only another node reaches",
        ),
    ],
)
def test_an_invalid_pool_says_why_and_has_no_devices(slices: list[ResourceSlice], flaw: str) -> None:
    pool = only(slices)
    assert pool.invalid == flaw
    assert not pool.usable
    assert names(pool) == []


def test_a_name_twice_on_different_nodes_goes_unnoticed() -> None:
    """As upstream: only the devices of this node's slices are compared."""
    pool = only([slice_(device("a"), name="x", of=2), slice_(device("a"), name="y", on="node-2", of=2)])
    assert pool.usable


def test_counter_sets_may_come_from_slices_of_other_nodes() -> None:
    pool = only(
        [
            slice_(device("a", draws=COSTS), name="x", of=2),
            slice_(name="y", on="node-2", counters=[SET], of=2),
        ]
    )
    assert pool.usable
    assert pool.counter_sets == (SET,)


# --- order ---


def test_pools_come_by_driver_and_name_those_with_binding_conditions_last() -> None:
    slices = [
        slice_(device("bound", binding=["ready"]), name="1", driver="a", pool="a"),
        slice_(device("d"), name="2", driver="b", pool="a"),
        slice_(device("d"), name="3", driver="a", pool="c"),
        slice_(device("d"), name="4", driver="a", pool="b"),
    ]
    for seed in range(5):
        random.Random(seed).shuffle(slices)
        assert [str(pool.id) for pool in pools(slices)] == ["a/b", "a/c", "b/a", "a/a"]


def test_devices_come_by_slice_name_and_then_as_published() -> None:
    slices = [
        slice_(device("c"), device("a"), name="y", of=2),
        slice_(device("d"), device("b"), name="x", of=2),
    ]
    assert names(only(slices)) == ["d", "b", "c", "a"]


# --- who is reached ---


@pytest.mark.parametrize(
    ("published", "reached"),
    [
        pytest.param(slice_(device("d")), True, id="by name"),
        pytest.param(slice_(device("d"), on="node-2"), False, id="by another name"),
        pytest.param(slice_(device("d"), everywhere=True), True, id="everywhere"),
        pytest.param(slice_(device("d"), on=selector(where("zone", "In", "z1"))), True, id="by label"),
        pytest.param(
            slice_(device("d"), on=selector(where("zone", "In", "z2"))), False, id="by another label"
        ),
        pytest.param(slice_(device("d"), on=None), False, id="by nothing that we know"),
        pytest.param(
            slice_(device("d", on="node-1"), per_device=True), True, id="one of its devices by name"
        ),
        pytest.param(slice_(device("d", on="node-2"), per_device=True), False, id="none of its devices"),
        pytest.param(
            slice_(device("d", on="node-2"), device("e", everywhere=True), per_device=True),
            True,
            id="one device of several",
        ),
    ],
)
def test_a_slice_reaches_a_node(published: ResourceSlice, reached: bool) -> None:
    assert bool(pools([published], node("node-1", zone="z1"))) is reached


def test_devices_for_other_nodes_stay_in_the_pool_for_the_search_to_pass_over() -> None:
    """The order of the search is that of all of them."""
    published = slice_(device("theirs", on="node-2"), device("ours", on="node-1"), per_device=True)
    assert names(only([published])) == ["theirs", "ours"]


def test_a_broken_selector_in_any_slice_is_an_error_of_the_node() -> None:
    slices = [
        slice_(device("d")),
        slice_(device("e"), name="broken", pool="p", on=selector(where("k", "Near"))),
    ]
    with pytest.raises(AllocationError, match="operator 'Near'"):
        pools(slices)


# --- features that are off hide slices, which leaves their pools incomplete ---


def test_without_partitions_slices_with_counters_or_chosen_nodes_are_not_seen() -> None:
    counted = [slice_(device("a", draws=COSTS), name="x", of=2), slice_(name="y", counters=[SET], of=2)]
    # Upstream looks at the whole pool again when slices are missing, and there they are: it is complete after all.
    assert not only(counted, WITHOUT_PARTITIONS).incomplete
    assert pools([slice_(device("a", on="node-1"), per_device=True)], features=WITHOUT_PARTITIONS) == []


def test_without_groups_slices_that_have_them_are_not_seen() -> None:
    grouped = slice_(device("a", draws=[draw("set", ["red"], slots="1")]), name="x", of=3)
    plain = slice_(device("b"), name="w", of=3)
    counters = slice_(name="y", counters=[SET], of=3)
    assert only([grouped, plain, counters], WITHOUT_GROUPS).incomplete
    assert only([grouped, plain, counters]).usable
