"""The status of a ResourceClaim: its allocation, its consumers, and the state of its devices."""

import ipaddress
from collections.abc import Hashable, Iterator
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import (
    dns_label_problem,
    dns_subdomain_problem,
    driver_problem,
    uuid_problem,
)
from allotment.api.resource import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceRequestAllocationResult,
    NetworkDeviceData,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from allotment.api.text import byte_length
from allotment.api.validation.claim import RequestNames
from allotment.api.validation.configuration import CONFIGURATIONS, check_opaque, check_raw_object
from allotment.api.validation.device import check_binding_conditions
from allotment.api.validation.lists import each, each_once
from allotment.api.validation.metadata import check_conditions
from allotment.api.validation.naming import check_driver, check_label, check_pool, formed
from allotment.api.validation.node_selector import check_node_selector
from allotment.api.validation.slice import check_skipped_operations
from allotment.api.validation.taint import check_tolerations

RESERVATIONS: Final = 256
RESULTS: Final = 32
ADDRESSES: Final = 16
INTERFACE_NAME_LENGTH: Final = 256
HARDWARE_ADDRESS_LENGTH: Final = 128
SOURCES: Final = ("FromClass", "FromClaim")

_STATUS: Final = FieldPath("status")


def validate_claim_status(claim: ResourceClaim, old: ResourceClaim | None = None) -> list[FieldError]:
    """Everything that is wrong with the status of a claim.

    With ``old``, the result includes forbidden changes: an allocation may be set or removed, but not edited, and a
    claim that is being deleted accepts no new reservation. An allocation that was already stored is not checked again.
    """
    return [*_check_status(claim), *_check_change(claim, old)]


def _check_status(claim: ResourceClaim) -> Iterator[FieldError]:
    status = claim.status
    if status.reserved_for:
        reserved_for = _STATUS.child("reservedFor")
        yield from each_once(
            status.reserved_for, reserved_for, RESERVATIONS, _check_consumer, lambda consumer: consumer.uid
        )
        if status.allocation is None:
            yield reserved_for.forbidden("may not be specified when `allocated` is not set")
    if not status.devices:
        return
    allocated = {
        _device_id(result) for result in (status.allocation.devices.results if status.allocation else ())
    }
    yield from each_once(
        status.devices,
        _STATUS.child("devices"),
        None,
        lambda device, at: _check_device(device, at, allocated),
        _device_id,
    )


def _check_change(claim: ResourceClaim, old: ResourceClaim | None) -> Iterator[FieldError]:
    path = _STATUS.child("allocation")
    before = old.status.allocation if old else None
    after = claim.status.allocation
    if after is not None and before is None:
        yield from _check_allocation(after, path, RequestNames(claim.spec.devices))
    elif after is not None and after != before:
        yield path.invalid("field cannot be modified once set")
    if old is not None and claim.metadata.deletion_timestamp is not None:
        known = set(old.status.reserved_for)
        if any(consumer not in known for consumer in claim.status.reserved_for):
            yield _STATUS.child("reservedFor").forbidden(
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            )


def _check_consumer(consumer: ResourceClaimConsumerReference, path: FieldPath) -> Iterator[FieldError]:
    for field, value in (("resource", consumer.resource), ("name", consumer.name), ("uid", consumer.uid)):
        if not value:
            yield path.child(field).required()


def _check_allocation(
    allocation: AllocationResult, path: FieldPath, names: RequestNames
) -> Iterator[FieldError]:
    devices = path.child("devices")
    yield from each(
        allocation.devices.results,
        devices.child("results"),
        RESULTS,
        lambda result, at: _check_result(result, at, names),
    )
    if allocation.devices.config:
        yield from each(
            allocation.devices.config,
            devices.child("config"),
            2 * CONFIGURATIONS,  # the limits for class and claim together
            lambda config, at: _check_configuration(config, at, names),
        )
    if allocation.node_selector is not None:
        yield from check_node_selector(allocation.node_selector, path.child("nodeSelector"))


def _check_result(
    result: DeviceRequestAllocationResult, path: FieldPath, names: RequestNames
) -> Iterator[FieldError]:
    yield from names.check(result.request, path.child("request"))
    if not _is_well_named(result):
        yield from _check_device_id(result, path)
    if result.binding_conditions or result.binding_failure_conditions:
        yield from check_binding_conditions(
            result.binding_conditions, result.binding_failure_conditions, path
        )
    if result.tolerations:
        yield from check_tolerations(result.tolerations, path.child("tolerations"))
    if result.skip_node_operations:
        yield from check_skipped_operations(result.skip_node_operations, path.child("skipNodeOperations"))


def _is_well_named(device: DeviceRequestAllocationResult) -> bool:
    """True only if :func:`_check_device_id` would find nothing, as for nearly all devices; False leaves it open."""
    return (
        dns_label_problem(device.device) is None
        and dns_subdomain_problem(device.pool) is None
        and driver_problem(device.driver) is None
        and device.share_id is None
    )


def _check_device_id(
    device: DeviceRequestAllocationResult | AllocatedDeviceStatus, path: FieldPath
) -> Iterator[FieldError]:
    yield from check_driver(device.driver, path.child("driver"))
    yield from check_pool(device.pool, path.child("pool"))
    yield from check_label(device.device, path.child("device"))
    if device.share_id is not None:
        yield from formed(device.share_id, path.child("shareID"), uuid_problem)


def _device_id(device: DeviceRequestAllocationResult | AllocatedDeviceStatus) -> Hashable:
    return device.driver, device.pool, device.device, device.share_id


def _check_configuration(
    config: DeviceAllocationConfiguration, path: FieldPath, names: RequestNames
) -> Iterator[FieldError]:
    if not config.source:
        yield path.child("source").required(f"is required: one of {', '.join(SOURCES)}")
    elif config.source not in SOURCES:
        yield path.child("source").not_supported(config.source, SOURCES)
    yield from names.check_all(config.requests, path.child("requests"))
    yield from check_opaque(config.opaque, path)


def _check_device(
    device: AllocatedDeviceStatus, path: FieldPath, allocated: set[Hashable]
) -> Iterator[FieldError]:
    yield from _check_device_id(device, path)
    if _device_id(device) not in allocated:
        yield path.invalid(
            "must be a device that is allocated to the claim",
            f"{device.driver}/{device.pool}/{device.device}",
        )
    yield from check_conditions(device.conditions, path.child("conditions"))
    if device.data is not None:
        yield from check_raw_object(device.data, path.child("data"))
    if device.network_data is not None:
        yield from _check_network(device.network_data, path.child("networkData"))


def _check_network(network: NetworkDeviceData, path: FieldPath) -> Iterator[FieldError]:
    if byte_length(network.interface_name or "") > INTERFACE_NAME_LENGTH:
        yield path.child("interfaceName").too_long(INTERFACE_NAME_LENGTH)
    if byte_length(network.hardware_address or "") > HARDWARE_ADDRESS_LENGTH:
        yield path.child("hardwareAddress").too_long(HARDWARE_ADDRESS_LENGTH)
    yield from each_once(network.ips, path.child("ips"), ADDRESSES, _check_address, str)


def _check_address(text: str, path: FieldPath) -> Iterator[FieldError]:
    """Requires an address with the length of its network, in canonical form."""
    try:
        address = ipaddress.ip_interface(text)
        canonical = address.with_prefixlen
        mapped = isinstance(address, ipaddress.IPv6Interface) and address.ipv4_mapped is not None
    except ValueError:
        canonical, mapped = "192.0.2.5/24", False
    if text != canonical or mapped:
        yield path.invalid(
            f"must be an address with the length of its network in canonical form, as {canonical}", text
        )
