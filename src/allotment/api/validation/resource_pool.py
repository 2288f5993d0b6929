"""ResourcePool: counts that must add up. Only a controller writes them."""

from collections.abc import Iterator
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_subdomain_problem
from allotment.api.pools import ResourcePool, ResourcePoolStatus, ResourcePoolSummary
from allotment.api.text import byte_length
from allotment.api.validation.lists import each
from allotment.api.validation.metadata import check_conditions, check_metadata
from allotment.api.validation.naming import check_driver, check_pool, formed

VALIDATION_ERRORS: Final = 10
POOL_MESSAGE_LENGTH: Final = 1024
"""Long enough for the longest names of a device and two slices."""

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")


def validate_resource_pool(pool: ResourcePool) -> list[FieldError]:
    """Everything that is wrong with a new pool, except its status."""
    spec = pool.spec
    errors = [
        *check_metadata(pool.metadata, namespaced=False),
        *check_driver(spec.driver, _SPEC.child("driver")),
        *check_pool(spec.pool_name, _SPEC.child("poolName")),
    ]
    if spec.node_name is not None:
        errors += formed(spec.node_name, _SPEC.child("nodeName"), dns_subdomain_problem)
    return errors


def validate_resource_pool_status(status: ResourcePoolStatus) -> list[FieldError]:
    """Everything that is wrong with the counts."""
    return list(_check_status(status))


def _check_status(status: ResourcePoolStatus) -> Iterator[FieldError]:
    yield from _check_summary(status.summary, _STATUS.child("summary"))
    yield from check_conditions(status.conditions, _STATUS.child("conditions"))
    listed = len(status.validation_errors)
    yield from each(
        status.validation_errors, _STATUS.child("validationErrors"), VALIDATION_ERRORS, _check_error
    )
    total = status.truncated_error_count
    if total and total <= listed:
        why = f"must be 0, or the number of all errors where that is more than the {listed} listed"
        yield _STATUS.child("truncatedErrorCount").invalid(why, total)
    for name, value in (
        ("observedSliceCount", status.observed_slice_count),
        ("expectedSliceCount", status.expected_slice_count),
        ("observedGeneration", status.observed_generation),
    ):
        yield from at_least(0, value, _STATUS.child(name))


def _check_summary(summary: ResourcePoolSummary, path: FieldPath) -> Iterator[FieldError]:
    counts = {
        "totalDevices": summary.total_devices,
        "allocatedDevices": summary.allocated_devices,
        "availableDevices": summary.available_devices,
        "unavailableDevices": summary.unavailable_devices,
        "partiallyAllocatedDevices": summary.partially_allocated_devices,
    }
    for name, count in counts.items():
        yield from at_least(0, count, path.child(name))
    unavailable, partial = summary.unavailable_devices or 0, summary.partially_allocated_devices or 0
    parts = summary.allocated_devices + summary.available_devices + unavailable
    if parts != summary.total_devices:
        yield path.child("totalDevices").invalid(
            f"must be the sum of allocated, available and unavailable devices, which is {parts}",
            summary.total_devices,
        )
    if partial > summary.allocated_devices:
        why = f"must not be more than the {summary.allocated_devices} allocated devices, of which they are a part"
        yield path.child("partiallyAllocatedDevices").invalid(why, partial)


def _check_error(text: str, path: FieldPath) -> Iterator[FieldError]:
    if byte_length(text) > POOL_MESSAGE_LENGTH:
        yield path.too_long(POOL_MESSAGE_LENGTH)


def at_least(least: int, value: int | None, path: FieldPath) -> Iterator[FieldError]:
    """Requires that a number, if present, is not smaller than the least."""
    if value is not None and value < least:
        yield path.invalid(f"must be at least {least}", value)
