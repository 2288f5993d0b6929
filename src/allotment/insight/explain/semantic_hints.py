"""Names that may be misspelt in claims with KEP-4381 semantic parameters (v1alpha2): their class, their parameters, and in
selectors a map or a key that no instance has: ``there is strings.runtimeVersion``.

Attributes are in one map per type. So the right name in the wrong map is missing, and the evaluation does not say why.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from allotment.allocator.semantic_carrier import carried
from allotment.api.likeness import near

if TYPE_CHECKING:
    from allotment.api.resource import ResourceClaim
    from allotment.api.semantic import Attribute, NodeResourceSlice, ResourceClaimParameters, ResourceInstance

_MAPS = {
    "quantity_value": "quantities",
    "bool_value": "bools",
    "int_value": "ints",
    "int_slice_value": "intSlices",
    "string_value": "strings",
    "string_slice_value": "stringSlices",
    "version_value": "versions",
}
_READ = re.compile(
    rf"""\b(?P<map>{"|".join(_MAPS.values())})\s*(?:\.\s*(?P<field>\w+)|\[\s*["'](?P<key>[^"']+)["']\s*\])"""
)


def semantic_hints(
    claims: Sequence[ResourceClaim],
    parameters: Iterable[ResourceClaimParameters],
    slices: Iterable[NodeResourceSlice],
    classes: Collection[str] = (),
) -> Iterator[str]:
    """For carried claims: names that refer to nothing, and attributes in their parameters that no instance of the driver has.
    Without ``classes``, there are no hints about these."""
    every = list(parameters)
    for claim in claims:
        yield from _of_names(claim, every, classes)
    named = {(claim.metadata.namespace, ref) for claim in claims if (ref := _reference(claim))}
    asked = [each for each in every if (each.metadata.namespace, each.metadata.name) in named]
    if not asked:
        return
    offered: dict[str, set[tuple[str, str]]] = {}
    for each in slices:
        offered.setdefault(each.spec.driver_name, set()).update(_attributes(each))
    for request in (request for each in asked for request in each.requests):
        there = offered.get(request.driver_name)
        if there is None:
            yield f"no driver {request.driver_name} publishes anything{near(request.driver_name, offered, least=0.8)}"
            continue
        for wish in request.partitionable.required if request.partitionable is not None else ():
            yield from _of_selector(wish.selector, there)


def _of_names(
    claim: ResourceClaim, parameters: Sequence[ResourceClaimParameters], classes: Collection[str]
) -> Iterator[str]:
    """Names similar to those of a missing class or of missing parameters."""
    found = carried(claim)
    if found is None:
        return
    name, own = found.spec.resource_class_name, found.metadata.namespace
    if classes and name not in classes and (like := near(name, classes, least=0.7)):
        yield f"there is no resource class {name}{like}"
    ref = found.spec.parameters_ref
    if ref is not None and ref.kind == "ResourceClaimParameters":
        known = [each.metadata.name for each in parameters if each.metadata.namespace == own]
        if ref.name not in known and (like := near(ref.name, known)):
            yield f"there is no ResourceClaimParameters {own}/{ref.name}{like}"


def _reference(claim: ResourceClaim) -> str:
    found = carried(claim)
    ref = found.spec.parameters_ref if found is not None else None
    return ref.name if ref is not None else ""


def _of_selector(selector: str, there: set[tuple[str, str]]) -> Iterator[str]:
    for match in _READ.finditer(selector):
        where, name = match["map"], match["field"] or match["key"]
        if (where, name) in there:
            continue
        elsewhere = sorted(other for other, key in there if key == name)
        if elsewhere:
            yield f"no instance has {where}.{name}; there is {' and '.join(f'{each}.{name}' for each in elsewhere)}"
        else:
            yield f"no instance has {where}.{name}{near(name, (key for other, key in there if other == where))}"


def _attributes(slice: NodeResourceSlice) -> Iterator[tuple[str, str]]:
    """Map and name of every attribute of the instances of a slice, including nested parts."""
    model = slice.spec.partitionable
    if model is None:
        return
    for shared in model.common_attributes:
        yield from _named(shared.attributes)
    left: list[ResourceInstance] = list(model.resource_instances)
    while left:
        instance = left.pop()
        yield from _named(instance.attributes)
        for way in instance.partitions:
            yield from _named(way.attributes)
            left += way.resource_instances


def _named(attributes: Iterable[Attribute]) -> Iterator[tuple[str, str]]:
    for each in attributes:
        for field, where in _MAPS.items():
            if getattr(each, field) is not None:
                yield where, each.name
