"""Claims read as a demand: asks with their names, tests and shapes; and what makes a claim unanswerable anywhere."""

import msgspec
import pytest

from allotment.allocator.features import ALL, Features
from allotment.allocator.request import Book, Demand
from allotment.api.meta import ObjectMeta
from allotment.api.resource import (
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
)
from tests.allocator.build import (
    ANY,
    DRIVER,
    claim,
    class_,
    distinct,
    either,
    match,
    request,
    sub,
    toleration,
)


def demand(
    *claims: ResourceClaim, classes: list[DeviceClass] | None = None, features: Features = ALL
) -> Demand:
    known = [ANY, class_("gpu", "1 == 1")] if classes is None else classes
    return Book({each.metadata.name: each for each in known}, features).demand(claims)


def changed(original: DeviceRequest, **fields: object) -> DeviceRequest:
    assert original.exactly is not None
    return msgspec.structs.replace(original, exactly=msgspec.structs.replace(original.exactly, **fields))


# --- what a claim asks for ---


def test_requests_of_all_claims_in_order() -> None:
    found = demand(claim(request("a"), request("b")), claim(request("c", count=3), name="second"))
    assert [(each.name, each.claim, each.asks[0].count) for each in found.requests] == [
        ("a", 0, 1),
        ("b", 0, 1),
        ("c", 1, 3),
    ]
    assert found.fault is None


def test_class_tests_come_before_those_of_the_request_and_each_knows_its_place() -> None:
    (only,) = demand(claim(request("a", "2 == 2", "3 == 3", class_name="gpu"))).requests
    (ask,) = only.asks
    assert [test.expression for test in ask.tests] == ["1 == 1", "2 == 2", "3 == 3"]
    assert ask.places == (
        "class gpu: selector #0",
        "claim ns/claim: selector #0",
        "claim ns/claim: selector #1",
    )


def test_alternatives_are_named_with_their_request() -> None:
    (only,) = demand(claim(either("r", sub("big", count=2), sub("small")))).requests
    assert only.alternatives
    assert [ask.name for ask in only.asks] == ["r/big", "r/small"]
    assert only.asks[0].names == {"r", "r/big"}


@pytest.mark.parametrize(
    ("names", "bound"),
    [
        ((), ["r/big", "r/small", "other"]),  # no names: all
        (("r",), ["r/big", "r/small"]),
        (("r/big",), ["r/big"]),
        (("other", "r/small"), ["r/small", "other"]),
        (("big",), []),
        (("nobody",), []),
    ],
)
def test_a_constraint_binds_requests_or_single_alternatives(names: tuple[str, ...], bound: list[str]) -> None:
    found = demand(
        claim(either("r", sub("big"), sub("small")), request("other"), constraints=[match("x", *names)])
    )
    asks = [ask for each in found.requests for ask in each.asks]
    assert [ask.name for ask in asks if ask.constraints] == bound


def test_a_constraint_binds_only_its_own_claim() -> None:
    found = demand(claim(request(), constraints=[match("x"), distinct("y")]), claim(request(), name="second"))
    assert [each.asks[0].constraints for each in found.requests] == [(0, 1), ()]
    assert [[relation.attribute for relation in each] for each in found.relations] == [
        [f"{DRIVER}/x", f"{DRIVER}/y"],
        [],
    ]


def test_asks_that_the_same_devices_suit_have_one_shape() -> None:
    found = demand(
        claim(
            request("a"),
            request("b", count=5),
            request("c", "true"),
            request("d", tolerates=[toleration("t", "Exists")]),
            request("e", capacity={"m": "1Gi"}),
            request("f", capacity={"m": "1024Mi"}),  # as much, in other words
            request("g", all=True),
        )
    )
    assert [each.asks[0].shape for each in found.requests] == [0, 0, 1, 2, 3, 3, 0]
    assert len(found.shapes) == 4


def test_equal_expressions_are_one_test_for_all_claims_of_a_book() -> None:
    book = Book({"any": ANY}, ALL)
    first, second = (book.demand([claim(request("r", "1 < 2"), name=name)]) for name in "ab")
    assert first.requests[0].asks[0].tests[0] is second.requests[0].asks[0].tests[0]


# --- faults ---

PLAIN = request("r")


@pytest.mark.parametrize(
    ("faulty", "features", "complaint"),
    [
        pytest.param(
            claim(request("r", class_name="nope")),
            ALL,
            "could not retrieve device class nope",
            id="no such class",
        ),
        pytest.param(claim(request("r", class_name="")), ALL, "missing device class name", id="no class"),
        pytest.param(
            claim(changed(PLAIN, allocation_mode="Some")),
            ALL,
            "unsupported count mode Some",
            id="unknown mode",
        ),
        pytest.param(
            claim(changed(PLAIN, allocation_mode=None)), ALL, "unsupported count mode (none)", id="no mode"
        ),  # defaulting is not the allocator's business
        pytest.param(
            claim(DeviceRequest(name="r")),
            ALL,
            "request r: neither exactly nor firstAvailable is set",
            id="empty request",
        ),
        pytest.param(
            claim(changed(PLAIN, selectors=(DeviceSelector(),))),
            ALL,
            "selector #0: CEL expression empty",
            id="unknown kind of selector",
        ),
        pytest.param(
            claim(PLAIN, constraints=[DeviceConstraint()]),
            ALL,
            "constraint #0: empty constraint",
            id="empty constraint",
        ),
        pytest.param(
            claim(request("r", admin=True)),
            Features(AdminAccess=False),
            "admin access is requested",
            id="admin access",
        ),
        pytest.param(
            claim(request("r", admin=False)),
            Features(AdminAccess=False),
            "admin access is requested",
            id="even a no to admin access",  # upstream looks only whether the field is there
        ),
        pytest.param(
            claim(either("r", sub("s"))),
            Features(PrioritizedList=False),
            "DRAPrioritizedList",
            id="alternatives",
        ),
        pytest.param(
            claim(request("r", capacity={})),
            Features(ConsumableCapacity=False),
            "DRAConsumableCapacity",
            id="capacity",
        ),
        pytest.param(
            claim(either("r", sub("s", capacity={"m": "1"}))),
            Features(ConsumableCapacity=False),
            "subrequest s: has capacity requests",
            id="capacity of an alternative",
        ),
        pytest.param(
            claim(request("r", derives={"x/y": "1"})),
            Features(DerivedAttributes=False),
            "derived attributes",
            id="derived attributes",
        ),
    ],
)
def test_a_claim_that_cannot_be_answered_anywhere(
    faulty: ResourceClaim, features: Features, complaint: str
) -> None:
    found = demand(faulty, features=features)
    assert complaint in str(found.fault)
    assert "ns/claim" in str(found.fault) or "class" in str(found.fault)


def test_a_class_with_an_unknown_kind_of_selector_is_named() -> None:
    odd = class_("odd")
    odd = msgspec.structs.replace(odd, spec=msgspec.structs.replace(odd.spec, selectors=(DeviceSelector(),)))
    assert "class odd, selector #0" in str(demand(claim(request(class_name="odd")), classes=[odd]).fault)


def test_the_first_fault_in_order_is_told() -> None:
    found = demand(
        claim(request("fine"), request("first", class_name="x")),
        claim(request("second", class_name="y"), name="c2"),
    )
    assert "claim ns/claim, request first" in str(found.fault)


def test_an_expression_that_does_not_compile_is_no_fault_of_the_demand() -> None:
    """It is an error of the devices that it is asked of, and those may never be reached."""
    assert demand(claim(request("r", "1 +"))).fault is None


def test_no_claims_are_no_demand() -> None:
    assert demand().requests == ()


def test_names() -> None:
    assert ObjectMeta(name="n", namespace="ns").key == "ns/n"
    assert ObjectMeta(name="n").key == "n"


def test_an_exact_request_without_count_asks_for_none() -> None:
    """Defaulting sets 1; what arrives here without a count is taken literally, as upstream does."""
    bare = DeviceRequest(
        name="r", exactly=ExactDeviceRequest(device_class_name="any", allocation_mode="ExactCount")
    )
    assert demand(claim(bare)).requests[0].asks[0].count == 0


# --- features ---


def test_features_by_name() -> None:
    assert Features.of(None) == ALL
    assert Features.of({}) == Features(**dict.fromkeys(Features.__dataclass_fields__, False))
    assert Features.of({"AdminAccess": True, "DeviceTaints": False}).AdminAccess
    with pytest.raises(ValueError, match="unknown feature 'Telepathy'; known are AdminAccess"):
        Features.of({"Telepathy": True})
