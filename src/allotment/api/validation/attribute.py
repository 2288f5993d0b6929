"""Attributes of a device: their number and names, and that each has exactly one value of the right form.

Fleets have millions of attributes, nearly all of them plain: a number, a truth value or a short text. Those pass a
quick test; only the others get a close check with paths and messages.
"""

from collections.abc import Iterator, Sized
from typing import Final, Protocol

from msgspec.structs import astuple, fields

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import qualified_name_problem
from allotment.api.resource import Device, DeviceAttribute
from allotment.api.semver import is_version
from allotment.api.text import byte_length
from allotment.api.validation.naming import check_qualified_name

ATTRIBUTES_AND_CAPACITIES: Final = 32
ATTRIBUTE_VALUES: Final = 48
"""The most values of all attributes of a device, counting every entry of a list."""

ATTRIBUTE_LENGTH: Final = 64

_JSON_NAMES: Final = tuple(field.encode_name for field in fields(DeviceAttribute))


class Attributed(Protocol):
    """A device, or a template of one."""

    @property
    def attributes(self) -> Sized: ...
    @property
    def capacity(self) -> Sized: ...


def check_count(device: Attributed, path: FieldPath) -> Iterator[FieldError]:
    """How many attributes and capacities the device at ``path`` has."""
    count = len(device.attributes) + len(device.capacity)
    if count > ATTRIBUTES_AND_CAPACITIES:
        yield path.invalid(
            f"must not have more than {ATTRIBUTES_AND_CAPACITIES} attributes and capacities together, has {count}",
            count,
        )


def check_attributes(device: Device, path: FieldPath) -> Iterator[FieldError]:
    """The attributes of the device at ``path``; if there are too many, only that."""
    crowd = list(check_count(device, path))
    if crowd:
        yield from crowd
        return
    values = 0
    for name, attribute in device.attributes.items():
        plain = _is_plain(attribute)
        values += 1 if plain else _value_count(attribute)
        if not plain or qualified_name_problem(name) is not None:
            at = path.child("attributes")
            yield from check_qualified_name(name, at)
            yield from _check_attribute(attribute, at.key(name))
    if values > ATTRIBUTE_VALUES:
        yield path.invalid(
            f"must not have more than {ATTRIBUTE_VALUES} attribute values, counting list entries, has {values}",
            values,
        )


def is_list(attribute: DeviceAttribute) -> bool:
    """Whether the attribute has a list value, even an empty one."""
    return any(type(value) is tuple for value in astuple(attribute))


def _is_plain(attribute: DeviceAttribute) -> bool:
    given = [value for value in astuple(attribute) if value is not None]
    if len(given) != 1:
        return False
    value = given[0]
    if type(value) is str:
        return attribute.version_value is None and len(value) <= ATTRIBUTE_LENGTH and value.isascii()
    return type(value) is not tuple


def _value_count(attribute: DeviceAttribute) -> int:
    return sum(len(value) for value in astuple(attribute) if type(value) is tuple) or 1


def _check_attribute(attribute: DeviceAttribute, path: FieldPath) -> Iterator[FieldError]:
    given = {
        name: value for name, value in zip(_JSON_NAMES, astuple(attribute), strict=True) if value is not None
    }
    if sum(value != () for value in given.values()) != 1:
        found = " and ".join(given) or "none"
        yield path.invalid(f"must have exactly one value, has {found}", found)
    for name, value in given.items():
        at, version = path.child(name), name.startswith("version")
        if value == ():
            yield at.invalid("must not be an empty list: leave the attribute out")
        elif isinstance(value, str):
            yield from _check_text(value, at, version)
        elif name in ("strings", "versions"):
            for index, text in enumerate(value):
                yield from _check_text(text, at.index(index), version)


def _check_text(text: str, path: FieldPath, version: bool) -> Iterator[FieldError]:
    if byte_length(text) > ATTRIBUTE_LENGTH:
        yield path.too_long(ATTRIBUTE_LENGTH)
    if version and not is_version(text):
        yield path.invalid("must be a semantic version: MAJOR.MINOR.PATCH as in 1.2.3", text)
