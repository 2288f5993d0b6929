"""ResourceSlice: part of a driver's pool, with devices or with counters that they share."""

from collections.abc import Iterator, Mapping
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import (
    dns_label_problem,
    dns_subdomain_problem,
)
from allotment.api.resource import (
    CounterSet,
    Device,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from allotment.api.validation.attribute import is_list
from allotment.api.validation.device import COUNTERS, check_device
from allotment.api.validation.lists import each_once, each_value, named, nothing, repeated
from allotment.api.validation.metadata import check_metadata
from allotment.api.validation.naming import (
    check_driver,
    check_fully_qualified_name,
    check_label,
    check_pool,
    formed,
)
from allotment.api.validation.node_selector import check_node_selector

DEVICES: Final = 128
DEVICES_WITH_ADVANCED_FEATURES: Final = 64
"""The limit once any device has taints, consumes counters or has a list attribute: such devices are larger."""

COUNTER_SETS: Final = 8
SKIPPABLE: Final = ("NodePrepareResources", "NodeUnprepareResources", "*")

NEW: Final[Mapping[str, Device]] = {}
"""The previous devices of a new slice: none."""

_SPEC: Final = FieldPath("spec")


def validate_slice(slice_: ResourceSlice) -> list[FieldError]:
    """Everything that is wrong with a new slice."""
    return [*check_metadata(slice_.metadata, namespaced=False), *_check_spec(slice_.spec)]


def validate_slice_update(new: ResourceSlice, old: ResourceSlice) -> list[FieldError]:
    """Everything that is wrong with a changed slice. Its driver, pool and node must not change."""
    unchanged = (
        ("driver", new.spec.driver, old.spec.driver),
        ("pool.name", new.spec.pool.name, old.spec.pool.name),
        ("nodeName", new.spec.node_name, old.spec.node_name),
    )
    immutable = [
        _SPEC.child(field).invalid("field is immutable", after)
        for field, after, before in unchanged
        if after != before
    ]
    return [
        *check_metadata(new.metadata, namespaced=False),
        *_check_spec(new.spec, {device.name: device for device in old.spec.devices}),
        *immutable,
    ]


def _check_spec(spec: ResourceSliceSpec, before: Mapping[str, Device] = NEW) -> Iterator[FieldError]:
    yield from check_driver(spec.driver, _SPEC.child("driver"))
    yield from _check_pool(spec.pool, _SPEC.child("pool"))
    yield from _check_nodes(spec)
    if spec.shared_counters and spec.devices:
        yield _SPEC.invalid(
            "must have devices or sharedCounters, not both: put the counters into a slice of their own"
        )
    yield from _check_devices(spec, _SPEC.child("devices"), before)
    yield from each_once(
        spec.shared_counters,
        _SPEC.child("sharedCounters"),
        COUNTER_SETS,
        check_counter_set,
        lambda counter_set: counter_set.name,
    )
    yield from _check_partition_type(spec)
    yield from check_skipped_operations(spec.skip_node_operations, _SPEC.child("skipNodeOperations"))


def _check_pool(pool: ResourcePool, path: FieldPath) -> Iterator[FieldError]:
    yield from check_pool(pool.name, path.child("name"))
    if pool.resource_slice_count <= 0:
        yield path.child("resourceSliceCount").invalid("must be greater than zero", pool.resource_slice_count)
    if pool.generation < 0:
        yield path.child("generation").invalid("must not be negative", pool.generation)


def _check_nodes(spec: ResourceSliceSpec) -> Iterator[FieldError]:
    given = {
        "nodeName": bool(spec.node_name),
        "nodeSelector": spec.node_selector is not None,
        "allNodes": spec.all_nodes is True,
        "perDeviceNodeSelection": spec.per_device_node_selection is True,
    }
    names = [name for name, is_given in given.items() if is_given]
    if not names:
        yield _SPEC.required(f"exactly one of {', '.join(f'`{name}`' for name in given)} is required")
    elif len(names) > 1:
        yield _SPEC.invalid(f"must set exactly one of {', '.join(given)}, sets {' and '.join(names)}", names)
    if spec.node_name is not None:
        yield from formed(spec.node_name, _SPEC.child("nodeName"), dns_subdomain_problem)
    if spec.node_selector is not None:
        yield from check_node_selector(spec.node_selector, _SPEC.child("nodeSelector"), one_term=True)
    for name, flag in (
        ("allNodes", spec.all_nodes),
        ("perDeviceNodeSelection", spec.per_device_node_selection),
    ):
        if flag is False:
            yield _SPEC.child(name).invalid("must be left out or true", False)


def _check_devices(
    spec: ResourceSliceSpec, path: FieldPath, before: Mapping[str, Device]
) -> Iterator[FieldError]:
    advanced = any(map(_is_advanced, spec.devices))
    limit = DEVICES_WITH_ADVANCED_FEATURES if advanced else DEVICES
    if len(spec.devices) > limit:
        yield path.too_many(len(spec.devices), limit)
        return
    chooses_nodes = spec.per_device_node_selection is True
    for index, device in enumerate(spec.devices):
        yield from check_device(
            device, path.index(index), chooses_nodes=chooses_nodes, before=before.get(device.name)
        )
    yield from repeated((device.name for device in spec.devices), path)


def _is_advanced(device: Device) -> bool:
    return bool(device.taints or device.consumes_counters) or any(map(is_list, device.attributes.values()))


def check_counter_set(counter_set: CounterSet, path: FieldPath) -> Iterator[FieldError]:
    """Requires a name and counters. Slice templates have counter sets too."""
    yield from named(counter_set.name, path.child("name"), dns_label_problem)
    if not counter_set.counters:
        yield path.child("counters").required("is required: name at least one counter")
    yield from each_value(counter_set.counters, path.child("counters"), COUNTERS, check_label, nothing)


def _check_partition_type(spec: ResourceSliceSpec) -> Iterator[FieldError]:
    """Requires the attribute, as a string, on each device that consumes counters.

    As in Kubernetes, devices of one type may consume different amounts: that is not checked.
    """
    name = spec.partition_type_attribute
    if name is None:
        return
    at = _SPEC.child("partitionTypeAttribute")
    unsound = list(check_fully_qualified_name(name, at))
    partitions = [(index, device) for index, device in enumerate(spec.devices) if device.consumes_counters]
    if unsound:
        yield from unsound
    elif not partitions:
        yield at.invalid("must not be set unless devices of this slice consume counters", name)
    else:
        for index, device in partitions:
            path = _SPEC.child("devices").index(index).child("attributes").key(name)
            attribute = device.attributes.get(name) or device.attributes.get(
                name.removeprefix(f"{spec.driver}/")
            )
            if attribute is None:
                yield path.required(
                    "is required: partitionTypeAttribute names it and the device consumes counters"
                )
            elif attribute.string_value is None:
                yield path.invalid("must be a string, because partitionTypeAttribute names it")


def check_skipped_operations(operations: tuple[str, ...], path: FieldPath) -> Iterator[FieldError]:
    """Allows known operations, each once. Who skips preparing must skip unpreparing. Allocation results have them too."""
    for index, operation in enumerate(operations):
        if operation not in SKIPPABLE:
            yield path.index(index).not_supported(operation, SKIPPABLE)
    yield from repeated(operations, path)
    if "NodePrepareResources" in operations and not {"NodeUnprepareResources", "*"} & set(operations):
        yield path.invalid("must have NodeUnprepareResources too where it has NodePrepareResources")
