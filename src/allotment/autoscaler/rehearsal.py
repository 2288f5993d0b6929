"""A scenario, tried step by step on a simulation: each step is done or refused, then everybody who waits is placed as the scheduler
would, and what changed is told.

Who waits is placed by priority, then in the order in which pods came, gangs whole or not at all. Since a pod may have to be
near one that is placed later, whoever found no place is tried again as long as that places somebody. Claims that templates ask
for are made as the claim controller would.

:func:`rehearse` leaves the simulation as it was.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from allotment.api import alpha2
from allotment.api.batch import PodGroup
from allotment.api.claim_marks import POD_CLAIM_NAME
from allotment.api.core import Node, Pod
from allotment.api.meta import ApiStruct, OwnerReference
from allotment.api.resource import (
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from allotment.autoscaler.errors import Refused
from allotment.autoscaler.forkable_cluster import key_of
from allotment.autoscaler.outcome import Census, Outcome, PodChange, Turn, Use, Waits
from allotment.autoscaler.pending import Template, from_template, missing_claims
from allotment.autoscaler.stage import Stage
from allotment.autoscaler.step_title import titled
from allotment.scheduler.diagnosis import Refusal
from allotment.scheduler.gang import gang_of
from allotment.usage.usage import Usage

if TYPE_CHECKING:
    from allotment.allocator.pool import PoolID
    from allotment.api.scenario import Expect
    from allotment.autoscaler.machine import Machine
    from allotment.autoscaler.scenario import Scenario, Step
    from allotment.autoscaler.simulation import Simulation
    from allotment.scheduler.pod import PodInfo
    from allotment.usage.pool import PoolUsage
    from allotment.usage.summary import Summary

K = TypeVar("K", bound=Hashable)

ROUNDS = 5
"""How often whoever waits is tried in one step."""
_COUNTED: tuple[type[ApiStruct], ...] = (
    Node,
    ResourceSlice,
    alpha2.NodeResourceSlice,
    DeviceTaintRule,
    ResourceClaim,
)
"""Kinds that the use of devices follows from."""


def rehearse(
    simulation: Simulation, scenario: Scenario, machines: Sequence[Machine] = (), *, stop: bool = False
) -> Iterator[Outcome]:
    """What comes of each step, the beginning first. Until the last one was taken, or the iterator closed, the simulation is as the
    steps so far have left it; then as it was. ``stop``: no steps after one that did not go as it was meant to."""
    with simulation.trial():
        rehearsal = Rehearsal(simulation, machines)
        yield rehearsal.begin()
        for step in scenario.steps:
            outcome = rehearsal.attempt(step)
            yield outcome
            if stop and not outcome.ok:
                return


@dataclass(frozen=True, slots=True)
class _Moment:
    """Where everybody is: node and uid by pod, and objects that the use of devices follows from."""

    pods: dict[str, tuple[str, str]]
    orphans: frozenset[str]
    objects: dict[type[ApiStruct], dict[str, ApiStruct]]


class Rehearsal:
    """See the module. The simulation is changed: have a fork open."""

    def __init__(self, simulation: Simulation, machines: Sequence[Machine] = ()) -> None:
        self._simulation = simulation
        self._stage = Stage(simulation, machines)
        self._arrived: dict[str, int] = {}  # pods that came with a step
        self._why: dict[str, str] = {}  # pods that wait
        self._since: dict[str, int] = {}
        self._usage = Usage(each for kind in _COUNTED for each in simulation.objects(kind).values())
        self._usage.drain()
        self._held: Counter[str] = Counter()  # devices by class
        for claim in simulation.objects(ResourceClaim).values():
            self._held.update(_by_class(claim))

    def begin(self) -> Outcome:
        """Places whoever waits in the cluster as it is."""
        before = self._moment()
        self._settle(0)
        return self._told(0, "", "", "as it is", before)

    def attempt(self, step: Step) -> Outcome:
        """Tries a step. If it is refused, nothing has changed."""
        before = self._moment()
        refused, holders, notes = "", dict[str, str](), list(step.notes)
        try:
            with self._simulation.trial() as trial:
                notes += self._stage.play(step)
                trial.keep()
        except Refused as exc:
            refused, holders = str(exc), dict(exc.holders)
        else:
            if step.verb:
                self._settle(step.number)
        outcome = self._told(step.number, step.name, step.verb, titled(step), before)
        return _with(outcome, step.expect, refused, holders, notes, self._unmet(step.expect, refused))

    # --- placing ---

    def _settle(self, number: int) -> None:
        """Places everybody who can be placed; ``_why`` says of the others why not."""
        self._make_claims()
        for _ in range(ROUNDS):
            placed, self._why = False, {}
            for entry in self._queue(number):
                placed = self._place(entry) or placed
            if not placed or not self._why:
                break
        self._since = {key: self._since.get(key, number) for key in self._why}

    def _queue(self, number: int) -> list[list[PodInfo]]:
        """Pods that wait, each by itself or with its gang, in the order in which they are decided about."""
        found: dict[str, list[PodInfo]] = {}
        for key, info in self._simulation.cluster.pods.items():
            if info.node or info.leaving:
                continue
            self._arrived.setdefault(key, number)
            group = self._simulation.cluster.groups.get(info.group)
            gang = gang_of(info.group, group) if group is not None else None
            found.setdefault(f"gang {info.group}" if gang is not None else key, []).append(info)
        return sorted(found.values(), key=lambda entry: min(map(self._rank, entry)))

    def _rank(self, info: PodInfo) -> tuple[int, int, str, str]:
        created = info.pod.metadata.creation_timestamp or ""
        return -info.priority, self._arrived[info.key], created, info.key

    def _place(self, entry: list[PodInfo]) -> bool:
        """Places a pod, or a gang; True if anybody was placed."""
        group = self._simulation.cluster.groups.get(entry[0].group)
        if group is None or gang_of(entry[0].group, group) is None:
            found = self._simulation.schedule(entry[0].pod)
            if isinstance(found, Refusal):
                self._why[entry[0].key] = found.words
            return not isinstance(found, Refusal)
        bound = self._simulation.schedule_gang(entry[0].group)
        words = bound.words if isinstance(bound, Refusal) else "its gang runs without it: no more of it fit"
        placed = set() if isinstance(bound, Refusal) else {key_of(each.pod) for each in bound}
        self._why.update({each.key: words for each in entry if each.key not in placed})
        return bool(placed)

    def _make_claims(self) -> None:
        """Makes the claims that are still to be made from templates, for groups and for pods that wait."""
        simulation, cluster = self._simulation, self._simulation.cluster
        templates: dict[str, Template] = {
            **simulation.objects(ResourceClaimTemplate),
            **simulation.objects(alpha2.ResourceClaimTemplate),
        }
        if not templates:
            return
        for info in [
            each for each in cluster.pods.values() if not each.node and each.pod.spec.resource_claims
        ]:
            group = cluster.groups.get(info.group)
            shared = group.spec.resource_claims if isinstance(group, PodGroup) else ()
            made = self._entries(info.uid) | {each.name for each in shared}
            taken = simulation.objects(ResourceClaim)
            for claim in list(missing_claims(info.pod, templates, made=made, taken=taken)):
                simulation.put(claim)
            if isinstance(group, PodGroup):
                self._make_group_claims(group, templates)

    def _make_group_claims(self, group: PodGroup, templates: dict[str, Template]) -> None:
        made, meta = self._entries(group.metadata.uid), group.metadata
        for entry in group.spec.resource_claims:
            template = templates.get(f"{meta.namespace}/{entry.resource_claim_template_name or ''}")
            if template is None or entry.name in made:
                continue
            name = f"{meta.name}-{entry.name}"
            claim = from_template((meta.namespace, name), Pod(metadata=meta), template)
            owner = OwnerReference(
                api_version=group.api_version, kind=group.kind, name=meta.name, uid=meta.uid, controller=True
            )
            marks = {**claim.metadata.annotations, POD_CLAIM_NAME: entry.name}
            metadata = replace(
                claim.metadata,
                owner_references=(owner,),
                annotations=marks,
                uid=f"claim {meta.namespace}/{name}",
            )
            self._simulation.put(replace(claim, metadata=metadata))

    def _entries(self, uid: str) -> set[str]:
        """The entries of a pod or group of which claims were made."""
        claims = self._simulation.objects(ResourceClaim)
        owned = self._simulation.cluster.claims.owned.get(uid, ())
        return {claims[key].metadata.annotations.get(POD_CLAIM_NAME, "") for key in owned}

    # --- telling ---

    def _moment(self) -> _Moment:
        simulation = self._simulation
        return _Moment(
            {key: (info.node, info.uid) for key, info in simulation.cluster.pods.items()},
            frozenset(
                key for key, info in simulation.cluster.pods.items() if info.node and _is_orphan(info.pod)
            ),
            {kind: dict(simulation.objects(kind)) for kind in _COUNTED},
        )

    def _told(self, number: int, name: str, verb: str, title: str, before: _Moment) -> Outcome:
        after = self._moment()
        changed = list(_changed(before, after))
        claims = [(old, new) for kind, old, new in changed if kind is ResourceClaim]
        pools, drivers = {pool.id: pool for pool in self._usage.pools()}, self._usage.cluster().drivers
        for _, old, new in changed:
            self._usage.change(old, new)
        touched = self._usage.drain()
        waits = [Waits(key, why, self._since[key]) for key, why in sorted(self._why.items())]
        return Outcome(
            number,
            name,
            verb,
            title,
            self._census(),
            changes=tuple(self._changes(before, after, claims)),
            waits=tuple(waits),
            drivers=_differences(drivers, self._usage.cluster().drivers),
            pools=self._uses(touched, pools),
            classes=self._classes(claims),
        )

    def _census(self) -> Census:
        cluster = self._simulation.cluster
        running = sum(bool(info.node) for info in cluster.pods.values())
        summary = self._usage.cluster().summary
        return Census(cluster.known, running, len(cluster.pods) - running, summary)

    def _uses(self, touched: Iterable[PoolID], before: Mapping[PoolID, PoolUsage]) -> dict[PoolID, Use]:
        now = {id: self._usage.pool(id) for id in sorted(touched)}
        return _differences(
            {id: before[id].summary for id in now if id in before},
            {id: pool.summary for id, pool in now.items() if pool is not None},
        )

    def _classes(
        self, claims: Iterable[tuple[ApiStruct | None, ApiStruct | None]]
    ) -> dict[str, tuple[int, int]]:
        """Takes claims in that changed; how many devices were and are held by class, where the number is another."""
        before = Counter(self._held)
        for old, new in claims:
            self._held.subtract(_by_class(old))
            self._held.update(_by_class(new))
        names = sorted(name for name in self._held if self._held[name] != before[name])
        return {name: (before[name], self._held[name]) for name in names}

    def _changes(
        self, before: _Moment, after: _Moment, claims: Sequence[tuple[ApiStruct | None, ApiStruct | None]]
    ) -> Iterator[PodChange]:
        had = _holdings(old for old, _ in claims)
        has = _holdings(new for _, new in claims)
        for key in sorted({**before.pods, **after.pods}):
            node, uid = before.pods.get(key, ("", ""))
            now, new_uid = after.pods.get(key, ("", ""))
            if now and (now != node or uid != new_uid or had.get(uid) != has.get(uid)):
                turn = Turn.MOVED if node and uid == new_uid else Turn.PLACED
                orphan = turn is Turn.MOVED and key in before.orphans
                yield PodChange(key, turn, node, now, self._devices(key), orphan)
            elif node and not now:
                turn = Turn.LOST if key in after.pods else Turn.GONE
                orphan = turn is Turn.LOST and key in before.orphans
                yield PodChange(key, turn, node, "", tuple(had.get(uid, ())), orphan)

    def _devices(self, key: str) -> tuple[str, ...]:
        claims = self._simulation.claims_of(self._simulation.cluster.pods[key])
        return tuple([each for claim in claims for each in _held(claim)])

    # --- expecting ---

    def _unmet(self, expect: Expect, refused: str) -> list[str]:
        """What does not hold."""
        found = []
        if expect.refused and not refused:
            found.append("the step was to be refused, and was done")
        for words, names, waits in (("run", expect.running, False), ("wait", expect.pending, True)):
            for name in names:
                found += self._unlike(name, words, waits=waits)
        if expect.counts is not None:
            census = self._census()
            for word, wanted, there in (
                ("run", expect.counts.running, census.running),
                ("wait", expect.counts.pending, census.pending),
            ):
                if wanted is not None and wanted != there:
                    found.append(f"{wanted} pods were to {word}, and {there} do")
        return found

    def _unlike(self, name: str, words: str, *, waits: bool) -> Iterator[str]:
        key = name if "/" in name else f"default/{name}"
        pods = self._simulation.cluster.pods
        meant = (
            [each for each in pods if fnmatchcase(each, key)] if "*" in key else [key] if key in pods else []
        )
        if not meant:
            yield f"pod {key} was to {words}, and there is none"
        wrong = [each for each in meant if bool(pods[each].node) == waits]
        if wrong:
            told = f"runs on node {pods[wrong[0]].node}" if waits else f"waits: {self._why.get(wrong[0], '')}"
            more = f" ({len(wrong)} of {len(meant)} such pods)" if len(meant) > 1 else ""
            yield f"pod {wrong[0]} was to {words}, and {told}{more}"


def _with(
    outcome: Outcome,
    expect: Expect,
    refused: str,
    holders: dict[str, str],
    notes: list[str],
    unmet: list[str],
) -> Outcome:
    return dataclasses.replace(
        outcome,
        refused=refused,
        expected_refusal=bool(expect.refused),
        holders=holders,
        notes=tuple(notes),
        unmet=tuple(unmet),
    )


def _differences(before: Mapping[K, Summary], after: Mapping[K, Summary]) -> dict[K, Use]:
    """Of what the devices are in other states now, or of which others come."""
    return {
        key: Use(before.get(key), after.get(key))
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    }


def _is_orphan(pod: Pod) -> bool:
    return not any(owner.controller for owner in pod.metadata.owner_references)


def _changed(
    before: _Moment, after: _Moment
) -> Iterator[tuple[type[ApiStruct], ApiStruct | None, ApiStruct | None]]:
    """Objects that are others than before, in an order in which they can be told."""
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
    """Devices by the uid of who has them reserved."""
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
