"""Capacities of a device, and the policy by which a shared device divides them.

A policy has valid values or a valid range, not both. With either of them it also has a default, which it must itself
allow. Arithmetic on ranges is exact; as in Kubernetes, their bounds must fit an int64 as whole units or as
thousandths, because schedulers compute in those.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from allotment.api.fields import FieldError, FieldPath
from allotment.api.quantity import Quantity
from allotment.api.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from allotment.api.validation.lists import repeated

VALID_VALUES: Final = 10

_UNIT: Final = 10**9
_MILLI: Final = 10**6
_INT64_MAX: Final = 2**63 - 1


def check_capacity(capacity: DeviceCapacity, path: FieldPath, *, shared: bool) -> Iterator[FieldError]:
    """Allows a policy only if the device may be allocated several times, and requires it to be consistent."""
    policy = capacity.request_policy
    if policy is None:
        return
    at = path.child("requestPolicy")
    if not shared:
        yield at.forbidden("must not be set unless the device has allowMultipleAllocations: true")
    elif policy.valid_values and policy.valid_range is not None:
        yield at.forbidden("must have one of validValues and validRange, not both")
    elif policy.valid_values:
        yield from _check_values(policy, capacity.value, at)
    elif policy.valid_range is not None:
        yield from _check_range_policy(policy.valid_range, policy.default, capacity.value, at)


def _check_values(policy: CapacityRequestPolicy, whole: Quantity, path: FieldPath) -> Iterator[FieldError]:
    values, at = policy.valid_values, path.child("validValues")
    if policy.default is None:
        yield path.child("default").required("is required with validValues")
        return
    if len(values) > VALID_VALUES:
        yield at.too_many(len(values), VALID_VALUES)
    else:
        yield from _check_each_value(values, whole, at)
    if policy.default not in values:
        yield at.invalid(f"must contain the default {policy.default}", str(policy.default))


def _check_each_value(values: tuple[Quantity, ...], whole: Quantity, at: FieldPath) -> Iterator[FieldError]:
    for index, (value, following) in enumerate(pairwise(values)):
        if value > following:
            yield at.index(index + 1).invalid("must be in ascending order", str(following))
    yield from repeated(values, at)
    for index, value in enumerate(values):
        if value > whole:
            yield at.index(index).invalid(f"must not be larger than the capacity {whole}", str(value))


def _check_range_policy(
    bounds: CapacityRequestPolicyRange, default: Quantity | None, whole: Quantity, path: FieldPath
) -> Iterator[FieldError]:
    at = path.child("validRange")
    if default is None:
        yield path.child("default").required("is required with validRange")
    elif bounds.min is None:
        yield at.child("min").required()
    else:
        yield from _check_bounds(bounds, bounds.min, default, whole, at)
        yield from _check_step(bounds, bounds.min, default, whole, at)


def _check_bounds(
    bounds: CapacityRequestPolicyRange, least: Quantity, default: Quantity, whole: Quantity, path: FieldPath
) -> Iterator[FieldError]:
    most = bounds.max
    if least > whole:
        yield path.child("min").invalid(f"must not be larger than the capacity {whole}", str(least))
    if default < least:
        yield path.child("default").invalid(f"must not be smaller than min {least}", str(default))
    if most is None:
        return
    if least > most:
        yield path.child("max").invalid(f"must not be smaller than min {least}", str(most))
    if most > whole:
        yield path.child("max").invalid(f"must not be larger than the capacity {whole}", str(most))
    if default > most:
        yield path.child("default").invalid(f"must not be larger than max {most}", str(default))


def _check_step(
    bounds: CapacityRequestPolicyRange, least: Quantity, default: Quantity, whole: Quantity, path: FieldPath
) -> Iterator[FieldError]:
    named = {"default": default, "min": least, "max": bounds.max, "step": bounds.step}
    given = {name: quantity for name, quantity in named.items() if quantity is not None}
    fractional = any(quantity.nanos % _UNIT for quantity in given.values())
    unit = _MILLI if fractional else _UNIT
    step = bounds.step
    if step is not None and step.sign <= 0:
        yield path.child("step").invalid("must be greater than zero", str(step))
        return
    unsound = [
        path.child(name).invalid(problem, str(quantity))
        for name, quantity in given.items()
        if (fractional or step is not None) and (problem := _out_of_range(quantity, unit))
    ]
    yield from unsound
    if step is None or unsound:
        return
    if least + step > whole:
        yield path.child("step").invalid(
            f"must not lead from min {least} beyond the capacity {whole}", str(step)
        )
    for name in ("default", "max"):
        if name in given and (given[name] - least).nanos % step.nanos:
            yield path.child("step").invalid(
                f"must divide the distance from min {least} to {name} {given[name]}", str(step)
            )


def _out_of_range(quantity: Quantity, unit: int) -> str | None:
    """Why schedulers cannot compute with the amount in whole units of ``unit`` billionths."""
    if quantity.nanos % unit:
        return "must be a whole number of thousandths"
    if quantity.nanos // unit > _INT64_MAX:
        return f"must not be larger than {_INT64_MAX} in {'thousandths' if unit == _MILLI else 'units'}"
    if unit == _UNIT and quantity.sign < 0:
        return "must not be negative"
    return None
