"""A machine that can be launched, and the node that it would become.

A :class:`Machine` is one option for a provisioner: an instance type, in one zone and capacity type, from one node pool; or
the next node of a node group. Overlays have been applied to it: price, capacity and devices are final.

:func:`node_of` returns what a launch would create: a Node, and the ResourceSlices that its drivers would publish;
:func:`trees_of` the NodeResourceSlices (KEP-4381 semantic parameters), if drivers publish those. Bound attributes have no
value yet: they are UnknownAttributes, new ones for each node, so that nothing is equal on two nodes. Labels that
``matchLabelKeys`` names have this node's values, because its zone has been chosen.

Slices of one driver that the same nodes reach form one pool. The node's own pool has the node's name, as with most drivers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import msgspec

from allotment.api import semantic
from allotment.api.autoscaling import (
    HOSTNAME,
    DynamicResources,
    NodeGroup,
    NodePool,
    NodeResourceSliceTemplate,
    Offering,
    ResourceSliceTemplate,
    ResourceSliceTemplateSpec,
)
from allotment.api.core import (
    Node,
    NodeCondition,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    Taint,
)
from allotment.api.meta import ObjectMeta
from allotment.api.quantity import Quantity
from allotment.api.resource import (
    Device,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from allotment.api.unknown_attribute import UnknownAttribute
from allotment.api.validation.dynamic_resources import pool_key
from allotment.autoscaler.catalogue.attribute_bindings import classes
from allotment.autoscaler.catalogue.requirements import Possible

__all__ = ["Machine", "node_of"]

GENERATION = 1
_READY = NodeCondition(type="Ready", status="True", reason="Foreseen")


class Devices:
    """The devices that drivers publish, as one overlay or one instance type describes them, assembled as completely as they
    are known.

    ``origin`` is the overlay's name; it is empty if the type itself describes them.
    """

    def __init__(self, origin: str, resources: DynamicResources) -> None:
        self.origin = origin
        self.resources = resources
        self.drivers = sorted(
            {each.spec.driver for each in resources.resource_slice_templates}
            | {each.spec.driver_name for each in resources.node_resource_slice_templates}
        )
        bound = classes(resources)
        self._bound: dict[tuple[int, str], dict[str, int]] = {}
        for (template, device, attribute), number in bound.items():
            self._bound.setdefault((template, device), {})[attribute] = number
        self._known = {
            (position, device.name): device.known()
            for position, template in enumerate(resources.resource_slice_templates)
            for device in template.spec.devices
        }

    def templates(self, driver: str) -> Iterator[tuple[int, ResourceSliceTemplate]]:
        for position, template in enumerate(self.resources.resource_slice_templates):
            if template.spec.driver == driver:
                yield position, template

    def trees(self, driver: str) -> Iterator[tuple[int, NodeResourceSliceTemplate]]:
        """What the driver will publish for v1alpha2 claims."""
        for position, template in enumerate(self.resources.node_resource_slice_templates):
            if template.spec.driver_name == driver:
                yield position, template

    def bound(self, template: int, device: str) -> Mapping[str, int]:
        """Attributes without a known value, each with the class of those that will have the same value."""
        return self._bound.get((template, device), {})

    def device(self, template: int, name: str, node: str) -> Device:
        """A device of a new node of this name."""
        known, bound = self._known[template, name], self.bound(template, name)
        if not bound:
            return known
        unknown = {
            attribute: UnknownAttribute(binding_key=f"{node}/{self.origin}/{number}")
            for attribute, number in bound.items()
        }
        return msgspec.structs.replace(known, attributes={**known.attributes, **unknown})


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """A machine type in one place at one price, with overlays applied. Each machine equals only itself.

    Exactly one of ``pool`` and ``group`` is set, or neither if there are no pools.
    """

    type: str  # the instance type; of a group, its label or the group's name
    offering: Offering  # zone, capacity type, whether it is available now
    pool: NodePool | None
    group: NodeGroup | None
    possible: Possible = field(repr=False)  # values of labels, including those that are not certain yet
    labels: Mapping[str, str] = field(repr=False)  # certain values, without the host name
    taints: tuple[Taint, ...]
    capacity: Mapping[str, Quantity] = field(repr=False)
    allocatable: Mapping[str, Quantity] = field(repr=False)
    price: Decimal  # per hour
    devices: Mapping[str, Devices] = field(repr=False)  # by driver
    features: tuple[str, ...] = field(default=(), repr=False)  # of the kubelet (``declared_features``)

    @property
    def source(self) -> str:
        """The pool or group from which it comes; empty if there are no pools."""
        origin = self.pool or self.group
        return origin.metadata.name if origin is not None else ""

    @property
    def name(self) -> str:
        """For people, and unique: source/type/zone/capacity type."""
        return "/".join((self.source, self.type, self.offering.zone, self.offering.capacity_type))


def is_local(spec: ResourceSliceTemplateSpec) -> bool:
    """Whether only the machine itself reaches the devices of a template."""
    return spec.node_selector is None and not spec.all_nodes


def node_of(machine: Machine, name: str) -> tuple[Node, list[ResourceSlice]]:
    """The node that the machine would become under this name, and the slices that it would publish.

    Names must differ between nodes, because they separate the nodes' bound attributes.
    """
    annotations: Mapping[str, str] = {}
    if machine.pool is not None:
        annotations = machine.pool.spec.template.metadata.annotations
    elif machine.group is not None:
        annotations = machine.group.spec.template.metadata.annotations
    node = Node(
        metadata=ObjectMeta(
            name=name, labels={**machine.labels, HOSTNAME: name}, annotations=dict(annotations)
        ),
        spec=NodeSpec(taints=machine.taints),
        status=NodeStatus(
            capacity=dict(machine.capacity),
            allocatable=dict(machine.allocatable),
            conditions=(_READY,),
            declared_features=machine.features,
        ),
    )
    return node, [
        each for driver in machine.devices for each in _slices(machine.devices[driver], driver, node)
    ]


def trees_of(machine: Machine, node: str) -> list[semantic.NodeResourceSlice]:
    """The NodeResourceSlices that the machine would publish as this node."""
    return [
        semantic.NodeResourceSlice(
            metadata=ObjectMeta(name=f"{node}-{driver}-tree-{position}"),
            spec=semantic.NodeResourceSliceSpec(
                node_name=node, driver_name=driver, partitionable=template.spec.partitionable
            ),
        )
        for driver, devices in machine.devices.items()
        for position, template in devices.trees(driver)
    ]


def _slices(devices: Devices, driver: str, node: Node) -> Iterator[ResourceSlice]:
    pools: dict[object, list[tuple[int, ResourceSliceTemplate]]] = {}
    for position, template in devices.templates(driver):
        pools.setdefault(pool_key(template.spec), []).append((position, template))
    name = node.metadata.name
    for members in pools.values():
        first, spec = members[0][0], members[0][1].spec
        local = is_local(spec)
        pool = ResourcePool(
            name=name if local else f"{name}/{first}",
            generation=GENERATION,
            resource_slice_count=len(members),
        )
        for position, template in members:
            yield ResourceSlice(
                metadata=ObjectMeta(name=f"{name}-{driver}-{position}"),
                spec=ResourceSliceSpec(
                    driver=driver,
                    pool=pool,
                    node_name=name if local else None,
                    node_selector=selector_of(template.spec, node.metadata.labels),
                    all_nodes=spec.all_nodes,
                    devices=tuple(
                        [devices.device(position, each.name, name) for each in template.spec.devices]
                    ),
                    shared_counters=template.spec.shared_counters,
                ),
            )


def selector_of(spec: ResourceSliceTemplateSpec, labels: Mapping[str, str]) -> NodeSelector | None:
    """The nodes that reach the devices, once the labels of their host are known. All requested labels must exist."""
    if spec.node_selector is None:
        return None
    terms = [
        NodeSelectorTerm(
            match_expressions=(
                *[
                    NodeSelectorRequirement(key=key, operator="In", values=(labels[key],))
                    for key in term.match_label_keys
                ],
                *term.match_expressions,
            ),
            match_fields=term.match_fields,
        )
        for term in spec.node_selector.node_selector_terms
    ]
    return NodeSelector(node_selector_terms=tuple(terms))


def unresolved(devices: Devices, driver: str, labels: Mapping[str, str]) -> str | None:
    """A label that a template takes from the host although the host has no certain value for it."""
    for _, template in devices.templates(driver):
        for term in template.spec.node_selector.node_selector_terms if template.spec.node_selector else ():
            for key in term.match_label_keys:
                if key not in labels and key != HOSTNAME:
                    return key
    return None
