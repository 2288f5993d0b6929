"""How claims find their parameters, and what is said of those that make no sense."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from allotment.allocator.errors import ClaimError
from allotment.allocator.outcome import Allocated, InvalidInput
from allotment.allocator.semantic import SemanticBook, allocate_semantic, semantic_results
from allotment.api.meta import ObjectMeta
from allotment.api.semantic import (
    ResourceClaim,
    ResourceClaimParameters,
    ResourceClaimParametersReference,
    ResourceClaimSpec,
    ResourceClass,
    ResourceClassParameters,
    ResourceClassParametersReference,
    ResourceFilter,
    ResourceRequest,
)
from tests.allocator.trees import (
    DRIVER,
    NICS,
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


def test_a_claim_without_parameters_asks_for_one_instance_of_the_classes_driver() -> None:
    book = SemanticBook(
        [resource_class(parameters="cp")], [class_parameters("cp", 'quantities["memory"] <= "16Gi"')]
    )
    bare = claim("c", ref=None)
    slices = [slice_of(leaf("nic"), driver=NICS), slice_of(card("a"))]
    outcome = allocate_semantic(node(), slices, book, [bare])
    assert ids(outcome) == ["a/parts/half"]
    assert isinstance(outcome, Allocated)
    (result,) = semantic_results(book.demand([bare]), outcome)
    assert result.shareable is True


def vendor_claim(name: str = "mine", uid: str | None = None) -> ResourceClaim:
    ref = ResourceClaimParametersReference(api_group="dra.example.com", kind="Cards", name=name, uid=uid)
    spec = ResourceClaimSpec(resource_class_name="cards", parameters_ref=ref)
    return ResourceClaim(metadata=ObjectMeta(name="c", namespace="ns"), spec=spec)


def generated(
    name: str, *, namespace: str = "ns", kind: str = "Cards", uid: str | None = None
) -> ResourceClaimParameters:
    origin = ResourceClaimParametersReference(api_group="dra.example.com", kind=kind, name="mine", uid=uid)
    return ResourceClaimParameters(
        metadata=ObjectMeta(name=name, namespace=namespace),
        generated_from=origin,
        requests=(request(f'strings["id"] == "{name}"'),),
    )


@pytest.mark.parametrize(
    ("claim", "objects", "used"),
    [
        (
            vendor_claim(),
            [generated("a", namespace="other"), generated("b", kind="Nics"), generated("c")],
            "c",
        ),
        (vendor_claim(uid="1"), [generated("a", uid="2"), generated("b", uid="1")], "b"),
        (vendor_claim(uid="1"), [generated("a", uid="2"), generated("b")], "b"),
        (vendor_claim(), [generated("a", uid="2")], "a"),
    ],
    ids=["namespace and kind count", "uid counts", "no uid matches any", "a reference without uid"],
)
def test_a_vendors_object_finds_the_parameters_generated_from_it(
    claim: ResourceClaim, objects: Sequence[ResourceClaimParameters], used: str
) -> None:
    book = SemanticBook([resource_class()], [], objects)
    slices = [slice_of(*(leaf(name, None, attribute("id", string=name)) for name in "abc"))]
    assert ids(allocate_semantic(node(), slices, book, [claim])) == [used]


def test_class_parameters_are_found_by_what_they_were_generated_from_too() -> None:
    def reference(namespace: str) -> ResourceClassParametersReference:
        return ResourceClassParametersReference(
            api_group="dra.example.com", kind="CardClass", name="x", namespace=namespace
        )

    vendors_class = ResourceClass(
        metadata=ObjectMeta(name="cards"),
        driver_name=DRIVER,
        parameters_ref=reference("ops"),
        semantic_parameters=True,
    )
    found = [
        class_parameters("a", 'strings["id"] == "a"', generated_from=reference("dev")),
        class_parameters("b", 'strings["id"] == "b"', generated_from=reference("ops")),
    ]
    slices = [slice_of(*(leaf(name, None, attribute("id", string=name)) for name in "ab"))]
    book = SemanticBook([vendors_class], found)
    assert ids(allocate_semantic(node(), slices, book, [claim("c", ref=None)])) == ["b"]


P = parameters("p", request("true"))


@pytest.mark.parametrize(
    ("book", "asked", "words"),
    [
        pytest.param(
            lambda: SemanticBook([], [], [P]),
            claim("c"),
            "claim ns/c: there is no ResourceClass 'cards'; see spec.resourceClassName",
            id="no class",
        ),
        pytest.param(
            lambda: SemanticBook([resource_class(semantic=None)], [], [P]),
            claim("c"),
            f"claim ns/c: class cards does not set semanticParameters, so the controller of driver {DRIVER}",
            id="a class whose claims the driver allocates",
        ),
        pytest.param(
            lambda: SemanticBook([resource_class()], [], []),
            claim("c"),
            "claim ns/c: there is no ResourceClaimParameters ns/p; see parametersRef",
            id="no parameters",
        ),
        pytest.param(
            lambda: SemanticBook([resource_class(parameters="cp")], [], [P]),
            claim("c"),
            "class cards: there is no ResourceClassParameters cp; see parametersRef",
            id="no class parameters",
        ),
        pytest.param(
            lambda: SemanticBook([resource_class()], [], [P]),
            vendor_claim(),
            "claim ns/c: no ResourceClaimParameters was generated from Cards.dra.example.com mine",
            id="nothing was generated",
        ),
        pytest.param(
            lambda: SemanticBook([resource_class()], [], [generated("b"), generated("a")]),
            vendor_claim(),
            "several ResourceClaimParameters were generated from Cards.dra.example.com mine: a, b; keep one",
            id="two were generated",
        ),
        pytest.param(
            lambda: book_for('quantities["memory"] >='),
            claim("c"),
            "ResourceClaimParameters ns/p, request r0: the selector does not compile: ",
            id="a selector that does not compile",
        ),
        pytest.param(
            lambda: SemanticBook(
                [resource_class(parameters="cp")], [class_parameters("cp", "true", "(")], [P]
            ),
            claim("c"),
            "ResourceClassParameters cp, filter #1: the selector does not compile: ",
            id="a filter that does not compile",
        ),
        pytest.param(
            lambda: SemanticBook(
                [resource_class()], [], [parameters("p", ResourceRequest(driver_name="new.example.com"))]
            ),
            claim("c"),
            "ResourceClaimParameters ns/p: the request to driver 'new.example.com' has no model that we know",
            id="a request of an unknown model",
        ),
        pytest.param(
            lambda: SemanticBook(
                [resource_class(parameters="cp")],
                [
                    ResourceClassParameters(
                        metadata=ObjectMeta(name="cp"), filters=(ResourceFilter(driver_name=DRIVER),)
                    )
                ],
                [P],
            ),
            claim("c"),
            "ResourceClassParameters cp, filter #0: has no model that we know",
            id="a filter of an unknown model",
        ),
        pytest.param(
            lambda: SemanticBook([resource_class()], [], [parameters("p", request(*["true"] * 33))]),
            claim("c"),
            "claim ns/c, request r32: adding 1 devices exceeds the claim limit of 32",
            id="more instances than a claim can hold",
        ),
    ],
)
def test_a_claim_that_makes_no_sense_is_an_error_that_names_the_object(
    book: Callable[[], SemanticBook], asked: ResourceClaim, words: str
) -> None:
    outcome = allocate_semantic(node(), [slice_of(leaf("a"))], book(), [asked])
    assert isinstance(outcome, InvalidInput)
    assert isinstance(outcome.error, ClaimError)
    assert words in str(outcome.error)
