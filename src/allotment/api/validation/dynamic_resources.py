"""Devices of a machine that does not exist yet: slice templates, and attributes that will be equal.

A template may not contain what a ResourceSlice may not contain, nor anything that only a running machine can know.
Since all slices of its drivers are here, the references between them are checked too.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final

from allotment.api.autoscaling import (
    AttributeBinding,
    DeviceTemplate,
    DynamicResources,
    NodeResourceSliceTemplate,
    ResourceSliceTemplate,
    ResourceSliceTemplateSpec,
    TemplateNodeSelector,
)
from allotment.api.core import NodeSelector, NodeSelectorTerm
from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_subdomain_problem, label_key_problem
from allotment.api.resource import CounterSet
from allotment.api.text import byte_length
from allotment.api.validation.attribute import ATTRIBUTES_AND_CAPACITIES, check_count
from allotment.api.validation.device import check_device
from allotment.api.validation.lists import each, each_once, repeated
from allotment.api.validation.naming import (
    check_driver,
    check_fully_qualified_name,
    check_qualified_name,
    formed,
)
from allotment.api.validation.node_resource_slice import check_resources
from allotment.api.validation.node_selector import check_node_selector
from allotment.api.validation.slice import COUNTER_SETS, DEVICES, check_counter_set

SLICE_TEMPLATES: Final = 64
BINDINGS: Final = 256
BINDING_SELECTORS: Final = 1024
BINDING_KEY_LENGTH: Final = 64

_REFUSED: Final = {
    "nodeName": "must not be set: the node does not exist yet; without a selector the devices are the new node's alone",
    "pool": "must not be set: the driver makes its pools when the machine runs, and no plan depends on them",
    "perDeviceNodeSelection": "must not be set: make one template for each set of nodes",
}
_REACH: Final = "must not be set: the template says which nodes reach its devices"
_WAITING: Final = (
    "must not be set: what a device waits for before a pod starts does not matter to the choice of a machine"
)
_REFUSED_OF_DEVICES: Final = {
    "nodeName": _REACH,
    "nodeSelector": _REACH,
    "allNodes": _REACH,
    "bindsToNode": _WAITING,
    "bindingConditions": _WAITING,
    "bindingFailureConditions": _WAITING,
    "nodeAllocatableResources": "must not be set: machines are chosen by the capacity that their type has",
}


def check_dynamic_resources(resources: DynamicResources, path: FieldPath) -> Iterator[FieldError]:
    """Checks templates one by one, then their references to each other, then the bindings between them."""
    templates, at = resources.resource_slice_templates, path.child("resourceSliceTemplates")
    if len(templates) > SLICE_TEMPLATES:
        yield at.too_many(len(templates), SLICE_TEMPLATES)
        return
    if not templates and not resources.node_resource_slice_templates:
        yield at.required("is required: name at least one slice that a driver will publish")
    for index, template in enumerate(templates):
        yield from _check_template(template, at.index(index))
    yield from _check_names(templates, at)
    yield from _check_counters(templates, at)
    yield from _check_trees(
        resources.node_resource_slice_templates, templates, path.child("nodeResourceSliceTemplates")
    )
    yield from each(
        resources.attribute_bindings,
        path.child("attributeBindings"),
        BINDINGS,
        _Bindings(templates).check,
    )


def _check_trees(
    trees: tuple[NodeResourceSliceTemplate, ...],
    templates: tuple[ResourceSliceTemplate, ...],
    path: FieldPath,
) -> Iterator[FieldError]:
    """Checks templates of NodeResourceSlices like slices. A driver may publish in only one of the two ways."""
    if len(trees) > SLICE_TEMPLATES:
        yield path.too_many(len(trees), SLICE_TEMPLATES)
        return
    others = {template.spec.driver for template in templates}
    names: set[str] = set()
    roots: set[Hashable] = set()
    for index, tree in enumerate(trees):
        name, spec, at = tree.metadata.name, tree.spec, path.index(index).child("spec")
        if name:
            yield from formed(name, path.index(index).child("metadata", "name"), dns_subdomain_problem)
            if name in names:
                yield path.index(index).child("metadata", "name").duplicate(name)
            names.add(name)
        yield from _check_refused(spec, at, _REFUSED)
        yield from check_resources(spec.driver_name, spec.partitionable, at)
        if spec.driver_name in others:
            yield at.child("driverName").invalid(
                "must not be a driver of resourceSliceTemplates: a driver publishes ResourceSlices or NodeResourceSlices",
                spec.driver_name,
            )
        for number, root in enumerate(spec.partitionable.resource_instances if spec.partitionable else ()):
            if (spec.driver_name, root.name) in roots:
                instances = at.child("partitionable", "resourceInstances")
                yield instances.index(number).child("name").duplicate(root.name)
            roots.add((spec.driver_name, root.name))


# --- one template ---


def _check_template(template: ResourceSliceTemplate, path: FieldPath) -> Iterator[FieldError]:
    spec, at = template.spec, path.child("spec")
    if template.metadata.name:
        yield from formed(template.metadata.name, path.child("metadata", "name"), dns_subdomain_problem)
    yield from check_driver(spec.driver, at.child("driver"))
    yield from _check_refused(spec, at, _REFUSED)
    yield from _check_reach(spec, at)
    if spec.shared_counters and spec.devices:
        yield at.invalid(
            "must have devices or sharedCounters, not both: put the counters into a template of their own"
        )
    yield from each(spec.devices, at.child("devices"), DEVICES, _check_device)
    yield from each_once(
        spec.shared_counters,
        at.child("sharedCounters"),
        COUNTER_SETS,
        check_counter_set,
        lambda counter_set: counter_set.name,
    )


def _check_refused(struct: Any, path: FieldPath, reasons: Mapping[str, str]) -> Iterator[FieldError]:
    for name, field in zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True):
        if name in reasons and getattr(struct, field) is not None:
            yield path.child(name).forbidden(reasons[name])


def _check_reach(spec: ResourceSliceTemplateSpec, path: FieldPath) -> Iterator[FieldError]:
    if spec.all_nodes is False:
        yield path.child("allNodes").invalid("must be left out or true", False)
    if spec.node_selector is None:
        return
    if spec.all_nodes:
        yield path.invalid("must set one of nodeSelector and allNodes, not both")
    yield from _check_selector(spec.node_selector, path.child("nodeSelector"))


def _check_selector(selector: TemplateNodeSelector, path: FieldPath) -> Iterator[FieldError]:
    terms = tuple(
        NodeSelectorTerm(match_expressions=term.match_expressions, match_fields=term.match_fields)
        for term in selector.node_selector_terms
    )
    yield from check_node_selector(NodeSelector(node_selector_terms=terms), path, one_term=True)
    for index, term in enumerate(selector.node_selector_terms):
        at = path.child("nodeSelectorTerms").index(index)
        if not (term.match_label_keys or term.match_expressions or term.match_fields):
            yield at.required(
                "is required: an empty term matches no node; leave out nodeSelector for the new node alone"
            )
        for number, key in enumerate(term.match_label_keys):
            yield from formed(key, at.child("matchLabelKeys").index(number), label_key_problem)
        yield from repeated(term.match_label_keys, at.child("matchLabelKeys"))


def _check_device(device: DeviceTemplate, path: FieldPath) -> Iterator[FieldError]:
    crowd = list(check_count(device, path))
    if crowd:
        yield from crowd
        return
    yield from check_device(device.known(), path, chooses_nodes=False)
    for name, attribute in device.attributes.items():
        if attribute.binding_key is not None:
            at = path.child("attributes")
            yield from check_qualified_name(name, at)
            given = [
                field
                for field in type(attribute.known()).__struct_fields__
                if getattr(attribute, field) is not None
            ]
            if given:
                yield at.key(name).invalid("must have a value or a bindingKey, not both")
            yield from _check_key(attribute.binding_key, at.key(name).child("bindingKey"))
    yield from _check_refused(device, path, _REFUSED_OF_DEVICES)


def _check_key(key: str, path: FieldPath) -> Iterator[FieldError]:
    if not key:
        yield path.required()
    elif byte_length(key) > BINDING_KEY_LENGTH:
        yield path.too_long(BINDING_KEY_LENGTH)


# --- templates together ---


def _check_names(templates: tuple[ResourceSliceTemplate, ...], path: FieldPath) -> Iterator[FieldError]:
    """Reports template names, and devices of a driver, that occur twice."""
    names: set[str] = set()
    devices: set[Hashable] = set()
    for index, template in enumerate(templates):
        name, spec = template.metadata.name, template.spec
        if name in names:
            yield path.index(index).child("metadata", "name").duplicate(name)
        names |= {name} - {""}
        for number, device in enumerate(spec.devices):
            if (spec.driver, device.name) in devices:
                yield (
                    path.index(index)
                    .child("spec", "devices")
                    .index(number)
                    .child("name")
                    .duplicate(device.name)
                )
            devices.add((spec.driver, device.name))


def pool_key(spec: ResourceSliceTemplateSpec) -> Hashable:
    """A key that is equal for templates whose slices form one pool: the same driver, reached by the same nodes."""
    return spec.driver, spec.all_nodes, spec.node_selector


def _check_counters(templates: tuple[ResourceSliceTemplate, ...], path: FieldPath) -> Iterator[FieldError]:
    """Requires that the counters devices draw on exist, and that each counter set exists once."""
    sets: dict[Hashable, dict[str, CounterSet]] = {}
    for index, template in enumerate(templates):
        known = sets.setdefault(pool_key(template.spec), {})
        for number, counter_set in enumerate(template.spec.shared_counters):
            if counter_set.name in known and counter_set not in template.spec.shared_counters[:number]:
                at = path.index(index).child("spec", "sharedCounters").index(number).child("name")
                yield at.duplicate(counter_set.name)
            known[counter_set.name] = counter_set
    for index, template in enumerate(templates):
        known = sets[pool_key(template.spec)]
        for number, device in enumerate(template.spec.devices):
            at = path.index(index).child("spec", "devices").index(number).child("consumesCounters")
            yield from _check_consumption(device, known, at)


def _check_consumption(
    device: DeviceTemplate, known: Mapping[str, CounterSet], path: FieldPath
) -> Iterator[FieldError]:
    for index, consumption in enumerate(device.consumes_counters):
        counter_set = known.get(consumption.counter_set)
        if counter_set is None:
            yield (
                path.index(index)
                .child("counterSet")
                .not_found(
                    "must be in sharedCounters of a template of the same driver for the same nodes",
                    consumption.counter_set,
                )
            )
            continue
        for name in consumption.counters:
            if name not in counter_set.counters:
                yield (
                    path.index(index)
                    .child("counters")
                    .key(name)
                    .not_found(f"must be a counter of the set {counter_set.name}", name)
                )


# --- bindings ---


class _Bindings:
    """Checks bindings against the devices of the templates."""

    def __init__(self, templates: tuple[ResourceSliceTemplate, ...]) -> None:
        self._names = {template.metadata.name for template in templates if template.metadata.name}
        self._devices = {
            (template.metadata.name, device.name): (template.spec.driver, device)
            for template in templates
            if template.metadata.name
            for device in template.spec.devices
        }

    def check(self, binding: AttributeBinding, path: FieldPath) -> Iterator[FieldError]:
        attributes, selectors = path.child("attributes"), path.child("deviceSelectors")
        if not binding.attributes:
            yield attributes.required("is required: name at least one attribute")
        yield from each_once(
            binding.attributes, attributes, ATTRIBUTES_AND_CAPACITIES, check_fully_qualified_name, str
        )
        if len(binding.device_selectors) < 2:
            yield selectors.invalid("must name two or more devices", len(binding.device_selectors))
        if len(binding.device_selectors) > BINDING_SELECTORS:
            yield selectors.too_many(len(binding.device_selectors), BINDING_SELECTORS)
            return
        pairs = [(each.resource_slice_template, each.device) for each in binding.device_selectors]
        yield from repeated(pairs, selectors)
        for index, (template, name) in enumerate(pairs):
            at = selectors.index(index)
            if template not in self._names:
                yield at.child("resourceSliceTemplate").not_found("must be the name of a template", template)
            elif (template, name) not in self._devices:
                yield at.child("device").not_found(f"must be a device of the template {template}", name)
            else:
                yield from self._check_unknown(binding, *self._devices[template, name], at)

    def _check_unknown(
        self, binding: AttributeBinding, driver: str, device: DeviceTemplate, path: FieldPath
    ) -> Iterator[FieldError]:
        for attribute in binding.attributes:
            found = device.attributes.get(attribute) or device.attributes.get(
                attribute.removeprefix(f"{driver}/")
            )
            if found is not None and found.binding_key is None:
                yield path.invalid(
                    f"must not have a value of {attribute}, because it is bound: leave one of them out",
                    attribute,
                )
