"""Devices for tests: built from the JSON of the corpus or from a few words."""

from typing import Any

import msgspec

from allotment.api.quantity import Quantity
from allotment.api.resource import DeviceAttribute, DeviceCapacity

DRIVER = "dra.example.com"

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "bool": {"bool": True},
    "int": {"int": 1},
    "string": {"string": "fish"},
    "empty": {"string": ""},
    "version": {"version": "1.0.0"},
    "ints": {"ints": [3, 1, 2]},
    "strings": {"strings": ["a", "bb", "fish"]},
    "bools": {"bools": [True, False]},
    "versions": {"versions": ["1.0.0", "2.0.0"]},
    "other.example.com/int": {"int": 7},
    "other.example.com/string": {"string": "zz"},
}
CAPACITY: dict[str, dict[str, Any]] = {"mem": {"value": "1Mi"}, "cores": {"value": "4"}}
"""One device that has an attribute of every type, under its driver's domain and another's."""


def attributes(json: dict[str, Any] | None) -> dict[str, DeviceAttribute]:
    return msgspec.convert(json or {}, dict[str, DeviceAttribute])


def capacity(json: dict[str, Any] | None) -> dict[str, DeviceCapacity]:
    return {name: DeviceCapacity(value=Quantity.parse(item["value"])) for name, item in (json or {}).items()}
