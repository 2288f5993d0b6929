"""Fills in Kubernetes' defaults on plain JSON in place, as an API server does before it validates.

The rules are those of ``defaults``, which completes typed objects. A server must not lose fields that the types do
not know, so it cannot use those. Input may have any shape: values of a wrong type are left alone, for validation to
report. A test compares the two modules.
"""

from collections.abc import Iterator
from typing import Any

Obj = dict[str, Any]


def default_claim(claim: Obj) -> None:
    """Requests: allocationMode ExactCount, count 1, toleration operator Equal, also in the results."""
    _default_devices(_inner(claim, "spec", "devices"))
    default_claim_status(claim)


def default_claim_status(claim: Obj) -> None:
    """Completes only the allocation results in a claim's status."""
    for result in _entries(_inner(claim, "status", "allocation", "devices"), "results"):
        _default_tolerations(result)


def default_template(template: Obj) -> None:
    """The same defaults as for the claims that will be made from it."""
    _default_devices(_inner(template, "spec", "spec", "devices"))


def default_slice(slice_: Obj, now: str) -> None:
    """Taints: timeAdded."""
    for device in _entries(_inner(slice_, "spec"), "devices"):
        for taint in _entries(device, "taints"):
            _default_taint(taint, now)


def default_taint_rule(rule: Obj, now: str) -> None:
    """The taint's timeAdded."""
    taint = _inner(rule, "spec", "taint")
    if taint is not None:
        _default_taint(taint, now)


def _default_devices(devices: Obj | None) -> None:
    for request in _entries(devices, "requests"):
        exactly = request.get("exactly")
        if isinstance(exactly, dict):
            _default_wish(exactly)
        for alternative in _entries(request, "firstAvailable"):
            _default_wish(alternative)


def _default_wish(wish: Obj) -> None:
    mode = wish.get("allocationMode") or "ExactCount"
    wish["allocationMode"] = mode
    if mode == "ExactCount" and not wish.get("count"):
        wish["count"] = 1  # Kubernetes cannot tell a count of 0 from an absent one
    _default_tolerations(wish)


def _default_tolerations(owner: Obj) -> None:
    for toleration in _entries(owner, "tolerations"):
        toleration["operator"] = toleration.get("operator") or "Equal"


def _default_taint(taint: Obj, now: str) -> None:
    taint["timeAdded"] = taint.get("timeAdded") or now


def _inner(value: Any, *path: str) -> Obj | None:
    """The object at the path, if there is one."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def _entries(owner: Obj | None, name: str) -> Iterator[Obj]:
    """The objects in a list, if there is one."""
    entries = owner.get(name) if owner is not None else None
    return (entry for entry in entries if isinstance(entry, dict)) if isinstance(entries, list) else iter(())
