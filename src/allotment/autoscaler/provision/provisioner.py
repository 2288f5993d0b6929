"""Which machines to launch for waiting pods: the cheapest, with a proof where possible, and never a machine that the
scheduler would not use.

1. Pods go to existing nodes where they fit.
2. The others are sorted into lots of equals (``lots``). Trials on machines that do not exist show what each machine takes
   (``machine_trials``). This gives a numeric covering problem, for which ``covering`` finds the cheapest machines.
3. The machines are added to the cluster, in a fork, with the slices they would publish, and every pod is bound to its
   machine. A pod that does not fit after all (spreading, neighbours, a device that several nodes reach) gets another round.
4. A gang with fewer places than its minimum loses them all, and everything is repeated without it.
5. If machines cannot be judged one by one (devices that several nodes reach, pods that must be near others or spread), the
   bound of ``covering`` holds only for the choices that were made before. Then the totals over all machines
   (``fleet_totals``) prove a bound, and whole sets of machines are tried (``machine_sets``): exact for few pods, and for more
   pods a few at a time.

Preferences come before price: first the first of a claim's alternatives that any machine has (unless the caller wants the
cheapest), then the pool with the greatest weight. The next best is tried if limits keep the better one from serving all pods.

Everything happens in a fork that is reverted at the end. The same input gives the same plan, in any order.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

from allotment.api.core import Node
from allotment.api.meta import key_of
from allotment.autoscaler.catalogue.machine import Machine, node_of
from allotment.autoscaler.provision.draft import UNIT, PlanDraft, place, place_on_existing, units
from allotment.autoscaler.provision.gang_selection import GangSelection, best_attempt
from allotment.autoscaler.provision.joint_machines import Reconsideration
from allotment.autoscaler.provision.lots import Bundle, Choice, Lot, bundled, in_gang, lots_of, rank
from allotment.autoscaler.provision.machine_limits import Limits
from allotment.autoscaler.provision.machine_trials import MachineTrials
from allotment.autoscaler.provision.min_values import Flexibility
from allotment.autoscaler.provision.plan import LeftOut, NewNode, Plan, PodPlace
from allotment.autoscaler.provision.topology_choice import TopologyChoice
from allotment.autoscaler.simulate.declared_features import declaring
from allotment.autoscaler.simulate.node_arrival import arrive, dismiss
from allotment.autoscaler.solver.covering import EXACT_PODS, USUAL_EFFORT, SolverEffort, cover, relaxed
from allotment.autoscaler.solver.covering_problem import Cover, CoveringProblem, FairPrices, Offer, Pattern
from allotment.scheduler.gangs.gang import gang_of
from allotment.scheduler.pod import group_key

if TYPE_CHECKING:
    from allotment.api.core import Pod
    from allotment.autoscaler.simulate.simulation import Simulation

__all__ = ["provision"]

PLAN_ROUNDS = 6
ARRANGEMENTS = 12  # arrangements of zones and the like that are tried for few pods


def provision(
    simulation: Simulation,
    machines: Iterable[Machine],
    pods: Iterable[Pod],
    *,
    cheapest_alternative: bool = False,
    effort: SolverEffort = USUAL_EFFORT,
) -> Plan:
    """A plan for pods without a node. The simulation need not contain the pods, but must contain their claims. ``machines``
    are those of ``overlays.evaluate`` that can be launched. With ``cheapest_alternative``, the price decides which of a
    claim's alternatives a pod gets."""
    usable = [each for each in declaring(simulation, machines) if _usable(each)]
    usable.sort(key=lambda each: (each.name, each.price))
    waiting = sorted(pods, key=rank)
    with simulation.trial(), _same_scores(simulation, usable):
        for pod in waiting:
            if simulation.cluster.pods.get(key_of(pod)) is None:
                simulation.put(pod)
        known = [simulation.cluster.pods[key_of(pod)].pod for pod in waiting]
        return _Provisioner(simulation, usable, by_price=cheapest_alternative, effort=effort).plan(known)


@contextmanager
def _same_scores(simulation: Simulation, machines: Iterable[Machine]) -> Iterator[None]:
    """Devices are scored relative to the largest sizes. If these changed with every trial, everything that the scheduler
    remembers would be lost, so the largest sizes of all machines count from the beginning."""
    cluster = simulation.cluster
    before = cluster.sizes.largest
    seen: set[tuple[int, ...]] = set()
    for machine in machines:
        devices = tuple(id(each) for each in machine.devices.values())
        if devices not in seen:
            seen.add(devices)
            for each in node_of(machine, "")[1]:
                cluster.sizes.add(each)
    largest = cluster.sizes.largest
    cluster.measure_by(before)
    cluster.measure_by(largest)
    try:
        yield
    finally:
        cluster.measure_by(before)


def _usable(machine: Machine) -> bool:
    fixed = machine.pool is not None and machine.pool.spec.replicas is not None
    return machine.offering.available and not fixed


class _Provisioner:
    def __init__(
        self, simulation: Simulation, machines: Sequence[Machine], *, by_price: bool, effort: SolverEffort
    ) -> None:
        self._simulation = simulation
        self._machines = machines
        self._flexibility = Flexibility(machines)
        self._by_price = by_price
        self._effort = effort

    def plan(self, pods: Sequence[Pod]) -> Plan:
        gangs = self._gangs(pods)
        pods = _gang_by_gang(pods, gangs)
        order = sorted(gangs, key=lambda each: (rank(gangs[each][0])[0], len(gangs[each])))
        words: dict[str, str] = {}
        loose = False

        def attempt(without: frozenset[str]) -> GangSelection[PlanDraft]:
            with self._simulation.trial():
                draft = self._attempt([pod for pod in pods if group_key(pod) not in without])
                broken = {group: why for group in order if (why := self._broken(group, draft))}
            for group, why in broken.items():
                words.setdefault(group, why)
            nonlocal loose
            loose = loose or draft.loose
            return GangSelection(draft, without, broken, _merit(pods, draft))

        found = best_attempt(order, attempt, thorough=len(pods) <= EXACT_PODS)
        draft = found.draft
        if loose:
            rows = Limits(self._simulation, self._machines)
            again = Reconsideration(
                self._simulation,
                self._machines,
                rows.left,
                rows.draws,
                self._effort,
                by_price=self._by_price,
            )
            draft = again.better(pods, draft)
        return self._told(
            pods,
            draft,
            {
                key_of(pod): words.get(group, f"its gang {group} would take the places of more pods")
                for group in found.without
                for pod in gangs[group]
            },
        )

    def _gangs(self, pods: Sequence[Pod]) -> dict[str, list[Pod]]:
        """Waiting pods by their gang, in the order of their first pods."""
        found: dict[str, list[Pod]] = {}
        for pod in pods:
            if in_gang(pod, self._simulation):
                found.setdefault(group_key(pod), []).append(pod)
        return found

    def _broken(self, group: str, draft: PlanDraft) -> str:
        """Whether a gang has places, but too few of them: what is short."""
        cluster = self._simulation.cluster
        gang = gang_of(group, cluster.groups[group])
        assert gang is not None
        members = cluster.members.get(group, {}).values()
        placed = [each for each in members if each.node or each.key in draft.places]
        new = any(each.key in draft.places for each in placed)
        if new and gang.need(placed, len(cluster.finished.get(group, ()))):
            return (
                f"only {len(placed)} of its gang {gang.name} have a place, and {gang.minimum} must have one"
            )
        return ""

    # --- one attempt ---

    def _attempt(self, pods: Sequence[Pod]) -> PlanDraft:
        draft = PlanDraft()
        waiting = bundled(pods, self._simulation)
        tiers: dict[Hashable, int] = {}
        for number in range(PLAN_ROUNDS + 2 * len({pod.spec.priority for pod in pods})):
            waiting = place_on_existing(self._simulation, waiting, draft)
            if not waiting:
                break
            if not self._buy(waiting, tiers, draft, first=number == 0):
                break
            waiting = [bundle for bundle in waiting if key_of(bundle[0]) not in draft.places]
        return draft

    def _buy(
        self, waiting: Sequence[Bundle], tiers: dict[Hashable, int], draft: PlanDraft, *, first: bool
    ) -> bool:
        """Adds machines and places pods on them. Returns True if another round may find more."""
        lots, refused = lots_of(waiting, self._simulation)
        draft.reasons.update(refused)
        for lot in lots:
            lot.tier = tiers.get(lot.key, 0)
        room = MachineTrials(self._simulation, self._machines, lots, any_alternative=self._by_price)
        lots, problem, found = self._cheapest(lots, room)
        able = [lot for lot in lots if lot.choices]
        again = any(lot.choices and missing for lot, missing in zip(lots, found.missing, strict=True))
        if (
            again and len(classes := {lot.importance for lot in able}) > 1
        ):  # limits: more important pods go first
            for each in sorted(classes, reverse=True):
                problem.demand = tuple(len(lot.bundles) if lot.importance == each else 0 for lot in lots)
                found = cover(problem, self._effort)
                if found.machines:
                    break
        else:
            again = False
        if room.unsure:
            found = _unproven(found, problem)
        before = len(draft.places)
        loose = first and (room.shares or any(_tied(lot) for lot in lots))
        settled = self._wherever(lots, room) if first and not loose else None
        again = not self._launch(found, lots, room, draft) or again
        served = [sum(key_of(each[0]) in draft.places for each in lot.bundles) for lot in lots]
        if first:
            draft.loose = loose or bool(settled)
            draft.exact = found.exact and not draft.loose
            if settled:
                whole, fair = settled
                served = [sum(key_of(each[0]) in draft.places for each in lot.bundles) for lot in whole]
                draft.bound = fair.bound(served, problem.limits)
            else:
                draft.bound = 0 if loose else _bound(found, problem, served)
        draft.exact = draft.exact and (first or len(draft.places) == before)
        self._explain(lots, room, draft)
        again = again and len(draft.places) > before
        for lot, missing in zip(lots, found.missing, strict=True):
            if missing and lot.tier + 1 < len(lot.choices):
                tiers[lot.key] = lot.tier + 1
                again = True
        return again

    def _cheapest(self, lots: Sequence[Lot], room: MachineTrials) -> tuple[list[Lot], CoveringProblem, Cover]:
        """The lots in their best arrangement, and machines for them; for large problems, only one arrangement is tried."""
        tried = []
        several = ARRANGEMENTS if sum(len(lot.bundles) for lot in lots) <= EXACT_PODS else 1
        topology = TopologyChoice(self._simulation, self._machines, room)
        for arranged in islice(topology.arrangements(lots), several):
            room.rearrange(arranged)
            problem = self._problem(arranged, room)
            tried.append((arranged, problem, cover(problem, self._effort)))
        best = min(tried, key=lambda each: (sum(each[2].missing), each[2].price))
        room.rearrange(best[0])
        return best

    def _wherever(self, arranged: Sequence[Lot], room: MachineTrials) -> tuple[list[Lot], FairPrices] | None:
        """If zones and the like were chosen: the lots before that choice, and values that prove a bound for every choice."""
        if not any(lot.spreads or lot.together for lot in arranged):
            return None
        whole: dict[int, Lot] = {}
        for lot in arranged:
            known = whole.get(lot.number)
            bundles = [*known.bundles, *lot.bundles] if known is not None else list(lot.bundles)
            whole[lot.number] = dataclasses.replace(lot, bundles=bundles, where={}, choices=[])
        lots = list(whole.values())
        room.rearrange(lots)
        fair = relaxed(self._problem(lots, room), self._effort)
        room.rearrange(arranged)
        return lots, fair

    # --- the problem ---

    def _problem(self, lots: Sequence[Lot], room: MachineTrials) -> CoveringProblem:
        rows = Limits(self._simulation, self._machines)
        for number, lot in enumerate(lots):
            verdicts = [room.verdict(machine, number) for machine in range(len(self._machines))]
            found = {self._choice(m, verdict.rank) for m, verdict in enumerate(verdicts) if verdict.most}
            lot.choices = sorted(found)
            lot.tier = min(lot.tier, max(0, len(found) - 1))
        offers = [
            Offer(
                units(machine),
                room.rooms(number),
                tuple(self._most(number, place, lot, room) for place, lot in enumerate(lots)),
                room.kind(number),
                rows.draws[number],
            )
            for number, machine in enumerate(self._machines)
        ]

        def holds(number: int, pattern: Pattern) -> bool:
            return room.holds(number, pattern) and not self._flexibility.missed(
                number, lambda other: offers[other].admits(pattern) and room.holds(other, pattern)
            )

        return CoveringProblem(tuple(len(lot.bundles) for lot in lots), offers, rows.left, holds)

    def _choice(self, machine: int, rank: tuple[int, ...]) -> Choice:
        pool = self._machines[machine].pool
        weight = (pool.spec.weight or 0) if pool is not None else 0
        return (() if self._by_price else rank), -weight

    def _most(self, machine: int, number: int, lot: Lot, room: MachineTrials) -> int:
        if not lot.reached_by(self._machines[machine].labels):
            return 0
        verdict = room.verdict(machine, number)
        if not verdict.most or self._choice(machine, verdict.rank) != lot.choices[lot.tier]:
            return 0
        return verdict.most

    # --- the machines ---

    def _launch(self, found: Cover, lots: Sequence[Lot], room: MachineTrials, draft: PlanDraft) -> bool:
        """Adds the machines and binds all pods to theirs. Returns False if some pod was refused after all."""
        queues = [iter(lot.bundles) for lot in lots]
        wanted: list[tuple[str, Bundle]] = []
        for each in found.machines:
            for _ in range(each.count):
                name = self._new_name(draft)
                machine = draft.nodes[name] = self._machines[each.offer]
                arrive(self._simulation, machine, name)
                wanted += [(name, next(queues[lot])) for lot in room.order(each.offer, each.pattern)]
        while wanted:
            left = [
                (name, bundle) for name, bundle in wanted if not place(self._simulation, bundle, draft, name)
            ]
            if len(left) == len(wanted):
                break
            wanted = left
        self._return_unused(draft)
        return not wanted

    def _new_name(self, draft: PlanDraft) -> str:
        number = len(draft.nodes) + 1
        while (name := f"new-{number}") in self._simulation.objects(Node):
            number += 1
        return name

    def _return_unused(self, draft: PlanDraft) -> None:
        used = {each.node for each in draft.places.values()}
        used |= {device.split("/")[1] for each in draft.places.values() for device in each.devices}
        for name in [name for name in draft.nodes if name not in used]:
            dismiss(self._simulation, name)
            del draft.nodes[name]

    # --- words ---

    def _explain(self, lots: Sequence[Lot], room: MachineTrials, draft: PlanDraft) -> None:
        for number, lot in enumerate(lots):
            left = [pod for bundle in lot.bundles for pod in bundle if key_of(pod) not in draft.places]
            if not left:
                continue
            refused = next(
                (draft.refusals[key] for pod in left if (key := key_of(pod)) in draft.refusals), ""
            )
            types = self._types(number, lot, room, refused)
            why = _summary(types)
            for pod in left:
                draft.reasons[key_of(pod)] = why
                draft.types[key_of(pod)] = types

    def _types(self, number: int, lot: Lot, room: MachineTrials, refused: str) -> dict[str, str]:
        """For each instance type, why it does not work. ``refused``: the reason of a machine that was added for the lot."""
        limits = Limits(self._simulation, self._machines)
        found: dict[str, str] = {}
        for machine, each in enumerate(self._machines):
            verdict = room.verdict(machine, number)
            if not verdict.most:
                if each.type not in found:
                    found[each.type] = room.why(machine, number)
            elif not lot.reached_by(each.labels):
                found.setdefault(each.type, _astray(lot, each))
            elif rule := self._flexibility.missed(
                machine, lambda other: room.verdict(other, number).most > 0
            ):
                words = f"minValues: {each.source} must leave {rule.least} values of {rule.key} open"
                found.setdefault(each.type, f"would fit, but {words}")
            else:
                found[each.type] = f"would fit, but {refused or limits.reached(machine)}"
        return dict(sorted(found.items()))

    def _told(self, pods: Sequence[Pod], draft: PlanDraft, dropped: Mapping[str, str]) -> Plan:
        by_node: dict[str, list[PodPlace]] = {}
        for each in draft.places.values():
            by_node.setdefault(each.node, []).append(each)
        serves: dict[str, list[PodPlace]] = {}
        for each in draft.places.values():
            for name in {device.split("/")[1] for device in each.devices} - {each.node}:
                serves.setdefault(name, []).append(each)
        nodes = tuple(
            NewNode(name, machine, _by_pod(by_node.get(name, ())), _by_pod(serves.get(name, ())))
            for name, machine in draft.nodes.items()
        )
        existing = sorted(
            (each for each in draft.places.values() if each.node not in draft.nodes),
            key=lambda each: each.pod,
        )
        pending = tuple(
            LeftOut(key, dropped.get(key) or draft.reasons.get(key, ""), draft.types.get(key, {}))
            for key in sorted(map(key_of, pods))
            if key not in draft.places
        )
        exact = draft.exact and draft.bound == draft.price
        bound = Decimal(min(draft.price, draft.bound)) / UNIT if draft.bound or not draft.price else None
        return Plan(nodes, tuple(existing), pending, bound, exact)


def _by_pod(places: Iterable[PodPlace]) -> tuple[PodPlace, ...]:
    return tuple(sorted(places, key=lambda each: each.pod))


def _gang_by_gang(pods: Sequence[Pod], gangs: Mapping[str, Sequence[Pod]]) -> list[Pod]:
    """Among pods of one priority, gangs come first, each in a row, so that they get whole places while there is room."""
    first = {group: rank(members[0]) for group, members in gangs.items()}

    def place(pod: Pod) -> tuple[Any, ...]:
        group = group_key(pod)
        return rank(pod)[0], group not in gangs, first.get(group, ()), rank(pod)

    return sorted(pods, key=place)


def _merit(pods: Sequence[Pod], draft: PlanDraft) -> tuple[int, ...]:
    """How many pods of each priority are served, the highest first; then the price, where less is better."""
    priorities = sorted({pod.spec.priority or 0 for pod in pods}, reverse=True)
    served = Counter(pod.spec.priority or 0 for pod in pods if key_of(pod) in draft.places)
    return (*(served[each] for each in priorities), -draft.price)


def _tied(lot: Lot) -> bool:
    """Whether pods were put together that might have been combined differently."""
    return len(lot.sample) > 1 and lot.sociable


def _unproven(found: Cover, problem: CoveringProblem) -> Cover:
    """The same with the bound that holds whatever machines really take."""
    served = [wanted - missing for wanted, missing in zip(problem.demand, found.missing, strict=True)]
    bound = min(found.price, found.fair.bound(served, problem.limits))
    return dataclasses.replace(found, bound=bound, exact=False)


def _bound(found: Cover, problem: CoveringProblem, served: Sequence[int]) -> int:
    """The least cost of machines for the pods that got a place."""
    covered = [wanted - missing for wanted, missing in zip(problem.demand, found.missing, strict=True)]
    if list(served) == covered:
        return found.bound
    fewer = [min(a, b) for a, b in zip(served, covered, strict=True)]
    return min(found.bound, found.fair.bound(fewer, problem.limits))


def _astray(lot: Lot, machine: Machine) -> str:
    """Why a machine is not where a lot may be."""
    for key in sorted(lot.keyed):
        if key not in machine.labels:
            return f"has no label {key}, by which the pod must be near others or apart"
    return f"is not in the {' and '.join(sorted(lot.where))} where the pod must be because of others"


def _summary(types: Mapping[str, str]) -> str:
    if not types:
        return "no machine is available"
    counts = Counter(types.values())
    told = "; ".join(
        f"{words} ({count})" for words, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    )
    return f"none of {len(types)} instance types fits: {told}"
