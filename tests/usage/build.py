"""Builders of what usage is computed from, on top of the allocator's: claims that hold devices, and rules that taint them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allotment.api.meta import ObjectMeta
from allotment.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceClaimStatus,
)
from allotment.usage.pool import PoolUsage
from tests.allocator.build import DRIVER, quantity, taint


def part(
    device: str,
    *,
    pool: str = "pool",
    driver: str = DRIVER,
    share: str | None = None,
    consumes: Mapping[str, str] | None = None,
    admin: bool | None = None,
    request: str = "r",
) -> DeviceRequestAllocationResult:
    """One device, or share of one, in an allocation."""
    return DeviceRequestAllocationResult(
        request=request,
        driver=driver,
        pool=pool,
        device=device,
        share_id=share,
        consumed_capacity={name: quantity(text) for name, text in (consumes or {}).items()},
        admin_access=admin,
    )


def holder(
    name: str, *parts: DeviceRequestAllocationResult | str, namespace: str = "ns", uid: str = ""
) -> ResourceClaim:
    """A claim that holds these devices; a bare name is a whole device of the default pool."""
    results = tuple(part(each) if isinstance(each, str) else each for each in parts)
    allocation = AllocationResult(devices=DeviceAllocationResult(results=results))
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=uid or f"uid-{name}"),
        status=ResourceClaimStatus(allocation=allocation),
    )


def rule(
    name: str,
    *,
    driver: str | None = None,
    pool: str | None = None,
    device: str | None = None,
    effect: str = "NoSchedule",
    selects: bool = True,
) -> DeviceTaintRule:
    selector = DeviceTaintSelector(driver=driver, pool=pool, device=device) if selects else None
    return DeviceTaintRule(
        metadata=ObjectMeta(name=name),
        spec=DeviceTaintRuleSpec(device_selector=selector, taint=taint("broken", effect=effect)),
    )


def states(usage: PoolUsage) -> dict[str, str]:
    """Each device's state, with the reason if there is one."""
    return {
        device.name: f"{device.state}{f' {device.reason}' if device.reason else ''}"
        for device in usage.devices
    }


def counts(usage: PoolUsage) -> tuple[int, int, int, int]:
    """Total, allocated, available, unavailable."""
    summary = usage.summary
    return summary.total, summary.allocated, summary.available, summary.unavailable


def names(usages: Sequence[PoolUsage]) -> list[str]:
    return [usage.pool_name for usage in usages]
