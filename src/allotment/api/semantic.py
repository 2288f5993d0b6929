"""resource.k8s.io/v1alpha2: claims with semantic parameters and the ``partitionable`` model of node resources.

This is the early design of KEP-4381. A driver publishes one or more :class:`NodeResourceSlice` per node, a tree
of instances that may be split in alternative ways. A claim names a :class:`ResourceClass`. A
:class:`ResourceClaimParameters` object, often generated from a vendor's own type, says what exactly the claim needs,
and the class may restrict that by :class:`ResourceClassParameters`. The scheduler writes the result into the claim's
status as a :class:`SemanticResourceHandle`.

The KEP contradicts itself in places. We decided:

* a slice's content is under ``spec``, as in its examples and Go types;
* ``commonAttributesRefs`` and ``attributes`` are allowed on partition groups, and ``vendorParameters`` on both
  kinds of parameters, as in its examples, although its Go types lack them;
* a request's ``partitionable`` holds ``required``, a list, as in its examples;
* allocated instances are written as objects with an ``id``, as in its Go types, and also read as bare strings,
  as in its examples;
* ``semanticParameters`` marks a class whose claims the scheduler allocates, as in its Go types.
"""

from typing import Any, ClassVar

import msgspec

from allotment.api.core import NodeSelector
from allotment.api.meta import ApiStruct, Int64, ObjectMeta, stated
from allotment.api.quantity import Quantity
from allotment.api.resource import ResourceClaimConsumerReference

API_VERSION = "resource.k8s.io/v1alpha2"

# --- node resources: a tree of instances ---


class Attribute(ApiStruct, frozen=True, kw_only=True):
    """A named property of an instance; exactly one of the value fields is set."""

    name: str = stated("")  # unique within its list
    quantity_value: Quantity | None = msgspec.field(default=None, name="quantity")  # an amount
    bool_value: bool | None = msgspec.field(default=None, name="bool")  # true or false
    int_value: Int64 | None = msgspec.field(default=None, name="int")  # a whole number
    # a list of whole numbers
    int_slice_value: tuple[Int64, ...] | None = msgspec.field(default=None, name="intSlice")
    string_value: str | None = msgspec.field(default=None, name="string")  # text
    # a list of texts
    string_slice_value: tuple[str, ...] | None = msgspec.field(default=None, name="stringSlice")
    version_value: str | None = msgspec.field(default=None, name="version")  # tolerant semver


class AttributeGroup(ApiStruct, frozen=True, kw_only=True):
    """Attributes that several instances refer to by the group's name."""

    name: str = stated("")  # the name by which instances refer to the group
    attributes: tuple[Attribute, ...] = ()  # the attributes in the group


class ResourceInstanceGroup(ApiStruct, frozen=True, kw_only=True):
    """One way to split an instance. While any of its parts is in use, the instance's other ways are locked."""

    name: str = stated("")  # unique within the instance
    common_attributes_refs: tuple[str, ...] = ()  # attribute groups that all parts have
    attributes: tuple[Attribute, ...] = ()  # attributes that all parts have
    resource_instances: tuple["ResourceInstance", ...] = ()  # the parts that the split creates


class ResourceInstance(ApiStruct, frozen=True, kw_only=True):
    """Something that can be allocated as a whole or, if it has partitions, only in parts."""

    name: str = stated("")  # unique within its group
    common_attributes_refs: tuple[str, ...] = ()  # attribute groups that the instance has
    attributes: tuple[Attribute, ...] = ()  # attributes of this instance alone
    partitions: tuple[ResourceInstanceGroup, ...] = ()  # the alternative ways to split the instance


class PartitionableResources(ApiStruct, frozen=True, kw_only=True):
    """Instances of a node and the attribute groups they share."""

    common_attributes: tuple[AttributeGroup, ...] = ()  # attribute groups that instances refer to
    resource_instances: tuple[ResourceInstance, ...] = ()  # what can be allocated


class NodeResourceSliceSpec(ApiStruct, frozen=True, kw_only=True):
    """What one driver offers on one node. Without a model that we know, none of it can be used."""

    node_name: str = stated("")  # the node that has the resources
    driver_name: str = stated("")  # the driver that publishes and prepares them
    partitionable: PartitionableResources | None = None  # resources in the partitionable model


class NodeResourceSlice(ApiStruct, frozen=True, kw_only=True):
    """Node resources as a driver's kubelet plugin publishes them."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("NodeResourceSlice")
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeResourceSliceSpec = stated(NodeResourceSliceSpec())  # the resources


# --- classes and parameters ---


class ResourceClassParametersReference(ApiStruct, frozen=True, kw_only=True):
    """Points at a class's parameters. Only a reference to the object they were generated from has a ``uid``."""

    api_group: str | None = None
    kind: str = stated("")
    name: str = stated("")
    namespace: str | None = None
    uid: str | None = None


class ResourceClaimParametersReference(ApiStruct, frozen=True, kw_only=True):
    """Points at a claim's parameters in the claim's namespace.

    Only a reference to the object they were generated from has a ``uid``.
    """

    api_group: str | None = None
    kind: str = stated("")
    name: str = stated("")
    uid: str | None = None


class ResourceClass(ApiStruct, frozen=True, kw_only=True):
    """Which driver serves a claim, and with which parameters of the cluster's operator."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceClass")
    metadata: ObjectMeta = ObjectMeta()
    driver_name: str = stated("")  # the driver that serves claims of the class
    parameters_ref: ResourceClassParametersReference | None = None  # the class's parameters
    suitable_nodes: NodeSelector | None = None  # the nodes on which the class can be used; all when absent
    # true: the scheduler allocates claims of the class, not a driver's controller
    semantic_parameters: bool | None = None


class PartitionableResourceFilter(ApiStruct, frozen=True, kw_only=True):
    """An expression that must hold for every instance given to a claim of the class."""

    selector: str = stated("")  # in CEL, over the instance's attributes


class ResourceFilter(ApiStruct, frozen=True, kw_only=True):
    """A class's filter on the resources of one driver."""

    driver_name: str = stated("")  # the driver whose resources are filtered
    partitionable: PartitionableResourceFilter | None = None  # for resources in the partitionable model


class ResourceClassParameters(ApiStruct, frozen=True, kw_only=True):
    """What a class adds to its claims: filters, and parameters only the driver understands (plain JSON)."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceClassParameters")
    metadata: ObjectMeta = ObjectMeta()
    # the object of the vendor's own type that this one was made from
    generated_from: ResourceClassParametersReference | None = None
    vendor_parameters: Any = None  # any object; the driver knows its form
    filters: tuple[ResourceFilter, ...] = ()  # tests that resources for claims of the class must pass


class PartitionableResourceRequest(ApiStruct, frozen=True, kw_only=True):
    """One instance for which the selector holds."""

    name: str | None = None  # not used yet
    selector: str = stated("")  # in CEL, over the instance's attributes


class PartitionableResourceRequests(ApiStruct, frozen=True, kw_only=True):
    """Instances that the claim needs, all of them."""

    required: tuple[PartitionableResourceRequest, ...] = ()  # one entry for each instance


class ResourceRequest(ApiStruct, frozen=True, kw_only=True):
    """What is needed from one driver."""

    driver_name: str = stated("")  # the driver that offers the resources
    partitionable: PartitionableResourceRequests | None = None  # for resources in the partitionable model


class ResourceClaimParameters(ApiStruct, frozen=True, kw_only=True):
    """What a claim needs, from one or more drivers; vendor parameters are plain JSON."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceClaimParameters")
    metadata: ObjectMeta = ObjectMeta()
    # the object of the vendor's own type that this one was made from
    generated_from: ResourceClaimParametersReference | None = None
    vendor_parameters: Any = None  # any object; the driver knows its form
    shareable: bool | None = None  # true: several pods may use the claim at the same time
    requests: tuple[ResourceRequest, ...] = ()  # what is needed, one entry for each driver


# --- claims ---


class AllocatedResourceInstance(ApiStruct, frozen=True, kw_only=True):
    """An allocated instance. Its id joins all names on the way to it with ``/``."""

    SHORT_FORM: ClassVar[str | None] = "id"

    id: str = stated("")


class PartitionableAllocationResult(ApiStruct, frozen=True, kw_only=True):
    """The instances given to one claim from one driver."""

    instances: tuple[AllocatedResourceInstance, ...] = ()


class SemanticResourceHandle(ApiStruct, frozen=True, kw_only=True):
    """What the scheduler allocated: the node, the instances, and the parameters as they were at that moment."""

    vendor_class_parameters: Any = None
    vendor_claim_parameters: Any = None
    node_name: str = stated("")
    partitionable: PartitionableAllocationResult | None = None


class ResourceHandle(ApiStruct, frozen=True, kw_only=True):
    """What a driver's kubelet plugin gets: opaque data from its controller, or the scheduler's result."""

    driver_name: str | None = None
    data: str | None = None
    semantic_data: SemanticResourceHandle | None = None


class AllocationResult(ApiStruct, frozen=True, kw_only=True):
    """What a claim got, the nodes on which it can be used, and whether several pods can use it at the same time."""

    resource_handles: tuple[ResourceHandle, ...] = ()  # what the drivers need to prepare the resources
    # the nodes on which the claim can be used; all when absent
    available_on_nodes: NodeSelector | None = None
    shareable: bool | None = None  # true: several pods may use the claim at the same time


class ResourceClaimSpec(ApiStruct, frozen=True, kw_only=True):
    """What a claim requests, by reference to a class and to parameters."""

    resource_class_name: str = stated("")  # the class that says which driver serves the claim
    # points at the parameters that say what exactly the claim needs
    parameters_ref: ResourceClaimParametersReference | None = None
    allocation_mode: str | None = None  # Immediate, or WaitForFirstConsumer, which is the default


class ResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """What the claim got and who uses it."""

    driver_name: str | None = None  # the driver that serves the claim, set when it is allocated
    allocation: AllocationResult | None = None  # what the claim got; absent until it is allocated
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()  # the consumers that may use the claim now
    deallocation_requested: bool | None = None  # true: the resources should be given back


class ResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """A request for resources of a class and, once it is allocated, the resources themselves."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceClaim")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = stated(ResourceClaimSpec())
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """The form of each claim made from the template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = stated(ResourceClaimSpec())


class ResourceClaimTemplate(ApiStruct, frozen=True, kw_only=True):
    """The template for claims that are made for one pod each and go away with it."""

    api_version: str = stated(API_VERSION)
    kind: str = stated("ResourceClaimTemplate")
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = stated(ResourceClaimTemplateSpec())
