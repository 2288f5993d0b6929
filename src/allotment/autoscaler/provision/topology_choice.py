"""Where lots go that must be together or spread: zones, racks and other domains of nodes, chosen before machines.

A domain is a value of a label that machines have. Lots that must be together go where their company runs, or otherwise where
they are cheapest alone. Lots that must spread are dealt out to all domains that have machines for them. Because machines may
be shared with other lots, the choice may not be the best one, so a caller with time asks for more than one arrangement.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.autoscaler.provision.lots import Lot, company_of, dealt

if TYPE_CHECKING:
    from allotment.autoscaler.catalogue.machine import Machine
    from allotment.autoscaler.provision.machine_trials import MachineTrials
    from allotment.autoscaler.simulate.simulation import Simulation

Near = tuple[str, Hashable]
"""A label, and what lots have in common that must be in one domain of it."""


@dataclass(frozen=True, slots=True)
class TopologyChoice:
    """The choice of domains for the lots of one plan."""

    simulation: Simulation
    machines: Sequence[Machine]
    room: MachineTrials

    def arrangements(self, lots: Sequence[Lot]) -> Iterator[list[Lot]]:
        """The lots with all domains chosen, the most promising arrangement first; there is always one."""
        yield from self._settled(
            list(lots), list(dict.fromkeys(each for lot in lots for each in lot.together))
        )

    def _settled(self, lots: list[Lot], open_: Sequence[Near]) -> Iterator[list[Lot]]:
        if not open_:
            yield [share for lot in lots for share in self._dealt(lot)]
            return
        near, *rest = open_
        for domain in self._domains(near, [lot for lot in lots if near in lot.together]) or [""]:
            settled = [
                dataclasses.replace(lot, where={**lot.where, near[0]: domain})
                if near in lot.together
                else lot
                for lot in lots
            ]
            yield from self._settled(settled, rest)

    def _domains(self, near: Near, members: Sequence[Lot]) -> list[str]:
        """Domains in which lots can be together, cheapest first."""
        key = near[0]
        costs = [self._costs(lot, key) for lot in members]
        domains = set.intersection(*(set(each) for each in costs))
        company = {each for lot in members for each in company_of(lot, key, self.simulation)}
        domains = domains & company if company else domains
        return sorted(domains, key=lambda each: (sum(cost[each] for cost in costs), each))

    def _costs(self, lot: Lot, key: str) -> dict[str, float]:
        """The least cost of a lot in each domain that has machines for it."""
        costs: dict[str, float] = {}
        for number, machine in enumerate(self.machines):
            most = self.room.taken(number, lot).most
            if most and lot.reached_by(machine.labels):
                cost, domain = float(machine.price) * len(lot.bundles) / most, machine.labels[key]
                costs[domain] = min(costs.get(domain, cost), cost)
        return costs

    def _dealt(self, lot: Lot) -> list[Lot]:
        """A lot divided over the domains to which it must spread."""
        found = [lot]
        for rule in lot.spreads:
            found = [
                share
                for each in found
                for share in dealt(each, rule, self._costs(each, rule.topology_key), self.simulation)
            ]
        return found
