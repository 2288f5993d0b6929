"""How many devices pools have and how many are left: ResourcePool (resource.k8s.io/v1beta2), which a controller keeps
up to date, and Kubernetes' ResourcePoolStatusRequest (v1alpha3), which a controller answers once.

Both hold only counts, so their readers learn nothing about claims. The struct of the same name inside a ResourceSlice
is ``resource.ResourcePool``; in the schemas it is ``io.k8s.api.resource.v1beta2.ResourcePool``, and ours is
``dev.allotment.api.pools.ResourcePool``.
"""

from allotment.api.meta import ApiStruct, Condition, Int32, Int64, ObjectMeta, Time, stated
from allotment.api.quantity import Quantity

API_VERSION = "resource.k8s.io/v1beta2"
REQUEST_VERSION = "resource.k8s.io/v1alpha3"

COMPLETE = "Complete"
"""A condition type: all slices of a pool are there, or a request is answered."""
VALID = "Valid"
FAILED = "Failed"

# --- ResourcePool ---


class ResourcePoolSpec(ApiStruct, frozen=True, kw_only=True):
    """Which pool the object describes. These fields, not the object's name, identify the pool; they never change."""

    driver: str = stated("")  # the driver whose slices make up the pool
    pool_name: str = stated("")  # the pool's name in those slices
    node_name: str | None = None  # the node that reaches the pool's devices, if it is the only one


class ResourcePoolSummary(ApiStruct, frozen=True, kw_only=True):
    """How many devices of the pool's newest generation are in which state.

    Each device is in exactly one: available + allocated + unavailable = total.
    """

    total_devices: Int32 = stated(0)  # all devices
    allocated_devices: Int32 = stated(0)  # devices that at least one claim holds; admin access does not count
    available_devices: Int32 = stated(0)  # devices that no claim holds and that can be allocated
    # devices that no claim holds and none can get: tainted, out of counters, or in an incomplete pool
    unavailable_devices: Int32 | None = None
    # the number of allocated devices that are shared and still have capacity
    partially_allocated_devices: Int32 | None = None


class ResourcePoolStatus(ApiStruct, frozen=True, kw_only=True):
    """The state of the pool, as the controller counted it from slices and claims."""

    summary: ResourcePoolSummary = ResourcePoolSummary()  # how many devices are in which state
    # Complete: all slices are there. Valid: the slices agree with each other
    conditions: tuple[Condition, ...] = ()
    validation_errors: tuple[str, ...] = ()  # what is wrong with the pool's slices; at most 10 errors
    # the number of errors, if it is greater than the number listed
    truncated_error_count: Int32 | None = None
    observed_slice_count: Int32 | None = None  # how many slices of the newest generation exist
    # how many slices the newest generation has according to its driver
    expected_slice_count: Int32 | None = None
    observed_generation: Int64 | None = None  # the pool's newest generation
    last_update_time: Time | None = None  # when any other field of the status last changed


class ResourcePool(ApiStruct, frozen=True, kw_only=True):
    """How many devices a pool has and how many are left. A controller maintains it; users only read it."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourcePool")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourcePoolSpec = stated(ResourcePoolSpec())
    status: ResourcePoolStatus = ResourcePoolStatus()


# --- ResourcePoolStatusRequest ---


class ResourcePoolStatusRequestSpec(ApiStruct, frozen=True, kw_only=True):
    """Which pools the request asks about. It never changes."""

    driver: str = stated("")  # the driver of the pools
    pool_name: str | None = None  # the pool to report; all pools of the driver when absent
    limit: Int32 | None = None  # the most pools to report, from 1 to 1000; 100 when absent
    # the attribute that distinguishes kinds of partitions, for slices that name none
    default_partition_type_attribute: str | None = None


class PartitionTypeStatus(ApiStruct, frozen=True, kw_only=True):
    """Partitions of one kind."""

    attribute: str = stated("")  # the attribute that distinguishes the kinds
    type: str = stated("")  # the attribute's value for this kind
    total: Int32 | None = None  # how many devices are of this kind
    allocatable: Int32 | None = None  # how many more of them the remaining counters allow


class ShareableCapacityStatus(ApiStruct, frozen=True, kw_only=True):
    """One capacity, summed over the pool's shared devices."""

    name: str = stated("")  # the name of the capacity
    total: Quantity | None = None  # the total amount
    consumed: Quantity | None = None  # the amount that claims hold
    available: Quantity | None = None  # the amount that is left, never negative


class ShareableSummaryStatus(ApiStruct, frozen=True, kw_only=True):
    """The pool's shared devices."""

    fully_available_devices: Int32 | None = None  # devices that no claim uses
    partially_available_devices: Int32 | None = None  # devices that claims use in part
    capacity: tuple[ShareableCapacityStatus, ...] = ()  # the capacities of all these devices together


class PoolStatus(ApiStruct, frozen=True, kw_only=True):
    """One pool in the answer. Counts are absent if the pool cannot be counted."""

    driver: str = stated("")  # the pool's driver
    pool_name: str = stated("")  # the pool's name
    generation: Int64 = stated(0)  # the pool's newest generation
    resource_slice_count: Int32 | None = None  # how many slices that generation has
    total_devices: Int32 | None = None  # all devices
    allocated_devices: Int32 | None = None  # devices that at least one claim holds
    available_devices: Int32 | None = None  # devices that can be allocated
    unavailable_devices: Int32 | None = None  # devices that no claim holds and none can get
    node_name: str | None = None  # the node that reaches the devices, if it is the only one
    validation_error: str | None = None  # what is wrong with the pool
    partition_summary: tuple[PartitionTypeStatus, ...] = ()  # counts for each kind of partition
    # totals of the devices that several claims may share
    shareable_summary: ShareableSummaryStatus | None = None


class ResourcePoolStatusRequestStatus(ApiStruct, frozen=True, kw_only=True):
    """The answer. It is written once."""

    pool_count: Int32 | None = None  # how many pools match, including those not reported
    pools: tuple[PoolStatus, ...] = ()  # sorted by driver and name, at most spec.limit of them
    conditions: tuple[Condition, ...] = ()  # Complete or Failed


class ResourcePoolStatusRequest(ApiStruct, frozen=True, kw_only=True):
    """Asks once for the state of a driver's pools. To ask again, create a new request."""

    api_version: str = stated(REQUEST_VERSION)
    kind: str = stated("ResourcePoolStatusRequest")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourcePoolStatusRequestSpec = stated(ResourcePoolStatusRequestSpec())
    status: ResourcePoolStatusRequestStatus | None = None  # the answer; absent until there is one
