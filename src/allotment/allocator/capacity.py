"""How much of a device's capacity a request takes, by the device's own policy.

Without a request, the policy's default applies, else the whole capacity. A range rounds a request up to ``min + k·step``,
a list of values to the next larger one. If the result is outside the policy, the device is unsuitable. If it is negative
or does not fit 64 bits, the claim or slice is broken, so that is an error and not a "no".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from allotment.allocator.errors import ClaimError
from allotment.api.quantity import Quantity

if TYPE_CHECKING:
    from allotment.api.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity

_MAX = 2**63 - 1
_MILLI = 10**6  # billionths in a thousandth


def consumption(
    requests: Mapping[str, Quantity], capacity: Mapping[str, DeviceCapacity], *, fractional: bool
) -> dict[str, Quantity] | None:
    """What a request takes of each capacity, or None if the device's policy or lack of a capacity forbids it.

    It does not check whether that much is left. Raises ClaimError for amounts that cannot be represented.
    """
    if any(name not in capacity for name in requests):
        return None
    taken: dict[str, Quantity] = {}
    for name, offered in capacity.items():
        try:
            amount = _amount(requests.get(name), offered, fractional)
        except OverflowError as exc:
            raise ClaimError(f'capacity "{name}": {exc}') from exc
        if amount.sign < 0:
            raise ClaimError(f'capacity "{name}": capacity value is negative: {amount}')
        taken[name] = amount
    for name, offered in capacity.items():
        amount, policy = taken[name], offered.request_policy
        if policy is not None and not _is_default(amount, policy) and _violates(amount, policy, fractional):
            return None
    return taken


def _amount(requested: Quantity | None, offered: DeviceCapacity, fractional: bool) -> Quantity:
    policy = offered.request_policy
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else offered.value
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up(requested, policy.valid_range, policy.valid_range.min, fractional)
    for value in policy.valid_values:
        if requested <= value:
            return value
    return requested


def _round_up(
    requested: Quantity, valid: CapacityRequestPolicyRange, low: Quantity, fractional: bool
) -> Quantity:
    if requested < low:
        return low
    step = valid.step
    if step is None:
        return requested
    unrepresentable = "capacity request cannot be represented in the device's range arithmetic: "
    if _in_thousandths(valid, fractional):
        milli = _milli(requested)
        if milli is None:
            raise OverflowError(f"{unrepresentable}{requested} is not a whole number of thousandths")
        rounded = _next_step(milli, low.nanos // _MILLI, step.nanos // _MILLI)
        if rounded > _MAX:
            raise OverflowError(f"{unrepresentable}rounding {requested} up to the next step passes 64 bits")
        if rounded % 1000 == 0:
            return Quantity.of(rounded // 1000, step.format)
        return Quantity(rounded * _MILLI, step.format, -3)
    if requested.nanos > _MAX * 10**9:
        raise OverflowError(f"{unrepresentable}{requested} is more than 64 bits hold")
    if step.value() == 0:
        raise OverflowError(f"{unrepresentable}the step of the range is zero")
    rounded = _next_step(requested.value(), low.value(), step.value())
    if rounded > _MAX:
        raise OverflowError(f"{unrepresentable}rounding {requested} up to the next step passes 64 bits")
    return Quantity.of(rounded, step.format)


def _next_step(wanted: int, low: int, step: int) -> int:
    return low + -((low - wanted) // step) * step


def _in_thousandths(valid: CapacityRequestPolicyRange, fractional: bool) -> bool:
    """Whether ranges count in thousandths, which must be exact for all bounds, or else in whole units."""
    if not fractional:
        return False
    bounds = [bound for bound in (valid.min, valid.max, valid.step) if bound is not None]
    if any(_milli(bound) is None for bound in bounds):
        return False
    return valid.step is None or valid.step.nanos >= _MILLI


def _milli(amount: Quantity) -> int | None:
    milli, rest = divmod(amount.nanos, _MILLI)
    return milli if rest == 0 and abs(milli) <= _MAX else None


def _is_default(amount: Quantity, policy: CapacityRequestPolicy) -> bool:
    """Whether the amount is the policy's default, which need not satisfy the policy itself.

    Upstream recognises the default by its notation, so an equal amount that is written or computed in another way must
    satisfy the policy; equal texts are parsed to one object. (Upstream never recognises amounts that need more than 64
    bits or a binary fraction.)
    """
    return amount is policy.default and not amount.wide


def _violates(amount: Quantity, policy: CapacityRequestPolicy, fractional: bool) -> bool:
    if policy.valid_range is not None:
        return _outside(amount, policy.valid_range, fractional)
    return bool(policy.valid_values) and amount not in policy.valid_values


def _outside(amount: Quantity, valid: CapacityRequestPolicyRange, fractional: bool) -> bool:
    if valid.max is not None and amount > valid.max:
        return True
    if valid.step is None or valid.min is None:
        return False
    if _in_thousandths(valid, fractional):
        milli = _milli(amount)
        return milli is None or (milli - valid.min.nanos // _MILLI) % (valid.step.nanos // _MILLI) != 0
    step = valid.step.value()
    return step == 0 or (amount.value() - valid.min.value()) % step != 0
