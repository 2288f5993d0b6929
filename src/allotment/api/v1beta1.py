"""resource.k8s.io/v1beta1 documents in the form of v1.

v1beta1 differs in two places: a device's content stands under ``basic``, and what v1 puts under a request's
``exactly`` stands in the request itself. Everything else, unknown and wrong fields included, is carried over
as it is, so that what reads the result can report it. Nothing is changed in place.
"""

from collections.abc import Callable
from typing import Any

from allotment.api.resource import API_VERSION as V1

API_VERSION = "resource.k8s.io/v1beta1"

_EXACT = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")

_Change = Callable[[Any], Any]


def to_v1(document: dict[str, Any]) -> dict[str, Any]:
    """A ResourceSlice, ResourceClaim, ResourceClaimTemplate or DeviceClass of v1beta1 as one of v1."""
    path, change = _CHANGES.get(document.get("kind", ""), ((), None))
    changed = _within(document, path, _each(change)) if change else document
    return {**changed, "apiVersion": V1}


def _device(device: Any) -> Any:
    if not isinstance(device, dict) or not isinstance(device.get("basic"), dict):
        return device
    rest = {name: value for name, value in device.items() if name != "basic"}
    return {**device["basic"], **rest}


def _request(request: Any) -> Any:
    if not isinstance(request, dict):
        return request
    exact = {name: request[name] for name in _EXACT if name in request}
    rest = {name: value for name, value in request.items() if name not in exact}
    return {**rest, "exactly": exact} if exact else rest


def _each(change: _Change) -> _Change:
    return lambda items: [change(item) for item in items] if isinstance(items, list) else items


def _within(value: Any, path: tuple[str, ...], change: _Change) -> Any:
    """A copy of ``value`` with ``change`` applied to the field at ``path``, if there is one."""
    if not path:
        return change(value)
    if not isinstance(value, dict) or path[0] not in value:
        return value
    return {**value, path[0]: _within(value[path[0]], path[1:], change)}


_CHANGES: dict[str, tuple[tuple[str, ...], _Change]] = {
    "ResourceSlice": (("spec", "devices"), _device),
    "ResourceClaim": (("spec", "devices", "requests"), _request),
    "ResourceClaimTemplate": (("spec", "spec", "devices", "requests"), _request),
}
