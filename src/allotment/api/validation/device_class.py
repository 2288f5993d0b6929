"""DeviceClass: selectors, configuration and an extended resource name."""

from collections.abc import Iterator
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.names import extended_resource_problem
from allotment.api.resource import DeviceClass
from allotment.api.validation.configuration import CONFIGURATIONS, check_opaque, check_selectors
from allotment.api.validation.expressions import ExpressionChecker
from allotment.api.validation.lists import each
from allotment.api.validation.metadata import check_metadata
from allotment.api.validation.naming import formed

_SPEC: Final = FieldPath("spec")


def validate_class(device_class: DeviceClass, *, check: ExpressionChecker) -> list[FieldError]:
    """Everything that is wrong with a new or changed class. All of it may change."""
    return list(_check(device_class, check))


def _check(device_class: DeviceClass, check: ExpressionChecker) -> Iterator[FieldError]:
    spec = device_class.spec
    yield from check_metadata(device_class.metadata, namespaced=False)
    yield from check_selectors(spec.selectors, _SPEC.child("selectors"), check)
    yield from each(
        spec.config,
        _SPEC.child("config"),
        CONFIGURATIONS,
        lambda config, at: check_opaque(config.opaque, at),
    )
    if spec.extended_resource_name is not None:
        yield from formed(
            spec.extended_resource_name, _SPEC.child("extendedResourceName"), extended_resource_problem
        )
