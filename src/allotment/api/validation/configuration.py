"""Parts that classes and claims share: device selectors, and configuration for drivers."""

from collections.abc import Iterator
from typing import Final

import msgspec

from allotment.api.fields import FieldError, FieldPath
from allotment.api.resource import DeviceSelector, OpaqueDeviceConfiguration
from allotment.api.validation.expressions import ExpressionChecker, ExpressionUse, check_expression
from allotment.api.validation.lists import each
from allotment.api.validation.naming import check_driver

SELECTORS: Final = 32
CONFIGURATIONS: Final = 32
PARAMETERS_LENGTH: Final = 10 * 1024


def check_selectors(
    selectors: tuple[DeviceSelector, ...], path: FieldPath, check: ExpressionChecker
) -> Iterator[FieldError]:
    """Allows at most 32 selectors, each a CEL expression that compiles within the cost limit."""

    def check_selector(selector: DeviceSelector, at: FieldPath) -> Iterator[FieldError]:
        if selector.cel is None:
            yield at.child("cel").required("is required: a selector is a CEL expression")
        else:
            expression = at.child("cel", "expression")
            yield from check_expression(selector.cel.expression, ExpressionUse.SELECTOR, expression, check)

    return each(selectors, path, SELECTORS, check_selector)


def check_opaque(opaque: OpaqueDeviceConfiguration | None, path: FieldPath) -> Iterator[FieldError]:
    """Requires a driver and a JSON object of at most 10 KiB."""
    if opaque is None:
        yield path.child("opaque").required("is required: it is the only kind of configuration")
        return
    yield from check_driver(opaque.driver, path.child("opaque", "driver"))
    yield from check_raw_object(opaque.parameters, path.child("opaque", "parameters"))


def check_raw_object(value: object, path: FieldPath) -> Iterator[FieldError]:
    """Requires a JSON object that only a driver understands; the limit applies to its compact text."""
    if value is None:
        yield path.required("is required: a JSON object")
    elif not isinstance(value, dict):
        yield path.invalid("must be a JSON object")
    elif (length := _json_length(value)) is None:
        yield path.invalid(
            "must be plain JSON, not nested beyond measure and with numbers of at most 64 bits"
        )
    elif length > PARAMETERS_LENGTH:
        yield path.too_long(PARAMETERS_LENGTH)


def _json_length(value: object) -> int | None:
    try:
        return len(msgspec.json.encode(value))
    except (RecursionError, OverflowError, TypeError):
        return None
