"""resource.k8s.io/v1beta1 documents as v1, and back.

v1beta1 differs in three places: a device's content stands under ``basic``; what v1 puts under a request's
``exactly`` stands in the request itself; in a slice, an empty ``nodeName`` and ``allNodes: false`` mean "absent".
Everything else, including unknown and wrong fields, is carried over as it is, so that the reader of the result can
report it. Nothing is changed in place.
"""

from collections.abc import Callable
from typing import Any

from allotment.api.conversion import Document, renamed
from allotment.api.resource import API_VERSION as V1

API_VERSION = "resource.k8s.io/v1beta1"

_EXACT = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)

_Change = Callable[[Any], Any]


def to_v1(document: Document) -> Document:
    """A ResourceSlice, ResourceClaim, ResourceClaimTemplate or DeviceClass of v1beta1 as one of v1."""
    kind = document.get("kind")
    if kind == "ResourceSlice":
        document = _within(document, ("spec",), _without_zeros)
    return renamed(_changed(document, kind, device=_device, request=_request), V1)


def from_v1(document: Document) -> Document:
    """The same kinds of v1 as v1beta1."""
    kind = document.get("kind")
    return renamed(_changed(document, kind, device=_basic_device, request=_flat_request), API_VERSION)


def _changed(document: Document, kind: Any, *, device: _Change, request: _Change) -> Document:
    changed: Document = document
    if kind == "ResourceSlice":
        changed = _within(document, ("spec", "devices"), _each(device))
    elif kind == "ResourceClaim":
        changed = _within(document, ("spec", "devices", "requests"), _each(request))
    elif kind == "ResourceClaimTemplate":
        changed = _within(document, ("spec", "spec", "devices", "requests"), _each(request))
    return changed


def _without_zeros(spec: Any) -> Any:
    zeros = (("nodeName", ""), ("allNodes", False))
    gone = {name for name, zero in zeros if isinstance(spec, dict) and spec.get(name) == zero}
    return {name: value for name, value in spec.items() if name not in gone} if gone else spec


def _device(device: Any) -> Any:
    if not isinstance(device, dict) or not isinstance(device.get("basic"), dict):
        return device
    rest = {name: value for name, value in device.items() if name != "basic"}
    return {**device["basic"], **rest}


def _basic_device(device: Any) -> Any:
    if not isinstance(device, dict):
        return device
    named = {"name": device["name"]} if "name" in device else {}
    return {**named, "basic": {name: value for name, value in device.items() if name != "name"}}


def _request(request: Any) -> Any:
    if not isinstance(request, dict):
        return request
    exact = {name: request[name] for name in _EXACT if name in request}
    rest = {name: value for name, value in request.items() if name not in exact}
    return {**rest, "exactly": exact} if exact else rest


def _flat_request(request: Any) -> Any:
    if not isinstance(request, dict) or not isinstance(request.get("exactly"), dict):
        return request
    rest = {name: value for name, value in request.items() if name != "exactly"}
    return {**rest, **request["exactly"]}


def _each(change: _Change) -> _Change:
    return lambda items: [change(item) for item in items] if isinstance(items, list) else items


def _within(value: Any, path: tuple[str, ...], change: _Change) -> Any:
    """A copy of ``value`` with ``change`` applied to the field at ``path``, if there is one."""
    if not path:
        return change(value)
    if not isinstance(value, dict) or path[0] not in value:
        return value
    return {**value, path[0]: _within(value[path[0]], path[1:], change)}
