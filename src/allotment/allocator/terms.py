"""The meaning of a demand on a site, independent of use: computed once, valid for every state of the site.

Whether a device suits an ask is decided when the search reaches it (``suits``). This module has what the search must know
in advance: the devices of an ask for all, and the values that constraints compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from allotment.allocator.constraint import AttributeValues, Constraint, static_attribute
from allotment.allocator.errors import AllocationError, ClaimError, NodeError
from allotment.allocator.request import RESULTS_MAX, Ask, Demand, RequestDemand
from allotment.allocator.selector import device_features
from allotment.allocator.suits import Suitability
from allotment.cel.device import CelError, CelUnknown, compile_derived

if TYPE_CHECKING:
    from allotment.allocator.features import Features
    from allotment.allocator.pool import PooledDevice
    from allotment.allocator.site import Site
    from allotment.api.resource import DeviceAttribute


class Terms:
    """A demand on a site.

    The constructor raises AllocationError where the claims cannot be judged on this node at all (a request for all
    devices of a pool that is being updated, too many devices, a broken selector in a request for all).
    """

    def __init__(self, site: Site, demand: Demand) -> None:
        if demand.fault is not None:
            raise demand.fault
        self.site = site
        self.demand = demand
        self.features = site.features
        self.suits = [Suitability(ask, site) for ask in demand.shapes]
        self._may_fail: bool | None = None
        self._resolve_all()
        self._read_constraints()

    def may_fail(self) -> bool:
        """Whether a search could meet an error. Judges all devices."""
        if self._may_fail is None:
            for suits in self.suits:
                suits.judge_all()
            self._may_fail = (
                any(suits.errors for suits in self.suits)
                or any(values.errors for tables in self.values.values() for values in tables)
                or any(ask.constraints for ask in self.all)  # a constraint that all devices break is an error
            )
        return self._may_fail

    # --- requests for all devices, and the limit per claim ---

    def _resolve_all(self) -> None:
        self.all: dict[Ask, list[int]] = {}  # the devices of each ask for all
        least = [0] * len(self.demand.claims)
        for request in self.demand.requests:
            for ask in request.asks:
                if ask.all:
                    self.all[ask] = self._all_devices(ask, f"{self._name_of(request)}, request {ask.name}")
            fewest = min([self.size(ask) for ask in request.asks])
            if fewest > RESULTS_MAX - least[request.claim]:
                raise ClaimError(
                    f"{self._name_of(request)}, request {request.name}: adding {fewest} devices exceeds the claim limit of "
                    f"{RESULTS_MAX}, with {least[request.claim]} already accounted for"
                )
            least[request.claim] += max(fewest, 0)

    def _name_of(self, request: RequestDemand) -> str:
        return f"claim {self.demand.claims[request.claim].metadata.key}"

    def _all_devices(self, ask: Ask, where: str) -> list[int]:
        positions: list[int] = []
        suits = self.suits[ask.shape]
        suits.judge_all()
        rank = {device.id: position for position, device in enumerate(self.site.devices)}
        for pool in self.site.pools:
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
                if position in suits.unsure:
                    raise NodeError(
                        f"{where}: asks for all devices, and device {device.id} {suits.unsure[position]}"
                    )
                if suits.selectable >> position & 1:
                    positions.append(position)
        return positions

    def size(self, ask: Ask) -> int:
        """How many devices an ask takes."""
        return len(self.all[ask]) if ask.all else ask.count

    # --- constraints ---

    def related(self, ask: Ask, claim: int, candidates: int, states: Sequence[int]) -> int:
        """The candidates that the claim's constraints in these states allow, or for which they raise errors."""
        raising = 0
        for number, values in zip(ask.constraints, self.values[ask], strict=True):
            for position in values.errors:
                raising |= candidates & 1 << position
            candidates &= self.constraints[claim][number].allowed(values, states[number])
        return candidates | raising

    def _read_constraints(self) -> None:
        self.values: dict[Ask, list[AttributeValues]] = {}  # for each ask, in the order of ask.constraints
        self.constraints: list[list[Constraint]] = [[] for _ in self.demand.claims]
        if not any(self.demand.relations):
            return
        lists = self.features.ListTypeAttributes
        self.constraints = [
            [Constraint(relation, lists=lists) for relation in relations]
            for relations in self.demand.relations
        ]
        tables: dict[tuple[int, int, str | None], AttributeValues] = {}
        for request in self.demand.requests:
            for ask in request.asks:
                mine = self.values[ask] = []
                for number in ask.constraints:
                    constraint = self.constraints[request.claim][number]
                    derived = ask.derived.get(constraint.relation.attribute)
                    key = (request.claim, number, derived)
                    if key not in tables:
                        tables[key] = constraint.read(self.site.devices, self._attribute(constraint, derived))
                    mine.append(tables[key])

    def _attribute(self, constraint: Constraint, derived: str | None) -> _Attribute:
        return _Attribute(constraint.relation.attribute, derived, self.features)


class _Attribute:
    """Looks an attribute up on devices: derived by an expression of the request, or as published."""

    def __init__(self, name: str, derived: str | None, features: Features) -> None:
        self._name = name
        self._program = None
        self._broken: ClaimError | None = None
        if derived is not None:
            try:
                self._program = compile_derived(derived, device_features(features))
            except CelError as exc:
                self._broken = ClaimError(f"compile derived attribute {name} failed: {exc}")

    def __call__(self, device: PooledDevice) -> DeviceAttribute | AllocationError | None:
        if self._broken is not None:
            return self._broken
        if self._program is None:
            return static_attribute(device, self._name)
        spec = device.spec
        try:
            return self._program.evaluate(
                device.id.driver, spec.attributes, spec.capacity, bool(spec.allow_multiple_allocations)
            )[0]
        except CelUnknown as exc:
            return NodeError(
                f"derived attribute {self._name} on device {device.id} cannot be known yet: {exc}"
            )
        except CelError as exc:
            return ClaimError(f"evaluate derived attribute {self._name} on device {device.id} failed: {exc}")
