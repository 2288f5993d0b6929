"""Which attributes of a new machine will be equal, although their values are not known yet.

``attributeBindings`` binds an attribute of several devices; ``bindingKey`` binds single attributes. Both are pairs of an
equivalence relation, and only its classes matter: statements that overlap join, and their order does not matter.

A class belongs to one overlay (or instance type) and one new node. Its name on that node is the ``binding_key`` of an
UnknownAttribute, which equals itself and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from allotment.api.autoscaling import DynamicResources

Attribute = str


class BoundAttribute(NamedTuple):
    """An attribute of a device whose value is not known yet. The attribute's name includes its domain."""

    template: int  # position among the templates
    device: str
    attribute: Attribute


def qualified(driver: str, attribute: str) -> Attribute:
    """The name with a domain: without one of its own, it is in the driver's."""
    return attribute if "/" in attribute else f"{driver}/{attribute}"


def classes(resources: DynamicResources) -> dict[BoundAttribute, int]:
    """The class of every bound attribute. Classes count from 0, in the order of their first members."""
    joined = _Classes()
    for members in _statements(resources):
        first = members[0]
        for member in members:
            joined.join(first, member)
    numbers: dict[BoundAttribute | str, int] = {}
    return {
        member: numbers.setdefault(joined.find(member), len(numbers))
        for member in sorted(each for each in joined.parents if isinstance(each, BoundAttribute))
    }


def _statements(resources: DynamicResources) -> Iterator[list[BoundAttribute | str]]:
    """The groups of attributes that are equal. Each binding key is such a group."""
    positions = {
        template.metadata.name: position
        for position, template in enumerate(resources.resource_slice_templates)
    }
    for position, template in enumerate(resources.resource_slice_templates):
        for device in template.spec.devices:
            for name, attribute in device.attributes.items():
                if attribute.binding_key is not None:
                    bound = BoundAttribute(position, device.name, qualified(template.spec.driver, name))
                    yield [attribute.binding_key, bound]
    for binding in resources.attribute_bindings:
        for attribute_name in binding.attributes:
            yield [
                BoundAttribute(positions[each.resource_slice_template], each.device, attribute_name)
                for each in binding.device_selectors
            ]


class _Classes:
    """Disjoint sets."""

    def __init__(self) -> None:
        self.parents: dict[BoundAttribute | str, BoundAttribute | str] = {}

    def find(self, member: BoundAttribute | str) -> BoundAttribute | str:
        parent = self.parents.setdefault(member, member)
        while parent != member:
            self.parents[member] = self.parents[parent]  # halves the path for later calls
            member, parent = parent, self.parents[parent]
        return member

    def join(self, one: BoundAttribute | str, other: BoundAttribute | str) -> None:
        self.parents[self.find(one)] = self.find(other)
