"""Claims of v1alpha2 from parameters to resource handles."""

from __future__ import annotations

import json
from typing import TypeVar

import pytest

from allotment.allocator.errors import NodeError
from allotment.allocator.ledger import Ledger
from allotment.allocator.outcome import Allocated, GaveUp, InvalidInput, Outcome, Unsatisfiable
from allotment.allocator.semantic import (
    SemanticBook,
    allocate_semantic,
    semantic_results,
)
from allotment.allocator.semantic_holdings import held_ids
from allotment.allocator.strategy import BEST_FIT, FIRST_FIT
from allotment.api.codec import decode, encode
from allotment.api.core import Node, NodeSelector
from allotment.api.manifests.manifest import read_manifest
from allotment.api.meta import ApiStruct
from allotment.api.semantic import (
    NodeResourceSlice,
    ResourceClaim,
    ResourceClaimParameters,
    ResourceClass,
    ResourceClassParameters,
    ResourceHandle,
)
from tests.allocator.trees import (
    DRIVER,
    NICS,
    NODE,
    allocated,
    at,
    attribute,
    book_for,
    card,
    claim,
    class_parameters,
    ids,
    leaf,
    node,
    parameters,
    request,
    resource_class,
    slice_of,
)
from tests.checkout import CHECKOUT

EXAMPLES = CHECKOUT / "examples" / "semantic"

Found = TypeVar("Found", bound=ApiStruct)


class Seed:
    """The KEP's own example, as it is in examples/."""

    def __init__(self) -> None:
        self._objects: list[ApiStruct | None] = []
        for path in sorted(EXAMPLES.glob("*.yaml")):
            for located in read_manifest(path.read_text(), path.name):
                assert not located.unknown_fields()
                self._objects.append(located.obj)
        self.slices = self.all(NodeResourceSlice)
        self.claims = {each.metadata.name: each for each in self.all(ResourceClaim)}
        self.nodes = self.all(Node)
        self.book = SemanticBook(
            self.all(ResourceClass), self.all(ResourceClassParameters), self.all(ResourceClaimParameters)
        )

    def all(self, kind: type[Found]) -> list[Found]:
        return [each for each in self._objects if isinstance(each, kind)]

    def allocate(self, *names: str, strategy: str = FIRST_FIT) -> Outcome:
        claims = [self.claims[name] for name in names]
        return allocate_semantic(self.nodes[0], self.slices, self.book, claims, strategy=strategy)


@pytest.fixture
def seed() -> Seed:
    return Seed()


# --- the KEP's example ---


def test_the_seeds_claim_gets_the_first_card_and_all_of_the_second(seed: Seed) -> None:
    assert ids(seed.allocate("two-cards")) == ["gpu-0", "partitionable-gpu-1/full-gpu/gpu-1"]


def test_with_the_class_filter_it_gets_the_first_card_and_a_quarter_of_the_second(seed: Seed) -> None:
    assert ids(seed.allocate("two-small-cards")) == ["gpu-0", "partitionable-gpu-1/quarters/quarter-0"]


def test_both_claims_at_once_fit_a_node_only_if_the_card_is_broken_up(seed: Seed) -> None:
    assert ids(seed.allocate("two-cards", "two-small-cards")) == [
        "gpu-0",
        "partitionable-gpu-1/quarters/quarter-0",
        "partitionable-gpu-1/quarters/quarter-1",
        "partitionable-gpu-1/quarters/quarter-2",
    ]


def test_best_fit_keeps_the_whole_card(seed: Seed) -> None:
    assert ids(seed.allocate("two-cards", strategy=BEST_FIT)) == [
        "partitionable-gpu-1/quarters/quarter-0",
        "partitionable-gpu-1/quarters/quarter-1",
    ]


def test_ids_hold_every_name_on_the_way(seed: Seed) -> None:
    held = at(
        "gpu-0",
        "partitionable-gpu-1/half-and-quarters/first-half",
        driver="cards.dra.example.com",
        on="worker-1",
    )
    outcome = allocate_semantic(seed.nodes[0], seed.slices, seed.book, [seed.claims["two-small-cards"]], held)
    way = "partitionable-gpu-1/half-and-quarters/partitionable-second-half/quarters"
    assert ids(outcome) == [f"{way}/quarter-0", f"{way}/quarter-1"]


def test_the_handle_is_what_the_seed_shows(seed: Seed) -> None:
    outcome = seed.allocate("two-small-cards")
    assert isinstance(outcome, Allocated)
    (result,) = semantic_results(seed.book.demand([seed.claims["two-small-cards"]]), outcome)
    (handle,) = result.resource_handles
    written = json.loads(encode(handle))
    assert written["driverName"] == "cards.dra.example.com"
    assert written["semanticData"]["nodeName"] == "worker-1"
    assert written["semanticData"]["partitionable"] == {
        "instances": [{"id": "gpu-0"}, {"id": "partitionable-gpu-1/quarters/quarter-0"}]
    }
    assert written["semanticData"]["vendorClaimParameters"]["spec"]["sharing"] == {"strategy": "TimeSliced"}
    assert result.available_on_nodes is not None
    (term,) = result.available_on_nodes.node_selector_terms
    assert [(field.key, field.operator, field.values) for field in term.match_fields] == [
        ("metadata.name", "In", ("worker-1",))
    ]
    assert result.shareable is None


# --- results and holdings ---


def test_an_allocated_claim_reads_back_as_what_it_holds() -> None:
    book = SemanticBook(
        [resource_class()], [], [parameters("p", request("true", "true"), request("true", driver=NICS))]
    )
    slices = [slice_of(leaf("a"), leaf("b")), slice_of(leaf("a"), driver=NICS)]
    outcome = allocate_semantic(node(), slices, book, [claim("c")])
    assert isinstance(outcome, Allocated)
    (result,) = semantic_results(book.demand([claim("c")]), outcome)
    assert [handle.driver_name for handle in result.resource_handles] == [DRIVER, NICS]
    done = allocated(claim("c"), decode(type(result), encode(result)))
    assert held_ids(done) == at("a", "b") + at("a", driver=NICS)
    ledger = Ledger()
    ledger.commit("ns/c", outcome.results[0])
    assert [held.device for held in ledger.holdings("ns/c")] == held_ids(done)
    assert held_ids(claim("pending")) == []


def test_a_handle_of_a_drivers_own_controller_holds_nothing_here() -> None:
    result = decode(
        claim("c").status.__class__,
        {"allocation": {"resourceHandles": [{"driverName": "x", "data": "opaque"}]}},
    ).allocation
    assert result is not None
    assert result.resource_handles == (ResourceHandle(driver_name="x", data="opaque"),)
    assert held_ids(allocated(claim("c"), result)) == []


def test_snapshots_of_vendor_parameters_and_shareable_go_into_every_handle() -> None:
    book = SemanticBook(
        [resource_class(parameters="cp")],
        [class_parameters("cp", vendor_parameters={"mode": "fast"})],
        [
            parameters(
                "p",
                request("true"),
                request("true", driver=NICS),
                shareable=True,
                vendor_parameters={"sharing": 1},
            )
        ],
    )
    slices = [slice_of(leaf("a")), slice_of(leaf("a"), driver=NICS)]
    outcome = allocate_semantic(node(), slices, book, [claim("c")])
    assert isinstance(outcome, Allocated)
    (result,) = semantic_results(book.demand([claim("c")]), outcome)
    assert result.shareable is True
    assert len(result.resource_handles) == 2
    for handle in result.resource_handles:
        assert handle.semantic_data is not None
        assert handle.semantic_data.vendor_class_parameters == {"mode": "fast"}
        assert handle.semantic_data.vendor_claim_parameters == {"sharing": 1}


def test_a_claim_for_nothing_is_allocated_everywhere() -> None:
    book = SemanticBook([resource_class()], [], [parameters("p", request())])
    outcome = allocate_semantic(node(), [], book, [claim("c")])
    assert isinstance(outcome, Allocated)
    (result,) = semantic_results(book.demand([claim("c")]), outcome)
    assert result.resource_handles == ()
    assert result.available_on_nodes is None


# --- several drivers, several claims ---


def test_a_request_is_served_by_its_own_driver_only() -> None:
    book = SemanticBook(
        [resource_class()], [], [parameters("p", request("true", driver=NICS), request("true"))]
    )
    slices = [slice_of(leaf("card")), slice_of(leaf("nic"), driver=NICS)]
    assert ids(allocate_semantic(node(), slices, book, [claim("c")])) == ["nic", "card"]
    outcome = allocate_semantic(node(), slices[:1], book, [claim("c")])
    assert isinstance(outcome, Unsatisfiable)
    assert f'1 fails `driver == "{NICS}"` (driver={DRIVER})' in str(outcome.reasons())


def test_a_class_filter_holds_for_its_driver_only() -> None:
    book = SemanticBook(
        [resource_class(parameters="cp")],
        [class_parameters("cp", 'ints["speed"] >= 100', driver=NICS)],
        [parameters("p", request("true"), request("true", driver=NICS))],
    )
    slices = [
        slice_of(leaf("card")),
        slice_of(
            leaf("slow", None, attribute("speed", int=10)),
            leaf("fast", None, attribute("speed", int=100)),
            driver=NICS,
        ),
    ]
    assert ids(allocate_semantic(node(), slices, book, [claim("c")])) == ["card", "fast"]


def test_all_filters_and_the_request_must_hold() -> None:
    book = SemanticBook(
        [resource_class(parameters="cp")],
        [class_parameters("cp", 'quantities["memory"] >= "8Gi"', 'quantities["memory"] <= "16Gi"')],
        [parameters("p", request('quantities["memory"] != "8Gi"'))],
    )
    sizes = ("32Gi", "4Gi", "8Gi", "16Gi")
    slices = [slice_of(*(leaf(f"of-{size.lower()}", size) for size in sizes))]
    assert ids(allocate_semantic(node(), slices, book, [claim("c")])) == ["of-16gi"]


def test_several_claims_are_all_served_or_none() -> None:
    book = SemanticBook([resource_class()], [], [parameters("p", request("true", "true"))])
    two, three = slice_of(leaf("a"), leaf("b")), slice_of(leaf("a"), leaf("b"), leaf("c"), leaf("d"))
    assert isinstance(allocate_semantic(node(), [two], book, [claim("c1"), claim("c2")]), Unsatisfiable)
    outcome = allocate_semantic(node(), [three], book, [claim("c1"), claim("c2")])
    assert isinstance(outcome, Allocated)
    first, second = semantic_results(book.demand([claim("c1"), claim("c2")]), outcome)
    assert held_ids(allocated(claim("c1"), first)) == at("a", "b")
    assert held_ids(allocated(claim("c2"), second)) == at("c", "d")


# --- keys that are missing, expressions that fail ---


def test_a_missing_key_makes_an_instance_unusable_and_says_which() -> None:
    book = book_for('quantities["memory"] >= "8Gi"')
    assert ids(allocate_semantic(node(), [slice_of(leaf("a"), leaf("b", "8Gi"))], book, [claim("c")])) == [
        "b"
    ]
    outcome = allocate_semantic(node(), [slice_of(leaf("a"), leaf("b", "4Gi"))], book, [claim("c")])
    assert isinstance(outcome, Unsatisfiable)
    words = str(outcome.reasons())
    assert '2 fail `quantities["memory"] >= "8Gi"`' in words
    assert "lacks quantities.memory" in words
    assert "memory=4Gi" in words


def test_an_attribute_of_another_type_is_missing_too() -> None:
    book = book_for('versions["runtime"] >= "v12.0.0"')
    outcome = allocate_semantic(
        node(), [slice_of(leaf("a", None, attribute("runtime", string="12.1")))], book, [claim("c")]
    )
    assert isinstance(outcome, Unsatisfiable)
    assert "lacks versions.runtime" in str(outcome.reasons())


def test_a_key_may_be_asked_for() -> None:
    book = book_for('!("memory" in quantities)')
    assert ids(allocate_semantic(node(), [slice_of(leaf("a", "1Gi"), leaf("b"))], book, [claim("c")])) == [
        "b"
    ]


def test_an_expression_may_look_at_a_whole_map() -> None:
    book = book_for('strings.exists(key, strings[key] == "yes") && intSlices["numa"].exists(n, n == 1)')
    asked = attribute("numa", intSlice=[0, 1])
    slices = [
        slice_of(
            leaf("a", None, attribute("x", string="no"), asked),
            leaf("b", None, attribute("y", string="yes"), asked),
        )
    ]
    assert ids(allocate_semantic(node(), slices, book, [claim("c")])) == ["b"]


def test_other_failures_of_an_expression_are_errors_if_the_search_comes_to_them() -> None:
    book = book_for('1 / ints["zero"] == 1')
    good = leaf("good", None, attribute("zero", int=1))
    bad = leaf("bad", None, attribute("zero", int=0))
    assert ids(allocate_semantic(node(), [slice_of(good, bad)], book, [claim("c")])) == ["good"]
    outcome = allocate_semantic(node(), [slice_of(bad, good)], book, [claim("c")])
    assert isinstance(outcome, InvalidInput)
    assert "ResourceClaimParameters ns/p, request r0 on device" in str(outcome.error)


def test_equal_expressions_are_evaluated_once_per_distinct_value() -> None:
    book = book_for('quantities["memory"] >= "8Gi"')
    (asked,) = book.demand([claim("c")]).shapes
    (again,) = book.demand([claim("d")]).shapes
    assert asked.tests == again.tests


# --- nodes ---


def suitable(name: str) -> NodeSelector:
    return decode(
        NodeSelector,
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [name]}]}]},
    )


def test_a_class_is_for_its_suitable_nodes_only() -> None:
    book = SemanticBook(
        [resource_class(suitable_nodes=suitable("east"))], [], [parameters("p", request("true"))]
    )
    slices = [slice_of(leaf("a"))]
    assert ids(allocate_semantic(node(zone="east"), slices, book, [claim("c")])) == ["a"]
    outcome = allocate_semantic(node(zone="west"), slices, book, [claim("c")])
    assert isinstance(outcome, Unsatisfiable)
    assert "suitableNodes of class cards" in str(outcome.reasons())
    assert ids(allocate_semantic(node(zone="east"), slices, book, [claim("c")])) == ["a"]  # nothing stuck


def test_a_class_that_is_not_for_the_node_does_not_spoil_other_claims_tests() -> None:
    book = SemanticBook(
        [resource_class(), resource_class("east", suitable_nodes=suitable("east"))],
        [],
        [parameters("p", request("true"))],
    )
    outcome = allocate_semantic(
        node(), [slice_of(leaf("a"), leaf("b"))], book, [claim("c"), claim("d", of_class="east")]
    )
    assert isinstance(outcome, Unsatisfiable)
    here, there = outcome.reasons().asks
    assert (here.fitting, there.fitting) == (2, 0)


def test_a_broken_node_selector_is_an_error() -> None:
    broken = decode(
        NodeSelector, {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Is"}]}]}
    )
    book = SemanticBook([resource_class(suitable_nodes=broken)], [], [parameters("p", request("true"))])
    outcome = allocate_semantic(node(), [slice_of(leaf("a"))], book, [claim("c")])
    assert isinstance(outcome, InvalidInput)
    assert "operator 'Is'" in str(outcome.error)


def test_a_flaw_of_a_pool_is_told_if_nothing_else_fits() -> None:
    book = SemanticBook([resource_class()], [], [parameters("p", request("true"))])
    broken = slice_of(leaf("x", refs=["nowhere"]), driver=NICS)
    outcome = allocate_semantic(node(), [broken], book, [claim("c")])
    assert isinstance(outcome, InvalidInput)
    assert isinstance(outcome.error, NodeError)
    assert f"{NICS}/{NODE}: slice slice: 'x' refers to common attributes 'nowhere'" in str(outcome.error)
    assert ids(allocate_semantic(node(), [broken, slice_of(leaf("a"))], book, [claim("c")])) == ["a"]


def test_a_budget_that_runs_out_is_said_plainly() -> None:
    book = SemanticBook([resource_class()], [], [parameters("p", request("true", "true", "true"))])
    assert isinstance(allocate_semantic(node(), [slice_of(card("a"))], book, [claim("c")], budget=1), GaveUp)
