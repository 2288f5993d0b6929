"""The index of evicting taints says what a look at every slice and rule would say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.allocator.pool import DeviceID
from allotment.api.meta import ObjectMeta
from allotment.api.resource import (
    Device,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    DeviceToleration,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from allotment.controllers.taints.device_taints import Cause, DeviceTaints, borne_until, key_of, selects
from tests.thoroughness import examples

DRIVERS, POOLS, NAMES = ("a", "b"), ("p", "q"), ("x", "y", "z")
DEVICES = [DeviceID(driver, pool, name) for driver in DRIVERS for pool in POOLS for name in NAMES]

taints = st.builds(
    DeviceTaint,
    key=st.sampled_from("kl"),
    effect=st.sampled_from(["None", "NoSchedule", "NoExecute", "NoExecute"]),
)


@st.composite
def slices(draw: st.DrawFn) -> ResourceSlice:
    """Slice n of a pool has device n, so that no device is in two slices of one generation."""
    number = draw(st.integers(0, len(NAMES) - 1))
    driver, pool = draw(st.sampled_from(DRIVERS)), draw(st.sampled_from(POOLS))
    generation = draw(st.integers(1, 2))
    device = Device(name=NAMES[number], taints=tuple(draw(st.lists(taints, max_size=2))))
    spec = ResourceSliceSpec(
        driver=driver, pool=ResourcePool(name=pool, generation=generation), devices=(device,)
    )
    return ResourceSlice(metadata=ObjectMeta(name=f"{driver}-{pool}-{number}"), spec=spec)


@st.composite
def rules(draw: st.DrawFn) -> DeviceTaintRule:
    selector = DeviceTaintSelector(
        driver=draw(st.sampled_from([None, *DRIVERS])),
        pool=draw(st.sampled_from([None, *POOLS])),
        device=draw(st.sampled_from([None, *NAMES])),
    )
    spec = DeviceTaintRuleSpec(
        device_selector=draw(st.sampled_from([None, selector, selector])), taint=draw(taints)
    )
    return DeviceTaintRule(metadata=ObjectMeta(name=draw(st.sampled_from("rst")), uid="u"), spec=spec)


def causes(
    device: DeviceID, slices: dict[str, ResourceSlice], rules: dict[str, DeviceTaintRule]
) -> set[Cause]:
    """By looking at everything."""
    pool = [s for s in slices.values() if (s.spec.driver, s.spec.pool.name) == device.of_pool]
    newest = max((s.spec.pool.generation for s in pool), default=0)
    own = {
        Cause(taint)
        for slice_ in pool
        if slice_.spec.pool.generation == newest
        for each in slice_.spec.devices
        if each.name == device.device
        for taint in each.taints
        if taint.effect == "NoExecute"
    }
    return own | {
        Cause(rule.spec.taint, key_of(rule))
        for rule in rules.values()
        if rule.spec.taint.effect == "NoExecute" and selects(rule.spec.device_selector, device)
    }


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.one_of(slices(), rules()), st.booleans()), max_size=12))
def test_the_index_equals_a_look_at_everything(
    changes: list[tuple[ResourceSlice | DeviceTaintRule, bool]],
) -> None:
    index = DeviceTaints()
    known_slices: dict[str, ResourceSlice] = {}
    known_rules: dict[str, DeviceTaintRule] = {}
    for obj, stays in changes:
        before = {device: causes(device, known_slices, known_rules) for device in DEVICES}
        name = obj.metadata.name
        if isinstance(obj, ResourceSlice):
            old = known_slices.pop(name, None)
            if stays:
                known_slices[name] = obj
            changed = index.slice_changed(old, obj if stays else None)
            after = {device: causes(device, known_slices, known_rules) for device in DEVICES}
            # a taint given twice, or in another order, may be told as a change
            assert {device for device in DEVICES if before[device] != after[device]} <= set(changed)
            assert len(set(changed)) == len(changed)
        else:
            was = known_rules.pop(name, None)
            if stays:
                known_rules[name] = obj
            index.rule_changed(was, obj if stays else None)
        expected = {device: causes(device, known_slices, known_rules) for device in DEVICES}
        assert {device: set(index.of(device)) for device in DEVICES} == expected
        if not any(expected.values()):
            assert not index or known_rules
        for slice_ in known_slices.values():
            pool = [s for s in known_slices.values() if s.spec.pool.name == slice_.spec.pool.name]
            newest = max(s.spec.pool.generation for s in pool if s.spec.driver == slice_.spec.driver)
            assert index.is_current(slice_) == (slice_.spec.pool.generation == newest)


def test_an_untouched_pool_tells_no_change() -> None:
    index = DeviceTaints()
    tainted = Device(name="x", taints=(DeviceTaint(key="k", effect="NoExecute"),))
    spec = ResourceSliceSpec(driver="a", pool=ResourcePool(name="p", generation=1), devices=(tainted,))
    slice_ = ResourceSlice(metadata=ObjectMeta(name="s"), spec=spec)
    assert index.slice_changed(None, slice_) == [DeviceID("a", "p", "x")]
    assert index.slice_changed(slice_, slice_) == []
    assert index.slice_changed(slice_, None) == [DeviceID("a", "p", "x")]
    assert not index


ADDED = datetime(2030, 1, 1, tzinfo=UTC)
EVICTING = "NoExecute"


def bears(
    seconds: int | None = None, key: str | None = "k", effect: str | None = EVICTING
) -> DeviceToleration:
    return DeviceToleration(key=key, operator="Exists", effect=effect, toleration_seconds=seconds)


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ((), 0),
        ((bears(),), None),
        ((bears(30),), 30),
        ((bears(30), bears(10)), 10),  # the shortest
        ((bears(30), bears()), None),  # one bears it for ever
        ((bears(-1),), 0),
        ((bears(30, key="l"),), 0),
        ((bears(30, key=None),), 30),
        ((bears(effect="NoSchedule"),), 0),
        ((bears(effect=None),), None),
        ((bears(30, effect=None),), None),  # seconds count for NoExecute only
    ],
)
def test_a_taint_is_borne_as_long_as_the_shortest_toleration(
    tolerations: tuple[DeviceToleration, ...], seconds: int | None
) -> None:
    taint = DeviceTaint(key="k", effect=EVICTING, time_added=ADDED.isoformat())
    until = None if seconds is None else ADDED + timedelta(seconds=seconds)
    assert borne_until(tolerations, taint) == until


def test_a_taint_without_a_time_has_always_been_there() -> None:
    until = borne_until((bears(30),), DeviceTaint(key="k", effect=EVICTING))
    assert until is not None
    assert until.year == 1
