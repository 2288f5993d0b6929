"""Decides when two nodes are the same to a claim.

They are if, device by device in search order, they agree on everything that matters to the claim. For each node a short
tuple of numbers represents that:

* its *skeleton*: drivers, capacity, taints, counters and so on, which do not depend on the claim;
* one *column* for each part that the claim's expressions read: the values of all devices;
* one *pattern* for each attribute that its constraints compare: which devices hold equal values. Values that differ
  from node to node, such as uuids and PCI roots, have the same pattern everywhere.

Equal tuples of values get equal numbers by interning, so comparing nodes compares a few ints. Names of nodes, pools and
devices never enter.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from allotment.allocator.constraint import elements_of, static_attribute
from allotment.allocator.errors import AllocationError
from allotment.allocator.nodeselector import node_matches
from allotment.allocator.result import terms_of
from allotment.allocator.selector import ReadPart, device_features, parts_of
from allotment.allocator.suits import NODE_OPERATIONS
from allotment.cel.device import CelError, compile_derived

if TYPE_CHECKING:
    from allotment.allocator.features import Features
    from allotment.allocator.pool import PooledDevice
    from allotment.allocator.request import Demand
    from allotment.allocator.site import Site
    from allotment.api.core import Node
    from allotment.api.resource import DeviceCapacity


class Numbering:
    """Small numbers for equal values."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def of(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)


class Fingerprints:
    """The fingerprints of one site: columns and patterns, computed on first use."""

    __slots__ = ("_columns", "_numbers", "_site")

    def __init__(self, site: Site, numbers: Numbering) -> None:
        self._site = site
        self._numbers = numbers
        self._columns: dict[Hashable, int] = {}

    def skeleton(self) -> int:
        number = self._columns.get("skeleton")
        if number is None:
            number = self._columns["skeleton"] = self._numbers.of(("skeleton", _skeleton(self._site)))
        return number

    def column(self, part: ReadPart) -> int:
        number = self._columns.get(part.name)
        if number is None:
            values = tuple([part.of(device) for device in self._site.devices])
            number = self._columns[part.name] = self._numbers.of((part.name, values))
        return number

    def pattern(self, attribute: str) -> int:
        name = ("pattern", attribute)
        number = self._columns.get(name)
        if number is None:
            lists = self._site.features.ListTypeAttributes
            number = self._columns[name] = self._numbers.of(
                (name, _pattern(self._site.devices, attribute, lists))
            )
        return number


class RelevantParts:
    """The parts of devices that one demand looks at."""

    def __init__(self, demand: Demand, features: Features) -> None:
        self._parts: dict[Hashable, ReadPart] = {}
        self._patterns: set[str] = set()
        for request in demand.requests:
            for ask in request.asks:
                for test in ask.tests:
                    self._add(test.parts)
                for expression in ask.derived.values():
                    self._add(_derived_parts(expression, features))
        derived = any(ask.derived for request in demand.requests for ask in request.asks)
        for relations in demand.relations:
            for relation in relations:
                if derived:  # a derived value may equal a published one, so the values themselves count
                    self._add([_attribute_part(relation.attribute)])
                else:
                    self._patterns.add(relation.attribute)

    def _add(self, parts: Sequence[ReadPart]) -> None:
        for part in parts:
            self._parts[part.name] = part

    def look(self, prints: Fingerprints) -> tuple[int, ...]:
        """A value that is equal for sites that this demand cannot distinguish, apart from use."""
        return (
            prints.skeleton(),
            *[prints.column(part) for part in self._parts.values()],
            *[prints.pattern(attribute) for attribute in self._patterns],
        )


def _derived_parts(expression: str, features: Features) -> Sequence[ReadPart]:
    try:
        return parts_of(compile_derived(expression, device_features(features)).reads)
    except CelError:
        return ()  # it fails alike on every device


def _attribute_part(attribute: str) -> ReadPart:
    return ReadPart(("attribute", attribute), lambda device: static_attribute(device, attribute))


def _skeleton(site: Site) -> Hashable:
    ordinals = {pool.id: ordinal for ordinal, pool in enumerate(site.pools)}
    pools = tuple(
        [
            (pool.incomplete, pool.invalid, tuple([_counters(each) for each in pool.counter_sets]))
            for pool in site.pools
        ]
    )
    declares = NODE_OPERATIONS in site.node.status.declared_features
    bones = [_bones(device, ordinals[device.id.of_pool], site, declares) for device in site.devices]
    return pools, tuple(bones), unwritable(site.devices)


def unwritable(devices: Sequence[PooledDevice]) -> Hashable:
    """Where a device has a selector that no allocation can write: for each device, whether it has, or is of one node, which spares an
    allocation from writing any. Otherwise nothing, as where a device can be used does not distinguish nodes."""
    terms = [terms_of(device) for device in devices]
    if all(each is None or len(each) <= 1 for each in terms):
        return None
    return tuple([None if each is None else len(each) > 1 for each in terms])


def _counters(counter_set: object) -> Hashable:
    name = getattr(counter_set, "name", "")
    counters = getattr(counter_set, "counters", {})
    return name, tuple([(key, counter.value.nanos) for key, counter in sorted(counters.items())])


def _bones(device: PooledDevice, ordinal: int, site: Site, declares: bool) -> Hashable:
    spec, slice = device.spec, device.slice.spec
    return (
        device.id.driver,
        ordinal,
        bool(spec.allow_multiple_allocations),
        tuple([(name, offer, _forms(offer)) for name, offer in spec.capacity.items()]),
        spec.taints,
        tuple(
            [
                (use.counter_set, tuple(sorted(use.counters.items())), use.compatibility_groups)
                for use in spec.consumes_counters
            ]
        )
        if spec.consumes_counters
        else (),
        bool(spec.binding_conditions),
        declares if slice.skip_node_operations else None,
        _reached(device, site.node) if slice.per_device_node_selection else None,
    )


def _forms(offer: DeviceCapacity) -> Hashable:
    """The notation of the amounts of a capacity: it identifies a default (``capacity``), and results repeat it."""
    policy = offer.request_policy
    if policy is None:
        return offer.value.format
    valid = policy.valid_range
    amounts = [policy.default, *policy.valid_values, *((valid.min, valid.step) if valid is not None else ())]
    return offer.value.format, tuple([amount.format for amount in amounts if amount is not None])


def _reached(device: PooledDevice, node: Node) -> bool | str:
    """Whether a device with its own node selection reaches this node.

    A broken selector is an error only if the search reaches the device.
    """
    spec = device.spec
    try:
        return node_matches(node, spec.node_name, spec.all_nodes, spec.node_selector)
    except AllocationError as exc:
        return str(exc)


def _pattern(devices: Sequence[PooledDevice], attribute: str, lists: bool) -> Hashable:
    """For each device the values it holds, renamed in order of appearance; None if it lacks the attribute."""
    names: dict[Hashable, int] = {}
    pattern: list[Hashable] = []
    for device in devices:
        found = static_attribute(device, attribute)
        if found is None:
            pattern.append(None)
        else:
            held = elements_of(found, lists=lists)
            pattern.append(tuple([names.setdefault(element, len(names)) for element in held]))
    return tuple(pattern)
