"""Relations between the devices of a claim, as arithmetic on bit sets.

A value of the attribute is an *element*; a list has several. Every element of one constraint has a number, so a
device's values are a bit set of elements, and each element has a bit set of the devices that hold it. Then

* match: the devices chosen so far have a set of elements in common, the *pin*; a device with one of them may come next;
* distinct: the devices chosen so far have *spent* their elements; a device with none of them may come next.

So one ``&`` gives the candidates that a constraint still allows, and the search need not try and fail. Values of different
types are different elements and never match. A value that is not known yet has a type of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from allotment.allocator.errors import AllocationError
from allotment.api.unknown_attribute import UnknownAttribute

if TYPE_CHECKING:
    from allotment.allocator.pool import PooledDevice
    from allotment.allocator.request import Relation
from allotment.api.resource import DeviceAttribute

Element = tuple[str, object]
FREE = -1
"""State of a constraint that binds no device yet."""

_MASKS_REMEMBERED = 4096  # the most masks cached for one constraint


def elements_of(attribute: DeviceAttribute, *, lists: bool) -> list[Element]:
    """The values of an attribute; none if it has no value of a known type (or only a list, and ``lists`` are off)."""
    if lists:
        if attribute.int_values:
            return [("int", value) for value in attribute.int_values]
        if attribute.bool_values:
            return [("bool", value) for value in attribute.bool_values]
        if attribute.string_values:
            return [("string", value) for value in attribute.string_values]
        if attribute.version_values:
            return [("version", value) for value in attribute.version_values]
    if attribute.string_value is not None and not lists:
        return [("string", attribute.string_value)]
    if attribute.int_value is not None:
        return [("int", attribute.int_value)]
    if attribute.bool_value is not None:
        return [("bool", attribute.bool_value)]
    if attribute.string_value is not None:
        return [("string", attribute.string_value)]
    if attribute.version_value is not None:
        return [("version", attribute.version_value)]
    if isinstance(attribute, UnknownAttribute):
        return [("unknown", attribute.binding_key)]
    return []


def static_attribute(device: PooledDevice, name: str) -> DeviceAttribute | None:
    """A published attribute by its full name, or by its bare one if the domain is the driver."""
    attributes = device.spec.attributes
    found = attributes.get(name)
    if found is not None:
        return found
    domain, slash, bare = name.partition("/")
    return attributes.get(bare) if slash and domain == device.id.driver else None


class AttributeValues:
    """The elements that each device holds for one attribute, for one shape of ask."""

    __slots__ = ("errors", "held", "holders", "present", "unknown")

    def __init__(self) -> None:
        self.held: list[int] = []  # per device: bit set of elements; 0 if it has none
        self.holders: dict[int, int] = {}  # element → bit set of devices
        self.present = 0  # devices that have the attribute
        self.unknown = 0  # those of them whose value has no known type
        self.errors: dict[int, AllocationError] = {}  # devices for which the value cannot be computed


class Constraint:
    """One relation over the devices of one site.

    Its state in a search is one int: FREE while it binds no device, then the pin or the spent elements. The search
    keeps it, so a constraint can serve many searches.
    """

    def __init__(self, relation: Relation, *, lists: bool) -> None:
        self.relation = relation
        self.distinct = relation.distinct
        self.holders: dict[int, int] = {}  # element → bit set of devices, over all values read
        self._lists = lists
        self._numbers: dict[Element, int] = {}
        self._allowed: dict[tuple[int, int], int] = {}

    def read(
        self,
        devices: Sequence[PooledDevice],
        attribute: Callable[[PooledDevice], DeviceAttribute | AllocationError | None],
    ) -> AttributeValues:
        """The elements of every device."""
        values = AttributeValues()
        for position, device in enumerate(devices):
            found = attribute(device)
            bits = 0
            if isinstance(found, AllocationError):
                values.errors[position] = found
            elif found is not None:
                for element in elements_of(found, lists=self._lists):
                    number = self._numbers.setdefault(element, len(self._numbers))
                    bits |= 1 << number
                    values.holders[number] = values.holders.get(number, 0) | 1 << position
                    self.holders[number] = self.holders.get(number, 0) | 1 << position
                if bits:
                    values.present |= 1 << position
                elif not self._lists:
                    # Without lists, a value of unknown type passes as the first device and never after.
                    values.present |= 1 << position
                    values.unknown |= 1 << position
            values.held.append(bits)
        return values

    def allowed(self, values: AttributeValues, state: int) -> int:
        """The devices that may come next."""
        if state == FREE:
            return values.present
        key = (id(values), state)
        mask = self._allowed.get(key)
        if mask is None:
            if len(self._allowed) >= _MASKS_REMEMBERED:
                self._allowed.clear()
            mask = self._allowed[key] = self._compute(values, state)
        return mask

    def _compute(self, values: AttributeValues, state: int) -> int:
        holders = 0
        while state:
            lowest = state & -state
            state ^= lowest
            holders |= values.holders.get(lowest.bit_length() - 1, 0)
        if self.distinct:
            return values.present & ~holders & ~values.unknown
        return holders

    def joined(self, values: AttributeValues, position: int, state: int) -> int:
        """The state once a device, which must be allowed, is chosen."""
        held = values.held[position]
        if state == FREE:
            return held
        return state | held if self.distinct else state & held
