"""DeviceTaintRule: a taint for devices by driver, pool and name."""

from collections.abc import Iterator
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import dns_label_problem, driver_problem, pool_problem
from allotment.api.resource import DeviceTaintRule, DeviceTaintSelector
from allotment.api.validation.lists import named
from allotment.api.validation.metadata import check_conditions, check_metadata
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
    for field, name, problem_of in (
        ("driver", selector.driver, driver_problem),
        ("pool", selector.pool, pool_problem),
        ("device", selector.device, dns_label_problem),
    ):
        if name is not None:
            yield from named(name, path.child(field), problem_of)
