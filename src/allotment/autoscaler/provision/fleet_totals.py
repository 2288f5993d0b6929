"""What a whole set of machines must provide in total: conditions that are necessary in every model.

However pods are distributed, and wherever their devices are, together they take no more cpu, memory and pod slots than the
machines and the free room of the cluster provide; and for any set of devices, requests that only this set can meet take no
more than it contains. A set of machines that violates this serves no valid plan. A linear program over these rows gives a
lower bound on the price of every plan. The bound is weak if machines cannot be filled well, but it needs no assumption about
which node reaches what.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.allocator.suits import NODE_OPERATIONS
from allotment.api.core import Node, NodeStatus
from allotment.api.meta import ObjectMeta
from allotment.api.resource import ResourceClaim, ResourceSlice
from allotment.autoscaler.catalogue.machine import node_of
from allotment.autoscaler.provision.device_rooms import (
    countable,
    for_all,
    held,
    mask_of,
    needs_within,
    site_of,
    wants_on,
)
from allotment.autoscaler.solver.covering_problem import FairPrices
from allotment.autoscaler.solver.simplex import LinearProgram
from allotment.scheduler.node import PODS
from allotment.scheduler.resource_requests import amounts

if TYPE_CHECKING:
    from allotment.autoscaler.catalogue.machine import Machine
    from allotment.autoscaler.provision.lots import Lot
    from allotment.autoscaler.simulate.simulation import Simulation

MOST_SLICES = 400
"""With more slices than these, devices are not added up, because every request would have to be compared with each."""
ONE_POD = 10**9


@dataclass(frozen=True, slots=True)
class TotalsRow:
    """The need beyond what the cluster has, and how much of it each machine provides."""

    need: int
    brings: Mapping[int, int]  # by machine


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a set of pods. ``candidates`` are machines by number; machines that no pod can distinguish from a cheaper
    one are left out."""

    candidates: Sequence[int]
    prices: Mapping[int, int]
    rows: Sequence[TotalsRow]
    draws: Mapping[int, Sequence[int]]  # of the limits, by machine
    limits: Sequence[int]

    def price(self, machine: int) -> int:
        return self.prices[machine]

    def allow(self, machines: Iterable[int]) -> bool:
        """Whether the totals allow a set of machines."""
        chosen = list(machines)
        return all(
            sum(self.draws[each][place] for each in chosen) <= most for place, most in enumerate(self.limits)
        ) and all(sum(row.brings.get(each, 0) for each in chosen) >= row.need for row in self.rows)

    def bound(self) -> int:
        """The least price of machines that meet the totals."""
        rows = [row for row in self.rows if row.need > 0]
        if not rows or not self.candidates:
            return 0
        dearest = max(self.prices.values())
        program = LinearProgram(
            [1.0] * len(rows), [1.0] * len(self.limits), 1000.0 * len(rows) * (dearest + 1)
        )
        columns = {each: self._column(each, rows) for each in self.candidates}
        for each, column in columns.items():
            program.add(float(self.prices[each]), tuple(column.items()))
        program.solve()
        duals = program.duals
        worth = [max(0.0, dual) for dual in duals[: len(rows)]]
        scarce = [max(0.0, -dual) for dual in duals[len(rows) :]]
        worst = 1.0
        for each, column in columns.items():
            value = sum(worth[row] * entry for row, entry in column.items() if row < len(rows))
            paid = sum(scarce[row - len(rows)] * entry for row, entry in column.items() if row >= len(rows))
            worst = max(worst, value / (self.prices[each] + paid + 1e-9))
        fair = FairPrices(tuple(each / worst for each in worth), tuple(scarce))
        return fair.bound([1] * len(rows), [1] * len(self.limits))

    def _column(self, machine: int, rows: Sequence[TotalsRow]) -> dict[int, float]:
        """By row, as fractions of the need, and of what the limits leave."""
        found = {
            place: row.brings[machine] / row.need for place, row in enumerate(rows) if row.brings.get(machine)
        }
        for place, most in enumerate(self.limits):
            drawn = self.draws[machine][place]
            if drawn:
                found[len(rows) + place] = drawn / most if most else 1e6
        return found


def totals_of(
    simulation: Simulation,
    machines: Sequence[Machine],
    lots: Sequence[Lot],
    claims: Sequence[Sequence[ResourceClaim]],
    *,
    prices: Mapping[int, int],
    draws: Mapping[int, Sequence[int]],
    limits: Sequence[int],
) -> Totals:
    """For all pods of these lots, whose bundles have these claims. ``prices`` has the machines to consider."""
    rows = [
        *_resources(simulation, machines, lots, prices.keys()),
        *_devices(simulation, machines, lots, claims, prices.keys()),
    ]
    return Totals(list(prices), prices, rows, draws, limits)


def _resources(
    simulation: Simulation, machines: Sequence[Machine], lots: Sequence[Lot], numbers: Collection[int]
) -> Iterable[TotalsRow]:
    cluster = simulation.cluster
    needs: dict[str, int] = {PODS: sum(len(bundle) for lot in lots for bundle in lot.bundles) * ONE_POD}
    for lot in lots:
        for name, amount in lot.requests.items():
            if amount and name not in cluster.extended:
                needs[name] = needs.get(name, 0) + amount * len(lot.bundles)
    offered = {each: amounts(machines[each].allocatable) for each in numbers}
    for name, need in sorted(needs.items()):
        free = sum(
            max(0, info.offered.get(name, 0) - info.taken.get(name, 0)) for info in cluster.nodes.values()
        )
        yield TotalsRow(max(0, need - free), {each: offered[each].get(name, 0) for each in numbers})


def _devices(
    simulation: Simulation,
    machines: Sequence[Machine],
    lots: Sequence[Lot],
    claims: Sequence[Sequence[ResourceClaim]],
    numbers: Collection[int],
) -> Iterable[TotalsRow]:
    """All devices, as if one node reached them."""
    published = list(simulation.objects(ResourceSlice).values())
    own: dict[tuple[str, str], int] = {}
    for number in numbers:
        for each in node_of(machines[number], f"machine {number}")[1]:
            own[each.spec.driver, each.spec.pool.name] = number
            published.append(each)
    if len(published) > MOST_SLICES or not any(claims):
        return
    here = Node(metadata=ObjectMeta(name="anywhere"), status=NodeStatus(declared_features=(NODE_OPERATIONS,)))
    site = site_of(here, [for_all(each) for each in published], simulation.cluster)
    if site is None:
        return
    wants = wants_on(site, claims, simulation.cluster)
    free = ~mask_of(site, held(simulation))
    brought: dict[int | None, int] = {}
    for position, device in enumerate(site.devices):
        number_or_none = own.get((device.id.driver, device.id.pool))
        brought[number_or_none] = brought.get(number_or_none, 0) | 1 << position
    for mask in sorted(countable(site, wants)):
        need = sum(needs_within(mask, each) * len(lot.bundles) for lot, each in zip(lots, wants, strict=True))
        there = (brought.get(None, 0) & mask & free).bit_count()
        brings = {each: (brought.get(each, 0) & mask).bit_count() for each in numbers}
        yield TotalsRow(max(0, need - there), brings)
