"""Devices as drivers publish them in a slice. Other modules check their attributes and request policies."""

from collections.abc import Iterator
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import (
    dns_label_problem,
    dns_subdomain_problem,
    is_node_allocatable,
    label_key_problem,
    qualified_name_problem,
)
from allotment.api.resource import (
    Device,
    DeviceCounterConsumption,
    NodeAllocatableMapping,
    NodeAllocatableOverhead,
    NodeAllocatableResource,
)
from allotment.api.validation.attribute import ATTRIBUTES_AND_CAPACITIES, check_attributes
from allotment.api.validation.capacity import check_capacity
from allotment.api.validation.lists import each, each_once, each_value, named, nothing, repeated
from allotment.api.validation.naming import check_label, check_qualified_name, formed
from allotment.api.validation.node_selector import check_node_selector
from allotment.api.validation.taint import TAINTS, check_taint

CONSUMED_COUNTER_SETS: Final = 2
COUNTERS: Final = 32
COMPATIBILITY_GROUPS: Final = 2
BINDING_CONDITIONS: Final = 4


def check_device(
    device: Device, path: FieldPath, *, chooses_nodes: bool, before: Device | None = None
) -> Iterator[FieldError]:
    """Checks everything about one device that does not depend on others; ``chooses_nodes`` is perDeviceNodeSelection.

    Capacities and taints that ``before`` already had are not checked again: rules may have become stricter.
    """
    yield from check_label(device.name, path.child("name"))
    yield from check_attributes(device, path)
    if before is None or before.capacity != device.capacity:
        yield from _check_capacities(device, path)
    if device.taints and (before is None or before.taints != device.taints):
        yield from each(device.taints, path.child("taints"), TAINTS, check_taint)
    if device.consumes_counters:
        yield from each_once(
            device.consumes_counters,
            path.child("consumesCounters"),
            CONSUMED_COUNTER_SETS,
            _check_consumption,
            lambda consumption: consumption.counter_set,
        )
    yield from _check_nodes(device, path, chooses_nodes)
    yield from check_binding_conditions(device.binding_conditions, device.binding_failure_conditions, path)
    for name, resource in device.node_allocatable_resources.items():
        at = path.child("nodeAllocatableResources").key(name)
        yield from _check_node_allocatable(name, resource, device, at)


def _check_capacities(device: Device, path: FieldPath) -> Iterator[FieldError]:
    shared = device.allow_multiple_allocations is True
    if len(device.capacity) > ATTRIBUTES_AND_CAPACITIES:
        return  # already reported
    for name, capacity in device.capacity.items():
        if capacity.request_policy is not None or qualified_name_problem(name) is not None:
            at = path.child("capacity")
            yield from check_qualified_name(name, at)
            yield from check_capacity(capacity, at.key(name), shared=shared)


def _check_consumption(consumption: DeviceCounterConsumption, path: FieldPath) -> Iterator[FieldError]:
    yield from named(consumption.counter_set, path.child("counterSet"), dns_label_problem)
    counters = path.child("counters")
    if not consumption.counters:
        yield counters.required("is required: name at least one counter")
    yield from each_value(consumption.counters, counters, COUNTERS, check_label, nothing)
    groups = path.child("compatibilityGroups")
    yield from each_once(
        consumption.compatibility_groups,
        groups,
        COMPATIBILITY_GROUPS,
        check_label,
        str,
    )


def _check_nodes(device: Device, path: FieldPath, chooses_nodes: bool) -> Iterator[FieldError]:
    given = {
        "nodeName": bool(device.node_name),
        "nodeSelector": device.node_selector is not None,
        "allNodes": device.all_nodes is True,
    }
    names = [name for name, is_given in given.items() if is_given]
    if not chooses_nodes:
        if names or device.node_name is not None or device.all_nodes is not None:
            yield path.invalid(
                "must not set nodeName, nodeSelector or allNodes unless the slice has perDeviceNodeSelection: true"
            )
        return
    one = "must set exactly one of nodeName, nodeSelector and allNodes, because the slice has perDeviceNodeSelection: true"
    if not names:
        yield path.required(one)
    elif len(names) > 1:
        yield path.invalid(one, names)
    if device.node_name is not None:
        yield from formed(device.node_name, path.child("nodeName"), dns_subdomain_problem)
    if device.node_selector is not None:
        yield from check_node_selector(device.node_selector, path.child("nodeSelector"))
    if device.all_nodes is False:
        yield path.child("allNodes").invalid("must be left out or true", False)


def check_binding_conditions(
    conditions: tuple[str, ...], failures: tuple[str, ...], path: FieldPath
) -> Iterator[FieldError]:
    """Requires both lists or neither, at most four entries each, no type twice. Allocation results have them too."""
    if not conditions and not failures:
        return
    for name, types in (("bindingConditions", conditions), ("bindingFailureConditions", failures)):
        yield from each(
            types, path.child(name), BINDING_CONDITIONS, lambda text, at: formed(text, at, label_key_problem)
        )
        yield from repeated(types, path.child(name))
    known = frozenset(conditions)
    for index, failure in enumerate(failures):
        if failure in known:
            yield (
                path.child("bindingFailureConditions")
                .index(index)
                .invalid("must not be in bindingConditions too", failure)
            )
    if failures and not conditions:
        yield path.child("bindingConditions").invalid("must be set along with bindingFailureConditions")
    if conditions and not failures:
        yield path.child("bindingFailureConditions").invalid("must be set along with bindingConditions")


def _check_node_allocatable(
    name: str, resource: NodeAllocatableResource, device: Device, path: FieldPath
) -> Iterator[FieldError]:
    if not is_node_allocatable(name):
        yield path.invalid("must be a resource of the node: cpu, memory or hugepages-*", name)
    if resource.mapping is None and resource.overhead is None:
        yield path.required("must have a mapping or an overhead")
    if resource.mapping is not None:
        yield from _check_mapping(resource.mapping, device, path.child("mapping"))
    if resource.overhead is not None:
        yield from _check_overhead(resource.overhead, path.child("overhead"))


def _check_mapping(mapping: NodeAllocatableMapping, device: Device, path: FieldPath) -> Iterator[FieldError]:
    key, multiplier = mapping.capacity_key, mapping.capacity_multiplier
    if (key is None) == (mapping.device_multiplier is None):
        yield path.invalid("must have exactly one of capacityKey and deviceMultiplier")
    if key == "":
        yield path.child("capacityKey").invalid("must not be empty")
    elif key is not None and key not in device.capacity:
        yield path.child("capacityKey").not_found("must be a capacity of this device", key)
    if key is not None and multiplier is None:
        yield path.child("capacityMultiplier").required("is required with capacityKey")
    if multiplier is not None and key is None:
        yield path.child("capacityKey").required("is required with capacityMultiplier")
    for name, factor in (("capacityMultiplier", multiplier), ("deviceMultiplier", mapping.device_multiplier)):
        if factor is not None and factor.sign <= 0:
            yield path.child(name).invalid("must be greater than zero", str(factor))


def _check_overhead(overhead: NodeAllocatableOverhead, path: FieldPath) -> Iterator[FieldError]:
    if overhead.per_pod is None and overhead.per_container is None:
        yield path.invalid("must have perPod or perContainer")
    for name, amount in (("perPod", overhead.per_pod), ("perContainer", overhead.per_container)):
        if amount is not None and amount.sign < 0:
            yield path.child(name).invalid("must not be negative", str(amount))
