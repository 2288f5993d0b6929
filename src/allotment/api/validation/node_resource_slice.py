"""NodeResourceSlice (v1alpha2): the tree of instances that a driver offers on a node.

KEP-4381's early design states few rules: exactly one value per attribute, names that can be joined by ``/``, a reserved
suffix, one known model. It states no limits; ours bound the cost of a hostile tree to a few milliseconds.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_subdomain_problem, driver_problem, word_problem
from allotment.api.semantic import (
    Attribute,
    AttributeGroup,
    NodeResourceSlice,
    PartitionableResources,
    ResourceInstance,
    ResourceInstanceGroup,
)
from allotment.api.semver import Version, VersionError
from allotment.api.text import byte_length, quoted, some_of
from allotment.api.validation.lists import each_once, named, repeated
from allotment.api.validation.metadata import check_metadata

INSTANCE_DEPTH: Final = 8
"""The most levels of instances, including the outermost."""

SLICE_INSTANCES: Final = 4096
"""The most instances and partition groups in a slice."""

ATTRIBUTE_GROUPS: Final = 128
ATTRIBUTES: Final = 64
REFERENCES: Final = 32
LIST_VALUES: Final = 64
TEXT_LENGTH: Final = 256
RESERVED_SUFFIX: Final = ".k8s.io"

_SPEC: Final = FieldPath("spec")
_VALUE_FIELDS: Final = {
    "quantity": "quantity_value",
    "bool": "bool_value",
    "int": "int_value",
    "intSlice": "int_slice_value",
    "string": "string_value",
    "stringSlice": "string_slice_value",
    "version": "version_value",
}


def validate_node_resource_slice(slice_: NodeResourceSlice) -> list[FieldError]:
    """Everything that is wrong with a slice, new or changed."""
    return list(_check(slice_))


def _check(slice_: NodeResourceSlice) -> Iterator[FieldError]:
    spec = slice_.spec
    yield from check_metadata(slice_.metadata, namespaced=False)
    yield from named(spec.node_name, _SPEC.child("nodeName"), dns_subdomain_problem)
    yield from check_resources(spec.driver_name, spec.partitionable, _SPEC)


def check_resources(
    driver: str, resources: PartitionableResources | None, path: FieldPath
) -> Iterator[FieldError]:
    """Checks what a driver offers on a node, whether the node exists or is only planned."""
    yield from named(driver, path.child("driverName"), driver_problem)
    if resources is None:
        yield path.required(
            "has no model that is known here; set partitionable, or upgrade if the driver uses a newer model"
        )
    else:
        yield from _Tree(resources).check(path.child("partitionable"))


class _Tree:
    """Walks the instances of one slice, counts them and resolves their references."""

    def __init__(self, resources: PartitionableResources) -> None:
        self._resources = resources
        self._groups = {group.name for group in resources.common_attributes}
        self._left = SLICE_INSTANCES

    def check(self, path: FieldPath) -> Iterator[FieldError]:
        yield from each_once(
            self._resources.common_attributes,
            path.child("commonAttributes"),
            ATTRIBUTE_GROUPS,
            _check_attribute_group,
            lambda group: group.name,
        )
        yield from self._check_instances(
            self._resources.resource_instances, path.child("resourceInstances"), 1
        )
        if self._left < 0:
            yield path.forbidden(f"must not have more than {SLICE_INSTANCES} instances and partitions in all")

    def _check_instances(
        self, instances: tuple[ResourceInstance, ...], path: FieldPath, depth: int
    ) -> Iterator[FieldError]:
        if depth > INSTANCE_DEPTH:
            yield path.forbidden(f"must not be nested deeper than {INSTANCE_DEPTH} levels")
            return
        yield from repeated((instance.name for instance in instances), path)
        for index, instance in enumerate(instances):
            if not self._count():
                return
            at = path.index(index)
            yield from self._check_node(instance, at)
            yield from self._check_partitions(instance.partitions, at.child("partitions"), depth)

    def _check_partitions(
        self, groups: tuple[ResourceInstanceGroup, ...], path: FieldPath, depth: int
    ) -> Iterator[FieldError]:
        yield from repeated((group.name for group in groups), path)
        for index, group in enumerate(groups):
            if not self._count():
                return
            at = path.index(index)
            yield from self._check_node(group, at)
            if not group.resource_instances:
                yield at.child("resourceInstances").required(
                    "is required: a partition has at least one instance"
                )
            yield from self._check_instances(
                group.resource_instances, at.child("resourceInstances"), depth + 1
            )

    def _count(self) -> bool:
        self._left -= 1
        return self._left >= 0

    def _check_node(
        self, node: ResourceInstance | ResourceInstanceGroup, path: FieldPath
    ) -> Iterator[FieldError]:
        yield from _check_name(node.name, path.child("name"))
        yield from _check_attributes(node.attributes, path.child("attributes"))
        references = path.child("commonAttributesRefs")
        yield from each_once(node.common_attributes_refs, references, REFERENCES, self._check_reference, str)

    def _check_reference(self, name: str, path: FieldPath) -> Iterator[FieldError]:
        if name not in self._groups:
            told = f"{quoted(name)} is not in commonAttributes; there is {self._told}"
            yield path.not_found(told, name)

    @cached_property
    def _told(self) -> str:
        return some_of(self._groups, 8) or "none"


def _check_attribute_group(group: AttributeGroup, path: FieldPath) -> Iterator[FieldError]:
    yield from _check_name(group.name, path.child("name"))
    yield from _check_attributes(group.attributes, path.child("attributes"))


def _check_name(name: str, path: FieldPath) -> Iterator[FieldError]:
    yield from named(name, path, dns_subdomain_problem)
    if name.endswith(RESERVED_SUFFIX):
        yield path.invalid(f"must not end in {RESERVED_SUFFIX}, which is reserved for Kubernetes", name)


def _check_attributes(attributes: tuple[Attribute, ...], path: FieldPath) -> Iterator[FieldError]:
    return each_once(attributes, path, ATTRIBUTES, _check_attribute, lambda attribute: attribute.name)


def _check_attribute(attribute: Attribute, path: FieldPath) -> Iterator[FieldError]:
    yield from named(attribute.name, path.child("name"), word_problem)
    if attribute.name.lower().endswith(RESERVED_SUFFIX):
        yield path.child("name").invalid(
            f"must not end in {RESERVED_SUFFIX}, which is reserved for Kubernetes", attribute.name
        )
    given = [name for name, field in _VALUE_FIELDS.items() if getattr(attribute, field) is not None]
    if len(given) != 1:
        yield path.invalid(f"must have exactly one value, has {' and '.join(given) or 'none'}", given)
    for name in given:
        yield from _check_value(name, getattr(attribute, _VALUE_FIELDS[name]), path.child(name))


def _check_value(name: str, value: object, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, tuple):
        if len(value) > LIST_VALUES:
            yield path.too_many(len(value), LIST_VALUES)
        for index, entry in enumerate(value[:LIST_VALUES]):
            yield from _check_value("entry", entry, path.index(index))
    elif isinstance(value, str):
        if byte_length(value) > TEXT_LENGTH:
            yield path.too_long(TEXT_LENGTH)
        elif name == "version":
            try:
                Version.parse_tolerant(value)
            except VersionError as error:
                yield path.invalid(str(error), value)
