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

    int_value: Int64 | None = msgspec.field(default=None, name="int")  # a whole number
    bool_value: bool | None = msgspec.field(default=None, name="bool")  # true or false
    string_value: str | None = msgspec.field(default=None, name="string")  # text
    version_value: str | None = msgspec.field(default=None, name="version")  # semver 2.0.0
    int_values: tuple[Int64, ...] | None = msgspec.field(default=None, name="ints")  # a list of whole numbers
    bool_values: tuple[bool, ...] | None = msgspec.field(default=None, name="bools")  # a list of truth values
    string_values: tuple[str, ...] | None = msgspec.field(default=None, name="strings")  # a list of texts
    # a list of versions, semver 2.0.0
    version_values: tuple[str, ...] | None = msgspec.field(default=None, name="versions")


class CapacityRequestPolicyRange(ApiStruct, frozen=True, kw_only=True):
    """Consumers may take ``min + k·step`` up to ``max``; other requests are rounded up."""

    min: Quantity | None = None  # the least that a consumer takes
    max: Quantity | None = None  # absent: up to the device's whole capacity
    step: Quantity | None = None  # absent: any amount from ``min`` on


class CapacityRequestPolicy(ApiStruct, frozen=True, kw_only=True):
    """How a shared device's capacity is portioned: by a list of values, by a range, or freely."""

    default: Quantity | None = None  # what a request that names no amount gets
    # amounts that a consumer may take, ascending; a request gets the next larger one
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None  # amounts by range, in place of a list


class DeviceCapacity(ApiStruct, frozen=True, kw_only=True):
    """An amount that a device has, and how consumers may share it."""

    value: Quantity = msgspec.field(default_factory=_zero)  # all that the device has
    # how the amount is portioned, for devices that allow multiple allocations
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct, frozen=True, kw_only=True):
    """An amount in a counter set, or the part of it that a device takes."""

    value: Quantity = msgspec.field(default_factory=_zero)  # the amount


class CounterSet(ApiStruct, frozen=True, kw_only=True):
    """Amounts that several devices of a pool draw from, such as the slices of one partitionable GPU."""

    name: str = stated("")  # unique within the pool
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)  # what there is of each counter


class DeviceCounterConsumption(ApiStruct, frozen=True, kw_only=True):
    """What a device takes from one counter set while it is allocated."""

    counter_set: str = stated("")  # the name of the set, one of the pool's sharedCounters
    # what the device takes of each counter
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)
    compatibility_groups: tuple[str, ...] = ()  # devices on one set need a group in common


class DeviceTaint(ApiStruct, frozen=True, kw_only=True):
    """Keeps claims off a device unless they tolerate it."""

    key: str = stated("")  # what kind of taint it is
    value: str | None = None  # more about it
    effect: str = stated("")  # None, NoSchedule or NoExecute
    time_added: str | None = None  # when; set by the server if absent


class NodeAllocatableMapping(ApiStruct, frozen=True, kw_only=True):
    """How a device, or an amount of its capacity, counts in one of the node's own resources."""

    capacity_key: str | None = None  # the capacity that counts; absent: the device as a whole
    # how much of the node's resource one unit of the capacity stands for
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None  # how much of the node's resource one device stands for


class NodeAllocatableOverhead(ApiStruct, frozen=True, kw_only=True):
    """What use of the device costs of one of the node's own resources, beside the device itself."""

    per_container: Quantity | None = None  # for each container that uses the device
    per_pod: Quantity | None = None  # for each pod that uses the device


class NodeAllocatableResource(ApiStruct, frozen=True, kw_only=True):
    """A device's bearing on one of the node's own resources, such as cpu or memory."""

    mapping: NodeAllocatableMapping | None = None  # how much of the node's resource the device is
    overhead: NodeAllocatableOverhead | None = None  # how much its use costs besides


class Device(ApiStruct, frozen=True, kw_only=True):
    """One thing that can be allocated. Its id is driver, pool and name."""

    name: str = stated("")  # unique within the pool; a DNS label
    attributes: dict[str, DeviceAttribute] = msgspec.field(
        default_factory=dict
    )  # an unqualified name belongs to the driver's domain
    # amounts that claims can ask for by name
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    # what the device takes from the pool's shared counters while it is allocated
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None  # this and the next two only if the slice says perDeviceNodeSelection
    node_selector: NodeSelector | None = None  # the nodes that reach the device, if there are several
    all_nodes: bool | None = None  # true: every node reaches the device
    taints: tuple[DeviceTaint, ...] = ()  # keep claims off that do not tolerate them
    binds_to_node: bool | None = None  # an allocation of it is tied to the node it was made for
    binding_conditions: tuple[str, ...] = ()  # all must become true before a pod is bound
    binding_failure_conditions: tuple[str, ...] = ()  # any of them true: give the device back
    # true: several claims may share the device, each with a part of its capacity
    allow_multiple_allocations: bool | None = None
    # the device's bearing on the node's own resources, by their names
    node_allocatable_resources: dict[str, NodeAllocatableResource] = msgspec.field(default_factory=dict)


class ResourcePool(ApiStruct, frozen=True, kw_only=True):
    """Which pool a slice is part of; the pool is complete when all slices of its newest generation exist."""

    name: str = stated("")  # unique within the driver; often the name of the node
    generation: Int64 = stated(0)  # counts changes of the pool; slices of older generations are ignored
    resource_slice_count: Int64 = stated(0)  # how many slices this generation has


class ResourceSliceSpec(ApiStruct, frozen=True, kw_only=True):
    """Part of a pool of one driver. Exactly one field says which nodes reach its devices."""

    driver: str = stated("")  # the driver that publishes the slice and prepares its devices; a DNS subdomain
    pool: ResourcePool = stated(ResourcePool())  # the pool that the slice is part of
    node_name: str | None = None  # the one node that reaches the devices
    node_selector: NodeSelector | None = None  # the nodes that reach the devices, if there are several
    all_nodes: bool | None = None  # true: every node reaches the devices
    per_device_node_selection: bool | None = None  # true: each device says which nodes reach it
    devices: tuple[Device, ...] = ()  # the devices, at most 128
    shared_counters: tuple[CounterSet, ...] = ()  # counters that the pool's devices draw from
    skip_node_operations: tuple[str, ...] = ()  # kubelet calls that the driver does not need
    partition_type_attribute: str | None = None  # the attribute that tells the kinds of partitions apart


class ResourceSlice(ApiStruct, frozen=True, kw_only=True):
    """Devices that a driver publishes."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceSlice")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = stated(ResourceSliceSpec())  # the devices, and who reaches them


# --- classes and selectors ---


class CELDeviceSelector(ApiStruct, frozen=True, kw_only=True):
    """An expression over ``device`` that must be true."""

    expression: str = stated("")  # in CEL; device.driver, device.attributes and device.capacity can be asked


class DeviceSelector(ApiStruct, frozen=True, kw_only=True):
    """A test of a device; exactly one field is set (there is only one so far)."""

    cel: CELDeviceSelector | None = None  # the test, as a CEL expression


class OpaqueDeviceConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Configuration that only the named driver understands; ``parameters`` is plain JSON."""

    driver: str = stated("")  # the driver that the parameters are for
    parameters: Any = stated(None)  # any object; the driver knows its form


class DeviceClassConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Configuration that every allocation from the class carries."""

    opaque: OpaqueDeviceConfiguration | None = None  # parameters for a driver


class DeviceClassSpec(ApiStruct, frozen=True, kw_only=True):
    """Which devices belong to the class and how they are set up."""

    selectors: tuple[DeviceSelector, ...] = ()  # all must hold for a device to belong to the class
    config: tuple[DeviceClassConfiguration, ...] = ()  # goes along with every allocation from the class
    extended_resource_name: str | None = None  # pods may ask for the class by this resource name


class DeviceClass(ApiStruct, frozen=True, kw_only=True):
    """A named choice of devices that a cluster operator offers."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("DeviceClass")
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = stated(DeviceClassSpec())  # which devices, and how they are set up


# --- claims: what is asked for ---


class DeviceToleration(ApiStruct, frozen=True, kw_only=True):
    """Which device taints a request puts up with."""

    key: str | None = None  # the taint's key; absent, with Exists: every key
    operator: str | None = None  # Equal (when absent) or Exists
    value: str | None = None  # the taint's value, for Equal
    effect: str | None = None  # absent: every effect
    toleration_seconds: Int64 | None = None  # how long a NoExecute taint is borne


class CapacityRequirements(ApiStruct, frozen=True, kw_only=True):
    """How much of each capacity is needed: at least that much, or that share of a shared device."""

    # the amount needed of each capacity, by name
    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class DeviceDerivedAttribute(ApiStruct, frozen=True, kw_only=True):
    """An attribute computed per device for the constraints of one request."""

    name: str = stated("")  # the name under which constraints know it
    expression: str = stated("")  # in CEL, over the device


class ExactDeviceRequest(ApiStruct, frozen=True, kw_only=True):
    """A number of devices of one class."""

    device_class_name: str = stated("")  # the class that the devices come from
    selectors: tuple[DeviceSelector, ...] = ()  # all must hold for a device, besides those of the class
    allocation_mode: str | None = None  # ExactCount (when absent) or All
    count: Int64 | None = None  # for ExactCount; 1 when absent
    # true: for monitoring, without taking the device from its users; needs a namespace labelled for it
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()  # device taints that do not matter to this request
    capacity: CapacityRequirements | None = None  # how much of the devices' capacity is needed
    # attributes computed for this request's devices
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceSubRequest(ApiStruct, frozen=True, kw_only=True):
    """One alternative of a request; like an exact request, without admin access."""

    name: str = stated("")  # unique within the request; the whole is then known as request/name
    device_class_name: str = stated("")  # the class that the devices come from
    selectors: tuple[DeviceSelector, ...] = ()  # all must hold for a device, besides those of the class
    allocation_mode: str | None = None  # ExactCount (when absent) or All
    count: Int64 | None = None  # for ExactCount; 1 when absent
    tolerations: tuple[DeviceToleration, ...] = ()  # device taints that do not matter to this request
    capacity: CapacityRequirements | None = None  # how much of the devices' capacity is needed
    # attributes computed for this request's devices
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceRequest(ApiStruct, frozen=True, kw_only=True):
    """A named part of a claim: either exact, or the first alternative that can be had."""

    name: str = stated("")  # how containers, constraints and configuration refer to the request; a DNS label
    exactly: ExactDeviceRequest | None = None  # what is asked for, without alternatives
    # alternatives, best first; the first that can be had is given
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(ApiStruct, frozen=True, kw_only=True):
    """A relation between the devices of several requests; exactly one attribute is named."""

    requests: tuple[str, ...] = ()  # ``req`` or ``req/sub``; empty: all
    match_attribute: str | None = None  # all devices must have the same value of this attribute
    distinct_attribute: str | None = None  # no two devices may have the same value of this attribute


class DeviceClaimConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Driver configuration that the claim's author gives for some or all requests."""

    requests: tuple[str, ...] = ()  # the requests that it is for, as req or req/sub; empty: all
    opaque: OpaqueDeviceConfiguration | None = None  # parameters for a driver


class DeviceClaim(ApiStruct, frozen=True, kw_only=True):
    """Which devices are wanted, how they must relate, and how they are set up."""

    requests: tuple[DeviceRequest, ...] = ()  # the devices that are wanted; a claim gets all of them or none
    constraints: tuple[DeviceConstraint, ...] = ()  # what must hold among the devices of several requests
    config: tuple[DeviceClaimConfiguration, ...] = ()  # how drivers shall set the devices up


class ResourceClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """What a claim asks for; immutable once the claim exists."""

    devices: DeviceClaim = DeviceClaim()  # the devices that are wanted


# --- claims: what was given ---


class DeviceRequestAllocationResult(ApiStruct, frozen=True, kw_only=True):
    """One device, or a share of one, given to one request."""

    request: str = stated("")  # ``req``, or ``req/sub`` for an alternative
    driver: str = stated("")  # the driver of the device
    pool: str = stated("")  # the pool of the device
    device: str = stated("")  # the device's name within its pool
    admin_access: bool | None = None  # as the request had it
    tolerations: tuple[DeviceToleration, ...] = ()  # as the request had them
    binding_conditions: tuple[str, ...] = ()  # as the device had them
    binding_failure_conditions: tuple[str, ...] = ()  # as the device had them
    share_id: str | None = msgspec.field(default=None, name="shareID")  # tells shares of a device apart
    # the part of each capacity that is taken of a shared device
    consumed_capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    skip_node_operations: tuple[str, ...] = ()  # as the slice had them


class DeviceAllocationConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Configuration as it was when the claim was allocated; ``source`` is FromClass or FromClaim."""

    source: str = stated("")  # FromClass or FromClaim
    requests: tuple[str, ...] = ()  # the requests that it is for; empty: all
    opaque: OpaqueDeviceConfiguration | None = None  # parameters for a driver


class DeviceAllocationResult(ApiStruct, frozen=True, kw_only=True):
    """The devices of a claim and their configuration."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()  # the devices, one entry each
    # configuration of class and claim, those of the class first
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(ApiStruct, frozen=True, kw_only=True):
    """What a claim got, and on which nodes it can be used (absent: on all)."""

    devices: DeviceAllocationResult = DeviceAllocationResult()  # which devices were given
    node_selector: NodeSelector | None = None  # where the claim can be used; absent: everywhere
    allocation_timestamp: str | None = None  # when it was given


class ResourceClaimConsumerReference(ApiStruct, frozen=True, kw_only=True):
    """Who may use the claim now; usually a pod."""

    api_group: str | None = None  # of the consumer; absent for core
    resource: str = stated("")  # plural, for example ``pods``
    name: str = stated("")  # of the consumer, in the claim's namespace
    uid: str = stated("")  # of the consumer; another one of the same name is not meant


class NetworkDeviceData(ApiStruct, frozen=True, kw_only=True):
    """What a driver says about a network interface it set up."""

    interface_name: str | None = None  # as the pod sees it
    ips: tuple[str, ...] = ()  # CIDR notation
    hardware_address: str | None = None  # for example a MAC address


class AllocatedDeviceStatus(ApiStruct, frozen=True, kw_only=True):
    """What a driver reports about a device it prepared; ``data`` is plain JSON."""

    driver: str = stated("")  # the driver of the device
    pool: str = stated("")  # the pool of the device
    device: str = stated("")  # the device's name within its pool
    share_id: str | None = msgspec.field(default=None, name="shareID")  # which share of the device
    conditions: tuple[Condition, ...] = ()  # the device's state, as the driver sees it
    data: Any = None  # anything else that the driver has to tell
    network_data: NetworkDeviceData | None = None  # for network interfaces


class ResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """What the claim got (scheduler), who uses it (scheduler), how its devices are (drivers)."""

    allocation: AllocationResult | None = None  # what the claim got; absent: nothing so far
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()  # who may use the claim now, at most 256
    devices: tuple[AllocatedDeviceStatus, ...] = ()  # the state of the devices, as their drivers see it


class ResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """A request for devices and, once allocated, the devices."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceClaim")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = stated(ResourceClaimSpec())  # what is asked for; immutable
    status: ResourceClaimStatus = ResourceClaimStatus()  # what was given, and who uses it


class ResourceClaimTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """What each claim made from the template looks like; of the metadata, labels and annotations count."""

    metadata: ObjectMeta = ObjectMeta()  # labels and annotations for the claims
    spec: ResourceClaimSpec = stated(ResourceClaimSpec())  # what the claims ask for


class ResourceClaimTemplate(ApiStruct, frozen=True, kw_only=True):
    """The pattern of claims that are made for one pod each and go away with it."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceClaimTemplate")
    metadata: ObjectMeta = ObjectMeta()
    # what the claims look like; immutable
    spec: ResourceClaimTemplateSpec = stated(ResourceClaimTemplateSpec())


# --- taint rules ---


class DeviceTaintSelector(ApiStruct, frozen=True, kw_only=True):
    """Devices by driver, pool and name; each absent field matches all."""

    driver: str | None = None  # only devices of this driver
    pool: str | None = None  # only devices of this pool
    device: str | None = None  # only devices of this name


class DeviceTaintRuleSpec(ApiStruct, frozen=True, kw_only=True):
    """A taint and the devices that get it."""

    device_selector: DeviceTaintSelector | None = None  # absent: no device
    taint: DeviceTaint = stated(DeviceTaint())  # what the devices get


class DeviceTaintRuleStatus(ApiStruct, frozen=True, kw_only=True):
    """How far the eviction that the taint caused has come."""

    conditions: tuple[Condition, ...] = ()  # the state of the eviction


class DeviceTaintRule(ApiStruct, frozen=True, kw_only=True):
    """Taints devices from outside of their driver."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("DeviceTaintRule")
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = stated(DeviceTaintRuleSpec())  # the taint, and which devices get it
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
