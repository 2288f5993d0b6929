"""The next size of each replica set of a deployment: pure arithmetic over requested and present pods.

A rolling update moves pods from the old sets to the new one within two bounds: never more than ``replicas + surge`` pods in
all, never fewer than ``replicas - unavailable`` ready ones. One step either grows the new set or shrinks old ones; the
resulting changes of pods trigger the next step. The numbers are upstream's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from allotment.client.form import Obj
from allotment.controllers.workloads.share_of_pods import share

ROLLING = "RollingUpdate"


@dataclass(frozen=True, slots=True)
class Size:
    """The relevant facts of a replica set: how many pods it requests, and how many are available. ``age`` grows with newer
    sets."""

    name: str
    wanted: int
    available: int = 0
    age: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class RolloutBounds:
    """The limits of a deployment during a rollout: ``surge`` pods more than wanted, ``unavailable`` fewer."""

    replicas: int
    surge: int = 0
    unavailable: int = 0

    @property
    def most(self) -> int:
        return self.replicas + self.surge

    @property
    def least(self) -> int:
        return self.replicas - self.unavailable


def bounds(spec: Obj) -> RolloutBounds:
    """The bounds of a deployment. Percentages of surge are rounded up and of unavailability down. If both are zero, nothing
    could move, so one pod may be unavailable."""
    replicas, strategy = spec.get("replicas", 1), spec.get("strategy") or {}
    if strategy.get("type", ROLLING) != ROLLING:
        return RolloutBounds(replicas)
    rolling = strategy.get("rollingUpdate") or {}
    surge = share(rolling.get("maxSurge"), replicas, round_up=True)
    unavailable = share(rolling.get("maxUnavailable"), replicas, round_up=False)
    if surge == unavailable == 0:
        unavailable = 1
    return RolloutBounds(replicas, surge, min(unavailable, replicas))


def grown(allowed: RolloutBounds, new: int, others: int) -> int:
    """The next size of the new set, which now requests ``new``, beside ``others`` pods of old sets."""
    if new >= allowed.replicas:
        return allowed.replicas
    return new + max(0, min(allowed.most - new - others, allowed.replicas - new))


def shrunk(allowed: RolloutBounds, new: Size, old: Iterable[Size]) -> dict[str, int]:
    """The next sizes of the old sets that can lose pods: first unavailable pods, then, oldest set first, as many as can be
    spared."""
    sets = sorted(old, key=lambda each: each.age)
    sizes = {each.name: each.wanted for each in sets}
    spare = new.wanted + sum(sizes.values()) - allowed.least - (new.wanted - new.available)
    if spare <= 0:
        return {}
    for each in sets:
        broken = min(spare, max(0, each.wanted - each.available))
        sizes[each.name] -= broken
        spare -= broken
    spare = new.available + sum(each.available for each in sets) - allowed.least
    for each in sets:
        surplus = max(0, min(spare, sizes[each.name]))
        sizes[each.name] -= surplus
        spare -= surplus
    return {each.name: sizes[each.name] for each in sets if sizes[each.name] != each.wanted}


def rolled(allowed: RolloutBounds, new: Size, old: list[Size]) -> dict[str, int]:
    """The next step of a rolling update: the changed sizes; none if it can only wait."""
    size = grown(allowed, new.wanted, sum(each.wanted for each in old))
    return {new.name: size} if size != new.wanted else shrunk(allowed, new, old)


def rescaled(allowed: RolloutBounds, new: Size | None, old: list[Size]) -> dict[str, int]:
    """Sizes after the deployment's number changed, or while it is paused: sets keep their proportion, so that the change does
    not speed up a rollout."""
    sets = [*old, new] if new is not None else old
    active = [each for each in sets if each.wanted > 0]
    if len(active) <= 1:
        newest = active[0] if active else new or max(old, key=lambda each: each.age, default=None)
        return {} if newest is None else {newest.name: allowed.replicas}
    if new is not None and new.wanted == new.available == allowed.replicas:
        return {each.name: 0 for each in active if each is not new}
    return _proportional(active, allowed.most if allowed.replicas else 0)


def _proportional(sets: list[Size], wanted: int) -> dict[str, int]:
    """Sizes in the proportion of the present ones with the given sum; the rest from rounding goes to the largest set."""
    total = sum(each.wanted for each in sets)
    growing = wanted > total
    newer = sorted(sets, key=lambda each: each.age, reverse=growing)
    ranked = sorted(newer, key=lambda each: -each.wanted)
    sizes: dict[str, int] = {}
    for each in ranked:
        size = (2 * each.wanted * wanted + total) // (2 * total)
        sizes[each.name] = min(size, wanted - sum(sizes.values()))
    sizes[ranked[0].name] += wanted - sum(sizes.values())
    return sizes
