"""Which nodes can be removed, if their pods run elsewhere or on cheaper machines.

``consolidate(simulation, machines, candidates, now=…) -> Consolidation`` finds the set of nodes whose removal saves most.
``removability`` says which nodes may be removed at all (pools, annotations, budgets). For a set of nodes, their pods are
evicted, the nodes removed, and the pods placed as the scheduler would; for pods without room, ``provisioner`` plans machines
that are cheaper than the set. Every accepted set lowers the price, or keeps it with fewer nodes, so the process ends, however
often it is repeated.

If there are few nodes, all sets are tried and the best one is taken. If there are many, empty nodes are removed first; then
single nodes whose pods fit elsewhere, the least used first; then one, two and more nodes against cheaper machines. This
repeats until nothing more is found; machines planned earlier may be removed again. The answer is the difference between the
beginning and the end.

Waiting pods that find room count as if they were running, and keep the nodes on which they will run; so do pods on nodes that
are being removed. A gang moves as a whole: nodes with members of one gang are removed together or not at all, and if some
members are on a node that stays, all of these nodes stay. Effort is counted in trials, never in time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from typing import TYPE_CHECKING

from allotment.api.core import Node
from allotment.api.meta import key_of
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.consolidate.removability import Removability, Stay, is_leaving
from allotment.autoscaler.provision.lots import rank
from allotment.autoscaler.provision.plan import NewNode, Plan, PodPlace
from allotment.autoscaler.provision.provisioner import provision
from allotment.autoscaler.simulate.declared_features import declaring
from allotment.autoscaler.simulate.drain import (
    DRAIN_ROUNDS,
    CannotDrain,
    ClearedNodes,
    accommodate,
    belongs_to_node,
    clear,
)
from allotment.autoscaler.simulate.node_arrival import arrive
from allotment.autoscaler.simulate.simulation import BoundPod
from allotment.autoscaler.simulate.utilisation import utilisation
from allotment.autoscaler.solver.covering import SolverEffort
from allotment.scheduler.diagnosis import NoNode
from allotment.scheduler.disruption_budgets import Budgets
from allotment.scheduler.gangs.gang import gang_of
from allotment.scheduler.pod import PodInfo, group_key

if TYPE_CHECKING:
    from allotment.api.autoscaling import NodeGroup, NodePool
    from allotment.api.core import Pod
    from allotment.autoscaler.simulate.simulation import Simulation

__all__ = ["Consolidation", "RemovableNode", "consolidate"]

EXHAUSTIVE_SETS = 6
EXHAUSTIVE_PODS = 30
"""Up to this number of nodes, or of sets that must be removed together, all combinations are tried, if they have no more pods
than this."""
KINDS_WITH_ROOM = 6
"""The number of kinds of pods for each of which room is reserved in small problems."""
SETS_PLANNED = 32
PODS_OF_A_SET = 100
"""In larger problems, the number of sets that are planned with new machines, and the number of pods in one such set."""
NODES_AT_ONCE = 8
"""How many nodes are tried at once in large problems; the number doubles after a success."""
RETRY_NODES = 100
"""How many nodes with some room are tried again after machines were added."""
SIZES = (1, 2, 3, 4, 6, 8, 12)
EFFORT_PER_PLAN = SolverEffort(rounds=60, resales=2, steps=1_500, tries=300)
"""The effort for each of the many plans."""
NOTHING = Decimal(0)

Unit = tuple[str, ...]
"""Nodes that are removed together or not at all."""


NOT_ASKED = Stay("it was not examined alone again after other nodes were removed")


@dataclass(frozen=True, slots=True)
class RemovableNode:
    """A node that can be removed. ``reason`` is Empty or Underutilized; an unknown price counts as nothing."""

    node: str
    reason: str
    price: Decimal | None


@dataclass(frozen=True, slots=True)
class Consolidation:
    """One complete change: launch ``machines``, then remove the nodes in ``gone``. ``moved`` has every pod that gets another
    node, including those on new machines (named as in ``machines``)."""

    gone: tuple[RemovableNode, ...]
    machines: tuple[NewNode, ...]
    moved: tuple[PodPlace, ...]
    dropped: tuple[str, ...]  # pods that end with their nodes: daemons, and pods that only have admin access
    stays: Mapping[str, Stay]  # every candidate that stays

    @property
    def saved(self) -> Decimal:
        """Per hour."""
        before = sum((each.price or NOTHING for each in self.gone), NOTHING)
        return before - sum((each.machine.price for each in self.machines), NOTHING)


def consolidate(
    simulation: Simulation,
    machines: Iterable[Machine],
    candidates: Mapping[str, float],
    *,
    now: float,
    owners: Iterable[NodePool | NodeGroup] = (),
    effort: SolverEffort = EFFORT_PER_PLAN,
) -> Consolidation:
    """The possible savings now. Afterwards, the simulation is as it was before.

    ``candidates`` are the nodes to examine, each with the time (seconds, as ``now``) at which a pod last came or left.
    ``machines`` are all machines of ``overlays.evaluate``, because they also give prices. ``owners`` are pools and groups
    besides theirs, for nodes whose machines are no longer available. ``effort`` is for each plan.
    """
    machines = declaring(simulation, machines)  # before any node is removed on trial
    with simulation.trial():
        search = _ConsolidationSearch(
            simulation, machines, Removability(simulation, machines, owners, now=now), effort
        )
        search.begin({name: now - since for name, since in candidates.items()})
        while search.improve():
            pass
        return search.answer()


@dataclass(frozen=True, slots=True)
class _RemovalTrial:
    """The result of removing nodes: the savings, and the added machines."""

    nodes: Unit
    saved: Decimal
    new: Mapping[str, Machine]
    moved: frozenset[str]
    gone: tuple[str, ...] = ()

    @property
    def worth(self) -> tuple[Decimal, int, int, int]:
        """The order of results: money, machines that are not needed, removed nodes, pods that need not move."""
        return self.saved, -len(self.new), len(self.nodes), -len(self.moved)


class _ConsolidationSearch:
    """The simulation has the state; this object records what was done to it."""

    def __init__(
        self,
        simulation: Simulation,
        machines: Sequence[Machine],
        standings: Removability,
        effort: SolverEffort,
    ) -> None:
        self._simulation = simulation
        self._machines = machines
        self._standings = standings
        self._effort = effort
        self._budgets = Budgets(simulation.cluster)
        self._stays: dict[str, Stay] = {}
        self._old: dict[str, Node] = {}  # candidates that may be removed, while they exist
        self._new: dict[str, Machine] = {}
        self._gone: dict[str, tuple[str, Decimal | None]] = {}  # reason and price
        self._reasons: dict[str, str] = {}
        self._moved: set[str] = set()
        self._dropped: set[str] = set()
        self._trials = 0
        self._few = False  # everything is tried
        self._single: set[Unit] = set()  # all units, as they were last examined
        self._hopeless: set[Hashable] = set()  # states of sets without a cheaper alternative
        self._stuck: set[Unit] = set()  # nodes whose pods find no room, until machines are added

    # --- the beginning and the end ---

    def begin(self, quiet: Mapping[str, float]) -> None:
        taken = self._settle()
        nodes = self._simulation.objects(Node)
        for name in sorted(quiet):
            if name not in nodes:
                continue
            stay = self._standings.keeps(nodes[name], quiet[name])
            if stay is None and name in taken:
                stay = Stay("a waiting pod has its place there")
            if stay is not None:
                self._stays[name] = stay
            else:
                self._old[name] = nodes[name]
                self._reasons[name] = self._standings.reason(name)

    def _settle(self) -> set[str]:
        """Places waiting pods, and pods of nodes that are being removed, where they will run anyway; returns these nodes."""
        for name, node in list(self._simulation.objects(Node).items()):
            if is_leaving(node):
                for pod in self._simulation.pods(name):
                    if not belongs_to_node(pod):
                        self._simulation.simulate_evict_pod(pod, name)
        waiting = [info.pod for info in self._simulation.cluster.pods.values() if not info.node]
        found = set()
        for pod in sorted(waiting, key=rank):
            placed = self._simulation.schedule(pod)
            if isinstance(placed, BoundPod):
                found.add(placed.node)
        return found

    def answer(self) -> Consolidation:
        cluster, places = self._simulation.cluster, []
        for key in sorted(self._moved):
            info = cluster.pods[key]
            places.append(PodPlace(key, info.node, tuple(self._devices(info.pod))))
        machines = tuple(
            NewNode(name, machine, tuple(each for each in places if each.node == name))
            for name, machine in self._new.items()
        )
        gone = tuple(RemovableNode(name, *self._gone[name]) for name in sorted(self._gone))
        stays = {name: self._stays.get(name, NOT_ASKED) for name in sorted({*self._old, *self._stays})}
        return Consolidation(gone, machines, tuple(places), tuple(sorted(self._dropped)), stays)

    def _devices(self, pod: Pod) -> Iterator[str]:
        cluster = self._simulation.cluster
        for key in cluster.used_by(cluster.pods[key_of(pod)]):
            claim = cluster.claims.objects.get(key)
            allocation = claim.status.allocation if claim is not None else None
            for each in allocation.devices.results if allocation is not None else ():
                yield f"{each.driver}/{each.pool}/{each.device}"

    # --- what may go together ---

    def _units(self) -> list[Unit]:
        """The nodes that may be removed; those with members of one gang together."""
        home = {name: name for name in (*self._old, *self._new)}

        def root(name: str) -> str:
            while home[name] != name:
                name = home[name]
            return name

        held: list[str] = []
        for nodes in self._gangs(home):
            inside = [name for name in nodes if name in home]
            for name in inside[1:]:
                home[root(name)] = root(inside[0])
            if len(inside) < len(nodes):
                held.append(inside[0])
        stuck = set(map(root, held))
        found: dict[str, list[str]] = {}
        for name in home:
            found.setdefault(root(name), []).append(name)
        for name in stuck:
            self._note(found.pop(name), Stay("a gang moves whole, and has members on nodes that stay"))
        return [tuple(each) for each in found.values()]

    def _gangs(self, nodes: Iterable[str]) -> Iterator[list[str]]:
        """For each gang with members on these nodes, all nodes with members."""
        cluster, groups = self._simulation.cluster, dict[str, None]()
        for name in nodes:
            groups.update({pod.group: None for pod in cluster.nodes[name].pods.values() if pod.group})
        for group in groups:
            known = cluster.groups.get(group)
            if known is not None and gang_of(group, known) is not None:
                members = cluster.members.get(group, {}).values()
                yield sorted({each.node for each in members if each.node})

    # --- the search ---

    def improve(self) -> bool:
        """Removes some nodes for good. Returns False if nothing more is found."""
        units = self._units()
        self._single = set(units)
        self._hopeless.clear()
        self._few = len(units) <= EXHAUSTIVE_SETS and sum(map(self._pods, units)) <= EXHAUSTIVE_PODS
        if self._few:
            return self._best(units)
        return self._let_empty_go(units) or self._each_alone(units) or self._some_for_cheaper(units)

    def _best(self, units: Sequence[Unit]) -> bool:
        """Tries all sets of units, the most expensive first, and takes the best."""
        sets = [each for size in range(1, len(units) + 1) for each in combinations(units, size)]
        choices = [tuple(name for unit in each for name in unit) for each in sets]
        choices.sort(key=lambda nodes: (-self._price(nodes), len(nodes), nodes))
        best: _RemovalTrial | None = None
        for nodes in choices:
            if best is not None and self._price(nodes) < best.saved:
                break
            with self._simulation.trial():
                found = self._try(nodes, buy=True)
            if isinstance(found, _RemovalTrial) and (best is None or found.worth > best.worth):
                best = found
            elif isinstance(found, Stay) and nodes in self._single:
                self._note(nodes, found)
        return best is not None and self._let_go(best.nodes, buy=True)

    def _let_empty_go(self, units: Sequence[Unit]) -> bool:
        empty = [unit for unit in units if not any(self._standings.moving(name) for name in unit)]
        return self._let_all_go(sorted(empty, key=lambda unit: (-self._price(unit), unit)), buy=False)

    def _each_alone(self, units: Sequence[Unit]) -> bool:
        """Tries single nodes, those with the least work first; and more and more at once while that succeeds, so that pods do
        not move to nodes that are removed next. Unless machines are added, room only shrinks, so a node whose pods found none
        is not tried again; of the others, a few are."""
        order = sorted(units, key=lambda unit: (self._used(unit), -self._price(unit), unit))
        order = order[:RETRY_NODES] if self._new else [unit for unit in order if unit not in self._stuck]
        found, size = False, NODES_AT_ONCE
        while size <= len(order):
            if not self._let_go(tuple(name for unit in order[:size] for name in unit), buy=False):
                break
            order, size, found = order[size:], 2 * size, True
        found = self._let_all_go(order, buy=False) or found
        self._stuck.update(order)
        return found

    def _some_for_cheaper(self, units: Sequence[Unit]) -> bool:
        """Tries sets of nodes, those with the most unused cost first."""
        waste = {unit: self._price(unit) * (1 - Decimal(self._used(unit))) for unit in units}
        order = sorted(units, key=lambda unit: (-waste[unit], unit))
        found = False
        for size in SIZES:
            windows = [order[start : start + size] for start in range(0, len(order) - size + 1, size)]
            sets = [tuple(name for unit in each for name in unit) for each in windows]
            sets = [nodes for nodes in sets if self._pods(nodes) <= PODS_OF_A_SET]
            found = self._let_all_go(sets, buy=True) or found
            order = [unit for unit in order if all(name in self._old or name in self._new for name in unit)]
        return found

    def _let_all_go(self, sets: Sequence[Unit], *, buy: bool) -> bool:
        """Removes as many of them as possible, one after another."""
        found = False
        for nodes in sets:
            look = self._look(nodes) if buy else None
            if buy and (self._trials >= SETS_PLANNED or look in self._hopeless):
                continue
            self._trials += buy
            if self._let_go(nodes, buy=buy):
                found = True
            elif buy:
                self._hopeless.add(look)
        return found

    def _look(self, nodes: Unit) -> Hashable:
        """Equal for nodes of one price with the same pods on them."""
        infos = [self._simulation.cluster.nodes[name] for name in nodes]
        pods = [
            tuple(sorted((id(pod.asks), hash(pod.volumes)) for pod in info.pods.values())) for info in infos
        ]
        return tuple(sorted(zip(map(self._price_of, nodes), pods, strict=True), key=repr))

    def _pods(self, nodes: Unit) -> int:
        return sum(len(self._simulation.cluster.nodes[name].pods) for name in nodes)

    def _used(self, unit: Unit) -> float:
        """The used part of the nodes, by the resource or device kind that is used most."""
        return min(float(max(utilisation(self._simulation, name).most for name in unit)), 1.0)

    def _price(self, nodes: Iterable[str]) -> Decimal:
        return sum((self._price_of(name) or NOTHING for name in nodes), NOTHING)

    def _price_of(self, name: str) -> Decimal | None:
        machine = self._new.get(name)
        return machine.price if machine is not None else self._standings.price(self._old[name])

    def _note(self, nodes: Iterable[str], stay: Stay) -> None:
        self._stays.update({name: stay for name in nodes if name in self._old})

    # --- one set of nodes ---

    def _let_go(self, nodes: Unit, *, buy: bool) -> bool:
        with self._simulation.trial() as trial:
            found = self._try(nodes, buy=buy)
            if isinstance(found, Stay):
                if (
                    nodes in self._single
                ):  # the reason that keeps several together belongs to none of them alone
                    self._note(nodes, found)
                return False
            trial.keep()
        self._standings.went(name for name in nodes if name in self._old)
        for name in nodes:
            if name in self._old:
                self._gone[name] = self._reasons[name], self._price_of(name)
                del self._old[name]
            else:
                del self._new[name]
            self._stays.pop(name, None)
        self._new.update(found.new)
        fresh = found.moved - self._moved
        self._budgets.spend(*(self._simulation.cluster.pods[key] for key in sorted(fresh)))
        self._moved |= found.moved
        self._dropped.update(found.gone)
        return True

    def _try(self, nodes: Unit, *, buy: bool) -> _RemovalTrial | Stay:
        """Removes nodes. Call this in a fork, and revert the fork if they stay."""
        cost, known = self._price(nodes), self._simulation.cluster.pods
        going = {name: self._reasons[name] for name in nodes if name in self._old}
        if why := self._standings.spare(going):
            return Stay(why)
        moving = [known[key_of(pod)] for name in nodes for pod in self._standings.moving(name)]
        if not self._budgets.allow(*(each for each in moving if each.key not in self._moved)):
            return Stay(
                "disruption budgets of pods on it allow no more evictions now", self._protected(nodes)
            )
        cleared = clear(self._simulation, nodes)
        if isinstance(cleared, CannotDrain):
            who = "1 pod uses" if len(cleared.pods) == 1 else f"{len(cleared.pods)} pods use"
            return Stay(f"{who} devices of it from elsewhere", cleared.pods)
        if stranded := [claim for each in cleared.nodes for claim in each.stranded]:
            words = "it keeps devices of the node, in use or not (Immediate)"
            return Stay("claims keep its devices, in use or not (Immediate)", dict.fromkeys(stranded, words))
        new = self._placed(cleared, cost, buy=buy)
        if isinstance(new, Stay):
            return new
        looking = accommodate(self._simulation, cleared)
        if why := self._standings.enough():
            return Stay(why)
        moved = frozenset([*map(key_of, cleared.waiting), *(key_of(each.pod) for each in looking)])
        paid = sum((each.price for each in new.values()), NOTHING)
        return _RemovalTrial(nodes, cost - paid, new, moved, tuple(map(key_of, cleared.gone)))

    def _protected(self, nodes: Unit) -> dict[str, str]:
        known = self._simulation.cluster.pods
        keys = [key_of(pod) for name in nodes for pod in self._standings.moving(name)]
        return {
            key: "its disruption budget allows no more evictions now"
            for key in keys
            if key not in self._moved and not self._budgets.allow(known[key])
        }

    def _placed(self, cleared: ClearedNodes, cost: Decimal, *, buy: bool) -> Mapping[str, Machine] | Stay:
        """Places all evicted pods, if necessary on machines that cost less; returns these machines."""
        stay = self._on_existing(cleared.waiting)
        if stay is None:
            return {}
        cheaper = [each for each in self._machines if each.price < cost] if buy else []
        if not cheaper:
            return stay
        first, plan = self._plan(cleared.waiting, cheaper)
        if plan.pending or plan.price >= cost:
            return Stay(f"{stay.why}, and there are no cheaper machines for them", stay.pods)
        self._schedule(first)
        if not carry_out(self._simulation, plan) or self._torn(cleared.waiting):
            return stay
        return {each.name: each.machine for each in plan.nodes}

    def _plan(self, pods: Sequence[Pod], machines: Sequence[Machine]) -> tuple[Sequence[Pod], Plan]:
        """The cheapest plan for evicted pods, and the pods that get existing room before it is made. A plan uses existing
        room in a fixed order; in small problems, one kind of pods after another also gets that room first."""
        plans: list[tuple[Sequence[Pod], Plan]] = [((), self._planned((), pods, machines))]
        if plans[0][1].existing and self._few:
            kinds: dict[int, list[Pod]] = {}
            for pod in pods:
                kinds.setdefault(id(self._simulation.cluster.pods[key_of(pod)].asks), []).append(pod)
            alike = list(kinds.values())[:KINDS_WITH_ROOM] if len(kinds) > 1 else []
            plans += [(first, self._planned(first, pods, machines)) for first in alike]
        return min(plans, key=lambda each: (len(each[1].pending), each[1].price))

    def _planned(self, first: Sequence[Pod], pods: Sequence[Pod], machines: Sequence[Machine]) -> Plan:
        with self._simulation.trial():
            placed = self._schedule(first)
            rest = [pod for pod in pods if key_of(pod) not in placed]
            return provision(self._simulation, machines, rest, effort=self._effort)

    def _schedule(self, pods: Sequence[Pod]) -> set[str]:
        """Places the pods that find room; returns their keys."""
        return {key_of(pod) for pod in pods if isinstance(self._simulation.schedule(pod), BoundPod)}

    def _on_existing(self, pods: Sequence[Pod]) -> Stay | None:
        """Places all pods in existing room, or none. A pod that found no place goes first the next time."""
        order, stay = sorted(pods, key=_hardest), None
        for _ in range(DRAIN_ROUNDS):
            with self._simulation.trial() as trial:
                refused = self._first_refused(order)
                if refused is None:
                    torn = self._torn(pods)
                    if torn is None:
                        trial.keep()
                    return torn
            pod, stay = refused
            if pod is order[0]:
                break
            order = [pod, *(each for each in order if each is not pod)]
        return stay

    def _first_refused(self, pods: Sequence[Pod]) -> tuple[Pod, Stay] | None:
        for pod in pods:
            found = self._simulation.schedule(pod)
            if isinstance(found, NoNode):
                return pod, _homeless(key_of(pod), found)
        return None

    def _torn(self, pods: Sequence[Pod]) -> Stay | None:
        """A gang that is not where its topology requires it."""
        cluster = self._simulation.cluster
        for group in dict.fromkeys(filter(None, map(group_key, pods))):
            known = cluster.groups.get(group)
            gang = gang_of(group, known) if known is not None else None
            for key in gang.topology if gang is not None else ():
                members = cluster.members.get(group, {}).values()
                domains = Counter(cluster.nodes[each.node].labels.get(key) for each in members if each.node)
                if len(domains) > 1:
                    return Stay(f"a gang finds no place within one {key}")
        return None


def _homeless(pod: str, refusal: NoNode) -> Stay:
    return Stay("its pods do not all find a place elsewhere", {pod: refusal.words})


def _hardest(pod: Pod) -> tuple[int, int, int, str]:
    """The order in which pods with the fewest possible nodes come first."""
    requests = PodInfo(pod).requests
    return -len(pod.spec.resource_claims), -requests.get("cpu", 0), -requests.get("memory", 0), key_of(pod)


def carry_out(simulation: Simulation, plan: Plan) -> bool:
    """Adds the machines of a plan and binds its pods, in any order that works. Returns False if some pod is refused after
    all."""
    for each in plan.nodes:
        arrive(simulation, each.machine, each.name)
    places = [*plan.existing, *(place for each in plan.nodes for place in each.places)]
    while places:
        left = [
            each
            for each in places
            if not isinstance(
                simulation.simulate_bind_pod(simulation.cluster.pods[each.pod].pod, each.node), BoundPod
            )
        ]
        if len(left) == len(places):
            return False
        places = left
    return True
