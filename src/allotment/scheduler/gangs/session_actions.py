"""What a batch session does for a gang, in Volcano's terms: allocate it, or preempt or reclaim so that it can be allocated later.

* **allocate** places the gang within what its queue may use.
* **backfill**: members that ask for nothing at all (no amounts, no claims) take nothing of a queue's quota, so they are placed
  even where the quota holds others of their gang back. They are not exempt from the gang's minimum and do not count for it before
  they are placed: Volcano counts them as ready at once, and with them pods that have claims but no amounts.
* **preempt** evicts pods of lower priority; for a Volcano gang, only those of other groups in the same queue.
* **reclaim** evicts pods of other queues that use more than their due, down to their due, for a queue that stays within its own.
  Only contended resources count: those that do not suffice for all, or that some queue says it deserves. A queue that states what
  it deserves is measured by that alone.

The session finds the victims on trial. It removes the least important pods until the gang fits. It then puts back every pod that
still fits beside the gang. Of the rest, the most important first, it puts back every pod without whose eviction the gang fits in
another way. So it never evicts a pod whose removal frees nothing that the gang needs. Members of a gang above its minimum are
evicted one by one. The core members are evicted only all together, along with those above the minimum, unless the group's
``disruptionMode`` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from allotment.scheduler.absence import Absence, claims_of, freed_by, without
from allotment.scheduler.config.configuration import MAKING_ROOM
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.disruption_budgets import Budgets
from allotment.scheduler.gangs.disruption_mode import each_alone, only_together
from allotment.scheduler.gangs.gang import gang_of
from allotment.scheduler.gangs.tenant_queues import (
    QUEUE,
    TenantQueues,
    add,
    demand_of,
    guaranteed,
    open_ended,
    queue_of,
)
from allotment.scheduler.node import PODS
from allotment.scheduler.pod import VOLCANO

if TYPE_CHECKING:
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.gangs.gang import Gang, GangNeed
    from allotment.scheduler.gangs.session import Session
    from allotment.scheduler.placement import Placement, Placer
    from allotment.scheduler.pod import PodInfo
    from allotment.scheduler.resource_requests import Amounts

MOST_VICTIMS = 512
MOST_PLACED_ANEW = 64
"""How often the gang is placed again to see which pods can be put back. If that does not suffice to be sure, no pod is
evicted."""

MayGo = Callable[["PodInfo"], bool]
Placed = dict[str, str]
"""The node that each member would get."""


@dataclass(frozen=True, slots=True)
class Clearing:
    """There will be room for a gang once ``victims`` are gone, together with the ``claims`` that only they use. ``places`` names
    the node that each member would get."""

    victims: tuple[PodInfo, ...]
    claims: tuple[str, ...]
    places: Placed
    words: str


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that are evicted or kept together. If a ``core`` unit is evicted, so is the rest of its group."""

    pods: tuple[PodInfo, ...]
    group: str = ""
    core: bool = False

    @property
    def rank(self) -> tuple[int, int, str]:
        """Sorts the most important first; among equals, the core of a gang before the members above its minimum."""
        return -max(pod.priority for pod in self.pods), not self.core, self.pods[0].key


@dataclass(frozen=True, slots=True)
class _GangInNeed:
    """A gang that needs room."""

    gang: Gang
    pods: Sequence[PodInfo]
    need: GangNeed
    now: float
    jointly: bool = False  # placing members one by one fails even with all units removed
    budgeted: bool = True  # disruption budgets are kept


class SessionActions:
    """The actions of a session on one cluster. ``making_room`` names the actions allowed for Volcano gangs that do not fit."""

    def __init__(
        self,
        cluster: Cluster,
        placer: Placer,
        session: Session,
        making_room: frozenset[str] = MAKING_ROOM,
    ) -> None:
        self._making_room = making_room
        self._cluster = cluster
        self._placer = placer
        self._session = session
        self.queues = TenantQueues(cluster)
        self.moment = 0  # every change that is not on trial must change this
        self._asked_at = -1
        self._asked: dict[Hashable, Placed | None] = {}  # results at that moment, by removed pods

    # --- allocate ---

    def allocate(
        self, gang: Gang, pods: Sequence[PodInfo], need: GangNeed, now: float, *, jointly: bool = True
    ) -> list[Placement] | NoNode:
        """Places a gang, or says why not."""
        if not gang.key.startswith(VOLCANO):
            return self._session.place(gang, pods, need, now, jointly=jointly)
        some, words = self._within_quota(gang, pods, need)
        if words:
            closed = bool(self.queues.closed(gang.queue))
            return NoNode(f"gang {gang.name}: {words}", frozenset((QUEUE,)), resolvable=not closed)
        veto = partial(self._exceeds, gang) if any(open_ended(pod, self._cluster) for pod in some) else None
        placed = self._session.place(gang, some, need, now, jointly=jointly, veto=veto)
        if isinstance(placed, NoNode) and len(some) < len(pods):  # other pods of the gang might fit
            return replace(placed, plugins=placed.plugins | {QUEUE})
        return placed

    def _exceeds(self, gang: Gang, placed: Placement) -> NoNode | None:
        """Whether a queue exceeds its limits, now that the devices of a pod's claims are known."""
        demand = demand_of([placed.cycle.pod], self._cluster)
        words = self.queues.exceeded(gang.queue, [name for name, amount in demand.items() if amount])
        return NoNode(words, frozenset((QUEUE,))) if words else None

    def _within_quota(
        self, gang: Gang, pods: Sequence[PodInfo], need: GangNeed
    ) -> tuple[Sequence[PodInfo], str]:
        """The pods that the queue may take, at least as many as needed; otherwise the refusal."""
        queues, cluster = self.queues, self._cluster
        words = queues.closed(gang.queue)
        if words:
            return (), words
        if not queues.beyond(gang.queue, demand_of(pods, cluster)) and not self._lacks(gang, pods, need):
            return pods, ""
        taken: list[PodInfo] = []
        for pod in pods:
            beyond = queues.beyond(gang.queue, demand_of([*taken, pod], cluster))
            words = words or beyond
            if not beyond:
                taken.append(pod)
        if need.met_by(taken):
            words = self._lacks(gang, taken, need)
        return taken, words

    def _lacks(self, gang: Gang, pods: Sequence[PodInfo], need: GangNeed) -> str:
        """Why a queue cannot give the resources that a gang states for its minimum, if so. Called before any member is placed."""
        if not gang.resources or need.count < gang.minimum:
            return ""
        least = demand_of(pods, self._cluster)
        for name, amount in gang.resources.items():
            least[name] = max(amount, least.get(name, 0))
        return self.queues.beyond(gang.queue, least)

    # --- preempt, reclaim ---

    def clear(self, gang: Gang, pods: Sequence[PodInfo], need: GangNeed, now: float) -> Clearing | None:
        """Preempt, then reclaim: the evictions that make room for a gang; None if none do."""
        return self._cleared(_GangInNeed(gang, pods, need, now))

    def protected(self, gang: Gang, pods: Sequence[PodInfo], need: GangNeed, now: float) -> str:
        """A sentence if disruption budgets alone prevent evictions for a gang; otherwise empty."""
        if not self._cluster.budgets:
            return ""
        clearing, budgets = (
            self._cleared(_GangInNeed(gang, pods, need, now, budgeted=False)),
            Budgets(self._cluster),
        )
        kept = sum(not budgets.spend(victim) for victim in clearing.victims) if clearing is not None else 0
        if not kept:
            return ""
        whom = "a pod that is" if kept == 1 else f"{kept} pods that are"
        return (
            f"Preemption would make room, but disruption budgets that are used up protect {whom} in the way"
        )

    def _cleared(self, case: _GangInNeed) -> Clearing | None:
        volcano, pods, need = case.gang.key.startswith(VOLCANO), case.pods, case.need
        for some in (_least(pods, need), pods):  # room for any pods that meet the need is enough
            case = replace(case, pods=some)
            preempts = not volcano or "preempt" in self._making_room
            clearing = self._preempt(case, volcano=volcano) if preempts else None
            if clearing is None and volcano and "reclaim" in self._making_room:
                clearing = self._reclaim(case)
            if clearing is not None or len(some) == len(pods):
                return clearing
        return None

    def _preempt(self, case: _GangInNeed, *, volcano: bool) -> Clearing | None:
        gang, pods = case.gang, case.pods
        if not gang.preempts or any(pod.pod.spec.preemption_policy == "Never" for pod in pods):
            return None
        priority = gang.priority if gang.priority is not None else max(pod.priority for pod in pods)

        def may_go(other: PodInfo) -> bool:
            same_queue = not volcano or queue_of(other.pod, self._cluster) == gang.queue
            return other.priority < priority and same_queue and other.group != gang.key

        return self._clear(case, self._units(case, may_go))

    def _reclaim(self, case: _GangInNeed) -> Clearing | None:
        """Reclaims what other queues use beyond their due, while this queue stays within its own."""
        queues, cluster, mine = self.queues, self._cluster, case.gang.queue
        wanted = demand_of(case.pods[: max(case.need.count, 1)], cluster)
        contended = queues.contended(wanted)
        stated = contended & queues.stated(mine).keys()
        parts, used = queues.due(contended), queues.used
        already, own = used.get(mine, {}), parts.get(mine, {})
        if any(already.get(name, 0) + wanted[name] > own.get(name, 0) for name in stated or contended):
            return None
        over: dict[str, Amounts] = {}
        for name, amounts in used.items():
            more = {r: amounts.get(r, 0) - parts[name].get(r, 0) for r in contended}
            if name != mine and queues.reclaimable(name) and any(amount > 0 for amount in more.values()):
                over[name] = more
        if not over:
            return None
        units = self._units(case, lambda other: queue_of(other.pod, cluster) in over)
        return self._clear(case, self._within_excess(units, over))

    def _within_excess(self, units: list[Unit], over: dict[str, Amounts]) -> list[Unit]:
        """The units that use a resource of which their queue has more than its due, and whose eviction leaves the queue its due;
        the least important first. A resource within the queue's due is no reason to evict a unit and none to spare it. Only
        the queue's guarantee always stays with it."""
        chosen = []
        used = {name: dict(amounts) for name, amounts in self.queues.used.items()}
        for unit in sorted(units, key=lambda unit: unit.rank, reverse=True):
            name = queue_of(unit.pods[0].pod, self._cluster)
            freed, left = demand_of(unit.pods, self._cluster), over[name]
            spared = any(
                freed.get(r) and self._under(each, used, r) - freed[r] < amount
                for each in self._cluster.queue_tree.path(name)
                for r, amount in guaranteed(self._cluster.queues.get(each)).items()
            )
            if not spared and any(left[r] >= amount > 0 for r, amount in freed.items() if r in left):
                add(left, {r: amount for r, amount in freed.items() if r in left}, -1)
                add(used[name], freed, -1)
                chosen.append(unit)
        kept = {unit.group for unit in units if unit not in chosen}
        return [unit for unit in chosen if not unit.core or unit.group not in kept]

    def _under(self, name: str, used: dict[str, Amounts], resource: str) -> int:
        """What a queue and those below it use."""
        return sum(used.get(each, {}).get(resource, 0) for each in self._cluster.queue_tree.below(name))

    # --- which pods may be evicted ---

    def _units(self, case: _GangInNeed, may_go: MayGo) -> list[Unit]:
        """All units that may be evicted."""
        cluster, mine = self._cluster, {pod.key for pod in case.pods}

        def may(other: PodInfo) -> bool:
            settled = bool(other.node) and other.key not in cluster.assumed
            return settled and other.key not in mine and not other.leaving and may_go(other)

        alone: list[PodInfo] = []
        groups: dict[str, list[PodInfo]] = {}
        for other in filter(may, cluster.pods.values()):
            key = other.group
            group = cluster.groups.get(key) if key else None
            whole = group is not None and (only_together(group) or gang_of(key, group) is not None)
            if whole and not each_alone(group):
                groups.setdefault(key, []).append(other)
            else:
                alone.append(other)
        units = [Unit((pod,)) for pod in alone]
        for key, members in groups.items():
            units += self._units_of(key, members)
        units.sort(key=lambda unit: unit.rank, reverse=True)
        return self._affordable(units, Budgets(cluster) if case.budgeted else None)

    def _units_of(self, key: str, members: list[PodInfo]) -> list[Unit]:
        """The units of a group whose members given here may be evicted."""
        group = self._cluster.groups[key]
        gang = gang_of(key, group)
        placed = [pod for pod in self._cluster.members[key].values() if pod.node]
        if gang is None or only_together(group):
            return [Unit(tuple(members), key, core=True)] if len(members) == len(placed) else []
        surplus = max(0, len(placed) - gang.minimum) if not gang.tasks else 0
        members.sort(key=lambda pod: (pod.priority, pod.key))
        units = [Unit((pod,), key) for pod in members[:surplus]]
        if len(members) == len(placed) and members[surplus:]:
            units.append(Unit(tuple(members[surplus:]), key, core=True))
        return units

    def _affordable(self, units: list[Unit], budgets: Budgets | None) -> list[Unit]:
        """The units that disruption budgets allow to be evicted, the least important first, up to a number of pods. If any unit
        of a gang must stay, so must its core."""
        chosen, kept, count = [], set(), 0
        for unit in units:
            count += len(unit.pods)
            free = count <= MOST_VICTIMS and not (unit.core and unit.group in kept)
            if free and (budgets is None or budgets.spend(*unit.pods)):
                chosen.append(unit)
            else:
                kept.add(unit.group)
        return [unit for unit in chosen if not unit.core or unit.group not in kept]

    # --- which pods must be evicted ---

    def _clear(self, case: _GangInNeed, units: list[Unit]) -> Clearing | None:
        if not units:
            return None
        units = sorted(units, key=lambda unit: unit.rank)
        with without(self._cluster, [pod for unit in units for pod in unit.pods], case.pods) as absence:
            if self._places(case, absence) is None:
                case = replace(case, jointly=True)
                if self._places(case, absence) is None:
                    return None
            units = self._fewest(case, absence, units)
            placed = self._placed(case)
            if (
                placed is None
            ):  # of two claims on one device, the second has it once the first was away: that must be settled first
                return None
            rest = self._bring_back(absence, units, lambda unit: not any(map(self._crowded, unit.pods)))
            for each in reversed(placed):
                self._placer.unreserve(each.cycle, each.node)
            if len(rest) > MOST_PLACED_ANEW:
                return None
            if self._places(case, absence) is None:  # room is not the only obstacle: ports, neighbours
                self._take(absence, units)
                rest = units if len(units) <= MOST_PLACED_ANEW else []
            going = self._bring_back(absence, rest, lambda unit: self._places(case, absence) is not None)
            places = self._places(case, absence)
        victims = tuple(pod for unit in going for pod in unit.pods)
        if not victims or places is None:
            return None
        count = "1 pod goes" if len(victims) == 1 else f"{len(victims)} pods go"
        keys = [victim.key for victim in victims]
        claims = dict.fromkeys(key for victim in victims for key in freed_by(self._cluster, victim, keys))
        return Clearing(victims, tuple(claims), places, f"{count} to make room for the gang")

    def _fewest(self, case: _GangInNeed, absence: Absence, units: list[Unit]) -> list[Unit]:
        """The fewest of the least important units whose removal suffices. All are removed before the call; only these are after
        it."""
        first, most = 0, len(units) - 1  # units[first:] are known to be enough
        while first < most and not case.jointly:
            middle = (first + most + 1) // 2
            self._bring(absence, units[first:middle])
            if self._places(case, absence) is not None:
                first = middle
            else:
                self._take(absence, units[first:middle])
                most = middle - 1
        return units[first:]

    def _bring_back(
        self, absence: Absence, units: Sequence[Unit], can_stay: Callable[[Unit], bool]
    ) -> list[Unit]:
        """Puts back every unit that can stay. Returns those that must be evicted."""
        going: list[Unit] = []
        broken: set[str] = set()
        for unit in units:
            if unit.group not in broken:
                self._bring(absence, [unit])
                if can_stay(unit):
                    continue
                self._take(absence, [unit])
            going.append(unit)
            if unit.core:
                broken.add(unit.group)
        return going

    def _bring(self, absence: Absence, units: Sequence[Unit]) -> None:
        for pod in (pod for unit in units for pod in unit.pods):
            if pod in absence:
                absence.bring(pod.key)

    def _take(self, absence: Absence, units: Sequence[Unit]) -> None:
        for pod in (pod for unit in units for pod in unit.pods):
            if pod not in absence:
                absence.take(pod)

    def _crowded(self, pod: PodInfo) -> bool:
        cluster = self._cluster
        node = cluster.nodes[pod.node]
        full = any(node.taken.get(name, 0) > node.offered.get(name, 0) for name in (*pod.requests, PODS))
        robbed = any(key in cluster.claims.disputed for key in claims_of(cluster, pod))
        return full or robbed or self.queues.full(queue_of(pod.pod, cluster))

    def _placed(self, case: _GangInNeed) -> list[Placement] | None:
        placed = self.allocate(case.gang, case.pods, case.need, case.now, jointly=case.jointly)
        return None if isinstance(placed, NoNode) else placed

    def _places(self, case: _GangInNeed, absence: Absence) -> Placed | None:
        """The nodes that the members would get now; None if they do not fit. A paused decision asks the same again, and the
        answer is remembered while nothing else changes."""
        if self._asked_at != self.moment:
            self._asked_at, self._asked = self.moment, {}
        question = (case.gang.key, tuple([pod.key for pod in case.pods]), case.jointly, absence.keys)
        if question not in self._asked:
            self._asked[question] = self._find_places(case)
        return self._asked[question]

    def _find_places(self, case: _GangInNeed) -> Placed | None:
        placed = self._placed(case)
        if placed is None:
            return None
        for each in reversed(placed):
            self._placer.unreserve(each.cycle, each.node)
        return {each.cycle.pod.key: each.node for each in placed}


def _least(pods: Sequence[PodInfo], need: GangNeed) -> Sequence[PodInfo]:
    """The shortest run of first pods that is enough; all pods if that is not so simple."""
    for count in range(max(need.count, 1), len(pods)):
        if need.met_by(pods[:count]):
            return pods[:count]
    return pods
