"""What pools have and how much of it is left, in counts: ResourcePool (resource.k8s.io/v1beta2), which a controller keeps
up to date, and Kubernetes' ResourcePoolStatusRequest (v1alpha3), which it answers once.

Both hold counts only, so whoever reads them learns of no claim. The struct inside a ResourceSlice that is also called
ResourcePool is ``resource.ResourcePool``; in the schemas that one is ``io.k8s.api.resource.v1beta2.ResourcePool``, ours
``dev.allotment.api.pools.ResourcePool``.
"""

from allotment.api.meta import ApiStruct, Condition, Int32, Int64, ObjectMeta, Time, stated
from allotment.api.quantity import Quantity

API_VERSION = "resource.k8s.io/v1beta2"
REQUEST_VERSION = "resource.k8s.io/v1alpha3"

COMPLETE = "Complete"
"""The type of a condition: all slices of a pool are there; a request is answered."""
VALID = "Valid"
FAILED = "Failed"

# --- ResourcePool ---


class ResourcePoolSpec(ApiStruct, frozen=True, kw_only=True):
    """Which pool it is. This, not the object's name, identifies the pool; it never changes."""

    driver: str = stated("")  # the driver whose slices make up the pool
    pool_name: str = stated("")  # the pool's name in those slices
    node_name: str | None = None  # the one node that reaches the pool's devices, if it is one


class ResourcePoolSummary(ApiStruct, frozen=True, kw_only=True):
    """How many devices of the pool's newest generation are in which state.

    Each device is in exactly one: available + allocated + unavailable = total.
    """

    total_devices: Int32 = stated(0)  # all devices
    allocated_devices: Int32 = stated(0)  # devices that at least one claim holds; admin access does not count
    available_devices: Int32 = stated(0)  # devices that nobody holds and that can be allocated
    # devices that nobody holds and that no claim gets: tainted, without counters left, or in a pool that is incomplete
    unavailable_devices: Int32 | None = None
    # those of the allocated devices that are shared and have capacity left
    partially_allocated_devices: Int32 | None = None


class ResourcePoolStatus(ApiStruct, frozen=True, kw_only=True):
    """The state of the pool, as the controller counted it from slices and claims."""

    summary: ResourcePoolSummary = ResourcePoolSummary()  # how many devices are in which state
    # Complete: all slices are there. Valid: they agree with each other
    conditions: tuple[Condition, ...] = ()
    validation_errors: tuple[str, ...] = ()  # what is wrong with the pool's slices, the first 10
    truncated_error_count: Int32 | None = None  # how many errors there are, if that is more than are listed
    observed_slice_count: Int32 | None = None  # slices of the newest generation that are there
    expected_slice_count: Int32 | None = None  # slices that the newest generation has, as its driver says
    observed_generation: Int64 | None = None  # the pool's newest generation
    last_update_time: Time | None = None  # when anything else in the status last changed


class ResourcePool(ApiStruct, frozen=True, kw_only=True):
    """How many devices a pool has and how many are left. A controller keeps it; users only read it."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourcePool")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourcePoolSpec = stated(ResourcePoolSpec())
    status: ResourcePoolStatus = ResourcePoolStatus()


# --- ResourcePoolStatusRequest ---


class ResourcePoolStatusRequestSpec(ApiStruct, frozen=True, kw_only=True):
    """Which pools are asked about. It never changes."""

    driver: str = stated("")  # the driver of the pools
    pool_name: str | None = None  # one pool; absent: all of the driver
    limit: Int32 | None = None  # how many pools to tell about at most, 1 to 1000; 100 if absent
    # the attribute that tells kinds of partitions apart, where a slice names none
    default_partition_type_attribute: str | None = None


class PartitionTypeStatus(ApiStruct, frozen=True, kw_only=True):
    """Partitions of one kind."""

    attribute: str = stated("")  # the attribute that tells the kinds apart
    type: str = stated("")  # its value
    total: Int32 | None = None  # devices of the kind
    allocatable: Int32 | None = None  # how many more of them fit by what is left of the counters


class ShareableCapacityStatus(ApiStruct, frozen=True, kw_only=True):
    """One capacity, summed over the pool's shared devices."""

    name: str = stated("")  # the capacity
    total: Quantity | None = None  # all of it
    consumed: Quantity | None = None  # what claims hold
    available: Quantity | None = None  # the rest, never less than nothing


class ShareableSummaryStatus(ApiStruct, frozen=True, kw_only=True):
    """The pool's shared devices."""

    fully_available_devices: Int32 | None = None  # nobody holds a part of these
    partially_available_devices: Int32 | None = None  # somebody holds a part of these
    capacity: tuple[ShareableCapacityStatus, ...] = ()  # what they have together


class PoolStatus(ApiStruct, frozen=True, kw_only=True):
    """One pool in the answer. Counts are absent where the pool cannot be counted."""

    driver: str = stated("")  # the pool's driver
    pool_name: str = stated("")  # the pool's name
    generation: Int64 = stated(0)  # its newest generation
    resource_slice_count: Int32 | None = None  # slices of that generation
    total_devices: Int32 | None = None  # all devices
    allocated_devices: Int32 | None = None  # devices that at least one claim holds
    available_devices: Int32 | None = None  # devices that can be allocated
    unavailable_devices: Int32 | None = None  # devices that nobody holds and that no claim gets
    node_name: str | None = None  # the one node that reaches the devices, if it is one
    validation_error: str | None = None  # what is wrong with the pool
    partition_summary: tuple[PartitionTypeStatus, ...] = ()  # by kind of partition
    shareable_summary: ShareableSummaryStatus | None = None  # of devices that several claims may share


class ResourcePoolStatusRequestStatus(ApiStruct, frozen=True, kw_only=True):
    """The answer. It is written once."""

    pool_count: Int32 | None = None  # how many pools match, told about or not
    pools: tuple[PoolStatus, ...] = ()  # sorted by driver and name, at most spec.limit of them
    conditions: tuple[Condition, ...] = ()  # Complete or Failed


class ResourcePoolStatusRequest(ApiStruct, frozen=True, kw_only=True):
    """Asks once for the state of a driver's pools. To ask again, make a new one."""

    api_version: str = stated(REQUEST_VERSION)
    kind: str = stated("ResourcePoolStatusRequest")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourcePoolStatusRequestSpec = stated(ResourcePoolStatusRequestSpec())
    status: ResourcePoolStatusRequestStatus | None = None  # absent: not answered yet
