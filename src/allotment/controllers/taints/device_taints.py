"""Which devices have taints for which their users must leave, and where each taint comes from.

A ``NoExecute`` taint is on the device itself, in a slice of its pool's newest generation, or comes from a DeviceTaintRule
that selects the device. Both are stored so that a question about one device, and a change to one, need not look at the
others: slices by pool, with only their tainted devices, and rules by what they select.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product

from allotment.allocator.pool import DeviceID, PoolID
from allotment.allocator.taint import tolerates
from allotment.api.resource import (
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintSelector,
    DeviceToleration,
    ResourceSlice,
)
from allotment.api.timestamps import moment
from allotment.controllers.taints.eviction import later

EVICTS = "NoExecute"
_ALWAYS = datetime(1, 1, 1, tzinfo=UTC)
_Wanted = tuple[str | None, str | None, str | None]
_Tainted = dict[str, tuple[DeviceTaint, ...]]


@dataclass(frozen=True, slots=True)
class RuleKey:
    """One DeviceTaintRule, but not a later one of its name."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Cause:
    """A taint and the rule from which it comes; None: the device's driver published it."""

    taint: DeviceTaint
    rule: RuleKey | None = None


@dataclass(frozen=True, slots=True)
class _Slice:
    generation: int
    tainted: _Tainted


@dataclass(slots=True)
class _Pool:
    slices: dict[str, _Slice] = field(default_factory=dict)

    def newest(self) -> int:
        return max((each.generation for each in self.slices.values()), default=0)

    def tainted(self) -> _Tainted:
        newest, found = self.newest(), _Tainted()
        for each in self.slices.values():
            if each.generation == newest:
                found.update(each.tainted)
        return found


class DeviceTaints:
    """The evicting taints of all devices; false when there are none. Changes come in as informers report them."""

    def __init__(self) -> None:
        self._pools: dict[PoolID, _Pool] = {}
        self._tainted: dict[PoolID, _Tainted] = {}  # only pools that have tainted devices
        self._rules: dict[_Wanted, dict[str, DeviceTaintRule]] = {}

    def __bool__(self) -> bool:
        return bool(self._tainted or self._rules)

    def of(self, device: DeviceID) -> Iterator[Cause]:
        """The taints for which the users of a device must leave unless they tolerate them."""
        for taint in self._tainted.get(device.of_pool, {}).get(device.device, ()):
            yield Cause(taint)
        if self._rules:
            for wanted in product((device.driver, None), (device.pool, None), (device.device, None)):
                for rule in self._rules.get(wanted, {}).values():
                    yield Cause(rule.spec.taint, key_of(rule))

    def is_current(self, slice_: ResourceSlice) -> bool:
        """Whether a slice has its pool's newest generation."""
        pool = self._pools.get(_pool_of(slice_))
        return pool is not None and slice_.spec.pool.generation == pool.newest()

    def slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> list[DeviceID]:
        """Takes in a change. Returns the devices whose taints have changed."""
        touched: dict[PoolID, None] = {}
        if old is not None:
            pool = self._pools[_pool_of(old)]
            del pool.slices[old.metadata.name]
            touched[_pool_of(old)] = None
        if new is not None:
            pool = self._pools.setdefault(_pool_of(new), _Pool())
            tainted = {d.name: found for d in new.spec.devices if d.taints and (found := _evicting(d.taints))}
            pool.slices[new.metadata.name] = _Slice(new.spec.pool.generation, tainted)
            touched[_pool_of(new)] = None
        return [device for each in touched for device in self._refresh(each)]

    def rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        """Takes in a change."""
        if old is not None and (wanted := _wanted(old)) is not None:
            rules = self._rules[wanted]
            del rules[old.metadata.name]
            if not rules:
                del self._rules[wanted]
        if new is not None and (wanted := _wanted(new)) is not None:
            self._rules.setdefault(wanted, {})[new.metadata.name] = new

    def _refresh(self, id_: PoolID) -> list[DeviceID]:
        pool = self._pools[id_]
        if not pool.slices:
            del self._pools[id_]
        before, after = self._tainted.pop(id_, {}), pool.tainted()
        if after:
            self._tainted[id_] = after
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        return [DeviceID(*id_, name) for name in names]


def key_of(rule: DeviceTaintRule) -> RuleKey:
    return RuleKey(rule.metadata.name, rule.metadata.uid)


def selects(selector: DeviceTaintSelector | None, device: DeviceID) -> bool:
    """Whether a rule's selector matches a device. A rule without a selector matches none."""
    if selector is None:
        return False
    wanted = (selector.driver, selector.pool, selector.device)
    return all(want is None or want == has for want, has in zip(wanted, device, strict=True))


def device_of(result: DeviceRequestAllocationResult) -> DeviceID:
    return DeviceID(result.driver, result.pool, result.device)


def borne_until(tolerations: tuple[DeviceToleration, ...], taint: DeviceTaint) -> datetime | None:
    """Until when an evicting taint is tolerated, by the shortest of the matching tolerations; None: for ever.

    As the API says, seconds count only if a toleration names the effect. (Kubernetes evicts in spite of a toleration that
    names none, although its scheduler allocates the device: the pod would be created and evicted for ever.)
    """
    matching = [each for each in tolerations if tolerates(each, taint)]
    seconds = [each.toleration_seconds if each.effect == EVICTS else None for each in matching]
    if None in seconds:
        return None
    since = moment(taint.time_added) or _ALWAYS
    return later(since, min((each for each in seconds if each is not None), default=0))


def _evicting(taints: tuple[DeviceTaint, ...]) -> tuple[DeviceTaint, ...]:
    return tuple(taint for taint in taints if taint.effect == EVICTS)


def _pool_of(slice_: ResourceSlice) -> PoolID:
    return PoolID(slice_.spec.driver, slice_.spec.pool.name)


def _wanted(rule: DeviceTaintRule) -> _Wanted | None:
    """What an evicting rule selects; None for a rule that evicts no pod."""
    selector = rule.spec.device_selector
    if selector is None or rule.spec.taint.effect != EVICTS:
        return None
    return selector.driver, selector.pool, selector.device
