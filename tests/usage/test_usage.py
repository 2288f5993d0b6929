"""Usage kept up under changes is usage computed anew, whatever the order; and a change touches only its own pools."""

from __future__ import annotations

from random import Random
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.allocator.pool import PoolID
from allotment.api.meta import ApiStruct, ObjectMeta
from allotment.api.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceSlice,
)
from allotment.usage.pool import PoolUsage, compute_pool_usage
from allotment.usage.summary import Summary
from allotment.usage.usage import Usage, compute_usage
from tests.allocator.build import DRIVER, device, devices, slice_
from tests.thoroughness import examples
from tests.usage import naive, worlds
from tests.usage.build import holder, part, rule, states

P1, P2 = PoolID(DRIVER, "p1"), PoolID(DRIVER, "p2")


Kind = TypeVar("Kind", bound=ApiStruct)


def key(each: ApiStruct) -> tuple[type, str, str]:
    meta: ObjectMeta = each.metadata  # type: ignore[attr-defined]  # all objects have one
    return type(each), meta.namespace, meta.name


def latest(told: list[Kind]) -> list[Kind]:
    """One object of each name."""
    return list({key(each): each for each in told}.values())


# --- any cluster ---


@settings(max_examples=examples(150))
@given(
    worlds.whole_pools(),
    st.lists(worlds.slices(), max_size=2),
    st.lists(worlds.claims(), max_size=5),
    st.lists(worlds.rules(), max_size=2),
)
def test_states_are_those_of_the_dumb_way(
    pools: list[ResourceSlice],
    disturbing: list[ResourceSlice],
    claims: list[ResourceClaim],
    rules: list[DeviceTaintRule],
) -> None:
    slices, claims, rules = latest([*pools, *disturbing]), latest(claims), latest(rules)
    found = {
        usage.id: {each.name: str(each.state) for each in usage.devices}
        for usage in compute_usage([*slices, *claims, *rules])
    }
    assert found == naive.states(slices, claims, rules)


@settings(max_examples=examples(100))
@given(st.lists(worlds.objects(), max_size=12))
def test_states_partition_the_devices(told: list[ApiStruct]) -> None:
    usage = Usage(told)
    for pool in usage.pools():
        summary = pool.summary
        assert summary.total == len(pool.devices) == len({device.name for device in pool.devices})
        assert summary.available + summary.allocated + summary.unavailable == summary.total
        assert summary.partially_allocated <= summary.allocated
        assert summary.unknown == 0
        if not (pool.complete.holds and pool.valid.holds):
            assert summary.available == 0
        assert not {device.name for device in pool.devices} & {gone.name for gone in pool.vanished}
        assert len(pool.validation_errors) <= 10
    assert usage.cluster().summary == sum([pool.summary for pool in usage.pools()], Summary())
    assert usage.cluster().summary == sum(usage.cluster().drivers.values(), Summary())


@settings(max_examples=examples(100))
@given(st.lists(worlds.objects(), max_size=12), st.randoms(use_true_random=False))
def test_the_order_does_not_matter(told: list[ApiStruct], rng: Random) -> None:
    objects = latest(told)
    before = compute_usage(objects)
    rng.shuffle(objects)
    assert compute_usage(objects) == before


@settings(max_examples=examples(150))
@given(st.lists(st.tuples(worlds.objects(), st.booleans(), st.booleans()), max_size=25))
def test_incremental_equals_from_scratch(changes: list[tuple[ApiStruct, bool, bool]]) -> None:
    """Each step sets or removes an object, and looks at the pools at once or only later. What is not drained did not change."""
    usage, known = Usage(), dict[tuple[type, str, str], ApiStruct]()
    shown: dict[PoolID, PoolUsage] = {}
    for each, goes, looks in changes:
        old = known.pop(key(each), None)
        if goes:
            usage.change(old or each, None)
        else:
            usage.change(old, each)
            known[key(each)] = each
        if not looks:
            continue
        fresh = Usage(known.values())
        pools = {pool.id: pool for pool in usage.pools()}
        assert list(pools.values()) == fresh.pools()
        assert usage.gone() == fresh.gone()
        assert usage.claims() == fresh.claims()
        changed = {id for id in {*shown, *pools} if shown.get(id) != pools.get(id)}
        assert changed <= usage.drain()
        shown = pools


# --- what a change touches ---


@pytest.fixture
def usage() -> Usage:
    found = Usage(
        [
            slice_(*devices(2), name="s1", pool="p1"),
            slice_(*devices(2), name="s2", pool="p2"),
            holder("a", part("d0", pool="p1")),
        ]
    )
    found.drain()
    return found


def test_a_claim_touches_the_pools_that_it_holds_devices_of(usage: Usage) -> None:
    untouched = usage.pool(P1)
    new = holder("b", part("d0", pool="p2"))
    usage.change(None, new)
    assert usage.drain() == {P2}
    assert usage.pool(P1) is untouched
    usage.change(new, holder("b", part("d1", pool="p1")))
    assert usage.drain() == {P1, P2}
    assert usage.drain() == set()


def test_what_does_not_bear_on_devices_touches_nothing(usage: Usage) -> None:
    claim = holder("a", part("d0", pool="p1"))
    user = ResourceClaimConsumerReference(resource="pods", name="p", uid="u")
    usage.change(claim, replace(claim, status=replace(claim.status, reserved_for=(user,))))
    same = slice_(*devices(2), name="s1", pool="p1")
    usage.change(same, replace(same, metadata=ObjectMeta(name="s1", labels={"a": "b"})))
    usage.change(None, rule("elsewhere", pool="p3"))
    usage.change(holder("unknown", "d"), None)
    assert usage.drain() == set()


def test_a_rule_touches_the_pools_that_it_may_select_before_and_after(usage: Usage) -> None:
    usage.change(None, rule("r", pool="p1"))
    assert usage.drain() == {P1}
    usage.change(rule("r", pool="p1"), rule("r", pool="p2"))
    assert usage.drain() == {P1, P2}
    usage.change(rule("r", pool="p2"), rule("r", pool="p2"))
    assert usage.drain() == set()
    usage.change(rule("r", pool="p2"), None)
    assert usage.drain() == {P2}


def test_a_slice_that_moves_touches_both_pools(usage: Usage) -> None:
    usage.change(None, slice_(*devices(2), name="s1", pool="p2", generation=2))
    assert usage.drain() == {P1, P2}
    assert usage.pool(P1) is None


def test_a_pool_without_slices_is_gone_and_what_was_held_of_it_is_known(usage: Usage) -> None:
    usage.change(slice_(*devices(2), name="s1", pool="p1"), None)
    assert usage.drain() == {P1}
    assert usage.pool(P1) is None
    assert [pool.id for pool in usage.pools()] == [P2]
    ((gone,),) = usage.gone().values()
    assert (gone.name, gone.allocations[0].claim) == ("d0", "ns/a")
    usage.change(holder("a", part("d0", pool="p1")), None)
    assert usage.gone() == {}


def test_a_claim_made_anew_is_another(usage: Usage) -> None:
    usage.change(None, holder("a", part("d0", pool="p1"), uid="later"))
    assert usage.drain() == {P1}
    pool = usage.pool(P1)
    assert pool is not None
    assert pool.devices[0].allocations[0].claim_uid == "later"


def test_one_pool_alone_is_the_same_as_among_others() -> None:
    slices = [slice_(device("a"), name="s1", pool="p1"), slice_(device("a"), name="s2", pool="p2")]
    claims = [holder("x", part("a", pool="p1")), holder("y", part("b", pool="p2"))]
    alone = [compute_pool_usage([each], claims, [rule("r", pool="p2")]) for each in slices]
    assert alone == compute_usage([*slices, *claims, rule("r", pool="p2")])
    assert [states(each) for each in alone] == [{"a": "Allocated"}, {"a": "Unavailable Tainted"}]


def test_other_kinds_are_refused() -> None:
    with pytest.raises(TypeError, match="DeviceClass"):
        Usage([DeviceClass()])
