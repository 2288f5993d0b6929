"""Tries whole sets of machines with the scheduler, in order of price: exact for few pods.

``covering`` judges machines one by one. That is not sufficient if a pod's devices may belong to another machine than its own,
or if pods depend on each other across machines. Here, the cheapest set is the first one, by price, on which the scheduler can
bind all pods. Every order of binding and every place is tried; states that were met before are skipped, and sets that the
totals (``fleet_totals``) exclude are not tried. A machine may be in a set only for its devices.

Effort is counted in steps, one for each attempted binding and each examined set. ``complete`` says that the steps sufficed:
then no cheaper set serves the pods.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.api.core import Node
from allotment.api.meta import key_of
from allotment.autoscaler.provision.lots import company_of, lots_of
from allotment.autoscaler.provision.plan import PodPlace, devices_of
from allotment.autoscaler.simulate.node_arrival import arrive
from allotment.scheduler.diagnosis import NoNode

if TYPE_CHECKING:
    from allotment.api.core import Pod
    from allotment.autoscaler.catalogue.machine import Machine
    from allotment.autoscaler.provision.fleet_totals import Totals
    from allotment.autoscaler.provision.lots import Bundle, Lot
    from allotment.autoscaler.simulate.simulation import Simulation

MOST_EXISTING_NODES = 8
"""The largest number of existing nodes that such a search includes; with more of them it proves nothing, and only new
machines are tried."""
Near = tuple[str, Hashable]


@dataclass(frozen=True, slots=True)
class CheapestSet:
    """``machines``, by the names of their nodes, and all places; None if there is no set below the ceiling."""

    machines: Mapping[str, int] | None
    places: Mapping[str, PodPlace]
    complete: bool


@dataclass(slots=True)
class _SwappablePods:
    """Pods that may swap their places."""

    pods: list[Pod]
    near: Mapping[
        Near, Collection[str]
    ]  # by label and gang that must be in one domain of it: where its members run
    open: int = 0

    def __post_init__(self) -> None:
        self.open = len(self.pods)


class MachineSets:
    """Searches sets of machines for waiting pods. Machines are given by their number in ``machines``; after every call, the
    simulation is as it was."""

    def __init__(
        self, simulation: Simulation, machines: Sequence[Machine], totals: Totals, steps: int
    ) -> None:
        self._simulation = simulation
        self._machines = machines
        self._totals = totals
        self.steps = steps
        names = sorted(simulation.objects(Node))
        self._existing = names if len(names) <= MOST_EXISTING_NODES else []
        self._all_seen = len(names) <= MOST_EXISTING_NODES

    def cheapest(
        self, bundles: Sequence[Bundle], ceiling: int, most: int, for_each: int | None = None
    ) -> CheapestSet:
        """At most this many machines for all of these pods that cost less than the ceiling. ``for_each`` limits the steps for
        one set; then nothing is proven."""
        kinds = list(_kinds(bundles, self._simulation))
        for chosen in self._by_price(ceiling, most):
            self.steps -= 1
            if self.steps < 0:
                return CheapestSet(None, {}, complete=False)
            if self._totals.allow(chosen):
                kept = 0 if for_each is None else max(0, self.steps - for_each)
                self.steps -= kept
                places = self._placed(chosen, kinds)
                self.steps = kept + max(0, self.steps) if for_each is not None else self.steps
                if places is not None:
                    return CheapestSet(
                        _named(chosen, self._simulation), places, complete=self.steps >= 0 and self._all_seen
                    )
        return CheapestSet(None, {}, complete=self.steps >= 0 and self._all_seen and for_each is None)

    def _by_price(self, ceiling: int, most: int) -> Iterator[tuple[int, ...]]:
        """Sets of machines, cheapest first. Each derives from one other: with one more of its last machine, or with the next
        instead of it."""
        totals = self._totals
        order = sorted(totals.candidates, key=lambda each: (totals.price(each), each))
        prices = [totals.price(each) for each in order]
        heap: list[tuple[int, tuple[int, ...]]] = [(0, ())]
        while heap:
            price, chosen = heapq.heappop(heap)
            if price >= ceiling:
                return
            yield tuple(order[each] for each in chosen)
            last = chosen[-1] if chosen else 0
            if len(chosen) < most and order:
                heapq.heappush(heap, (price + prices[last], (*chosen, last)))
            if chosen and last + 1 < len(order):
                heapq.heappush(heap, (price - prices[last] + prices[last + 1], (*chosen[:-1], last + 1)))

    def _placed(self, chosen: Sequence[int], kinds: Sequence[_SwappablePods]) -> dict[str, PodPlace] | None:
        with self._simulation.trial():
            names = _named(chosen, self._simulation)
            for name, number in names.items():
                arrive(self._simulation, self._machines[number], name)
            search = _Places(self, kinds, [*self._existing, *names], names)
            return search.places if search.descend() else None


@dataclass(slots=True)
class _Places:
    """Binds the pods of one set, one after another. ``fresh`` are new nodes, by their machine; among equal ones that are
    still empty, one is tried."""

    sets: MachineSets
    kinds: Sequence[_SwappablePods]
    nodes: Sequence[str]
    fresh: Mapping[str, int]
    places: dict[str, PodPlace] = field(default_factory=dict)
    _dead: set[tuple[tuple[int, str, tuple[str, ...]], ...]] = field(default_factory=set)
    _taken: list[tuple[int, str, tuple[str, ...]]] = field(default_factory=list)
    _domains: dict[Near, str] = field(default_factory=dict)

    def descend(self) -> bool:
        if not any(kind.open for kind in self.kinds):
            return True
        state = tuple(sorted(self._taken))
        if state in self._dead:
            return False
        for number, kind in enumerate(self.kinds):
            for node in self._targets() if kind.open else ():
                if self._try(number, kind, node):
                    return True
                if self.sets.steps < 0:
                    return False
        self._dead.add(state)
        return False

    def _targets(self) -> Iterator[str]:
        used = {node for _, node, _ in self._taken}
        used |= {device.split("/")[1] for _, _, devices in self._taken for device in devices}
        empty: set[int] = set()
        for node in self.nodes:
            machine = self.fresh.get(node)
            if machine is not None and node not in used:
                if machine in empty:
                    continue
                empty.add(machine)
            yield node

    def _try(self, number: int, kind: _SwappablePods, node: str) -> bool:
        simulation, pod = self.sets._simulation, kind.pods[kind.open - 1]
        domains = self._settled(kind, simulation.node(node))
        if domains is None:
            return False
        self.sets.steps -= 1
        with simulation.trial() as trial:
            found = simulation.simulate_bind_pod(pod, node)
            if isinstance(found, NoNode):
                return False
            devices = devices_of(found)
            before, self._domains = self._domains, domains
            self._taken.append((number, node, devices))
            kind.open -= 1
            self.places[key_of(pod)] = PodPlace(key_of(pod), node, devices)
            if self.descend():
                kind.open += 1
                trial.keep()
                return True
            kind.open += 1
            self._taken.pop()
            self._domains = before
            del self.places[key_of(pod)]
        return False

    def _settled(self, kind: _SwappablePods, node: Node) -> dict[Near, str] | None:
        """The domains of gangs, once one more member is on the node; None if it may not be there."""
        found = dict(self._domains)
        for near, running in kind.near.items():
            here = node.metadata.labels.get(near[0])
            if here is None or found.setdefault(near, here) != here or (running and here not in running):
                return None
        return found


def _kinds(bundles: Iterable[Bundle], simulation: Simulation) -> Iterator[_SwappablePods]:
    """Equal pods that are alone in their bundle form one kind; a pod that shares a claim or a node with another is its own
    kind."""
    bundles = list(bundles)
    for lot in lots_of([each for each in bundles if len(each) == 1], simulation)[0]:
        yield _SwappablePods([pod for (pod,) in lot.bundles], _near(lot, simulation))
    for bundle in bundles:
        for pod in bundle if len(bundle) > 1 else ():
            for lot in lots_of([(pod,)], simulation)[0]:
                yield _SwappablePods([pod], _near(lot, simulation))


def _near(lot: Lot, simulation: Simulation) -> dict[Near, Collection[str]]:
    """For gangs only: the scheduler itself enforces affinity."""
    return {near: company_of(lot, near[0], simulation) for near in lot.together if isinstance(near[1], str)}


def _named(chosen: Sequence[int], simulation: Simulation) -> dict[str, int]:
    there, names, number = simulation.objects(Node), dict[str, int](), 0
    for machine in chosen:
        number += 1
        while f"new-{number}" in there:
            number += 1
        names[f"new-{number}"] = machine
    return names
