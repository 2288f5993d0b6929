"""What is said to somebody who may not see all claims."""

from __future__ import annotations

import pytest

from allotment.allocator.pool import PoolID
from allotment.usage.hidden import with_hidden_claims
from allotment.usage.pool import PoolUsage, compute_pool_usage
from allotment.usage.summary import Summary
from allotment.usage.usage import Usage
from tests.allocator.build import DRIVER, devices, slice_
from tests.usage.build import holder, part, states

SLICE = slice_(*devices(5))
ID = PoolID(DRIVER, "pool")


def seen(published: Summary | None) -> PoolUsage:
    """The caller sees the claim on d0 and an observer of d1."""
    claims = [holder("mine", "d0"), holder("watch", part("d1", admin=True))]
    return with_hidden_claims(compute_pool_usage([SLICE], claims), published)


def test_some_are_held_by_claims_that_one_may_not_see() -> None:
    published = Summary(total=5, allocated=3, available=2)
    usage = seen(published)
    assert (usage.hidden, usage.unseen) == (2, 4)
    assert usage.summary == published
    assert states(usage) == {"d0": "Allocated", **{f"d{n}": "Unknown HiddenClaims" for n in (1, 2, 3, 4)}}


def test_all_others_are_held() -> None:
    usage = seen(Summary(total=5, allocated=5))
    assert usage.hidden == usage.unseen == 4
    assert states(usage) == {"d0": "Allocated", **{f"d{n}": "Allocated HiddenClaims" for n in (1, 2, 3, 4)}}


def test_nothing_is_hidden() -> None:
    usage = seen(Summary(total=5, allocated=1, available=4))
    assert usage.hidden == 0
    assert states(usage) == {"d0": "Allocated", **{f"d{n}": "Available" for n in (1, 2, 3, 4)}}


@pytest.mark.parametrize(
    "published",
    [
        pytest.param(None, id="no ResourcePool is served"),
        pytest.param(Summary(total=4, allocated=4), id="of other devices"),
        pytest.param(Summary(total=5, allocated=0, available=5), id="older than what is seen"),
    ],
)
def test_nobody_knows(published: Summary | None) -> None:
    usage = seen(published)
    assert usage.hidden is None
    assert usage.summary == Summary(total=5, allocated=1, unknown=4)


def test_usage_follows_the_counts() -> None:
    usage = Usage([SLICE, holder("mine", "d0")], all_claims=False)
    assert [pool.hidden for pool in usage.pools()] == [None]
    usage.drain()
    usage.set_counts(ID, Summary(total=5, allocated=2, available=3))
    assert usage.drain() == {ID}
    assert [pool.hidden for pool in usage.pools()] == [1]
    usage.set_counts(ID, Summary(total=5, allocated=2, available=3))
    assert usage.drain() == set()
    usage.set_counts(ID, None)
    assert [pool.hidden for pool in usage.pools()] == [None]


def test_cluster_and_nodes_know_what_is_hidden() -> None:
    other = slice_(*devices(1), name="other", pool="other", on="n2")
    usage = Usage([SLICE, other], all_claims=False)
    usage.set_counts(ID, Summary(total=5, allocated=2, available=3))
    assert usage.cluster().hidden is None
    assert {name: node.hidden for name, node in usage.nodes().items()} == {"node-1": 2, "n2": None}
    usage.set_counts(PoolID(DRIVER, "other"), Summary(total=1, available=1))
    assert usage.cluster().hidden == 2
