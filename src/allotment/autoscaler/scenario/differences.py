"""What changes in a simulated cluster between two moments: places of pods, and devices in use.

Objects are never changed in place, so an object has changed if it is another one than before. A comparison costs a pass over
pods and claims; the use of devices is counted (``usage``) only if something changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from allotment.api import semantic
from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct
from allotment.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.autoscaler.scenario.step_outcome import (
    ClusterCounts,
    DevicesInUse,
    PodChange,
    PodFate,
    StepDifferences,
)
from allotment.usage.usage import Usage

if TYPE_CHECKING:
    from allotment.autoscaler.simulate.simulation import Simulation
    from allotment.usage.summary import Summary

K = TypeVar("K", bound=Hashable)
Pair = tuple[ApiStruct | None, ApiStruct | None]
"""An object before and after."""

_COUNTED: tuple[type[ApiStruct], ...] = (
    Node,
    ResourceSlice,
    semantic.NodeResourceSlice,
    DeviceTaintRule,
    ResourceClaim,
)
"""Kinds on which the use of devices depends."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """The state at one moment: node and uid by pod, and the objects on which the use of devices depends."""

    pods: dict[str, tuple[str, str]]
    orphans: frozenset[str]
    objects: dict[type[ApiStruct], dict[str, ApiStruct]]


class SimulationDifferences:
    """Follows one simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._last = self._moment()
        self._usage = Usage(each for kind in _COUNTED for each in self._last.objects[kind].values())
        self._usage.drain()
        self._held: Counter[str] = Counter()  # devices by class
        for claim in self._last.objects[ResourceClaim].values():
            self._held.update(_by_class(claim))

    def look(self) -> StepDifferences:
        """The changes since the last call, or since the beginning."""
        before, after = self._last, self._moment()
        changed = list(_changed(before, after))
        claims = [(old, new) for kind, old, new in changed if kind is ResourceClaim]
        pools, drivers = (
            {pool.id: pool.summary for pool in self._usage.pools()},
            self._usage.cluster().drivers,
        )
        for _, old, new in changed:
            self._usage.change(old, new)
        self._last = after
        now = {id: self._usage.pool(id) for id in sorted(self._usage.drain())}
        return StepDifferences(
            census=self._census(),
            changes=tuple(self._changes(before, after, claims)),
            drivers=_differences(drivers, self._usage.cluster().drivers),
            pools=_differences(
                {id: pools[id] for id in now if id in pools},
                {id: pool.summary for id, pool in now.items() if pool is not None},
            ),
            classes=self._classes(claims),
        )

    def _moment(self) -> _Moment:
        pods = self._simulation.cluster.pods
        return _Moment(
            {key: (info.node, info.uid) for key, info in pods.items()},
            frozenset([key for key, info in pods.items() if info.node and _is_orphan(info.pod)]),
            {kind: dict(self._simulation.objects(kind)) for kind in _COUNTED},
        )

    def _census(self) -> ClusterCounts:
        cluster = self._simulation.cluster
        running = sum(bool(info.node) for info in cluster.pods.values())
        return ClusterCounts(
            cluster.known, running, len(cluster.pods) - running, self._usage.cluster().summary
        )

    def _classes(self, claims: Iterable[Pair]) -> dict[str, tuple[int, int]]:
        """How many devices were and are held by class, where the number has changed."""
        before = Counter(self._held)
        for old, new in claims:
            self._held.subtract(_by_class(old))
            self._held.update(_by_class(new))
        names = sorted(name for name in self._held if self._held[name] != before[name])
        return {name: (before[name], self._held[name]) for name in names}

    def _changes(self, before: _Moment, after: _Moment, claims: Sequence[Pair]) -> Iterator[PodChange]:
        had = _holdings(old for old, _ in claims)
        has = _holdings(new for _, new in claims)
        for key in sorted({**before.pods, **after.pods}):
            node, uid = before.pods.get(key, ("", ""))
            now, new_uid = after.pods.get(key, ("", ""))
            if now and (now != node or uid != new_uid or had.get(uid) != has.get(uid)):
                turn = PodFate.MOVED if node and uid == new_uid else PodFate.PLACED
                orphan = turn is PodFate.MOVED and key in before.orphans
                yield PodChange(key, turn, node, now, self._devices(key), orphan)
            elif node and not now:
                turn = PodFate.LOST if key in after.pods else PodFate.GONE
                orphan = turn is PodFate.LOST and key in before.orphans
                yield PodChange(key, turn, node, "", tuple(had.get(uid, ())), orphan)

    def _devices(self, key: str) -> tuple[str, ...]:
        claims = self._simulation.claims_of(self._simulation.cluster.pods[key])
        return tuple([each for claim in claims for each in _held(claim)])


def _differences(before: Mapping[K, Summary], after: Mapping[K, Summary]) -> dict[K, DevicesInUse]:
    """The changed devices: in another state, or added."""
    return {
        key: DevicesInUse(before.get(key), after.get(key))
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    }


def _is_orphan(pod: Pod) -> bool:
    return not any(owner.controller for owner in pod.metadata.owner_references)


def _changed(
    before: _Moment, after: _Moment
) -> Iterator[tuple[type[ApiStruct], ApiStruct | None, ApiStruct | None]]:
    """Changed objects, in an order in which they can be applied."""
    for kind in _COUNTED:
        old, new = before.objects[kind], after.objects[kind]
        for key, was in old.items():
            if new.get(key) is not was:
                yield kind, was, new.get(key)
        for key, now in new.items():
            if key not in old:
                yield kind, None, now


def _held(claim: ApiStruct | None) -> Iterator[str]:
    if isinstance(claim, ResourceClaim) and claim.status.allocation is not None:
        for each in claim.status.allocation.devices.results:
            yield f"{each.driver}/{each.pool}/{each.device}"


def _holdings(claims: Iterable[ApiStruct | None]) -> dict[str, list[str]]:
    """Devices by the uid of the users for which they are reserved."""
    found: dict[str, list[str]] = {}
    for claim in claims:
        devices = list(_held(claim))
        if devices and isinstance(claim, ResourceClaim):
            for user in claim.status.reserved_for:
                found.setdefault(user.uid, []).extend(devices)
    return found


def _by_class(claim: ApiStruct | None) -> Iterator[str]:
    if not isinstance(claim, ResourceClaim) or claim.status.allocation is None:
        return
    classes: dict[str, str] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            classes[request.name] = request.exactly.device_class_name
        for sub in request.first_available:
            classes[f"{request.name}/{sub.name}"] = sub.device_class_name
    for result in claim.status.allocation.devices.results:
        if result.request in classes:
            yield classes[result.request]
