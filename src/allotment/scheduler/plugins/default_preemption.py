"""DefaultPreemption: which pods of lower priority must be evicted so that a pod fits on a node.

The plugin considers a node only if the pod fails there because of what other pods use. It removes all pods of lower priority from
a trial state. If the pod then fits, the plugin puts the removed pods back one by one, the most important first, and each pod that
still fits stays. The rest are the victims. So the plugin never evicts a pod whose removal frees nothing useful: that pod would
have been put back.

Pods of a group whose ``disruptionMode`` is ``all`` are evicted or kept together, on whatever nodes they run. A claim that several
pods share becomes free only when all of them leave. Pods whose disruption budget is used up stay. If budgets alone are in the
way, the pod's condition says so.

Among several nodes, the plugin picks the one whose most important victim is least important, then the one with the smallest sum
of priorities, then the one with the fewest victims. It nominates the pod for that node and evicts nothing more for it while the
victims or their claims are still there. After a restart, pods that are terminating on the node show that an eviction is under
way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.api.batch import PodDisruptionBudget
from allotment.api.text import plural
from allotment.scheduler.absence import Absence, claims_of, freed_by, without
from allotment.scheduler.disruption_budgets import Budgets
from allotment.scheduler.framework import ObjectAction, Protected, Room, Status, StatusCode, Wake
from allotment.scheduler.gangs.disruption_mode import companions

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

NAME = "DefaultPreemption"
MOST_CANDIDATES = 50
MOST_AWAITED = 10_000
VICTIMS_AWAITED = 60.0
"""Seconds after which the plugin stops waiting for victims that do not leave."""


@dataclass(frozen=True, slots=True)
class AwaitedRoom:
    """What must be gone before a pod that evicted others is tried again."""

    room: Room
    claims: tuple[str, ...]
    since: float


class DefaultPreemption:
    """The PostFilter plugin that chooses victims on a node, and waits for them to leave."""

    name = NAME
    wakes: Sequence[Wake] = (
        Wake(PodDisruptionBudget, frozenset((ObjectAction.UPDATE, ObjectAction.DELETE))),
    )

    def __init__(self) -> None:
        self._awaited: dict[str, AwaitedRoom] = {}

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        """A disruption budget that allows more than before, or was deleted, protects fewer pods."""
        if not isinstance(old, PodDisruptionBudget) or not isinstance(new, PodDisruptionBudget):
            return True
        return new.status.disruptions_allowed > old.status.disruptions_allowed or new.spec != old.spec

    def post_filter(self, cycle: Cycle, rejections: Mapping[str, Status]) -> Room | Protected | None:
        pod, cluster = cycle.pod, cycle.cluster
        if pod.pod.spec.preemption_policy == "Never" or min(cluster.priorities) >= pod.priority:
            return None  # the usual case, and a check that costs the same however many pods there are
        awaited = self._awaited_room(cycle)
        if awaited is not None:
            return awaited
        best: tuple[tuple[int, int, int, str], list[PodInfo]] | None = None
        candidates = self._candidates(cycle, rejections)
        for node in candidates:
            victims = self._victims(cycle, node)
            if victims:
                worth = _worth(victims, node.name)
                if best is None or worth < best[0]:
                    best = (worth, victims)
        if best is None:
            return self._protected(cycle, candidates)
        (*_, name), victims = best
        claims = [key for victim in victims for key in freed_by(cluster, victim, [v.key for v in victims])]
        count = plural(len(victims), "pod")
        room = Room(name, tuple(victims), f"Evicting {count} of lower priority from a node to make room")
        self._awaited[pod.key] = AwaitedRoom(room, tuple(dict.fromkeys(claims)), cycle.now)
        while len(self._awaited) > MOST_AWAITED:
            del self._awaited[next(iter(self._awaited))]
        return room

    def _awaited_room(self, cycle: Cycle) -> Room | None:
        """The room that an earlier eviction is making for the pod, without new victims. None once the victims and their claims
        are gone, or after ``VICTIMS_AWAITED`` seconds."""
        pod, cluster = cycle.pod, cycle.cluster
        awaited = self._awaited.get(pod.key)
        if awaited is None:
            node = cluster.nodes.get(cluster.nominated.get(pod.key, ""))
            if node is None or not any(
                each.leaving and each.priority < pod.priority for each in node.pods.values()
            ):
                return None
            return Room(node.name, (), "Pods of lower priority are leaving a node to make room")
        room = awaited.room
        there = [cluster.pods.get(victim.key) for victim in room.victims]
        pending = any(
            each is not None and each.uid == victim.uid
            for each, victim in zip(there, room.victims, strict=True)
        ) or any(cluster.claims.allocation(claim) is not None for claim in awaited.claims)
        kept = cluster.nominated.get(pod.key) == room.node  # otherwise the eviction failed
        if pending and kept and cycle.now - awaited.since < VICTIMS_AWAITED:
            return Room(room.node, (), room.words)
        del self._awaited[pod.key]
        return None

    def _candidates(self, cycle: Cycle, rejections: Mapping[str, Status]) -> list[NodeInfo]:
        """Nodes that reject the pod because of what others use and that run pods of lower priority. Nodes with the least
        important pods come first."""
        found: list[tuple[int, int, str]] = []
        for name, status in rejections.items():
            node = cycle.cluster.nodes.get(name)
            if node is None or status.code is not StatusCode.UNSCHEDULABLE:
                continue
            lower = [other.priority for other in node.pods.values() if _may_go(other, cycle.pod)]
            if lower:
                found.append((min(lower), len(lower), name))
        return [cycle.cluster.nodes[name] for *_, name in sorted(found)[:MOST_CANDIDATES]]

    def _victims(self, cycle: Cycle, node: NodeInfo) -> list[PodInfo]:
        """The pods that must leave the node so that the pod fits; empty if evicting pods does not help."""
        cluster = cycle.cluster
        lower, _ = _sorted_out(cycle, node)
        if not lower:
            return []
        with without(cluster, _pods(lower)) as absence:
            if not isinstance(_judge(cycle, node), int):
                return []
            # the most important first; among equals, those whose removal frees least
            order = sorted(lower, key=lambda unit: _importance(cluster, unit))
            return _pods(unit for unit in order if not self._can_stay(cycle, node, absence, unit))

    def _protected(self, cycle: Cycle, candidates: Sequence[NodeInfo]) -> Protected | None:
        """On how many nodes disruption budgets alone prevent preemption."""
        nodes = pods = 0
        for node in candidates if cycle.cluster.budgets else ():
            going, kept = _sorted_out(cycle, node)
            if kept:
                with without(cycle.cluster, _pods(going + kept)):
                    if isinstance(_judge(cycle, node), int):
                        nodes, pods = nodes + 1, pods + len(_pods(kept))
        if not nodes:
            return None
        where = "a node" if nodes == 1 else f"{nodes} nodes"
        whom = "the pod" if pods == 1 else f"{pods} pods"
        return Protected(
            f"Preemption would make room on {where}, but disruption budgets that are used up protect {whom} there"
        )

    def _can_stay(self, cycle: Cycle, node: NodeInfo, absence: Absence, unit: Unit) -> bool:
        for other in unit:
            absence.bring(other.key)
        if isinstance(_judge(cycle, node), int):
            return True
        for other in unit:
            absence.take(other)
        return False


Unit = tuple["PodInfo", ...]
"""Pods that are evicted or kept together."""


def _pods(units: Iterable[Unit]) -> list[PodInfo]:
    return [pod for unit in units for pod in unit]


def _importance(cluster: Cluster, unit: Unit) -> tuple[int, int, str]:
    held = sum(_held(cluster, pod) for pod in unit)
    return -max(pod.priority for pod in unit), held, unit[0].key


def _sorted_out(cycle: Cycle, node: NodeInfo) -> tuple[list[Unit], list[Unit]]:
    """The pods of lower priority on a node that may be evicted, each with its companions; and those that disruption budgets
    protect."""
    budgets = Budgets(cycle.cluster)
    lower = _units(cycle, node)
    lower.sort(key=lambda unit: (max(other.priority for other in unit), unit[0].key))
    going = [unit for unit in lower if budgets.spend(*unit)]
    return going, [unit for unit in lower if unit not in going]


def _units(cycle: Cycle, node: NodeInfo) -> list[Unit]:
    found: dict[str, Unit] = {}
    for other in node.pods.values():
        if _may_go(other, cycle.pod):
            unit = tuple(each for each in companions(other, cycle.cluster) if not each.leaving)
            if all(_may_go(each, cycle.pod) for each in unit):
                found[other.key if len(unit) == 1 else other.group] = unit
    return list(found.values())


def _judge(cycle: Cycle, node: NodeInfo) -> int | Status:
    assert cycle.judge is not None, "preemption needs a way to ask about a node"
    return cycle.judge(node)


def _may_go(other: PodInfo, pod: PodInfo) -> bool:
    return other.priority < pod.priority and not other.leaving


def _held(cluster: Cluster, pod: PodInfo) -> int:
    """How many devices a pod's claims hold."""
    return sum(len(cluster.fleet.ledger.holdings(key)) for key in claims_of(cluster, pod))


def _worth(victims: Sequence[PodInfo], node: str) -> tuple[int, int, int, str]:
    priorities = [victim.priority for victim in victims]
    return max(priorities), sum(priorities), len(victims), node
