"""Device classes and taint rules: one row per rule."""

from typing import Any

import pytest

from allotment.api.codec import decode
from allotment.api.resource import DeviceClass, DeviceTaintRule
from allotment.api.validation import validate_class, validate_taint_rule
from tests.api.validation.builders import check, opaque, shown

CLASSES: dict[str, tuple[Any, list[str]]] = {
    "empty": ({}, []),
    "everything": (
        {
            "selectors": [{"cel": {"expression": "true"}}],
            "config": [opaque()],
            "extendedResourceName": "example.com/gpu",
        },
        [],
    ),
    "33 selectors": (
        {"selectors": [{"cel": {"expression": "true"}}] * 33},
        ["spec.selectors: too_many"],
    ),
    "selector that does not compile": (
        {"selectors": [{"cel": {"expression": "broken"}}]},
        ["spec.selectors[0].cel.expression: invalid"],
    ),
    "33 configurations": ({"config": [opaque()] * 33}, ["spec.config: too_many"]),
    "empty configuration": ({"config": [{}]}, ["spec.config[0].opaque: required"]),
    "resource without domain": (
        {"extendedResourceName": "gpu"},
        ["spec.extendedResourceName: invalid"],
    ),
    "resource of Kubernetes": (
        {"extendedResourceName": "kubernetes.io/gpu"},
        ["spec.extendedResourceName: invalid"],
    ),
    "resource of quotas": (
        {"extendedResourceName": "requests.example.com/gpu"},
        ["spec.extendedResourceName: invalid"],
    ),
}


@pytest.mark.parametrize(("spec", "errors"), CLASSES.values(), ids=CLASSES.keys())
def test_class(spec: Any, errors: list[str]) -> None:
    given = decode(DeviceClass, {"metadata": {"name": "gpu"}, "spec": spec})
    assert shown(validate_class(given, check=check)) == errors


TAINT = {"key": "a.example.com/bad", "value": "x", "effect": "NoSchedule"}
RULES: dict[str, tuple[Any, list[str]]] = {
    "no device": ({"taint": TAINT}, []),
    "all devices": ({"taint": TAINT, "deviceSelector": {}}, []),
    "one device": (
        {"taint": TAINT, "deviceSelector": {"driver": "a.example.com", "pool": "p/q", "device": "d"}},
        [],
    ),
    "no taint": ({}, ["spec.taint.key: invalid", "spec.taint.effect: required"]),
    "broken selector": (
        {"taint": TAINT, "deviceSelector": {"driver": "_", "pool": "P", "device": ""}},
        [
            "spec.deviceSelector.driver: invalid",
            "spec.deviceSelector.pool: invalid",
            "spec.deviceSelector.device: invalid",
        ],
    ),
}


@pytest.mark.parametrize(("spec", "errors"), RULES.values(), ids=RULES.keys())
def test_taint_rule(spec: Any, errors: list[str]) -> None:
    given = decode(DeviceTaintRule, {"metadata": {"name": "rule"}, "spec": spec})
    assert shown(validate_taint_rule(given)) == errors


def test_status_of_a_taint_rule() -> None:
    conditions = [{"type": f"T{n}"} for n in range(9)]
    given = decode(
        DeviceTaintRule,
        {"metadata": {"name": "r"}, "spec": {"taint": TAINT}, "status": {"conditions": conditions}},
    )
    assert shown(validate_taint_rule(given)) == ["status.conditions: too_many"]
