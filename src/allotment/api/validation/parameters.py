"""ResourceClass, ResourceClassParameters and ResourceClaimParameters (v1alpha2)."""

from collections.abc import Iterator
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_label_problem, dns_subdomain_problem, driver_problem
from allotment.api.semantic import (
    PartitionableResourceRequest,
    ResourceClaimParameters,
    ResourceClaimParametersReference,
    ResourceClass,
    ResourceClassParameters,
    ResourceClassParametersReference,
    ResourceFilter,
    ResourceRequest,
)
from allotment.api.validation.configuration import check_raw_object
from allotment.api.validation.expressions import ExpressionChecker, ExpressionUse, check_expression
from allotment.api.validation.lists import each, named, repeated
from allotment.api.validation.metadata import check_metadata
from allotment.api.validation.node_selector import check_node_selector

FILTERS: Final = 32
REQUESTS: Final = 32
REQUIRED: Final = 32
"""The most instances in one request; a whole claim cannot get more than 32 either."""

VENDOR_DEPTH: Final = 32

_NO_MODEL: Final = "has no model that is known here; set partitionable"


def validate_resource_class(resource_class: ResourceClass) -> list[FieldError]:
    """Everything that is wrong with a class, new or changed."""
    suitable_nodes = resource_class.suitable_nodes
    return [
        *check_metadata(resource_class.metadata, namespaced=False),
        *named(resource_class.driver_name, FieldPath("driverName"), driver_problem),
        *check_parameters_reference(resource_class.parameters_ref, FieldPath("parametersRef")),
        *(check_node_selector(suitable_nodes, FieldPath("suitableNodes")) if suitable_nodes else ()),
    ]


def validate_class_parameters(
    parameters: ResourceClassParameters, *, check: ExpressionChecker
) -> list[FieldError]:
    """Everything that is wrong with a class's parameters, new or changed."""

    def check_filter(filter_: ResourceFilter, path: FieldPath) -> Iterator[FieldError]:
        yield from named(filter_.driver_name, path.child("driverName"), driver_problem)
        if filter_.partitionable is None:
            yield path.required(_NO_MODEL)
        else:
            selector, at = filter_.partitionable.selector, path.child("partitionable", "selector")
            yield from check_expression(selector, ExpressionUse.PARTITIONABLE, at, check)

    return [
        *check_metadata(parameters.metadata, namespaced=False),
        *check_parameters_reference(parameters.generated_from, FieldPath("generatedFrom")),
        *_check_vendor(parameters.vendor_parameters),
        *each(parameters.filters, FieldPath("filters"), FILTERS, check_filter),
    ]


def validate_claim_parameters(
    parameters: ResourceClaimParameters, *, check: ExpressionChecker
) -> list[FieldError]:
    """Everything that is wrong with a claim's parameters, new or changed."""
    return [
        *check_metadata(parameters.metadata, namespaced=True),
        *check_parameters_reference(parameters.generated_from, FieldPath("generatedFrom")),
        *_check_vendor(parameters.vendor_parameters),
        *each(
            parameters.requests,
            FieldPath("requests"),
            REQUESTS,
            lambda request, at: _check_request(request, at, check),
        ),
    ]


def _check_vendor(value: object) -> Iterator[FieldError]:
    """Requires a JSON object that only the driver understands.

    Every claim's status gets a copy, so its size is bounded like v1's opaque parameters, and so is its depth.
    """
    path = FieldPath("vendorParameters")
    if value is None:
        return
    if _is_deeper(value, VENDOR_DEPTH):
        yield path.forbidden(f"must not be nested deeper than {VENDOR_DEPTH} levels")
    else:
        yield from check_raw_object(value, path)


def _is_deeper(value: object, most: int) -> bool:
    """Whether lists and objects nest deeper than ``most`` levels."""
    level = [value]
    for _ in range(most):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return any(isinstance(each, dict | list) for each in level)


def check_parameters_reference(
    reference: ResourceClaimParametersReference | ResourceClassParametersReference | None, path: FieldPath
) -> Iterator[FieldError]:
    """Checks the kind and the name, and group and namespace if they are given."""
    if reference is None:
        return
    if not reference.kind:
        yield path.child("kind").required()
    if not reference.name:
        yield path.child("name").required()
    if reference.api_group:
        yield from named(reference.api_group, path.child("apiGroup"), dns_subdomain_problem)
    if isinstance(reference, ResourceClassParametersReference) and reference.namespace:
        yield from named(reference.namespace, path.child("namespace"), dns_label_problem)


def _check_request(
    request: ResourceRequest, path: FieldPath, check: ExpressionChecker
) -> Iterator[FieldError]:
    def check_required(wanted: PartitionableResourceRequest, at: FieldPath) -> Iterator[FieldError]:
        if wanted.name:
            yield from named(wanted.name, at.child("name"), dns_subdomain_problem)
        yield from check_expression(wanted.selector, ExpressionUse.PARTITIONABLE, at.child("selector"), check)

    yield from named(request.driver_name, path.child("driverName"), driver_problem)
    if request.partitionable is None:
        yield path.required(_NO_MODEL)
        return
    required, at = request.partitionable.required, path.child("partitionable", "required")
    if not required:
        yield at.required("is required: name at least one instance")
    yield from each(required, at, REQUIRED, check_required)
    names = [
        wanted.name or index for index, wanted in enumerate(required)
    ]  # entries without a name never clash
    yield from repeated(names, at)
