"""One question to the search: these asks on these devices, with that much already in use.

Devices are numbered in search order and sets of them are bit sets. For every shape of ask two sets are worked out:

* ``selectable``: passes the class's and the request's expressions, reaches the node, and its policy can serve the
  capacity that is asked for;
* ``allowed``: nothing else about the device itself forbids it (taints, features that are off, what the node lacks).

Only use, counters, shared capacity and constraints are left for the search to decide. Where an expression fails on a
device, the error is kept and raised only if the search gets to ask about that device: see ``search``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.allocator.capacity import consumption
from allotment.allocator.constraint import Constraint, Values, static_attribute
from allotment.allocator.counters import Counters, Draw
from allotment.allocator.errors import AllocationError, ClaimError
from allotment.allocator.nodeselector import node_matches
from allotment.allocator.request import RESULTS_MAX, Ask, Demand, full_name
from allotment.allocator.selector import device_features
from allotment.allocator.taint import blocking_taint
from allotment.cel.device import CelError, compile_derived

if TYPE_CHECKING:
    from allotment.allocator.features import Features
    from allotment.allocator.held import Holdings
    from allotment.allocator.pool import Device, Pool
    from allotment.api.core import Node
    from allotment.api.quantity import Quantity
    from allotment.api.resource import DeviceAttribute

NODE_OPERATIONS = "DRAOptionalNodeOperations"
"""What a node declares if it can do without a driver's node operations."""


@dataclass(slots=True, eq=False)
class Suits:
    """Which devices suit one shape of ask."""

    selectable: int = 0
    allowed: int = 0
    errors: dict[int, AllocationError] = field(default_factory=dict)  # asked about, these raise
    amounts: dict[int, dict[str, Quantity]] = field(
        default_factory=dict
    )  # capacity taken, of devices that have any


class Problem:
    """Everything the search needs, worked out for one node.

    Raises AllocationError from the constructor where the claims cannot be judged on this node at all (a request
    for all devices of a pool that is being updated, too many devices, a broken selector in a request for all).
    """

    def __init__(
        self,
        node: Node,
        pools: Sequence[Pool],
        devices: Sequence[Device],
        demand: Demand,
        held: Holdings,
        features: Features,
    ) -> None:
        if demand.fault is not None:
            raise demand.fault
        self.node = node
        self.pools = pools
        self.devices = devices
        self.demand = demand
        self.held = held
        self.features = features
        self._pool_number = {pool.id: number for number, pool in enumerate(pools)}
        self._read_use(held)
        self.suits = [self._suits(ask) for ask in demand.shapes]
        self._read_counters(held)
        self._resolve_all()
        self._read_constraints()
        self.may_fail = (
            any(suits.errors for suits in self.suits)
            or any(values.errors for tables in self.values.values() for values in tables)
            or any(ask.constraints for ask in self.all)  # a constraint that all devices break is an error
        )

    # --- what is in use ---

    def _read_use(self, held: Holdings) -> None:
        self.used = 0  # someone else has the whole device
        self.shareable = 0  # several may have it
        self.shared = 0  # shareable, and someone has a share
        self.consumed: dict[int, dict[str, int]] = {}  # by shares, in billionths
        for position, device in enumerate(self.devices):
            bit = 1 << position
            id = device.id
            if held.exclusive(id):
                self.used |= bit
            if self.features.ConsumableCapacity:
                if device.spec.allow_multiple_allocations:
                    self.shareable |= bit
                if held.shared(id):
                    self.shared |= bit
                    amounts = held.consumed(id)
                    if amounts:
                        self.consumed[position] = dict(amounts)
        self.metered = self.shareable
        for position in self.consumed:
            self.metered |= 1 << position

    def _read_counters(self, held: Holdings) -> None:
        self.draws: dict[int, Draw] = {}
        self.counters: Counters | None = None
        if (
            not any(device.spec.consumes_counters for device in self.devices)
            or not self.features.PartitionableDevices
        ):
            return
        self.counters = Counters(self.pools, held, grouped=self.features.CompatibilityGroups)
        for position, device in enumerate(self.devices):
            if device.spec.consumes_counters:
                number = self._pool_number[device.id.of_pool]
                self.draws[position] = self.counters.draw(number, device)

    # --- which devices suit ---

    def _suits(self, ask: Ask) -> Suits:
        suits = Suits()
        for position, device in enumerate(self.devices):
            bit = 1 << position
            try:
                if self.selects(ask, device) is not None or not self._serves(suits, ask, position, device):
                    continue
            except AllocationError as exc:
                suits.errors[position] = exc
                continue
            suits.selectable |= bit
            if self.forbids(ask, device) is None:
                suits.allowed |= bit
        return suits

    def selects(self, ask: Ask, device: Device) -> object | None:
        """None if the expressions choose the device and it reaches the node; else the test that it fails, or a
        word. Raises AllocationError."""
        spec = device.spec
        if spec.binding_conditions and not self.features.DeviceBindingAndStatus:
            return "has binding conditions, and the feature is off"
        for test, place in zip(ask.tests, ask.places, strict=True):
            answer = test.ask(device)
            if answer is not True:
                if answer is False:
                    return test
                raise ClaimError(f"{place} on device {device.id}: {answer}")
        if device.slice.spec.per_device_node_selection and not node_matches(
            self.node, spec.node_name, spec.all_nodes, spec.node_selector
        ):
            return "does not reach this node"
        return None

    def _serves(self, suits: Suits, ask: Ask, position: int, device: Device) -> bool:
        """Whether the device's capacity can serve the ask at all. Notes how much that takes."""
        if not self.features.ConsumableCapacity:
            return True
        capacity = device.spec.capacity
        if not capacity and not ask.capacity:
            return True
        try:
            amounts = consumption(ask.capacity, capacity, fractional=self.features.FractionalCapacityRange)
        except ClaimError as exc:
            raise ClaimError(f"request {ask.name}: checking capacity for device {device.id}: {exc}") from exc
        if amounts is None or any(amounts[name] > offer.value for name, offer in capacity.items()):
            return False
        suits.amounts[position] = amounts
        return True

    def forbids(self, ask: Ask, device: Device) -> str | None:
        """Why a selectable device may not be had, whatever else is in use; None if it may."""
        if device.slice.spec.skip_node_operations:
            if not self.features.OptionalNodeOperations:
                return "skips node operations, and the feature is off"
            if NODE_OPERATIONS not in self.node.status.declared_features:
                return f"needs a node that declares {NODE_OPERATIONS}"
        if device.spec.consumes_counters and not self.features.PartitionableDevices:
            return "consumes counters, and the feature is off"
        if self.features.DeviceTaints and device.spec.taints:
            taint = blocking_taint(device.spec.taints, ask.tolerations)
            if taint is not None:
                value = f"={taint.value}" if taint.value else ""
                return f"taint {taint.key}{value}:{taint.effect}"
        return None

    # --- requests for all devices, and the limit per claim ---

    def _resolve_all(self) -> None:
        self.all: dict[Ask, list[int]] = {}  # the devices of each ask for all
        least = [0] * len(self.demand.claims)
        for request in self.demand.requests:
            claim = full_name(self.demand.claims[request.claim].metadata)
            for ask in request.asks:
                if ask.all:
                    self.all[ask] = self._all_devices(ask, f"claim {claim}, request {ask.name}")
            fewest = min(self.size(ask) for ask in request.asks)
            if fewest > RESULTS_MAX - least[request.claim]:
                raise ClaimError(
                    f"claim {claim}, request {request.name}: adding {fewest} devices exceeds the claim limit of "
                    f"{RESULTS_MAX}, with {least[request.claim]} already accounted for"
                )
            least[request.claim] += max(fewest, 0)

    def _all_devices(self, ask: Ask, where: str) -> list[int]:
        positions: list[int] = []
        suits = self.suits[ask.shape]
        rank = {device.id: position for position, device in enumerate(self.devices)}
        for pool in self.pools:
            if pool.incomplete:
                raise ClaimError(
                    f"{where}: asks for all devices, but resource pool {pool.id} is currently being updated"
                )
            if pool.invalid:
                raise ClaimError(
                    f"{where}: asks for all devices, but resource pool {pool.id} is currently invalid"
                )
            for device in pool.devices:
                position = rank[device.id]
                if position in suits.errors:
                    raise suits.errors[position]
                if suits.selectable >> position & 1:
                    positions.append(position)
        return positions

    def size(self, ask: Ask) -> int:
        """How many devices an ask takes."""
        return len(self.all[ask]) if ask.all else ask.count

    # --- constraints ---

    def _read_constraints(self) -> None:
        lists = self.features.ListTypeAttributes
        self.constraints = [
            [Constraint(relation, lists=lists) for relation in relations]
            for relations in self.demand.relations
        ]
        self.values: dict[Ask, list[Values]] = {}  # for each ask, in the order of ask.constraints
        tables: dict[tuple[int, int, str | None], Values] = {}
        for request in self.demand.requests:
            for ask in request.asks:
                mine = self.values[ask] = []
                for number in ask.constraints:
                    constraint = self.constraints[request.claim][number]
                    derived = ask.derived.get(constraint.relation.attribute)
                    key = (request.claim, number, derived)
                    if key not in tables:
                        tables[key] = constraint.read(self.devices, self._attribute(constraint, derived))
                    mine.append(tables[key])

    def _attribute(self, constraint: Constraint, derived: str | None) -> _Attribute:
        return _Attribute(constraint.relation.attribute, derived, self.features)


class _Attribute:
    """Looks an attribute up on devices: derived by an expression of the request, or as published."""

    def __init__(self, name: str, derived: str | None, features: Features) -> None:
        self._name = name
        self._expression = derived
        self._program = None
        self._broken: ClaimError | None = None
        if derived is not None:
            try:
                self._program = compile_derived(derived, device_features(features))
            except CelError as exc:
                self._broken = ClaimError(f"compile derived attribute {name} failed: {exc}")

    def __call__(self, device: Device) -> DeviceAttribute | ClaimError | None:
        if self._broken is not None:
            return self._broken
        if self._program is None:
            return static_attribute(device, self._name)
        spec = device.spec
        try:
            return self._program.evaluate(
                device.id.driver, spec.attributes, spec.capacity, bool(spec.allow_multiple_allocations)
            )[0]
        except CelError as exc:
            return ClaimError(f"evaluate derived attribute {self._name} on device {device.id} failed: {exc}")
