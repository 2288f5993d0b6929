"""What a request takes of a device's capacities, by their policies."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.bruteforce.pools import Fatal
from tests.bruteforce.quantity import exact

Json = dict[str, Any]
MOST = 2**63 - 1


@dataclass(frozen=True)
class Amount:
    """``text`` is set where the amount is copied unchanged from the request or the policy's default."""

    value: Fraction
    text: str | None = None


def taken(ask: Json, device: Json, fractional: bool) -> dict[str, Amount] | None:
    """What one share takes of each capacity, or None if the device lacks one that is asked for."""
    wanted = (ask.get("capacity") or {}).get("requests") or {}
    capacities = device.get("capacity") or {}
    if any(name not in capacities for name in wanted):
        return None
    amounts = {name: _amount(wanted.get(name), capacity, fractional) for name, capacity in capacities.items()}
    if any(amount.value < 0 for amount in amounts.values()):
        raise Fatal("capacity value is negative")
    return amounts


def _amount(wanted: str | None, capacity: Json, fractional: bool) -> Amount:
    policy: Json = capacity.get("requestPolicy") or {}
    if wanted is None:
        text: str = policy.get("default") or capacity["value"]
        return Amount(exact(text), text)
    value = exact(wanted)
    bounds = policy.get("validRange") or {}
    if "min" in bounds:
        return _rounded(Amount(value, wanted), bounds, fractional)
    for valid in policy.get("validValues", []):
        if value <= exact(valid):
            return Amount(exact(valid), valid)
    return Amount(value, wanted)


def _rounded(wanted: Amount, bounds: Json, fractional: bool) -> Amount:
    low = exact(bounds["min"])
    if wanted.value < low:
        return Amount(low, bounds["min"])
    if "step" not in bounds:
        return wanted
    unit = _unit(bounds, fractional)
    if (unit == Fraction(1, 1000) and (wanted.value / unit).denominator != 1) or wanted.value / unit > MOST:
        raise Fatal("capacity request cannot be represented")
    asked, start, step = (math.ceil(q / unit) for q in (wanted.value, low, exact(bounds["step"])))
    rounded = start + step * math.ceil(Fraction(asked - start, step))
    if rounded > MOST:
        raise Fatal("capacity request cannot be represented")
    return Amount(rounded * unit)


def _unit(bounds: Json, fractional: bool) -> Fraction:
    """Ranges are computed in thousandths if all their numbers are whole thousandths, else in rounded-up units."""
    milli = Fraction(1, 1000)
    numbers = [exact(bounds[key]) / milli for key in ("min", "max", "step") if key in bounds]
    fits = all(number.denominator == 1 and abs(number) <= MOST for number in numbers)
    return milli if fractional and fits and exact(bounds["step"]) >= milli else Fraction(1)


def allowed(amount: Amount, policy: Json | None, fractional: bool) -> bool:
    """Whether the policy lets a share take this. The default is exempt, but only as the very same text."""
    if not policy:
        return True
    default = policy.get("default")
    if default is not None and amount.text == default and not ("." in default and default.endswith("i")):
        return True
    bounds = policy.get("validRange")
    if bounds is not None:
        if "max" in bounds and amount.value > exact(bounds["max"]):
            return False
        if "step" not in bounds:
            return True
        unit = _unit(bounds, fractional)
        if unit != 1 and (amount.value / unit).denominator != 1:
            return False
        value, start, step = (
            math.ceil(q / unit) for q in (amount.value, exact(bounds["min"]), exact(bounds["step"]))
        )
        return (value - start) % step == 0
    values = policy.get("validValues")
    return not values or any(amount.value == exact(valid) for valid in values)


def fits(
    ask: Json, device: Json, held: list[dict[str, Fraction]], fractional: bool
) -> dict[str, Amount] | None:
    """What a share takes if policies and what others hold leave room for it, else None."""
    amounts = taken(ask, device, fractional)
    if amounts is None:
        return None
    for name, capacity in (device.get("capacity") or {}).items():
        if not allowed(amounts[name], capacity.get("requestPolicy"), fractional):
            return None
        in_use = sum((share.get(name, Fraction(0)) for share in held), Fraction(0))
        if in_use + amounts[name].value > exact(capacity["value"]):
            return None
    return amounts
