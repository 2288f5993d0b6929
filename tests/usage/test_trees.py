"""Semantic partition trees: instances are devices, and what is in use locks what is beside it."""

from __future__ import annotations

from allotment.allocator.pool import PoolID
from allotment.api import semantic
from allotment.api.codec import decode, to_builtins
from allotment.api.conversion.v1alpha2 import to_v1
from allotment.api.resource import ResourceClaim
from allotment.usage.allocation import held_by
from allotment.usage.pool import compute_pool_usage
from allotment.usage.usage import Usage
from tests.allocator.build import devices, slice_
from tests.allocator.trees import DRIVER, NODE, allocated, card, claim, leaf, slice_of
from tests.usage.build import counts, states

WHOLE, HALF = "card/whole/gpu", "card/parts/half"
REST = "card/parts/rest/"


def tree_claim(name: str, *ids: str) -> semantic.ResourceClaim:
    """A claim of v1alpha2 that holds these instances."""
    data = semantic.SemanticResourceHandle(
        node_name=NODE,
        partitionable=semantic.PartitionableAllocationResult(
            instances=tuple(semantic.AllocatedResourceInstance(id=id) for id in ids)
        ),
    )
    handle = semantic.ResourceHandle(driver_name=DRIVER, semantic_data=data)
    return allocated(claim(name), semantic.AllocationResult(resource_handles=(handle,)))


def carrier(found: semantic.ResourceClaim) -> ResourceClaim:
    return decode(ResourceClaim, to_v1(to_builtins(found)))


def test_every_leaf_is_available_before_anything_is_used() -> None:
    usage = compute_pool_usage([slice_of(card("card"), leaf("single"))], [])
    assert counts(usage) == (6, 0, 6, 0)
    assert (usage.driver, usage.pool_name, usage.node_name) == (DRIVER, NODE, NODE)
    assert usage.complete.holds
    assert usage.valid.holds


def test_using_a_part_locks_other_ways_to_split_the_card() -> None:
    usage = compute_pool_usage([slice_of(card("card"))], [tree_claim("c", REST + "quarters/q0")])
    assert states(usage) == {
        WHOLE: "Unavailable LockedOut",
        HALF: "Available",
        REST + "half/half": "Unavailable LockedOut",
        REST + "quarters/q0": "Allocated",
        REST + "quarters/q1": "Available",
    }


def test_a_claim_that_v1_carries_holds_the_same_under_the_true_ids() -> None:
    found = tree_claim("c", REST + "quarters/q0")
    trees = [slice_of(card("card"))]
    assert held_by(carrier(found)) == held_by(found)
    assert states(compute_pool_usage(trees, [carrier(found)])) == states(compute_pool_usage(trees, [found]))
    (info,) = held_by(carrier(found))[PoolID(DRIVER, NODE)][REST + "quarters/q0"]
    assert (info.claim, info.request) == ("ns/c", "claim")


def test_an_instance_that_is_gone_still_locks_and_counts_nowhere() -> None:
    usage = compute_pool_usage([slice_of(card("card"))], [tree_claim("c", "card/eighths/e0")])
    assert counts(usage) == (5, 0, 0, 5)
    assert [each.name for each in usage.vanished] == ["card/eighths/e0"]


def test_trees_that_cannot_be_read_make_the_pool_invalid() -> None:
    usage = compute_pool_usage([slice_of(leaf("a"), leaf("a"))], [])
    assert not usage.valid.holds
    assert usage.valid.reason == "InvalidSlices"
    assert counts(usage) == (0, 0, 0, 0)
    assert len(usage.validation_errors) == 1


def test_all_trees_of_a_driver_on_a_node_are_one_pool() -> None:
    usage = Usage(
        [slice_of(leaf("a"), name="s1"), slice_of(leaf("b"), name="s2"), slice_of(leaf("a"), on="n2")]
    )
    assert [(each.pool_name, each.summary.total) for each in usage.pools()] == [(NODE, 2), ("n2", 1)]


def test_slices_of_v1_count_where_both_claim_to_be_the_pool() -> None:
    both = [slice_(*devices(1), driver=DRIVER, pool=NODE), slice_of(leaf("a"))]
    (usage,) = Usage(both).pools()
    assert states(usage) == {"d0": "Available"}
    assert usage.validation_errors == ("1 slice of v1alpha2 for the same driver and pool ignored",)
