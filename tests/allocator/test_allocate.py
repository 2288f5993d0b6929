"""The front door: four outcomes, each a value."""

import pytest

from allotment.allocator.allocate import Allocator, numbered_shares
from allotment.allocator.errors import AllocationError, ClaimError, NodeError
from allotment.allocator.outcome import Allocated, GaveUp, InvalidInput, Unsatisfiable
from allotment.api.resource import ResourceClaim, ResourceSlice
from tests.allocator.build import (
    ANY,
    allocate,
    claim,
    class_,
    device,
    devices,
    given,
    mine,
    node,
    refused,
    request,
    selector,
    slice_,
    where,
)

DUPLICATE = slice_(device("x"), device("x"), name="bad", pool="bad")


def test_allocated() -> None:
    outcome = allocate([slice_(device("d"))], claim(request()))
    assert isinstance(outcome, Allocated)
    assert outcome.node == "node-1"
    assert len(outcome.results) == 1
    assert outcome.steps > 0


def test_unsatisfiable_comes_with_reasons_and_where_counting_suffices_a_certificate() -> None:
    outcome = refused(allocate([slice_(*devices(2))], claim(request(count=3))))
    assert outcome.shortage is not None
    assert outcome.shortage.holds()
    assert str(outcome.reasons()) == "request r needs 3, 2 of 2 devices fit"


def test_gave_up() -> None:
    outcome = allocate([slice_(*devices(3))], claim(request(count=3)), budget=1)
    assert isinstance(outcome, GaveUp)
    assert outcome.node == "node-1"


@pytest.mark.parametrize(
    ("slices", "wanted", "kind", "complaint"),
    [
        pytest.param(
            [], claim(request(class_name="nope")), ClaimError, "device class nope", id="of the claim"
        ),
        pytest.param(
            [slice_(device("d"))],
            claim(request("r", f"{mine('x')} == 1")),
            ClaimError,
            "selector #0 on device gpu.example.com/pool/d",
            id="of an expression",
        ),
        pytest.param(
            [DUPLICATE],
            claim(request()),
            NodeError,
            "invalid resource pools were encountered: gpu.example.com/bad: duplicate device name x",
            id="of this node's pools",
        ),
        pytest.param(
            [slice_(device("d"), on=selector(where("zone", "Near")))],
            claim(request()),
            AllocationError,
            "operator 'Near' is not one of",
            id="of a node selector",
        ),
    ],
)
def test_invalid(
    slices: list[ResourceSlice], wanted: ResourceClaim, kind: type[AllocationError], complaint: str
) -> None:
    outcome = allocate(slices, wanted)
    assert isinstance(outcome, InvalidInput)
    assert type(outcome.error) is kind
    assert complaint in str(outcome.error)


def test_an_invalid_pool_does_not_matter_if_another_serves() -> None:
    assert given(allocate([DUPLICATE, slice_(device("d"))], claim(request()))) == ["r=d"]


def test_an_incomplete_pool_is_no_error_but_a_reason() -> None:
    outcome = refused(allocate([slice_(device("d"), of=2)], claim(request())))
    assert str(outcome.reasons()).endswith("pool gpu.example.com/pool is incomplete (1 of 2 slices)")


def test_a_fault_of_the_claim_is_told_even_where_there_are_no_slices() -> None:
    outcome = allocate([], claim(request(class_name="nope")))
    assert isinstance(outcome, InvalidInput)


def test_all_or_nothing() -> None:
    """The first claim would fit; together they do not."""
    refused(allocate([slice_(device("d"))], claim(request(), name="a"), claim(request(), name="b")))


def test_one_allocator_answers_for_many_nodes() -> None:
    slices = [slice_(device(f"d{n}"), name=f"s{n}", pool=f"p{n}", on=f"n{n}") for n in range(3)]
    allocator = Allocator(slices, [ANY])
    for n in range(3):
        assert given(allocator.allocate(node(f"n{n}"), [claim(request())])) == [f"r=d{n}"]
    assert isinstance(allocator.allocate(node("n9"), [claim(request())]), Unsatisfiable)


def test_the_later_of_two_classes_of_one_name_counts() -> None:
    refused(allocate([slice_(device("d"))], claim(request()), classes=[ANY, class_("any", "false")]))


def test_allocating_changes_nothing() -> None:
    allocator = Allocator([slice_(device("d"))], [ANY])
    answers = [given(allocator.allocate(node(), [claim(request())])) for _ in range(3)]
    assert answers == [["r=d"]] * 3


def test_share_ids_for_those_who_do_not_care_are_unique_within_a_call() -> None:
    ids = {numbered_shares(claim, result) for claim in range(5) for result in range(5)}
    assert len(ids) == 25
    assert all(len(each) == 36 for each in ids)
