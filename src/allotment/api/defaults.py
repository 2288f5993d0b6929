"""The values that Kubernetes fills in for omitted fields: pure functions from an object to the complete object.

Only the kinds below have defaults. A complete object comes back as the same object. Nothing here reads a clock: the
time at which a taint was added is an argument, an RFC 3339 string in whole seconds.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from allotment.api import semantic
from allotment.api.meta import ApiStruct
from allotment.api.resource import (
    Device,
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    DeviceTaint,
    DeviceTaintRule,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

T = TypeVar("T")
S = TypeVar("S", bound=ApiStruct)
Wish = TypeVar("Wish", ExactDeviceRequest, DeviceSubRequest)


def with_defaults(obj: T, *, now: str) -> T:
    """The object complete, whatever its kind."""
    complete = _DEFAULTING.get(type(obj))
    return obj if complete is None else complete(obj, now)


def default_claim(claim: ResourceClaim) -> ResourceClaim:
    """Requests: allocationMode ExactCount, count 1, toleration operator Equal, also in the results."""
    claim = _changed(claim, spec=_changed(claim.spec, devices=_devices(claim.spec.devices)))
    allocation = claim.status.allocation
    if allocation is None:
        return claim
    results = _mapped(allocation.devices.results, _result)
    devices = _changed(allocation.devices, results=results)
    return _changed(claim, status=_changed(claim.status, allocation=_changed(allocation, devices=devices)))


def default_template(template: ResourceClaimTemplate) -> ResourceClaimTemplate:
    """The same defaults as for the claims that will be made from it."""
    inner = template.spec.spec
    spec = _changed(template.spec, spec=_changed(inner, devices=_devices(inner.devices)))
    return _changed(template, spec=spec)


def default_slice(slice_: ResourceSlice, *, now: str) -> ResourceSlice:
    """Taints: timeAdded."""

    def device(device: Device) -> Device:
        return _changed(device, taints=_mapped(device.taints, lambda taint: _taint(taint, now)))

    return _changed(slice_, spec=_changed(slice_.spec, devices=_mapped(slice_.spec.devices, device)))


def default_taint_rule(rule: DeviceTaintRule, *, now: str) -> DeviceTaintRule:
    """The taint's timeAdded."""
    return _changed(rule, spec=_changed(rule.spec, taint=_taint(rule.spec.taint, now)))


def default_semantic_claim(claim: semantic.ResourceClaim) -> semantic.ResourceClaim:
    """allocationMode WaitForFirstConsumer."""
    return _changed(claim, spec=_semantic_spec(claim.spec))


def default_semantic_template(template: semantic.ResourceClaimTemplate) -> semantic.ResourceClaimTemplate:
    """The same defaults as for the claims that will be made from it."""
    return _changed(template, spec=_changed(template.spec, spec=_semantic_spec(template.spec.spec)))


def _devices(claim: DeviceClaim) -> DeviceClaim:
    return _changed(claim, requests=_mapped(claim.requests, _request))


def _request(request: DeviceRequest) -> DeviceRequest:
    exactly = _wish(request.exactly) if request.exactly is not None else None
    return _changed(request, exactly=exactly, first_available=_mapped(request.first_available, _wish))


def _wish(wish: Wish) -> Wish:
    mode = wish.allocation_mode or "ExactCount"
    count = wish.count
    if mode == "ExactCount" and not count:
        count = 1  # Kubernetes cannot tell a count of 0 from an absent one
    tolerations = _mapped(wish.tolerations, _toleration)
    return _changed(wish, allocation_mode=mode, count=count, tolerations=tolerations)


def _result(result: DeviceRequestAllocationResult) -> DeviceRequestAllocationResult:
    return _changed(result, tolerations=_mapped(result.tolerations, _toleration))


def _toleration(toleration: DeviceToleration) -> DeviceToleration:
    return _changed(toleration, operator=toleration.operator or "Equal")


def _taint(taint: DeviceTaint, now: str) -> DeviceTaint:
    return _changed(taint, time_added=taint.time_added or now)


def _semantic_spec(spec: semantic.ResourceClaimSpec) -> semantic.ResourceClaimSpec:
    return _changed(spec, allocation_mode=spec.allocation_mode or "WaitForFirstConsumer")


def _changed(struct: S, **fields: Any) -> S:
    """The struct with these field values, or itself if it has them already."""
    changed = {name: value for name, value in fields.items() if getattr(struct, name) is not value}
    return replace(struct, **changed) if changed else struct


def _mapped(entries: tuple[T, ...], change: Callable[[T], T]) -> tuple[T, ...]:
    """The entries, each changed; the same tuple if none was."""
    changed = tuple(map(change, entries))
    return (
        entries if all(after is before for after, before in zip(changed, entries, strict=True)) else changed
    )


_DEFAULTING: Final[dict[type, Callable[[Any, str], Any]]] = {
    ResourceClaim: lambda obj, now: default_claim(obj),
    ResourceClaimTemplate: lambda obj, now: default_template(obj),
    ResourceSlice: lambda obj, now: default_slice(obj, now=now),
    DeviceTaintRule: lambda obj, now: default_taint_rule(obj, now=now),
    semantic.ResourceClaim: lambda obj, now: default_semantic_claim(obj),
    semantic.ResourceClaimTemplate: lambda obj, now: default_semantic_template(obj),
}
