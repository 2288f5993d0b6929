"""Defaulting: what is filled in, what is left alone."""

from typing import Any

import pytest

from allotment.api import resource, semantic
from allotment.api.codec import decode, to_builtins
from allotment.api.defaults import with_defaults

NOW = "2026-01-02T03:04:05Z"


def claim_asking(**fields: Any) -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", **fields}}
    return {"spec": {"devices": {"requests": [request]}}}


def alternative(**fields: Any) -> dict[str, Any]:
    sub = {"name": "s", "deviceClassName": "gpu", **fields}
    return {"spec": {"devices": {"requests": [{"name": "r", "firstAvailable": [sub]}]}}}


def result(**toleration: Any) -> dict[str, Any]:
    made = {"request": "r", "driver": "d", "pool": "p", "device": "x", "tolerations": [toleration]}
    return {"spec": {}, "status": {"allocation": {"devices": {"results": [made]}}}}


def tainted_slice(**taint: Any) -> dict[str, Any]:
    taints = [{"key": "a", "effect": "None", **taint}]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"spec": {"driver": "d", "pool": pool, "devices": [{"name": "x", "taints": taints}]}}


def rule(**taint: Any) -> dict[str, Any]:
    return {"spec": {"taint": {"key": "a", "effect": "None", **taint}}}


def template(spec: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"spec": spec["spec"]}}


# kind, as written, as completed
CASES: dict[str, tuple[type[Any], dict[str, Any], dict[str, Any]]] = {
    "mode and count": (
        resource.ResourceClaim,
        claim_asking(),
        claim_asking(allocationMode="ExactCount", count=1),
    ),
    "a count of zero is an absent one": (
        resource.ResourceClaim,
        claim_asking(count=0),
        claim_asking(allocationMode="ExactCount", count=1),
    ),
    "a count stays": (
        resource.ResourceClaim,
        claim_asking(count=-3),
        claim_asking(allocationMode="ExactCount", count=-3),
    ),
    "All has no count": (
        resource.ResourceClaim,
        claim_asking(allocationMode="All"),
        claim_asking(allocationMode="All"),
    ),
    "an unknown mode has no count": (
        resource.ResourceClaim,
        claim_asking(allocationMode="Some"),
        claim_asking(allocationMode="Some"),
    ),
    "alternatives": (
        resource.ResourceClaim,
        alternative(),
        alternative(allocationMode="ExactCount", count=1),
    ),
    "tolerations": (
        resource.ResourceClaim,
        claim_asking(allocationMode="All", tolerations=[{"key": "a"}, {"operator": "Exists"}]),
        claim_asking(
            allocationMode="All", tolerations=[{"key": "a", "operator": "Equal"}, {"operator": "Exists"}]
        ),
    ),
    "tolerations of results": (
        resource.ResourceClaim,
        result(key="a"),
        result(key="a", operator="Equal"),
    ),
    "templates": (
        resource.ResourceClaimTemplate,
        template(claim_asking()),
        template(claim_asking(allocationMode="ExactCount", count=1)),
    ),
    "taints of devices": (resource.ResourceSlice, tainted_slice(), tainted_slice(timeAdded=NOW)),
    "an older taint": (
        resource.ResourceSlice,
        tainted_slice(timeAdded="2020-01-01T00:00:00Z"),
        tainted_slice(timeAdded="2020-01-01T00:00:00Z"),
    ),
    "taint rules": (resource.DeviceTaintRule, rule(), rule(timeAdded=NOW)),
    "classes have none": (resource.DeviceClass, {"spec": {}}, {"spec": {}}),
    "v1alpha2 claims": (
        semantic.ResourceClaim,
        {"spec": {"resourceClassName": "a"}},
        {"spec": {"resourceClassName": "a", "allocationMode": "WaitForFirstConsumer"}},
    ),
    "v1alpha2 templates": (
        semantic.ResourceClaimTemplate,
        template({"spec": {"resourceClassName": "a"}}),
        template({"spec": {"resourceClassName": "a", "allocationMode": "WaitForFirstConsumer"}}),
    ),
}


@pytest.mark.parametrize(("kind", "written", "completed"), CASES.values(), ids=CASES.keys())
def test_defaults(kind: type[Any], written: dict[str, Any], completed: dict[str, Any]) -> None:
    obj, expected = decode(kind, written), decode(kind, completed)
    complete = with_defaults(obj, now=NOW)
    assert to_builtins(complete) == to_builtins(expected)
    assert with_defaults(complete, now="2030-01-01T00:00:00Z") is complete
