"""The steps of a scenario that change devices: taints, and the sizes of pools.

Pods that must leave are evicted here; ``scenario_run`` places waiting pods. If a step cannot be done, these functions raise
``StepRefused``, possibly after changes: the caller has a fork to revert.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from allotment.allocator.taint import tolerates
from allotment.api.meta import ObjectMeta, key_of
from allotment.api.resource import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from allotment.api.text import few, plural
from allotment.autoscaler.errors import StepRefused
from allotment.autoscaler.scenario.pool_size import current, grown, is_partitioned, shrunk
from allotment.autoscaler.simulate.bound_objects import left

if TYPE_CHECKING:
    from allotment.api.scenario import ResizePool, TaintDevice
    from allotment.autoscaler.scenario.scenario import ScenarioStep
    from allotment.autoscaler.simulate.simulation import Simulation

KEY = "allotment.dev/what-if"
"""The key of a taint that has none."""


def taint_device(simulation: Simulation, wish: TaintDevice, step: ScenarioStep) -> list[str]:
    """Returns how many devices were tainted and how many pods evicted."""
    rules = [each for each in step.objects if isinstance(each, DeviceTaintRule)] or [_rule(wish, step)]
    devices = pods = 0
    for rule in rules:
        if rule.metadata.name in simulation.objects(DeviceTaintRule):
            raise StepRefused(f"DeviceTaintRule {rule.metadata.name} already exists")
        devices += _selected(simulation, rule.spec.device_selector)
        simulation.put(rule)
        pods += evict_tainted(simulation, rule)
    if not devices:
        raise StepRefused("no device is selected: check driver, pool and device with allot pools")
    evicted = f", {plural(pods, 'pod')} evicted" if pods else ""
    return [f"{plural(devices, 'device')} tainted{evicted}"]


def _selected(simulation: Simulation, selector: DeviceTaintSelector | None) -> int:
    slices = simulation.objects(ResourceSlice).values()
    return sum(
        _selects(selector, each.spec.driver, each.spec.pool.name, device.name)
        for each in slices
        for device in each.spec.devices
    )


def evict_tainted(simulation: Simulation, rule: DeviceTaintRule) -> int:
    """Evicts the pods that do not tolerate a rule's taint for ever; returns how many. A pod that tolerates it for a while may
    come back."""
    taint, selector = rule.spec.taint, rule.spec.device_selector
    if taint.effect != "NoExecute":
        return 0
    tainted = [
        claim
        for claim in simulation.objects(ResourceClaim).values()
        if claim.status.allocation is not None
        and any(
            _selects(selector, each.driver, each.pool, each.device) and not _bears(each.tolerations, taint)
            for each in claim.status.allocation.devices.results
        )
    ]
    return evict_users(simulation, tainted)


def resize_pool(simulation: Simulation, wish: ResizePool) -> list[str]:
    """Returns how many devices there were before, and are now."""
    slices = current(_slices_of(simulation, wish.driver, wish.pool))
    if is_partitioned(slices):
        raise StepRefused("its devices draw on shared counters, so it is unclear which to add or remove")
    devices = [device for each in slices for device in each.spec.devices]
    wanted = wish.devices or 0
    if wanted >= len(devices):
        pattern = next((each for each in devices if each.name == wish.like), None)
        pattern = devices[-1] if pattern is None and not wish.like and devices else pattern
        if pattern is None:
            raise StepRefused(
                f"there is no device {wish.like or ''} that new ones could copy".replace("  ", " ")
            )
        simulation.put_all(grown(slices, pattern, wanted - len(devices)))
    else:
        names = [device.name for device in devices]
        gone = _to_go(simulation, slices, names, len(names) - wanted, force=bool(wish.force))
        simulation.put_all(shrunk(slices, gone))
    return [f"{len(devices)} → {plural(wanted, 'device')}"]


def _slices_of(simulation: Simulation, driver: str, pool: str) -> list[ResourceSlice]:
    published = simulation.objects(ResourceSlice).values()
    found = [each for each in published if (each.spec.driver, each.spec.pool.name) == (driver, pool)]
    if not found:
        others = sorted({each.spec.pool.name for each in published if each.spec.driver == driver})
        have = f"it has {few(others)}" if others else "it publishes nothing"
        raise StepRefused(f"driver {driver} has no pool {pool}; {have}")
    return found


def _to_go(
    simulation: Simulation, slices: Sequence[ResourceSlice], names: list[str], count: int, *, force: bool
) -> set[str]:
    """Which devices to remove: free ones first, the last ones first. With ``force``, the users of others are evicted."""
    held: dict[str, list[ResourceClaim]] = {}
    pool = (slices[0].spec.driver, slices[0].spec.pool.name)
    for claim in simulation.claims_on(slices):
        assert claim.status.allocation is not None
        for result in claim.status.allocation.devices.results:
            if (result.driver, result.pool) == pool:
                held.setdefault(result.device, []).append(claim)
    last_first = [*reversed(names)]
    gone = sorted(last_first, key=lambda name: name in held)[:count]
    claims = {key_of(claim): claim for name in gone for claim in held.get(name, ())}
    if claims and not force:
        free = count - sum(name in held for name in gone)
        words = f"of {plural(count, 'device')} that must be removed, only {free} are free; force evicts the others' users"
        raise StepRefused(words, _users(simulation, claims.values()))
    evict_users(simulation, claims.values())
    for key in claims:  # claims that no pod on a node uses, or that stay allocated by themselves
        kept = simulation.objects(ResourceClaim).get(key)
        if kept is not None and kept.status.allocation is not None:
            users = [user.uid for user in kept.status.reserved_for]
            simulation.put(left(kept, users, keep=False))
    return set(gone)


def _users(simulation: Simulation, claims: Iterable[ResourceClaim]) -> dict[str, str]:
    found: dict[str, str] = {}
    for claim in claims:
        users = sorted(simulation.bound_users(claim))
        found.update(dict.fromkeys(users, f"uses claim {key_of(claim)}"))
        if not users:
            found[key_of(claim)] = "is a claim that holds devices, though no pod uses it"
    return found


def evict_users(simulation: Simulation, claims: Iterable[ResourceClaim]) -> int:
    """Evicts the pods on nodes that use these claims; returns how many."""
    users = {key for claim in claims for key in simulation.bound_users(claim)}
    for key in sorted(users):
        info = simulation.cluster.pods.get(key)
        if info is not None and info.node:
            simulation.simulate_evict_pod(info.pod, info.node)
    return len(users)


def _rule(wish: TaintDevice, step: ScenarioStep) -> DeviceTaintRule:
    selector = DeviceTaintSelector(driver=wish.driver, pool=wish.pool, device=wish.device)
    taint = DeviceTaint(key=wish.key or KEY, value=wish.value, effect=wish.effect or "")
    name = f"what-if-{step.number}"
    return DeviceTaintRule(
        metadata=ObjectMeta(name=name), spec=DeviceTaintRuleSpec(device_selector=selector, taint=taint)
    )


def _selects(selector: DeviceTaintSelector | None, driver: str, pool: str, device: str) -> bool:
    """A rule without a selector selects nothing."""
    return (
        selector is not None
        and selector.driver in (None, driver)
        and selector.pool in (None, pool)
        and selector.device in (None, device)
    )


def _bears(tolerations: Iterable[DeviceToleration], taint: DeviceTaint) -> bool:
    """Whether a taint is tolerated for ever. As the API says, seconds count only if a toleration names the effect."""
    return any(
        tolerates(each, taint) and (each.effect != taint.effect or each.toleration_seconds is None)
        for each in tolerations
    )
