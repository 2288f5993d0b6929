"""resource.k8s.io/v1: devices that drivers publish, device classes, claims on devices, and device taints.

Drivers publish :class:`ResourceSlice` objects; several slices of one driver make up a pool. Cluster operators
write :class:`DeviceClass` and :class:`DeviceTaintRule`. Users write :class:`ResourceClaim`, directly or through a
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

    An empty list is not the same as no list: for an expression it is a value, for a constraint it is not.
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
    """A range of amounts: a consumer may take ``min + k·step`` up to ``max``. Other requests are rounded up."""

    min: Quantity | None = None  # the least that a consumer can take
    max: Quantity | None = None  # the most that a consumer can take; the device's whole capacity when absent
    # the distance between allowed amounts; when absent, any amount from ``min`` on is allowed
    step: Quantity | None = None


class CapacityRequestPolicy(ApiStruct, frozen=True, kw_only=True):
    """How a shared device's capacity is divided: by a list of values, by a range, or freely."""

    default: Quantity | None = None  # the amount for a request that names none
    # the amounts that a consumer may take, in ascending order; a request is rounded up to the next one
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None  # the allowed amounts as a range, instead of a list


class DeviceCapacity(ApiStruct, frozen=True, kw_only=True):
    """An amount that a device has, and how consumers may share it."""

    value: Quantity = msgspec.field(default_factory=_zero)  # the total amount that the device has
    # how consumers share the amount, for devices that allow multiple allocations
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct, frozen=True, kw_only=True):
    """An amount in a counter set, or the part of it that a device takes."""

    value: Quantity = msgspec.field(default_factory=_zero)  # the amount


class CounterSet(ApiStruct, frozen=True, kw_only=True):
    """Amounts that several devices of a pool draw from, such as the slices of one partitionable GPU."""

    name: str = stated("")  # unique within the pool
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)  # the total of each counter


class DeviceCounterConsumption(ApiStruct, frozen=True, kw_only=True):
    """What a device takes from one counter set while it is allocated."""

    counter_set: str = stated("")  # the name of the set, one of the pool's sharedCounters
    # how much the device takes from each counter
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)
    # devices in use on the same counter set must have a group in common
    compatibility_groups: tuple[str, ...] = ()


class DeviceTaint(ApiStruct, frozen=True, kw_only=True):
    """Keeps claims off a device unless they tolerate it."""

    key: str = stated("")  # the kind of taint
    value: str | None = None  # further detail about the taint
    effect: str = stated("")  # None, NoSchedule or NoExecute
    time_added: str | None = None  # when the taint was added; the server sets it if absent


class NodeAllocatableMapping(ApiStruct, frozen=True, kw_only=True):
    """How a device, or an amount of its capacity, translates into one of the node's own resources."""

    capacity_key: str | None = None  # the capacity to translate; the device as a whole when absent
    # how much of the node's resource one unit of the capacity represents
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None  # how much of the node's resource one device represents


class NodeAllocatableOverhead(ApiStruct, frozen=True, kw_only=True):
    """How much of one of the node's own resources the use of the device costs, in addition to the device itself."""

    per_container: Quantity | None = None  # the cost for each container that uses the device
    per_pod: Quantity | None = None  # the cost for each pod that uses the device


class NodeAllocatableResource(ApiStruct, frozen=True, kw_only=True):
    """A device's effect on one of the node's own resources, such as cpu or memory."""

    mapping: NodeAllocatableMapping | None = None  # how much of the node's resource the device represents
    overhead: NodeAllocatableOverhead | None = None  # how much of it the use of the device costs in addition


class Device(ApiStruct, frozen=True, kw_only=True):
    """One thing that can be allocated. Its id is driver, pool and name."""

    name: str = stated("")  # unique within the pool; a DNS label
    attributes: dict[str, DeviceAttribute] = msgspec.field(
        default_factory=dict
    )  # properties by name; an unqualified name belongs to the driver's domain
    # amounts that claims can request by name
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    # what the device takes from the pool's shared counters while it is allocated
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    # the node that reaches the device; nodeName, nodeSelector and allNodes need perDeviceNodeSelection in the slice
    node_name: str | None = None
    node_selector: NodeSelector | None = None  # the nodes that reach the device, if there are several
    all_nodes: bool | None = None  # true: every node reaches the device
    taints: tuple[DeviceTaint, ...] = ()  # taints, which keep off claims that do not tolerate them
    # true: an allocation of the device is tied to the node for which it was made
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()  # conditions that must all become true before a pod is bound
    # if any of these conditions becomes true, the scheduler gives the device back
    binding_failure_conditions: tuple[str, ...] = ()
    # true: several claims may share the device, each with a part of its capacity
    allow_multiple_allocations: bool | None = None
    # the device's effect on the node's own resources, by resource name
    node_allocatable_resources: dict[str, NodeAllocatableResource] = msgspec.field(default_factory=dict)


class ResourcePool(ApiStruct, frozen=True, kw_only=True):
    """The pool that a slice belongs to. A pool is complete when all slices of its newest generation exist."""

    name: str = stated("")  # the pool's name, unique within the driver; often the name of the node
    generation: Int64 = stated(0)  # increases when the pool changes; slices of older generations are ignored
    resource_slice_count: Int64 = stated(0)  # how many slices this generation of the pool has


class ResourceSliceSpec(ApiStruct, frozen=True, kw_only=True):
    """Part of a pool of one driver. Exactly one field says which nodes reach its devices."""

    driver: str = stated("")  # the driver that publishes the slice and prepares its devices; a DNS subdomain
    pool: ResourcePool = stated(ResourcePool())  # the pool that the slice belongs to
    node_name: str | None = None  # the node that reaches the devices, if it is the only one
    node_selector: NodeSelector | None = None  # the nodes that reach the devices, if there are several
    all_nodes: bool | None = None  # true: every node reaches the devices
    per_device_node_selection: bool | None = None  # true: each device says which nodes reach it
    devices: tuple[Device, ...] = ()  # the devices; at most 128
    shared_counters: tuple[CounterSet, ...] = ()  # counters that the pool's devices draw from
    # kubelet calls that the kubelet skips because the driver does not need them
    skip_node_operations: tuple[str, ...] = ()
    partition_type_attribute: str | None = None  # the attribute that distinguishes the kinds of partitions


class ResourceSlice(ApiStruct, frozen=True, kw_only=True):
    """A list of devices that a driver publishes, as part of a pool."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceSlice")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = stated(ResourceSliceSpec())  # the devices, and the nodes that reach them


# --- classes and selectors ---


class CELDeviceSelector(ApiStruct, frozen=True, kw_only=True):
    """A CEL expression over ``device`` that must be true."""

    # the expression; it can use device.driver, device.attributes and device.capacity
    expression: str = stated("")


class DeviceSelector(ApiStruct, frozen=True, kw_only=True):
    """A test of a device; exactly one field is set (so far there is only one)."""

    cel: CELDeviceSelector | None = None  # the test, as a CEL expression


class OpaqueDeviceConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Configuration that only the named driver understands; ``parameters`` is plain JSON."""

    driver: str = stated("")  # the driver that the parameters are for
    parameters: Any = stated(None)  # any object; only the driver knows its form


class DeviceClassConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Configuration that the class adds to every allocation."""

    opaque: OpaqueDeviceConfiguration | None = None  # parameters for a driver


class DeviceClassSpec(ApiStruct, frozen=True, kw_only=True):
    """Which devices belong to the class and how they are set up."""

    selectors: tuple[DeviceSelector, ...] = ()  # tests that a device must all pass to belong to the class
    # configuration for drivers, added to every allocation from the class
    config: tuple[DeviceClassConfiguration, ...] = ()
    # the resource name under which pods can request devices of the class
    extended_resource_name: str | None = None


class DeviceClass(ApiStruct, frozen=True, kw_only=True):
    """A named selection of devices that a cluster operator offers."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("DeviceClass")
    metadata: ObjectMeta = ObjectMeta()
    # which devices belong to the class, and how they are set up
    spec: DeviceClassSpec = stated(DeviceClassSpec())


# --- claims: the request ---


class DeviceToleration(ApiStruct, frozen=True, kw_only=True):
    """Device taints that a request accepts."""

    key: str | None = None  # the taint's key; absent with Exists, it matches every key
    operator: str | None = None  # Exists, or Equal, which is the default
    value: str | None = None  # the taint's value, for Equal
    effect: str | None = None  # the taint's effect; every effect when absent
    # how many seconds the request accepts a NoExecute taint; forever when absent
    toleration_seconds: Int64 | None = None


class CapacityRequirements(ApiStruct, frozen=True, kw_only=True):
    """How much of each capacity is needed: of a whole device at least that much, of a shared device a share that large."""

    # the amount needed of each capacity, by name
    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class DeviceDerivedAttribute(ApiStruct, frozen=True, kw_only=True):
    """An attribute computed per device for the constraints of one request."""

    name: str = stated("")  # the name that constraints use for the attribute
    expression: str = stated("")  # a CEL expression over the device that gives the value


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
    # attributes that are computed for this request's devices
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceSubRequest(ApiStruct, frozen=True, kw_only=True):
    """One alternative of a request. It is like an exact request, but without admin access."""

    name: str = stated("")  # unique within the request; others refer to the alternative as request/name
    device_class_name: str = stated("")  # the class that the devices come from
    selectors: tuple[DeviceSelector, ...] = ()  # all must hold for a device, besides those of the class
    allocation_mode: str | None = None  # ExactCount (when absent) or All
    count: Int64 | None = None  # for ExactCount; 1 when absent
    tolerations: tuple[DeviceToleration, ...] = ()  # device taints that do not matter to this request
    capacity: CapacityRequirements | None = None  # how much of the devices' capacity is needed
    # attributes that are computed for this request's devices
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceRequest(ApiStruct, frozen=True, kw_only=True):
    """A named part of a claim: either one exact request, or alternatives of which the first available one is given."""

    # the name by which containers, constraints and configuration refer to the request; a DNS label
    name: str = stated("")
    exactly: ExactDeviceRequest | None = None  # the request, if there are no alternatives
    # alternatives in order of preference; the claim gets the first one that is available
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(ApiStruct, frozen=True, kw_only=True):
    """A relation between the devices of several requests; exactly one attribute is named."""

    # the requests that the constraint covers, as ``req`` or ``req/sub``; all requests when empty
    requests: tuple[str, ...] = ()
    match_attribute: str | None = None  # all devices must have the same value of this attribute
    distinct_attribute: str | None = None  # no two devices may have the same value of this attribute


class DeviceClaimConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Configuration for a driver that the claim's author gives for some or all requests."""

    # the requests that the configuration is for, as req or req/sub; all requests when empty
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None  # parameters for a driver


class DeviceClaim(ApiStruct, frozen=True, kw_only=True):
    """Which devices are wanted, how they must relate, and how they are set up."""

    requests: tuple[DeviceRequest, ...] = ()  # the devices that are wanted; a claim gets all of them or none
    # relations that must hold between the devices of several requests
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()  # how drivers should set the devices up


class ResourceClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """The devices that a claim requests; immutable once the claim exists."""

    devices: DeviceClaim = DeviceClaim()  # the devices that are wanted


# --- claims: the result ---


class DeviceRequestAllocationResult(ApiStruct, frozen=True, kw_only=True):
    """One device, or a share of one, that is allocated to one request."""

    request: str = stated("")  # the request that gets the device: ``req``, or ``req/sub`` for an alternative
    driver: str = stated("")  # the driver of the device
    pool: str = stated("")  # the pool of the device
    device: str = stated("")  # the device's name within its pool
    admin_access: bool | None = None  # copied from the request
    tolerations: tuple[DeviceToleration, ...] = ()  # copied from the request
    binding_conditions: tuple[str, ...] = ()  # copied from the device
    binding_failure_conditions: tuple[str, ...] = ()  # copied from the device
    share_id: str | None = msgspec.field(default=None, name="shareID")  # distinguishes the shares of a device
    # how much of each capacity of a shared device is taken
    consumed_capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    skip_node_operations: tuple[str, ...] = ()  # copied from the slice


class DeviceAllocationConfiguration(ApiStruct, frozen=True, kw_only=True):
    """Configuration as it was when the claim was allocated."""

    source: str = stated("")  # where the configuration comes from: FromClass or FromClaim
    requests: tuple[str, ...] = ()  # the requests that the configuration is for; all requests when empty
    opaque: OpaqueDeviceConfiguration | None = None  # parameters for a driver


class DeviceAllocationResult(ApiStruct, frozen=True, kw_only=True):
    """The devices of a claim and their configuration."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()  # the devices, one entry each
    # configuration from class and claim, the class's first
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(ApiStruct, frozen=True, kw_only=True):
    """The devices that a claim got, and the nodes on which it can be used."""

    devices: DeviceAllocationResult = DeviceAllocationResult()  # the devices that the claim got
    # the nodes on which the claim can be used; all nodes when absent
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None  # when the claim was allocated


class ResourceClaimConsumerReference(ApiStruct, frozen=True, kw_only=True):
    """A consumer that may use the claim now; usually a pod."""

    api_group: str | None = None  # the consumer's API group; absent for core
    resource: str = stated("")  # the plural name of the consumer's resource, for example ``pods``
    name: str = stated("")  # the consumer's name, in the claim's namespace
    uid: str = stated("")  # the consumer's uid; a new object of the same name does not count


class NetworkDeviceData(ApiStruct, frozen=True, kw_only=True):
    """What a driver reports about a network interface that it set up."""

    interface_name: str | None = None  # the interface's name inside the pod
    ips: tuple[str, ...] = ()  # the interface's addresses in CIDR notation
    hardware_address: str | None = None  # the hardware address, for example a MAC address


class AllocatedDeviceStatus(ApiStruct, frozen=True, kw_only=True):
    """What a driver reports about a device that it prepared."""

    driver: str = stated("")  # the driver of the device
    pool: str = stated("")  # the pool of the device
    device: str = stated("")  # the device's name within its pool
    # the share of the device, if it is shared
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()  # the device's state as its driver sees it
    data: Any = None  # anything else that the driver reports, as plain JSON
    network_data: NetworkDeviceData | None = None  # details of a network interface


class ResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The devices that the claim got and its consumers, written by the scheduler; device states, written by drivers."""

    allocation: AllocationResult | None = None  # the devices that the claim got; absent until it is allocated
    # the consumers that may use the claim now; at most 256
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()  # the state of the devices as their drivers see it


class ResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """A request for devices and, once it is allocated, the devices themselves."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceClaim")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = stated(ResourceClaimSpec())  # the request; immutable
    status: ResourceClaimStatus = ResourceClaimStatus()  # the allocated devices, and their consumers


class ResourceClaimTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """The form of each claim made from the template. Only labels and annotations of the metadata count."""

    metadata: ObjectMeta = ObjectMeta()  # labels and annotations for the claims
    spec: ResourceClaimSpec = stated(ResourceClaimSpec())  # the devices that the claims request


class ResourceClaimTemplate(ApiStruct, frozen=True, kw_only=True):
    """The template for claims that are made for one pod each and go away with it."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceClaimTemplate")
    metadata: ObjectMeta = ObjectMeta()
    # the form of the claims; immutable
    spec: ResourceClaimTemplateSpec = stated(ResourceClaimTemplateSpec())


# --- taint rules ---


class DeviceTaintSelector(ApiStruct, frozen=True, kw_only=True):
    """Selects devices by driver, pool and name. An absent field matches everything."""

    driver: str | None = None  # the driver of the devices
    pool: str | None = None  # the pool of the devices
    device: str | None = None  # the name of the device


class DeviceTaintRuleSpec(ApiStruct, frozen=True, kw_only=True):
    """A taint and the devices that get it."""

    device_selector: DeviceTaintSelector | None = None  # the devices that get the taint; none when absent
    taint: DeviceTaint = stated(DeviceTaint())  # the taint to add to the devices


class DeviceTaintRuleStatus(ApiStruct, frozen=True, kw_only=True):
    """The progress of the eviction that the taint caused."""

    conditions: tuple[Condition, ...] = ()  # the state of the eviction


class DeviceTaintRule(ApiStruct, frozen=True, kw_only=True):
    """Adds a taint to devices, independently of their driver."""

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
