"""Improves a plan when machines could not be judged one by one.

That is the case if several nodes reach the same devices, or if zones, or the partners of a pod, were chosen before the
machines. The plan is then valid, but its proof holds only for those choices. Therefore

- the totals of machines (``fleet_totals``) give a bound that holds for every choice;
- whole sets of machines are tried (``machine_sets``): for few pods all sets, first for all waiting pods, then for those with
  a place; if the steps suffice, the result is exact;
- for more pods, those without a place are tried one after another, and then those of the most expensive machines, a few
  machines at a time, while that saves something.

Sets of machines ignore preferences. If these matter (weights of pools, ``minValues``, alternatives of claims; spreading,
because the scheduler counts only the domains that have nodes), no sets are tried, and a plan is exact only if its price
equals the bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from allotment.api.autoscaling import ZONE
from allotment.api.core import NodeSelector
from allotment.api.meta import key_of
from allotment.api.resource import ResourceSlice
from allotment.autoscaler.catalogue.machine import node_of
from allotment.autoscaler.provision.draft import PlanDraft, place, place_on_existing, units
from allotment.autoscaler.provision.fleet_totals import Totals, totals_of
from allotment.autoscaler.provision.lots import Bundle, bundled, deals, in_gang, labels_read, lots_of
from allotment.autoscaler.provision.machine_sets import CheapestSet, MachineSets
from allotment.autoscaler.provision.machine_trials import claims_of, machine_kind
from allotment.autoscaler.simulate.node_arrival import arrive, daemon_sets

if TYPE_CHECKING:
    from allotment.api.core import Pod
    from allotment.autoscaler.catalogue.machine import Machine
    from allotment.autoscaler.simulate.simulation import Simulation
    from allotment.autoscaler.solver.covering import SolverEffort

ALL_SETS_PODS = 8
"""Up to this number of pods, all sets of machines are tried."""
MOST_RECONSIDERED_PODS = 200
"""Above this number of pods, nothing is tried."""
_STEPS_A_SET = 150
"""Steps for one set of machines if not all sets are tried."""
AT_A_TIME = (1, 2, 3)
"""How many machines are sold and replaced together."""


class Reconsideration:
    """Improves drafts for one set of waiting pods. ``draws`` is what each machine takes of the limits in ``left``. After
    every call, the simulation is as it was."""

    def __init__(
        self,
        simulation: Simulation,
        machines: Sequence[Machine],
        left: Sequence[int],
        draws: Sequence[Sequence[int]],
        effort: SolverEffort,
        *,
        by_price: bool = False,
    ) -> None:
        """With ``by_price``, alternatives of claims are not preferences."""
        self._simulation = simulation
        self._machines = machines
        self._left, self._draws = left, draws
        self._steps = effort.tries
        self._by_price = by_price

    def better(self, pods: Sequence[Pod], draft: PlanDraft) -> PlanDraft:
        """The draft, or one that serves more pods or costs less; with a bound that holds."""
        served = [pod for pod in pods if key_of(pod) in draft.places]
        if self._has_preferences(pods) or len(pods) > MOST_RECONSIDERED_PODS:
            return self._bounded(served, draft)
        if len(pods) <= ALL_SETS_PODS:
            if len(served) < len(pods):
                whole = self._searched(pods, PlanDraft(), ceiling=None)
                if whole is not None:
                    return self._bounded(pods, whole)
            found = self._searched(served, draft, ceiling=draft.price + 1)
            return self._bounded(served, _keeping(draft, found) if found is not None else draft)
        draft = self._more_served(pods, draft)
        served = [pod for pod in pods if key_of(pod) in draft.places]
        return self._bounded(served, self._thriftier(served, draft))

    def _has_preferences(self, pods: Sequence[Pod]) -> bool:
        pools = [each.pool for each in self._machines if each.pool is not None]
        several = not self._by_price and any(
            request.first_available
            for pod in pods
            for claim in claims_of((pod,), self._simulation)
            for request in claim.spec.devices.requests
        )
        few_values = any(rule.min_values for pool in pools for rule in pool.spec.template.spec.requirements)
        spread = any(deals(rule) for pod in pods for rule in pod.spec.topology_spread_constraints)
        return spread or several or few_values or len({pool.spec.weight or 0 for pool in pools}) > 1

    # --- the bound ---

    def _bounded(self, served: Sequence[Pod], draft: PlanDraft) -> PlanDraft:
        """The draft, with a bound for the machines of pods that are not on existing nodes."""
        new = [pod for pod in served if draft.places[key_of(pod)].node in draft.nodes]
        with self._simulation.trial():
            for pod in served:
                if (node := draft.places[key_of(pod)].node) not in draft.nodes:
                    place(self._simulation, (pod,), PlanDraft(), node)
            totals = self._totals(bundled(new, self._simulation), PlanDraft())
        bound = draft.price if draft.exact else max(draft.bound, min(totals.bound(), draft.price))
        return dataclasses.replace(draft, bound=bound, exact=draft.exact or bound == draft.price)

    def _left_over(self, pods: Sequence[Pod], draft: PlanDraft) -> list[Bundle]:
        """The pods that find no room on existing nodes; the others are placed there. Gangs are left whole, because they are
        placed as a whole."""
        gangs = [pod for pod in pods if in_gang(pod, self._simulation)]
        others = [pod for pod in pods if pod not in gangs]
        left = place_on_existing(self._simulation, bundled(others, self._simulation), draft)
        return [*left, *bundled(gangs, self._simulation)]

    def _totals(self, bundles: Sequence[Bundle], draft: PlanDraft) -> Totals:
        """The totals for pods besides those of a draft, whose machines already exist and count against the limits."""
        lots, _ = lots_of(bundles, self._simulation)
        numbers = {id(machine): number for number, machine in enumerate(self._machines)}
        drawn = [self._draws[numbers[id(machine)]] for machine in draft.nodes.values()]
        left = [most - sum(each[row] for each in drawn) for row, most in enumerate(self._left)]
        daemons = [labels_read(each.spec.template.spec) for each in daemon_sets(self._simulation)]
        lots_read = [lot.reads | lot.keyed for lot in lots]
        reads = frozenset((ZONE,)).union(*lots_read, *daemons, self._labels_of_devices())
        return totals_of(
            self._simulation,
            self._machines,
            lots,
            [claims_of(lot.sample, self._simulation) for lot in lots],
            prices=self._candidates(sorted(reads)),
            draws=dict(enumerate(self._draws)),
            limits=left,
        )

    def _labels_of_devices(self) -> set[str]:
        """Labels by which nodes reach devices."""
        selectors: list[NodeSelector | None] = [
            each.spec.node_selector for each in self._simulation.objects(ResourceSlice).values()
        ]
        for machine in {machine_kind(each, ()): each for each in self._machines}.values():
            selectors += [each.spec.node_selector for each in node_of(machine, "")[1]]
        return {
            test.key
            for selector in selectors
            if selector is not None
            for term in selector.node_selector_terms
            for test in term.match_expressions
        }

    def _candidates(self, reads: Sequence[str]) -> Mapping[int, int]:
        """Prices of machines; among machines that nothing distinguishes, only the cheapest."""
        found: dict[object, int] = {}
        for number, machine in sorted(enumerate(self._machines), key=lambda each: (units(each[1]), each[0])):
            found.setdefault(machine_kind(machine, reads), number)
        return {number: units(self._machines[number]) for number in sorted(found.values())}

    # --- sets of machines ---

    def _searched(self, pods: Sequence[Pod], draft: PlanDraft, ceiling: int | None) -> PlanDraft | None:
        """The cheapest machines for pods, if they are proven cheapest or cost less than the ceiling."""
        found = PlanDraft(exact=False)
        with self._simulation.trial():
            left = self._left_over(pods, found)
            if not left:
                return dataclasses.replace(found, exact=True)
            sets = self._sets(left, found, ceiling)
        if sets.machines is None:
            return None
        return self._with(found, sets)

    def _sets(
        self, bundles: Sequence[Bundle], draft: PlanDraft, ceiling: int | None, *, thorough: bool = True
    ) -> CheapestSet:
        """Unless ``thorough``, each set gets little effort, and nothing is exact."""
        totals = self._totals(bundles, draft)
        most = _most(bundles, self._simulation)
        if ceiling is None:
            ceiling = 1 + most * max(totals.prices.values(), default=0)
        sets = MachineSets(self._simulation, self._machines, totals, self._steps)
        found = sets.cheapest(bundles, ceiling, most, None if thorough else _STEPS_A_SET)
        self._steps = max(0, sets.steps)
        return found

    def _with(self, draft: PlanDraft, found: CheapestSet) -> PlanDraft:
        assert found.machines is not None
        nodes = {name: self._machines[number] for name, number in found.machines.items()}
        return dataclasses.replace(
            draft,
            nodes={**draft.nodes, **nodes},
            places={**draft.places, **found.places},
            exact=found.complete,
        )

    # --- a few at a time ---

    def _more_served(self, pods: Sequence[Pod], draft: PlanDraft) -> PlanDraft:
        """Tries pods without a place one after another; gangs are left out, because they would have to be placed as a whole."""
        for bundle in bundled([pod for pod in pods if key_of(pod) not in draft.places], self._simulation):
            if any(pod.spec.scheduling_group is not None for pod in bundle) or not self._steps:
                continue
            with self._simulation.trial():
                if not self._carried_out(draft, pods):
                    return draft
                more = PlanDraft()
                if place(self._simulation, bundle, more):
                    draft = _keeping(
                        draft, dataclasses.replace(draft, places={**draft.places, **more.places})
                    )
                    continue
                found = self._sets([bundle], draft, None, thorough=False)
            if found.machines is not None:
                draft = _keeping(draft, dataclasses.replace(self._with(draft, found), exact=False))
        return draft

    def _thriftier(self, pods: Sequence[Pod], draft: PlanDraft) -> PlanDraft:
        if any(pod.spec.scheduling_group is not None for pod in pods):
            return draft
        saved = True
        while saved and self._steps:
            saved = False
            for sold in _sales(draft):
                cheaper = self._resold(pods, draft, sold)
                if cheaper is not None:
                    draft, saved = cheaper, True
                    break
        return draft

    def _resold(self, pods: Sequence[Pod], draft: PlanDraft, sold: Sequence[str]) -> PlanDraft | None:
        """The draft with these machines replaced by cheaper ones, if there are any."""
        gone = {
            each.pod
            for each in draft.places.values()
            if each.node in sold or any(device.split("/")[1] in sold for device in each.devices)
        }
        kept = dataclasses.replace(
            draft,
            nodes={name: machine for name, machine in draft.nodes.items() if name not in sold},
            places={pod: place for pod, place in draft.places.items() if pod not in gone},
        )
        with self._simulation.trial():
            if not self._carried_out(kept, pods):
                return None
            more, homeless = PlanDraft(), [pod for pod in pods if key_of(pod) in gone]
            left = place_on_existing(self._simulation, bundled(homeless, self._simulation), more)
            kept = dataclasses.replace(kept, places={**kept.places, **more.places}, exact=False)
            if not left:
                return kept
            found = self._sets(left, kept, draft.price - kept.price, thorough=False)
        if found.machines is None:
            return None
        return dataclasses.replace(self._with(kept, found), exact=False)

    def _carried_out(self, draft: PlanDraft, pods: Sequence[Pod]) -> bool:
        """Adds a draft's machines and binds its pods, in any order that works. Each binding is a step; False if no steps are
        left."""
        self._steps -= len(draft.nodes) + len(draft.places)
        if self._steps < 0:
            self._steps = 0
            return False
        for name, machine in draft.nodes.items():
            arrive(self._simulation, machine, name)
        wanted = [pod for pod in pods if key_of(pod) in draft.places]
        while wanted:
            left = [
                pod
                for pod in wanted
                if not place(self._simulation, (pod,), PlanDraft(), draft.places[key_of(pod)].node)
            ]
            if len(left) == len(wanted):
                return False
            wanted = left
        return True


def _sales(draft: PlanDraft) -> Iterator[tuple[str, ...]]:
    """Machines to sell together, the most expensive first."""
    names = sorted(draft.nodes, key=lambda name: (-draft.nodes[name].price, name))
    for size in AT_A_TIME:
        for start in range(len(names) - size + 1):
            yield tuple(names[start : start + size])


def _keeping(draft: PlanDraft, found: PlanDraft) -> PlanDraft:
    """The result, with the reasons for pods that have no place in it."""
    left = {pod: words for pod, words in draft.reasons.items() if pod not in found.places}
    types = {pod: words for pod, words in draft.types.items() if pod not in found.places}
    return dataclasses.replace(found, reasons=left, types=types)


def _most(bundles: Sequence[Bundle], simulation: Simulation) -> int:
    """The largest useful number of machines: each has a pod, or a device for one."""
    devices = sum(
        max(each.count or 1 for each in ((request.exactly,) if request.exactly else request.first_available))
        for bundle in bundles
        for claim in claims_of(bundle, simulation)
        for request in claim.spec.devices.requests
    )
    return sum(map(len, bundles)) + devices
