"""ResourceClaim in its v1alpha2 form: a class, a reference to parameters, and the scheduler's result."""

from collections.abc import Iterator
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_subdomain_problem, driver_problem
from allotment.api.resource import ResourceClaimConsumerReference
from allotment.api.semantic import (
    AllocationResult,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceHandle,
    SemanticResourceHandle,
)
from allotment.api.text import byte_length
from allotment.api.validation.lists import each, each_once, named
from allotment.api.validation.metadata import check_labels, check_metadata
from allotment.api.validation.node_selector import check_node_selector
from allotment.api.validation.parameters import check_parameters_reference

MODES: Final = ("WaitForFirstConsumer", "Immediate")
RESERVATIONS: Final = 256
HANDLES: Final = 32
HANDLE_INSTANCES: Final = 32
DATA_LENGTH: Final = 16 * 1024
ID_LENGTH: Final = 4096

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")


def validate_semantic_claim(claim: ResourceClaim) -> list[FieldError]:
    """Everything that is wrong with the metadata and spec of a new claim."""
    return [*check_metadata(claim.metadata, namespaced=True), *_check_spec(claim.spec, _SPEC)]


def validate_semantic_claim_update(new: ResourceClaim, old: ResourceClaim) -> list[FieldError]:
    """Requires an unchanged spec."""
    errors = list(check_metadata(new.metadata, namespaced=True))
    if new.spec != old.spec:
        errors.append(_SPEC.invalid("must not change: create a new claim instead"))
    return errors


def validate_semantic_template(template: ResourceClaimTemplate) -> list[FieldError]:
    """Everything that is wrong with a new template."""
    return [
        *check_metadata(template.metadata, namespaced=True),
        *check_labels(template.spec.metadata, _SPEC.child("metadata")),
        *_check_spec(template.spec.spec, _SPEC.child("spec")),
    ]


def validate_semantic_claim_status(
    claim: ResourceClaim, old: ResourceClaim | None = None
) -> list[FieldError]:
    """Everything that is wrong with the status; with ``old``, including an edited allocation."""
    errors = list(_check_status(claim))
    before = old.status.allocation if old else None
    if before is not None and claim.status.allocation not in (None, before):
        errors.append(_STATUS.child("allocation").invalid("must not change: deallocate the claim first"))
    return errors


def _check_spec(spec: ResourceClaimSpec, path: FieldPath) -> Iterator[FieldError]:
    yield from named(spec.resource_class_name, path.child("resourceClassName"), dns_subdomain_problem)
    yield from check_parameters_reference(spec.parameters_ref, path.child("parametersRef"))
    mode = spec.allocation_mode or MODES[0]
    if mode not in MODES:
        yield path.child("allocationMode").not_supported(mode, MODES)


def _check_status(claim: ResourceClaim) -> Iterator[FieldError]:
    status, reserved_for = claim.status, _STATUS.child("reservedFor")
    yield from each_once(
        status.reserved_for, reserved_for, RESERVATIONS, _check_consumer, lambda consumer: consumer.uid
    )
    if status.driver_name:
        yield from named(status.driver_name, _STATUS.child("driverName"), driver_problem)
    if status.allocation is None:
        if status.reserved_for:
            yield reserved_for.forbidden("must be empty while the claim is not allocated")
        if status.deallocation_requested:
            yield _STATUS.child("deallocationRequested").forbidden(
                "must not be set while nothing is allocated"
            )
        return
    if len(status.reserved_for) > 1 and not status.allocation.shareable:
        yield reserved_for.forbidden("must not have more than one entry: the claim is not shareable")
    yield from _check_allocation(status.allocation, _STATUS.child("allocation"))


def _check_consumer(consumer: ResourceClaimConsumerReference, path: FieldPath) -> Iterator[FieldError]:
    for field, value in (("resource", consumer.resource), ("name", consumer.name), ("uid", consumer.uid)):
        if not value:
            yield path.child(field).required()


def _check_allocation(allocation: AllocationResult, path: FieldPath) -> Iterator[FieldError]:
    yield from each(allocation.resource_handles, path.child("resourceHandles"), HANDLES, _check_handle)
    if allocation.available_on_nodes is not None:
        yield from check_node_selector(allocation.available_on_nodes, path.child("availableOnNodes"))


def _check_handle(handle: ResourceHandle, path: FieldPath) -> Iterator[FieldError]:
    if handle.driver_name:
        yield from named(handle.driver_name, path.child("driverName"), driver_problem)
    if byte_length(handle.data or "") > DATA_LENGTH:
        yield path.child("data").too_long(DATA_LENGTH)
    if handle.semantic_data is not None:
        if handle.data:
            yield path.invalid("must have one of data and semanticData, not both")
        yield from _check_semantic_data(handle.semantic_data, path.child("semanticData"))


def _check_semantic_data(data: SemanticResourceHandle, path: FieldPath) -> Iterator[FieldError]:
    yield from named(data.node_name, path.child("nodeName"), dns_subdomain_problem)
    if data.partitionable is None:
        yield path.required("has no model that is known here; set partitionable")
    else:
        yield from each_once(
            data.partitionable.instances,
            path.child("partitionable", "instances"),
            HANDLE_INSTANCES,
            lambda instance, at: _check_id(instance.id, at.child("id")),
            lambda instance: instance.id,
        )


def _check_id(text: str, path: FieldPath) -> Iterator[FieldError]:
    if byte_length(text) > ID_LENGTH:
        yield path.too_long(ID_LENGTH)
    elif not text or any(dns_subdomain_problem(name) for name in text.split("/")):
        yield path.invalid("must be the names on the way to an instance, joined by '/'", text)
