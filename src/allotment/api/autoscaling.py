"""Machines that do not exist yet: which kinds are available, from where, and what their nodes would have.

:class:`NodeOverlay` (karpenter.sh/v1alpha1) adds what a user knows about a kind of machine and the cloud does not: a price,
an extended resource, the slices that drivers will publish. :class:`NodePool` and :class:`NodeClaim` (karpenter.sh/v1) are
Karpenter's: what may be launched, and one requested machine. :class:`NodeGroup` (allotment.dev/v1) is a set of equal nodes,
as in Cluster Autoscaler. :class:`InstanceType` is a kind of machine; only catalogue files contain it.

Prices are strings in a single currency per hour: ``"1.25"``. Fields of a ResourceSlice that a template may not set are
declared all the same, so that validation can explain why it refuses them instead of calling them unknown.
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
"""Labels of every planned node, which has either NODE_POOL or NODE_GROUP, depending on where it comes from."""

ON_DEMAND = "on-demand"


class Requirement(ApiStruct, frozen=True, kw_only=True):
    """One test of a label: In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte."""

    key: str = stated("")  # the label to test
    operator: str = stated("")  # how the label is compared with the values
    values: tuple[str, ...] = ()  # the values to compare with; Gt, Lt, Gte and Lte take one whole number


class FlexibleRequirement(Requirement, frozen=True, kw_only=True):
    """A test of a label, for pools and claims that want a choice between several values."""

    min_values: Int32 | None = None  # how many different values a plan must leave to choose from


# --- slices that drivers will publish ---


class TemplateAttribute(DeviceAttribute, frozen=True, kw_only=True):
    """A property of a device: its value or, if only the running machine will know it, a key that stands for the value."""

    binding_key: str | None = None  # attributes with the same key will have the same value

    def known(self) -> DeviceAttribute:
        """The value as a slice would have it; None if it is not known yet."""
        return DeviceAttribute(
            **{name: getattr(self, name) for name in DeviceAttribute.__struct_fields__},
        )


class DeviceTemplate(ApiStruct, frozen=True, kw_only=True):
    """A device that the machine will have."""

    name: str = stated("")  # the name that the driver will publish
    attributes: dict[str, TemplateAttribute] = msgspec.field(default_factory=dict)  # as in a ResourceSlice
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)  # as in a ResourceSlice
    # what the device takes from shared counters
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    allow_multiple_allocations: bool | None = None  # true: several claims may share the device
    taints: tuple[DeviceTaint, ...] = ()  # keep claims off that do not tolerate them
    node_name: Any = None  # validation refuses this field and all that follow
    node_selector: Any = None
    all_nodes: Any = None
    binds_to_node: Any = None
    binding_conditions: Any = None
    binding_failure_conditions: Any = None
    node_allocatable_resources: Any = None

    def known(self) -> Device:
        """The device with its known attributes only; those bound to other devices have no value yet."""
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

    match_label_keys: tuple[str, ...] = ()  # nodes whose values of these labels equal the host's
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()  # tests of labels
    match_fields: tuple[NodeSelectorRequirement, ...] = ()  # tests of metadata.name


class TemplateNodeSelector(ApiStruct, frozen=True, kw_only=True):
    """Exactly one term."""

    node_selector_terms: tuple[TemplateNodeSelectorTerm, ...] = ()


class ResourceSliceTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """What a driver will publish. Without a node selector, only the host reaches the devices."""

    driver: str = stated("")  # the driver that will publish it
    # the nodes that reach the devices, if there are several
    node_selector: TemplateNodeSelector | None = None
    all_nodes: bool | None = None  # true: every node reaches the devices
    devices: tuple[DeviceTemplate, ...] = ()  # at most 128
    shared_counters: tuple[CounterSet, ...] = ()  # counters that the driver's devices draw from
    node_name: Any = None  # validation refuses this field and the next two
    pool: Any = None
    per_device_node_selection: Any = None


class TemplateMetadata(ApiStruct, frozen=True, kw_only=True):
    """The name by which bindings refer to a template."""

    name: str = stated("")


class ResourceSliceTemplate(ApiStruct, frozen=True, kw_only=True):
    """One of the slices that a driver will publish for a new machine."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: ResourceSliceTemplateSpec = stated(ResourceSliceTemplateSpec())


class BoundDevice(ApiStruct, frozen=True, kw_only=True):
    """Names a device of a template."""

    resource_slice_template: str = stated("")  # the template's name
    device: str = stated("")  # the device's name in the template


class AttributeBinding(ApiStruct, frozen=True, kw_only=True):
    """For each of these attributes, all of the devices will have the same value, whichever it turns out to be."""

    attributes: tuple[str, ...] = ()  # attribute names with their domains
    device_selectors: tuple[BoundDevice, ...] = ()  # at least two devices


class NodeResourceSliceTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """What a driver will publish on the machine as a NodeResourceSlice (v1alpha2)."""

    driver_name: str = stated("")  # the driver that will publish it
    partitionable: PartitionableResources | None = None  # instances and the ways to split them
    node_name: Any = None  # validation refuses this field


class NodeResourceSliceTemplate(ApiStruct, frozen=True, kw_only=True):
    """One of the NodeResourceSlices that a driver will publish for a new machine."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: NodeResourceSliceTemplateSpec = stated(NodeResourceSliceTemplateSpec())


class DynamicResources(ApiStruct, frozen=True, kw_only=True):
    """The devices of a machine."""

    resource_slice_templates: tuple[ResourceSliceTemplate, ...] = ()  # what drivers will publish
    # what drivers will publish for claims with semantic parameters (v1alpha2)
    node_resource_slice_templates: tuple[NodeResourceSliceTemplate, ...] = ()
    attribute_bindings: tuple[AttributeBinding, ...] = ()  # which attributes will have equal values


# --- NodeOverlay ---


class NodeOverlaySpec(ApiStruct, frozen=True, kw_only=True):
    """Which machines the overlay describes, and what it says about them."""

    requirements: tuple[Requirement, ...] = ()  # tests of the machine's labels; all must hold
    # of several overlays that match, the one with the highest weight wins; 0 when absent
    weight: Int32 | None = None
    price: str | None = None  # replaces the machine's price per hour
    price_adjustment: str | None = None  # a change to the machine's price, such as +10% or -0.1
    # extended resources that the node will have
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    # devices that replace whatever else is known of the same drivers
    dynamic_resources: DynamicResources | None = None


class NodeOverlayStatus(ApiStruct, frozen=True, kw_only=True):
    """Whether the overlay can be applied."""

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
    """Points at the provider's own settings."""

    group: str = stated("")
    kind: str = stated("")
    name: str = stated("")


class NodeClaimTemplateMetadata(ApiStruct, frozen=True, kw_only=True):
    """Labels and annotations for the nodes of a pool."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class NodeClaimTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """What the nodes of a pool have in common."""

    requirements: tuple[FlexibleRequirement, ...] = ()  # tests of the labels of machines that may be launched
    taints: tuple[Taint, ...] = ()  # taints of every node
    startup_taints: tuple[Taint, ...] = ()  # taints of new nodes, which some component soon removes
    node_class_ref: NodeClassReference | None = None  # points at the provider's settings
    expire_after: str | None = None  # the age at which a node is replaced, such as 720h, or Never
    # how long a node that is going away waits for its pods to end
    termination_grace_period: str | None = None


class NodeClaimTemplate(ApiStruct, frozen=True, kw_only=True):
    """The pattern of the pool's NodeClaims."""

    metadata: NodeClaimTemplateMetadata = NodeClaimTemplateMetadata()
    spec: NodeClaimTemplateSpec = stated(NodeClaimTemplateSpec())


class DisruptionBudget(ApiStruct, frozen=True, kw_only=True):
    """How many nodes of a pool may go at a time."""

    nodes: str = stated("")  # a number or a percentage
    reasons: tuple[str, ...] = ()  # Underutilized, Empty, Drifted; all reasons when empty
    schedule: str | None = None  # when the budget applies, as a cron schedule; needs a duration
    duration: str | None = None  # how long the budget applies after each time of the schedule


class Disruption(ApiStruct, frozen=True, kw_only=True):
    """When nodes of a pool may go."""

    consolidation_policy: str | None = None  # WhenEmptyOrUnderutilized or WhenEmpty
    consolidate_after: str | None = None  # how long to leave a node alone after a pod came or went
    budgets: tuple[DisruptionBudget, ...] = ()  # how many nodes may go at a time


class NodePoolSpec(ApiStruct, frozen=True, kw_only=True):
    """Which machines may be launched, and how many."""

    template: NodeClaimTemplate = stated(NodeClaimTemplate())  # what each machine is like
    # upper limits for all of the pool's machines together
    limits: dict[str, Quantity] = msgspec.field(default_factory=dict)
    weight: Int32 | None = None  # pools with a higher weight are tried first; 0 when absent
    disruption: Disruption | None = None  # when machines may go
    replicas: Int32 | None = None  # a fixed number of nodes


class NodePoolStatus(ApiStruct, frozen=True, kw_only=True):
    """The nodes that the pool has."""

    NOT_READ: ClassVar[frozenset[str]] = frozenset({"nodeClassObservedGeneration"})

    # capacity of all nodes of the pool together
    resources: dict[str, Quantity] = msgspec.field(default_factory=dict)
    nodes: Int32 | None = None  # how many nodes the pool has
    conditions: tuple[Condition, ...] = ()


class NodePool(ApiStruct, frozen=True, kw_only=True):
    """Describes the machines that may be launched for pods that find no room."""

    api_version: str = stated(KARPENTER_VERSION)
    kind: str = stated("NodePool")
    metadata: ObjectMeta = ObjectMeta()
    spec: NodePoolSpec = stated(NodePoolSpec())
    status: NodePoolStatus = NodePoolStatus()


class ResourceRequirements(ApiStruct, frozen=True, kw_only=True):
    """The total requests of the pods that the machine is meant for."""

    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class NodeClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """The requested machine. It never changes."""

    requirements: tuple[FlexibleRequirement, ...] = ()  # tests of the machine's labels
    resources: ResourceRequirements = ResourceRequirements()  # what the machine must have room for
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    node_class_ref: NodeClassReference | None = None
    expire_after: str | None = None
    termination_grace_period: str | None = None


class NodeClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """What became of the request."""

    node_name: str | None = None  # the machine's node, once it has joined the cluster
    provider_id: str | None = msgspec.field(
        default=None, name="providerID"
    )  # the provider's id of the machine, once it is launched
    image_id: str | None = msgspec.field(default=None, name="imageID")
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    allocatable: dict[str, Quantity] = msgspec.field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()  # Launched, Registered, Initialized, Ready and others
    last_pod_event_time: Time | None = None  # when a pod last came or went


class NodeClaim(ApiStruct, frozen=True, kw_only=True):
    """One requested machine, from the request to the end of its node."""

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
    status: NodeStatus = NodeStatus()  # capacity, and allocatable where that is less


class NodeGroupSpec(ApiStruct, frozen=True, kw_only=True):
    """Equal nodes, from ``min`` to ``max`` of them."""

    min: Int32 = stated(0)  # the least number of nodes
    max: Int32 = stated(0)  # the greatest number of nodes
    template: NodeTemplate = stated(NodeTemplate())  # what each node looks like
    price: str | None = None  # price of one node per hour; 0 when absent
    dynamic_resources: DynamicResources | None = None  # the devices of each node


class NodeGroupStatus(ApiStruct, frozen=True, kw_only=True):
    """The nodes that the group has."""

    size: Int32 | None = None  # how many nodes exist or are on their way
    # how many nodes there should be, where the provider makes nodes join by itself
    target: Int32 | None = None
    conditions: tuple[Condition, ...] = ()


class NodeGroup(ApiStruct, frozen=True, kw_only=True):
    """A set of equal nodes whose number an autoscaler changes."""

    api_version: str = stated(OWN_VERSION)
    kind: str = stated("NodeGroup")
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeGroupSpec = stated(NodeGroupSpec())
    status: NodeGroupStatus = NodeGroupStatus()


# --- InstanceType, in files only ---


class Offering(ApiStruct, frozen=True, kw_only=True):
    """Where and in which way a machine is sold, and for how much."""

    zone: str = stated("")  # the value of topology.kubernetes.io/zone
    capacity_type: str = stated(ON_DEMAND)  # on-demand, spot or reserved
    price: str = stated("")  # price per hour
    available: bool = stated(True)  # false when out of stock


class InstanceTypeSpec(ApiStruct, frozen=True, kw_only=True):
    """A kind of machine."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)  # labels of its nodes
    requirements: tuple[Requirement, ...] = ()  # labels for which a node has one of several values
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)  # everything that the machine has
    # the part of the capacity that pods cannot use
    overhead: dict[str, Quantity] = msgspec.field(default_factory=dict)
    offerings: tuple[Offering, ...] = ()  # where the machine is sold
    dynamic_resources: DynamicResources | None = None  # the machine's devices, if the provider knows them


class InstanceType(ApiStruct, frozen=True, kw_only=True):
    """A kind of machine that a provider offers."""

    api_version: str = stated(OWN_VERSION)
    kind: str = stated("InstanceType")
    metadata: ObjectMeta = ObjectMeta()
    spec: InstanceTypeSpec = stated(InstanceTypeSpec())
