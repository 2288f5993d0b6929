"""resource.k8s.io/v1: devices that drivers publish, classes of them, claims on them, and their taints.

Drivers publish :class:`ResourceSlice` objects; several slices of one driver make up a pool. Cluster operators
write :class:`DeviceClass` and :class:`DeviceTaintRule`. Users write :class:`ResourceClaim`, directly or by a
:class:`ResourceClaimTemplate`; the scheduler writes the claim's allocation, the drivers its device statuses.

Every field of the OpenAPI document is here, those of alpha features included. Names that would hide a Python
builtin carry a suffix: the JSON field ``int`` of an attribute is ``int_value``, its list form ``int_values``.
"""

from typing import Any

import msgspec

from allotment.api.core import NodeSelector
from allotment.api.meta import ApiStruct, Condition, Int64, ListMeta, ObjectMeta, stated
from allotment.api.quantity import Quantity

API_VERSION = "resource.k8s.io/v1"


def _zero() -> Quantity:
    return Quantity.parse("0")


# --- devices, as drivers publish them ---


class DeviceAttribute(ApiStruct, frozen=True, kw_only=True):
    """One property of a device; exactly one of the fields is set.

    An empty list is not the same as no list: to an expression it is a value, to a constraint it is none.
    """

    int_value: Int64 | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")  # semver 2.0.0
    int_values: tuple[Int64, ...] | None = msgspec.field(default=None, name="ints")
    bool_values: tuple[bool, ...] | None = msgspec.field(default=None, name="bools")
    string_values: tuple[str, ...] | None = msgspec.field(default=None, name="strings")
    version_values: tuple[str, ...] | None = msgspec.field(default=None, name="versions")


class CapacityRequestPolicyRange(ApiStruct, frozen=True, kw_only=True):
    """Consumers may take ``min + k·step`` up to ``max``; other requests are rounded up."""

    min: Quantity | None = None
    max: Quantity | None = None  # absent: up to the device's whole capacity
    step: Quantity | None = None  # absent: any amount from ``min`` on


class CapacityRequestPolicy(ApiStruct, frozen=True, kw_only=True):
    """How a shared device's capacity is portioned: by a list of values, by a range, or freely."""

    default: Quantity | None = None  # what a request that names no amount gets
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(ApiStruct, frozen=True, kw_only=True):
    """An amount that a device has, and how consumers may share it."""

    value: Quantity = msgspec.field(default_factory=_zero)
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct, frozen=True, kw_only=True):
    """An amount in a counter set, or the part of it that a device takes."""

    value: Quantity = msgspec.field(default_factory=_zero)


class CounterSet(ApiStruct, frozen=True, kw_only=True):
    """Amounts that several devices of a pool draw from, such as the slices of one partitionable GPU."""

    name: str = stated("")
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceCounterConsumption(ApiStruct, frozen=True, kw_only=True):
    """What a device takes from one counter set while it is allocated."""

    counter_set: str = stated("")
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)
    compatibility_groups: tuple[str, ...] = ()  # devices on one set need a group in common


class DeviceTaint(ApiStruct, frozen=True, kw_only=True):
    """Keeps claims off a device unless they tolerate it."""

    key: str = stated("")
    value: str | None = None
    effect: str = stated("")  # None, NoSchedule or NoExecute
    time_added: str | None = None


class NodeAllocatableMapping(ApiStruct, frozen=True, kw_only=True):
    """How a device, or an amount of its capacity, counts in one of the node's own resources."""

    capacity_key: str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None


class NodeAllocatableOverhead(ApiStruct, frozen=True, kw_only=True):
    """What use of the device costs of one of the node's own resources, beside the device itself."""

    per_container: Quantity | None = None
    per_pod: Quantity | None = None


class NodeAllocatableResource(ApiStruct, frozen=True, kw_only=True):
    """A device's bearing on one of the node's own resources, such as cpu or memory."""

    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(ApiStruct, frozen=True, kw_only=True):
    """One thing that can be allocated. Its id is driver, pool and name."""

    name: str = stated("")
    attributes: dict[str, DeviceAttribute] = msgspec.field(
        default_factory=dict
    )  # an unqualified name belongs to the driver's domain
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None  # this and the next two only if the slice says perDeviceNodeSelection
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None  # an allocation of it is tied to the node it was made for
    binding_conditions: tuple[str, ...] = ()  # all must become true before a pod is bound
    binding_failure_conditions: tuple[str, ...] = ()  # any of them true: give the device back
    allow_multiple_allocations: bool | None = None
    node_allocatable_resources: dict[str, NodeAllocatableResource] = msgspec.field(default_factory=dict)


class ResourcePool(ApiStruct, frozen=True, kw_only=True):
    """Which pool a slice is part of; the pool is complete when all slices of its newest generation exist."""

    name: str = stated("")
    generation: Int64 = stated(0)
    resource_slice_count: Int64 = stated(0)


class ResourceSliceSpec(ApiStruct, frozen=True, kw_only=True):
    """Part of a pool of one driver. Exactly one field says which nodes reach its devices."""

    driver: str = stated("")
    pool: ResourcePool = stated(ResourcePool())
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()  # kubelet calls that the driver does not need
    partition_type_attribute: str | None = None


class ResourceSlice(ApiStruct, frozen=True, kw_only=True):
    """Devices that a driver publishes."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceSlice")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = stated(ResourceSliceSpec())


# --- classes and selectors ---


class CELDeviceSelector(ApiStruct, frozen=True, kw_only=True):
    """An expression over ``device`` that must be true."""

    expression: str = stated("")


class DeviceSelector(ApiStruct, frozen=True, kw_only=True):
    """A test of a device; exactly one field is set (there is only one so far)."""

    cel: CELDeviceSelector | None = None


class OpaqueDeviceConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Configuration that only the named driver understands; ``parameters`` is plain JSON."""

    driver: str = stated("")
    parameters: Any = stated(None)


class DeviceClassConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Configuration that every allocation from the class carries."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(ApiStruct, frozen=True, kw_only=True):
    """Which devices belong to the class and how they are set up."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None  # pods may ask for the class by this resource name


class DeviceClass(ApiStruct, frozen=True, kw_only=True):
    """A named choice of devices that a cluster operator offers."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("DeviceClass")
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = stated(DeviceClassSpec())


# --- claims: what is asked for ---


class DeviceToleration(ApiStruct, frozen=True, kw_only=True):
    """Which device taints a request puts up with."""

    key: str | None = None
    operator: str | None = None  # Equal (when absent) or Exists
    value: str | None = None
    effect: str | None = None  # absent: every effect
    toleration_seconds: Int64 | None = None  # how long a NoExecute taint is borne


class CapacityRequirements(ApiStruct, frozen=True, kw_only=True):
    """How much of each capacity is needed: at least that much, or that share of a shared device."""

    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class DeviceDerivedAttribute(ApiStruct, frozen=True, kw_only=True):
    """An attribute computed per device for the constraints of one request."""

    name: str = stated("")
    expression: str = stated("")


class ExactDeviceRequest(ApiStruct, frozen=True, kw_only=True):
    """A number of devices of one class."""

    device_class_name: str = stated("")
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str | None = None  # ExactCount (when absent) or All
    count: Int64 | None = None  # for ExactCount; 1 when absent
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceSubRequest(ApiStruct, frozen=True, kw_only=True):
    """One alternative of a request; like an exact request, without admin access."""

    name: str = stated("")
    device_class_name: str = stated("")
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str | None = None
    count: Int64 | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceRequest(ApiStruct, frozen=True, kw_only=True):
    """A named part of a claim: either exact, or the first alternative that can be had."""

    name: str = stated("")
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(ApiStruct, frozen=True, kw_only=True):
    """A relation between the devices of several requests; exactly one attribute is named."""

    requests: tuple[str, ...] = ()  # ``req`` or ``req/sub``; empty: all
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Driver configuration that the claim's author gives for some or all requests."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(ApiStruct, frozen=True, kw_only=True):
    """Which devices are wanted, how they must relate, and how they are set up."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """What a claim asks for; immutable once the claim exists."""

    devices: DeviceClaim = DeviceClaim()


# --- claims: what was given ---


class DeviceRequestAllocationResult(ApiStruct, frozen=True, kw_only=True):
    """One device, or a share of one, given to one request."""

    request: str = stated("")  # ``req``, or ``req/sub`` for an alternative
    driver: str = stated("")
    pool: str = stated("")
    device: str = stated("")
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")  # tells shares of a device apart
    consumed_capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    skip_node_operations: tuple[str, ...] = ()


class DeviceAllocationConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Configuration as it was when the claim was allocated; ``source`` is FromClass or FromClaim."""

    source: str = stated("")
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(ApiStruct, frozen=True, kw_only=True):
    """The devices of a claim and their configuration."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(ApiStruct, frozen=True, kw_only=True):
    """What a claim got, and on which nodes it can be used (absent: on all)."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(ApiStruct, frozen=True, kw_only=True):
    """Who may use the claim now; usually a pod."""

    api_group: str | None = None
    resource: str = stated("")  # plural, for example ``pods``
    name: str = stated("")
    uid: str = stated("")


class NetworkDeviceData(ApiStruct, frozen=True, kw_only=True):
    """What a driver says about a network interface it set up."""

    interface_name: str | None = None
    ips: tuple[str, ...] = ()  # CIDR notation
    hardware_address: str | None = None


class AllocatedDeviceStatus(ApiStruct, frozen=True, kw_only=True):
    """What a driver reports about a device it prepared; ``data`` is plain JSON."""

    driver: str = stated("")
    pool: str = stated("")
    device: str = stated("")
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()
    data: Any = None
    network_data: NetworkDeviceData | None = None


class ResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """What the claim got (scheduler), who uses it (scheduler), how its devices are (drivers)."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """A request for devices and, once allocated, the devices."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceClaim")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = stated(ResourceClaimSpec())
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """What each claim made from the template looks like; of the metadata, labels and annotations count."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = stated(ResourceClaimSpec())


class ResourceClaimTemplate(ApiStruct, frozen=True, kw_only=True):
    """The pattern of claims that are made for one pod each and go away with it."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceClaimTemplate")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = stated(ResourceClaimTemplateSpec())


# --- taint rules ---


class DeviceTaintSelector(ApiStruct, frozen=True, kw_only=True):
    """Devices by driver, pool and name; each absent field matches all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(ApiStruct, frozen=True, kw_only=True):
    """A taint and the devices that get it."""

    device_selector: DeviceTaintSelector | None = None  # absent: no device
    taint: DeviceTaint = stated(DeviceTaint())


class DeviceTaintRuleStatus(ApiStruct, frozen=True, kw_only=True):
    """How far the eviction that the taint caused has come."""

    conditions: tuple[Condition, ...] = ()


class DeviceTaintRule(ApiStruct, frozen=True, kw_only=True):
    """Taints devices from outside of their driver."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("DeviceTaintRule")
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = stated(DeviceTaintRuleSpec())
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus()


# --- lists, as the API serves them ---


class ResourceSliceList(ApiStruct, frozen=True, kw_only=True):
    """Many slices and the revision they were read at."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceSliceList")
    metadata: ListMeta = ListMeta()
    items: tuple[ResourceSlice, ...] = stated(())


class DeviceClassList(ApiStruct, frozen=True, kw_only=True):
    """Many classes and the revision they were read at."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("DeviceClassList")
    metadata: ListMeta = ListMeta()
    items: tuple[DeviceClass, ...] = stated(())


class ResourceClaimList(ApiStruct, frozen=True, kw_only=True):
    """Many claims and the revision they were read at."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceClaimList")
    metadata: ListMeta = ListMeta()
    items: tuple[ResourceClaim, ...] = stated(())


class ResourceClaimTemplateList(ApiStruct, frozen=True, kw_only=True):
    """Many templates and the revision they were read at."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceClaimTemplateList")
    metadata: ListMeta = ListMeta()
    items: tuple[ResourceClaimTemplate, ...] = stated(())


class DeviceTaintRuleList(ApiStruct, frozen=True, kw_only=True):
    """Many taint rules and the revision they were read at."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("DeviceTaintRuleList")
    metadata: ListMeta = ListMeta()
    items: tuple[DeviceTaintRule, ...] = stated(())
