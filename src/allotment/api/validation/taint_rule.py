"""DeviceTaintRule: a taint for devices that it selects by driver, pool and name."""

from collections.abc import Iterator
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.resource import DeviceTaintRule, DeviceTaintSelector
from allotment.api.validation.metadata import check_conditions, check_metadata
from allotment.api.validation.naming import check_driver, check_label, check_pool
from allotment.api.validation.taint import check_taint

_SPEC: Final = FieldPath("spec")


def validate_taint_rule(rule: DeviceTaintRule) -> list[FieldError]:
    """Everything that is wrong with a rule and its status. All of it may change."""
    return [
        *check_metadata(rule.metadata, namespaced=False),
        *_check_selector(rule.spec.device_selector, _SPEC.child("deviceSelector")),
        *check_taint(rule.spec.taint, _SPEC.child("taint")),
        *check_conditions(rule.status.conditions, FieldPath("status", "conditions")),
    ]


def _check_selector(selector: DeviceTaintSelector | None, path: FieldPath) -> Iterator[FieldError]:
    if selector is None:
        return
    for field, name, check in (
        ("driver", selector.driver, check_driver),
        ("pool", selector.pool, check_pool),
        ("device", selector.device, check_label),
    ):
        if name is not None:
            yield from check(name, path.child(field))
