"""Usage the dumb way, for pools of v1: every question is answered from all objects, device by device. Nothing of the allocator
is used. Compatibility groups are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from allotment.api.resource import Device, DeviceTaintRule, ResourceClaim, ResourceSlice

Pool = tuple[str, str]


def pool_of(slice_: ResourceSlice) -> Pool:
    return slice_.spec.driver, slice_.spec.pool.name


def states(
    slices: Sequence[ResourceSlice], claims: Sequence[ResourceClaim], rules: Sequence[DeviceTaintRule]
) -> dict[Pool, dict[str, str]]:
    """The state of each device of each pool."""
    return {pool: _pool(pool, slices, claims, rules) for pool in sorted({pool_of(each) for each in slices})}


def _pool(
    pool: Pool,
    slices: Sequence[ResourceSlice],
    claims: Sequence[ResourceClaim],
    rules: Sequence[DeviceTaintRule],
) -> dict[str, str]:
    mine = [each for each in slices if pool_of(each) == pool]
    newest = max(each.spec.pool.generation for each in mine)
    mine = [each for each in mine if each.spec.pool.generation == newest]
    devices = [device for each in mine if not each.spec.shared_counters for device in each.spec.devices]
    usable = (
        all(each.spec.pool.resource_slice_count == len(mine) for each in mine)
        and max(Counter(device.name for device in devices).values(), default=0) < 2
        and _counters_exist(mine, devices)
    )
    found = {}
    for device in devices:
        if shares := _held(pool, device.name, claims):
            found[device.name] = "PartiallyAllocated" if _room(device, shares) else "Allocated"
        elif (
            not usable
            or _tainted(pool, device, rules)
            or not _affordable(pool, device, mine, devices, claims)
        ):
            found[device.name] = "Unavailable"
        else:
            found[device.name] = "Available"
    return found


def _held(pool: Pool, name: str, claims: Sequence[ResourceClaim]) -> list[tuple[str | None, dict[str, int]]]:
    """The share id and what it consumes, for everybody who has the device."""
    return [
        (result.share_id, {key: amount.nanos for key, amount in result.consumed_capacity.items()})
        for claim in claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
        if (result.driver, result.pool, result.device) == (*pool, name) and not result.admin_access
    ]


def _room(device: Device, shares: list[tuple[str | None, dict[str, int]]]) -> bool:
    """Whether something is left of every capacity; in these tests there are no policies."""
    if not device.allow_multiple_allocations or any(share is None for share, _ in shares):
        return False
    return all(
        sum(consumed.get(name, 0) for _, consumed in shares) < offer.value.nanos
        for name, offer in device.capacity.items()
    )


def _tainted(pool: Pool, device: Device, rules: Sequence[DeviceTaintRule]) -> bool:
    taints = list(device.taints)
    for rule in rules:
        chosen = rule.spec.device_selector
        if (
            chosen is not None
            and chosen.driver in (None, pool[0])
            and chosen.pool in (None, pool[1])
            and chosen.device in (None, device.name)
        ):
            taints.append(rule.spec.taint)
    return any(taint.effect in ("NoSchedule", "NoExecute") for taint in taints)


def _counters(slices: Sequence[ResourceSlice]) -> dict[tuple[str, str], int]:
    return {
        (found.name, name): counter.value.nanos
        for each in slices
        for found in each.spec.shared_counters
        for name, counter in found.counters.items()
    }


def _draws(device: Device) -> Counter[tuple[str, str]]:
    drawn: Counter[tuple[str, str]] = Counter()
    for use in device.consumes_counters:
        for name, counter in use.counters.items():
            drawn[use.counter_set, name] += counter.value.nanos
    return drawn


def _counters_exist(slices: Sequence[ResourceSlice], devices: Sequence[Device]) -> bool:
    sets = [found.name for each in slices for found in each.spec.shared_counters]
    return len(sets) == len(set(sets)) and all(
        _draws(device).keys() <= _counters(slices).keys() for device in devices
    )


def _affordable(
    pool: Pool,
    device: Device,
    slices: Sequence[ResourceSlice],
    devices: Sequence[Device],
    claims: Sequence[ResourceClaim],
) -> bool:
    if not device.consumes_counters:
        return True
    left = Counter(_counters(slices))
    for other in devices:
        if _held(pool, other.name, claims):
            left.subtract(_draws(other))
    return min(left.values()) >= 0 and all(amount <= left[key] for key, amount in _draws(device).items())
