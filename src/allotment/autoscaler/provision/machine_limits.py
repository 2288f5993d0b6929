"""How many more machines of each pool and group may be launched.

The ``limits`` of a pool are total amounts over its nodes. Besides what nodes offer (cpu, memory, …), ``nodes`` is their
number, and ``deviceclass/<class>`` the number of devices of a class that their drivers publish, in use or not; a device that
several nodes reach counts for the node that publishes it. A group limits the number of its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from allotment.allocator.fleet import Fleet
from allotment.api.autoscaling import NODE_GROUP, NODE_POOL
from allotment.api.core import Node
from allotment.api.quantity import Quantity
from allotment.autoscaler.catalogue.machine import Machine, node_of
from allotment.scheduler.gangs.tenant_queues import DEVICE_CLASS
from allotment.scheduler.resource_requests import amounts

if TYPE_CHECKING:
    from allotment.autoscaler.simulate.simulation import Simulation

NODES = "nodes"
_ONE = 10**9


class _Row(NamedTuple):
    label: str  # the label with which a node names its pool or group
    owner: str
    resource: str


class Limits:
    """``left`` has for each limit the amount that is left, in billionths; ``draws`` has what each machine takes of each
    limit."""

    def __init__(self, simulation: Simulation, machines: Sequence[Machine]) -> None:
        self._simulation, self._machines = simulation, machines
        rows: dict[_Row, int] = {}
        for machine in machines:
            if machine.pool is not None:
                for name, most in machine.pool.spec.limits.items():
                    rows[_Row(NODE_POOL, machine.source, name)] = most.nanos
            elif machine.group is not None:
                rows[_Row(NODE_GROUP, machine.source, NODES)] = machine.group.spec.max * _ONE
        for node in simulation.objects(Node).values():
            for row in rows:
                if node.metadata.labels.get(row.label) == row.owner:
                    rows[row] -= self._of_node(node, row.resource)
        self._rows = tuple(rows)
        self.left = tuple(max(0, left) for left in rows.values())
        self.draws = [tuple(self._of_machine(machine, row) for row in rows) for machine in machines]

    def reached(self, machine: int) -> str:
        """Which limits leave no room for one more such machine, counting those in the cluster and in the plan."""
        each = self._machines[machine]
        if not each.source:
            return "its limits are reached"
        kind = "NodePool" if each.pool is not None else "NodeGroup"
        words = [
            f"{row.resource}: {_amount(left)} left, it has {_amount(draw)}"
            for row, left, draw in zip(self._rows, self.left, self.draws[machine], strict=True)
            if row.owner == each.source and draw > left
        ]
        return f"the limits of {kind} {each.source} are reached" + (f" ({'; '.join(words)})" if words else "")

    def _of_node(self, node: Node, resource: str) -> int:
        if resource.startswith(DEVICE_CLASS):
            return self._simulation.cluster.fleet.published(node.metadata.name, _class(resource)) * _ONE
        return _ONE if resource == NODES else amounts(node.status.capacity).get(resource, 0)

    def _of_machine(self, machine: Machine, row: _Row) -> int:
        label = NODE_POOL if machine.pool is not None else NODE_GROUP
        if (label, machine.source) != row[:2]:
            return 0
        if row.resource.startswith(DEVICE_CLASS):
            found = self._simulation.cluster.classes.get(_class(row.resource))
            node, slices = node_of(machine, "machine")
            fleet = Fleet([node], slices, [found] if found is not None else [])
            return fleet.published("machine", _class(row.resource)) * _ONE
        return _ONE if row.resource == NODES else amounts(machine.capacity).get(row.resource, 0)


def _amount(nanos: int) -> str:
    return str(Quantity.parse(f"{nanos}n"))


def _class(resource: str) -> str:
    return resource.removeprefix(DEVICE_CLASS)
