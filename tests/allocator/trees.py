"""Builders of semantic objects: trees of instances, classes, parameters, claims."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from allotment.allocator.outcome import Allocated, Outcome
from allotment.allocator.pool import DeviceID
from allotment.allocator.semantic import SemanticBook, allocate_semantic
from allotment.allocator.strategy import FIRST_FIT
from allotment.api.codec import decode
from allotment.api.core import Node
from allotment.api.meta import ObjectMeta
from allotment.api.quantity import Quantity
from allotment.api.semantic import (
    AllocationResult,
    Attribute,
    AttributeGroup,
    NodeResourceSlice,
    NodeResourceSliceSpec,
    PartitionableResourceFilter,
    PartitionableResourceRequest,
    PartitionableResourceRequests,
    PartitionableResources,
    ResourceClaim,
    ResourceClaimParameters,
    ResourceClaimParametersReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClass,
    ResourceClassParameters,
    ResourceClassParametersReference,
    ResourceFilter,
    ResourceInstance,
    ResourceInstanceGroup,
    ResourceRequest,
)

DRIVER = "cards.example.com"
NICS = "nics.example.com"
NODE = "n1"
GROUP = "resource.k8s.io"


def node(name: str = NODE, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def attribute(name: str, **value: Any) -> Attribute:
    """``attribute("memory", quantity="8Gi")``: as it is written in JSON."""
    return decode(Attribute, {"name": name, **value})


def memory(amount: str | None) -> tuple[Attribute, ...]:
    return () if amount is None else (Attribute(name="memory", quantity_value=Quantity.parse(amount)),)


def leaf(
    name: str, amount: str | None = None, *attributes: Attribute, refs: Sequence[str] = ()
) -> ResourceInstance:
    return ResourceInstance(
        name=name, attributes=(*memory(amount), *attributes), common_attributes_refs=tuple(refs)
    )


def group(
    name: str, *instances: ResourceInstance, amount: str | None = None, refs: Sequence[str] = ()
) -> ResourceInstanceGroup:
    return ResourceInstanceGroup(
        name=name, resource_instances=instances, attributes=memory(amount), common_attributes_refs=tuple(refs)
    )


def split(
    name: str, *groups: ResourceInstanceGroup, amount: str | None = None, refs: Sequence[str] = ()
) -> ResourceInstance:
    return ResourceInstance(
        name=name, partitions=groups, attributes=memory(amount), common_attributes_refs=tuple(refs)
    )


def card(name: str) -> ResourceInstance:
    """32Gi: whole, two halves, or a half and two quarters."""
    return split(
        name,
        group("whole", leaf("gpu", "32Gi")),
        group(
            "parts",
            leaf("half", "16Gi"),
            split(
                "rest",
                group("half", leaf("half", "16Gi")),
                group("quarters", leaf("q0", "8Gi"), leaf("q1", "8Gi")),
            ),
        ),
    )


def slice_of(
    *instances: ResourceInstance,
    driver: str = DRIVER,
    on: str = NODE,
    name: str = "slice",
    common: Mapping[str, Sequence[Attribute]] | None = None,
) -> NodeResourceSlice:
    groups = tuple(AttributeGroup(name=key, attributes=tuple(found)) for key, found in (common or {}).items())
    model = PartitionableResources(common_attributes=groups, resource_instances=instances)
    spec = NodeResourceSliceSpec(node_name=on, driver_name=driver, partitionable=model)
    return NodeResourceSlice(metadata=ObjectMeta(name=name), spec=spec)


def resource_class(
    name: str = "cards", parameters: str = "", semantic: bool | None = True, **more: Any
) -> ResourceClass:
    ref = None
    if parameters:
        ref = ResourceClassParametersReference(
            api_group=GROUP, kind="ResourceClassParameters", name=parameters
        )
    return ResourceClass(
        metadata=ObjectMeta(name=name),
        driver_name=DRIVER,
        parameters_ref=ref,
        semantic_parameters=semantic,
        **more,
    )


def class_parameters(
    name: str, *selectors: str, driver: str = DRIVER, **more: Any
) -> ResourceClassParameters:
    filters = tuple(
        ResourceFilter(driver_name=driver, partitionable=PartitionableResourceFilter(selector=selector))
        for selector in selectors
    )
    return ResourceClassParameters(metadata=ObjectMeta(name=name), filters=filters, **more)


def request(*selectors: str, driver: str = DRIVER) -> ResourceRequest:
    required = tuple(
        PartitionableResourceRequest(name=f"r{number}", selector=selector)
        for number, selector in enumerate(selectors)
    )
    return ResourceRequest(driver_name=driver, partitionable=PartitionableResourceRequests(required=required))


def parameters(name: str, *requests: ResourceRequest, **more: Any) -> ResourceClaimParameters:
    return ResourceClaimParameters(metadata=ObjectMeta(name=name, namespace="ns"), requests=requests, **more)


def claim(name: str, ref: str | None = "p", of_class: str = "cards") -> ResourceClaim:
    reference = None
    if ref is not None:
        reference = ResourceClaimParametersReference(
            api_group=GROUP, kind="ResourceClaimParameters", name=ref
        )
    spec = ResourceClaimSpec(resource_class_name=of_class, parameters_ref=reference)
    return ResourceClaim(metadata=ObjectMeta(name=name, namespace="ns"), spec=spec)


def allocated(claim: ResourceClaim, result: AllocationResult) -> ResourceClaim:
    return ResourceClaim(
        metadata=claim.metadata, spec=claim.spec, status=ResourceClaimStatus(allocation=result)
    )


def at(*ids: str, driver: str = DRIVER, on: str = NODE) -> list[DeviceID]:
    return [DeviceID(driver, on, id) for id in ids]


def book_for(*selectors: str) -> SemanticBook:
    """One class, and parameters ``p`` with these selectors."""
    return SemanticBook([resource_class()], [], [parameters("p", request(*selectors))])


def ask(
    slices: Sequence[NodeResourceSlice],
    *selectors: str,
    held: Collection[DeviceID] = (),
    strategy: str = FIRST_FIT,
    **more: Any,
) -> Outcome:
    """One claim with these selectors."""
    return allocate_semantic(
        node(), slices, book_for(*selectors), [claim("c")], held, strategy=strategy, **more
    )


def ids(outcome: Outcome) -> list[str]:
    assert isinstance(outcome, Allocated), outcome
    return [given.device for result in outcome.results for given in result.devices.results]
