"""Machines that do not exist yet: which kinds of them can be had, from where, and what would be on them.

:class:`NodeOverlay` (karpenter.sh/v1alpha1) says what a user knows about machines of a kind and a cloud does not: a price, an
extended resource, the slices that drivers will publish. :class:`NodePool` and :class:`NodeClaim` (karpenter.sh/v1) are
Karpenter's: what may be launched, and one machine that was asked for. :class:`NodeGroup` (allotment.dev/v1) is a number of
equal nodes, as Cluster Autoscaler has them. :class:`InstanceType` is a kind of machine; it is written in catalogue files only.

Prices are text, in any one currency per hour: ``"1.25"``. Fields of a ResourceSlice that a template cannot have are here all
the same, so that validation can say why instead of calling them unknown.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from allotment.api.core import NodeSelectorRequirement, NodeSpec, NodeStatus, Taint
from allotment.api.meta import ApiStruct, Condition, Int32, ObjectMeta, Time, stated
from allotment.api.quantity import Quantity
from allotment.api.resource import (
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
    DeviceTaint,
)
from allotment.api.semantic import PartitionableResources

OVERLAY_VERSION = "karpenter.sh/v1alpha1"
KARPENTER_VERSION = "karpenter.sh/v1"
OWN_VERSION = "allotment.dev/v1"

VALIDATION_SUCCEEDED = "ValidationSucceeded"
READY = "Ready"
"""Types of an overlay's conditions."""

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
NODE_POOL = "karpenter.sh/nodepool"
NODE_GROUP = "allotment.dev/nodegroup"
HOSTNAME = "kubernetes.io/hostname"
"""Labels that every planned node has; the pool's or the group's, whichever it comes from."""

ON_DEMAND = "on-demand"


class Requirement(ApiStruct, frozen=True, kw_only=True):
    """One test of a label: In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte."""

    key: str = stated("")  # the label
    operator: str = stated("")  # how it compares
    values: tuple[str, ...] = ()  # one whole number for Gt, Lt, Gte and Lte


class FlexibleRequirement(Requirement, frozen=True, kw_only=True):
    """A test that several values must pass, for pools and claims that want a choice."""

    min_values: Int32 | None = None  # how many values a plan must leave open


# --- slices that drivers will publish ---


class TemplateAttribute(DeviceAttribute, frozen=True, kw_only=True):
    """A property of a device: a value, or the name of one that is known only once the machine runs."""

    binding_key: str | None = None  # attributes with one key will have one value

    def known(self) -> DeviceAttribute:
        """The value, if it has one: what a slice can have."""
        return DeviceAttribute(
            **{name: getattr(self, name) for name in DeviceAttribute.__struct_fields__},
        )


class DeviceTemplate(ApiStruct, frozen=True, kw_only=True):
    """A device that the machine will have."""

    name: str = stated("")  # as the driver will call it
    attributes: dict[str, TemplateAttribute] = msgspec.field(default_factory=dict)  # as in a ResourceSlice
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)  # as in a ResourceSlice
    # what the device takes from shared counters
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    allow_multiple_allocations: bool | None = None  # true: several claims may share it
    taints: tuple[DeviceTaint, ...] = ()  # keep claims off that do not tolerate them
    node_name: Any = None  # refused, as all that follow
    node_selector: Any = None
    all_nodes: Any = None
    binds_to_node: Any = None
    binding_conditions: Any = None
    binding_failure_conditions: Any = None
    node_allocatable_resources: Any = None

    def known(self) -> Device:
        """The device as far as it is known: without attributes that are bound."""
        return Device(
            name=self.name,
            attributes={
                name: value.known() for name, value in self.attributes.items() if value.binding_key is None
            },
            capacity=self.capacity,
            consumes_counters=self.consumes_counters,
            allow_multiple_allocations=self.allow_multiple_allocations,
            taints=self.taints,
        )


class TemplateNodeSelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """Which nodes will reach the devices; all tests must hold."""

    match_label_keys: tuple[str, ...] = ()  # nodes with the same value of these labels as the host
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()  # tests of labels
    match_fields: tuple[NodeSelectorRequirement, ...] = ()  # tests of metadata.name


class TemplateNodeSelector(ApiStruct, frozen=True, kw_only=True):
    """Exactly one term."""

    node_selector_terms: tuple[TemplateNodeSelectorTerm, ...] = ()


class ResourceSliceTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """What a driver will publish. Without a selector the devices are the host's alone."""

    driver: str = stated("")  # the driver that will publish it
    # the nodes that reach the devices, if there are several
    node_selector: TemplateNodeSelector | None = None
    all_nodes: bool | None = None  # true: every node reaches the devices
    devices: tuple[DeviceTemplate, ...] = ()  # at most 128
    shared_counters: tuple[CounterSet, ...] = ()  # counters that devices of the driver draw from
    node_name: Any = None  # refused, as the next two
    pool: Any = None
    per_device_node_selection: Any = None


class TemplateMetadata(ApiStruct, frozen=True, kw_only=True):
    """How bindings refer to a template."""

    name: str = stated("")


class ResourceSliceTemplate(ApiStruct, frozen=True, kw_only=True):
    """One slice of those that a driver will publish for a new machine."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: ResourceSliceTemplateSpec = stated(ResourceSliceTemplateSpec())


class BoundDevice(ApiStruct, frozen=True, kw_only=True):
    """A device of a template."""

    resource_slice_template: str = stated("")  # the template's name
    device: str = stated("")  # the device's name in it


class AttributeBinding(ApiStruct, frozen=True, kw_only=True):
    """Each of the attributes will have one value on all of the devices, whatever it is."""

    attributes: tuple[str, ...] = ()  # names with their domains
    device_selectors: tuple[BoundDevice, ...] = ()  # two or more


class NodeResourceSliceTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """What a driver will publish on the machine as a NodeResourceSlice (v1alpha2)."""

    driver_name: str = stated("")  # the driver that will publish it
    partitionable: PartitionableResources | None = None  # instances and the ways to split them
    node_name: Any = None  # refused


class NodeResourceSliceTemplate(ApiStruct, frozen=True, kw_only=True):
    """One NodeResourceSlice of those that a driver will publish for a new machine."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: NodeResourceSliceTemplateSpec = stated(NodeResourceSliceTemplateSpec())


class DynamicResources(ApiStruct, frozen=True, kw_only=True):
    """The devices of a machine."""

    resource_slice_templates: tuple[ResourceSliceTemplate, ...] = ()  # what drivers will publish
    # what drivers will publish for claims of v1alpha2
    node_resource_slice_templates: tuple[NodeResourceSliceTemplate, ...] = ()
    attribute_bindings: tuple[AttributeBinding, ...] = ()  # which values will be equal


# --- NodeOverlay ---


class NodeOverlaySpec(ApiStruct, frozen=True, kw_only=True):
    """Which machines it is about, and what to know of them."""

    requirements: tuple[Requirement, ...] = ()  # tests of the machine's labels; all must hold
    weight: Int32 | None = None  # the higher one wins; absent: 0
    price: str | None = None  # in place of the price, per hour
    price_adjustment: str | None = None  # more or less than the price: +10%, -0.1
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)  # extended resources of the node
    # devices, in place of what else is known of the drivers
    dynamic_resources: DynamicResources | None = None


class NodeOverlayStatus(ApiStruct, frozen=True, kw_only=True):
    """Whether it can be applied."""

    conditions: tuple[Condition, ...] = ()  # ValidationSucceeded, Ready


class NodeOverlay(ApiStruct, frozen=True, kw_only=True):
    """What is known about machines that may be launched: prices, extended resources, devices."""

    api_version: str = stated(OVERLAY_VERSION)
    kind: str = stated("NodeOverlay")
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeOverlaySpec = stated(NodeOverlaySpec())
    status: NodeOverlayStatus = NodeOverlayStatus()


# --- NodePool and NodeClaim ---


class NodeClassReference(ApiStruct, frozen=True, kw_only=True):
    """The provider's own settings."""

    group: str = stated("")
    kind: str = stated("")
    name: str = stated("")


class NodeClaimTemplateMetadata(ApiStruct, frozen=True, kw_only=True):
    """What the nodes of a pool carry."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class NodeClaimTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """What the nodes of a pool have in common."""

    requirements: tuple[FlexibleRequirement, ...] = ()  # tests of the labels of machines that may be launched
    taints: tuple[Taint, ...] = ()  # of every node
    startup_taints: tuple[Taint, ...] = ()  # of new nodes; something takes them away soon
    node_class_ref: NodeClassReference | None = None  # the provider's settings
    expire_after: str | None = None  # how old a node gets: 720h, Never
    termination_grace_period: str | None = None  # how long a node that goes waits for its pods


class NodeClaimTemplate(ApiStruct, frozen=True, kw_only=True):
    """The pattern of the pool's NodeClaims."""

    metadata: NodeClaimTemplateMetadata = NodeClaimTemplateMetadata()
    spec: NodeClaimTemplateSpec = stated(NodeClaimTemplateSpec())


class DisruptionBudget(ApiStruct, frozen=True, kw_only=True):
    """How many nodes of a pool may go at a time."""

    nodes: str = stated("")  # a number or a percentage
    reasons: tuple[str, ...] = ()  # Underutilized, Empty, Drifted; none: all
    schedule: str | None = None  # cron; with duration
    duration: str | None = None  # for how long after each time of the schedule


class Disruption(ApiStruct, frozen=True, kw_only=True):
    """When nodes of a pool may go."""

    consolidation_policy: str | None = None  # WhenEmptyOrUnderutilized or WhenEmpty
    consolidate_after: str | None = None  # how long a node is left alone after a pod came or went
    budgets: tuple[DisruptionBudget, ...] = ()  # how many may go at a time


class NodePoolSpec(ApiStruct, frozen=True, kw_only=True):
    """Which machines may be launched, and how many."""

    template: NodeClaimTemplate = stated(NodeClaimTemplate())  # what each machine is like
    limits: dict[str, Quantity] = msgspec.field(default_factory=dict)  # the most of all machines together
    weight: Int32 | None = None  # the higher one is tried first; absent: 0
    disruption: Disruption | None = None  # when machines may go
    replicas: Int32 | None = None  # a fixed number of nodes


class NodePoolStatus(ApiStruct, frozen=True, kw_only=True):
    """What the pool has."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"nodeClassObservedGeneration"})

    resources: dict[str, Quantity] = msgspec.field(default_factory=dict)  # of all its nodes together
    nodes: Int32 | None = None  # how many there are
    conditions: tuple[Condition, ...] = ()


class NodePool(ApiStruct, frozen=True, kw_only=True):
    """Machines that may be launched for pods that find no room."""

    api_version: str = stated(KARPENTER_VERSION)
    kind: str = stated("NodePool")
    metadata: ObjectMeta = ObjectMeta()
    spec: NodePoolSpec = stated(NodePoolSpec())
    status: NodePoolStatus = NodePoolStatus()


class ResourceRequirements(ApiStruct, frozen=True, kw_only=True):
    """What the pods that the machine is for need."""

    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class NodeClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """The machine that is asked for. It never changes."""

    requirements: tuple[FlexibleRequirement, ...] = ()  # tests of the machine's labels
    resources: ResourceRequirements = ResourceRequirements()  # what it must have room for
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    node_class_ref: NodeClassReference | None = None
    expire_after: str | None = None
    termination_grace_period: str | None = None


class NodeClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """What became of it."""

    node_name: str | None = None  # its node, once that is there
    provider_id: str | None = msgspec.field(
        default=None, name="providerID"
    )  # the machine, once it is launched
    image_id: str | None = msgspec.field(default=None, name="imageID")
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    allocatable: dict[str, Quantity] = msgspec.field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()  # Launched, Registered, Initialized, Ready and others
    last_pod_event_time: Time | None = None  # when a pod last came or went


class NodeClaim(ApiStruct, frozen=True, kw_only=True):
    """One machine that was asked for, from the request to the end of its node."""

    api_version: str = stated(KARPENTER_VERSION)
    kind: str = stated("NodeClaim")
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClaimSpec = stated(NodeClaimSpec())
    status: NodeClaimStatus = NodeClaimStatus()


# --- NodeGroup ---


class NodeTemplate(ApiStruct, frozen=True, kw_only=True):
    """What every node of a group looks like: labels, taints, capacity, allocatable."""

    metadata: NodeClaimTemplateMetadata = NodeClaimTemplateMetadata()
    spec: NodeSpec = NodeSpec()  # taints
    status: NodeStatus = NodeStatus()  # capacity; allocatable, where that is less


class NodeGroupSpec(ApiStruct, frozen=True, kw_only=True):
    """Equal nodes, from ``min`` to ``max`` of them."""

    min: Int32 = stated(0)  # never fewer
    max: Int32 = stated(0)  # never more
    template: NodeTemplate = stated(NodeTemplate())  # what each of them looks like
    price: str | None = None  # of one node, per hour; absent: 0
    dynamic_resources: DynamicResources | None = None  # the devices of each


class NodeGroupStatus(ApiStruct, frozen=True, kw_only=True):
    """What the group has."""

    size: Int32 | None = None  # how many nodes there are, or are on their way
    target: Int32 | None = None  # how many there should be, for a fleet that makes nodes join by itself
    conditions: tuple[Condition, ...] = ()


class NodeGroup(ApiStruct, frozen=True, kw_only=True):
    """Equal nodes, whose number an autoscaler changes."""

    api_version: str = stated(OWN_VERSION)
    kind: str = stated("NodeGroup")
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeGroupSpec = stated(NodeGroupSpec())
    status: NodeGroupStatus = NodeGroupStatus()


# --- InstanceType, in files only ---


class Offering(ApiStruct, frozen=True, kw_only=True):
    """Where and how a machine can be had, and for how much."""

    zone: str = stated("")  # the value of topology.kubernetes.io/zone
    capacity_type: str = stated(ON_DEMAND)  # on-demand, spot or reserved
    price: str = stated("")  # per hour
    available: bool = stated(True)  # false: out of stock


class InstanceTypeSpec(ApiStruct, frozen=True, kw_only=True):
    """A kind of machine."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)  # of its nodes
    requirements: tuple[Requirement, ...] = ()  # labels of which a node has one of several values
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)  # all that it has
    overhead: dict[str, Quantity] = msgspec.field(default_factory=dict)  # what pods do not get of it
    offerings: tuple[Offering, ...] = ()  # where it can be had
    dynamic_resources: DynamicResources | None = None  # its devices, as far as the provider knows


class InstanceType(ApiStruct, frozen=True, kw_only=True):
    """A kind of machine that a provider has."""

    api_version: str = stated(OWN_VERSION)
    kind: str = stated("InstanceType")
    metadata: ObjectMeta = ObjectMeta()
    spec: InstanceTypeSpec = stated(InstanceTypeSpec())
