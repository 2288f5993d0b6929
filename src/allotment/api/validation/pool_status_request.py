"""ResourcePoolStatusRequest: a question about a driver's pools and its answer, by the rules of Kubernetes 1.37.

We leave out one of its rules: that a pool's generation must not be 0, though drivers may publish that generation.
"""

from collections.abc import Iterator
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import SUBDOMAIN_LENGTH, dns_subdomain_problem
from allotment.api.pools import (
    PartitionTypeStatus,
    PoolStatus,
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestStatus,
    ShareableCapacityStatus,
    ShareableSummaryStatus,
)
from allotment.api.text import byte_length
from allotment.api.validation.lists import each, each_once
from allotment.api.validation.metadata import check_conditions, check_metadata
from allotment.api.validation.naming import check_fully_qualified_name, formed
from allotment.api.validation.resource_pool import at_least

POOLS: Final = 1000
"""The most pools in an answer, and the highest limit that a request can set."""
REQUEST_CONDITIONS: Final = 10
SUMMARY_ENTRIES: Final = 32
ERROR_LENGTH: Final = 256

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")


def validate_pool_status_request(request: ResourcePoolStatusRequest) -> list[FieldError]:
    """Everything that is wrong with a new question."""
    return list(_check_question(request))


def validate_pool_status_answer(
    new: ResourcePoolStatusRequestStatus | None, old: ResourcePoolStatusRequestStatus | None
) -> list[FieldError]:
    """Everything that is wrong with an answer, which must be present."""
    if old is not None:
        return [_STATUS.invalid("field is immutable")] if new != old else []
    return list(_check_answer(new)) if new is not None else []


def _check_question(request: ResourcePoolStatusRequest) -> Iterator[FieldError]:
    spec = request.spec
    yield from check_metadata(request.metadata, namespaced=False)
    yield from _check_driver(spec.driver, _SPEC.child("driver"))
    if spec.pool_name is not None:
        yield from _check_pool(spec.pool_name, _SPEC.child("poolName"))
    if spec.limit is not None and not 1 <= spec.limit <= POOLS:
        yield _SPEC.child("limit").invalid(f"must be 1 to {POOLS}", spec.limit)
    if spec.default_partition_type_attribute is not None:
        attribute = _SPEC.child("defaultPartitionTypeAttribute")
        yield from check_fully_qualified_name(spec.default_partition_type_attribute, attribute)


def _check_driver(driver: str, path: FieldPath) -> Iterator[FieldError]:
    """Allows the length of any subdomain: the shorter bound for drivers in slices does not apply to requests."""
    if driver:
        yield from formed(driver.lower(), path, dns_subdomain_problem)
    else:
        yield path.required()


def _check_pool(name: str, path: FieldPath) -> Iterator[FieldError]:
    """Treats an empty name as wrong, not as absent."""
    if byte_length(name) > SUBDOMAIN_LENGTH:
        yield path.too_long(SUBDOMAIN_LENGTH)
    for part in name.split("/"):
        yield from formed(part, path, dns_subdomain_problem)


def _check_answer(status: ResourcePoolStatusRequestStatus) -> Iterator[FieldError]:
    yield from _check_count(status.pool_count, _STATUS.child("poolCount"))
    yield from each(status.pools, _STATUS.child("pools"), POOLS, _check_pool_status)
    yield from check_conditions(status.conditions, _STATUS.child("conditions"), REQUEST_CONDITIONS)


def _check_pool_status(pool: PoolStatus, path: FieldPath) -> Iterator[FieldError]:
    yield from _check_driver(pool.driver, path.child("driver"))
    if pool.pool_name:
        yield from _check_pool(pool.pool_name, path.child("poolName"))
    else:
        yield path.child("poolName").required()
    for name, least, value in (
        ("generation", 0, pool.generation),
        ("resourceSliceCount", 1, pool.resource_slice_count),
        ("totalDevices", 0, pool.total_devices),
        ("allocatedDevices", 0, pool.allocated_devices),
        ("availableDevices", 0, pool.available_devices),
        ("unavailableDevices", 0, pool.unavailable_devices),
    ):
        yield from at_least(least, value, path.child(name))
    if pool.node_name is not None:
        yield from formed(pool.node_name, path.child("nodeName"), dns_subdomain_problem)
    if byte_length(pool.validation_error or "") > ERROR_LENGTH:
        yield path.child("validationError").too_long(ERROR_LENGTH)
    partitions = path.child("partitionSummary")
    yield from each_once(
        pool.partition_summary, partitions, SUMMARY_ENTRIES, _check_partition_type, _partition_key
    )
    if pool.shareable_summary is not None:
        yield from _check_shareable(pool.shareable_summary, path.child("shareableSummary"))


def _partition_key(status: PartitionTypeStatus) -> tuple[str, str]:
    return status.attribute, status.type


def _check_partition_type(status: PartitionTypeStatus, path: FieldPath) -> Iterator[FieldError]:
    for name, text in (("attribute", status.attribute), ("type", status.type)):
        if not text:
            yield path.child(name).required()
    yield from _check_count(status.total, path.child("total"))
    yield from _check_count(status.allocatable, path.child("allocatable"))


def _check_shareable(status: ShareableSummaryStatus, path: FieldPath) -> Iterator[FieldError]:
    yield from _check_count(status.fully_available_devices, path.child("fullyAvailableDevices"))
    yield from _check_count(status.partially_available_devices, path.child("partiallyAvailableDevices"))
    yield from each(status.capacity, path.child("capacity"), SUMMARY_ENTRIES, _check_capacity)


def _check_capacity(status: ShareableCapacityStatus, path: FieldPath) -> Iterator[FieldError]:
    for name, value in (
        ("name", status.name or None),
        ("total", status.total),
        ("consumed", status.consumed),
        ("available", status.available),
    ):
        if value is None:
            yield path.child(name).required()


def _check_count(value: int | None, path: FieldPath) -> Iterator[FieldError]:
    """Requires a number, which must not be negative."""
    if value is None:
        yield path.required()
    yield from at_least(0, value, path)
