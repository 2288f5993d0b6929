"""Writes the search's choices as Kubernetes' allocations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from allotment.allocator.errors import AllocationError
from allotment.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.api.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allotment.allocator.pool import PooledDevice
    from allotment.allocator.problem import Problem
    from allotment.allocator.request import Ask, Demand
    from allotment.allocator.search import Answer
    from allotment.api.quantity import Quantity
    from allotment.api.resource import DeviceClaimConfiguration, DeviceClass, ResourceClaim

ShareIDs = Callable[[int, int], str]
"""The id of a share, given the number of the claim and of the result in it. The caller supplies it: nothing is random."""


class AnswerDraft:
    """An answer as positions, from which the allocations of any node in the same state can be written."""

    __slots__ = ("_claims", "_configs", "_features")

    def __init__(self, problem: Problem, answer: Answer, classes: Mapping[str, DeviceClass]) -> None:
        demand = problem.demand
        self._features = problem.site.features
        self._claims: list[list[_DraftEntry]] = [[] for _ in demand.claims]
        self._configs = [
            _config(demand, number, answer.served, classes) for number in range(len(demand.claims))
        ]
        for choice in answer.choices:
            shared = problem.shareable >> choice.position & 1
            amounts = problem.suits[choice.ask.shape].amounts.get(choice.position, {}) if shared else {}
            entry = _DraftEntry(choice.ask, choice.position, bool(shared), amounts)
            self._claims[demand.requests[choice.request].claim].append(entry)

    def taken(self) -> list[tuple[Ask, int]]:
        """Every chosen device, by position, and the ask that gets it."""
        return [(entry.ask, entry.position) for entries in self._claims for entry in entries]

    def renumbered(self, position_of: Callable[[int], int]) -> AnswerDraft:
        """The same answer for devices with other numbers."""
        other = copy(self)
        other._claims = [
            [entry._replace(position=position_of(entry.position)) for entry in entries]
            for entries in self._claims
        ]
        return other

    def write(
        self, devices: Sequence[PooledDevice], node_name: str, share_id: ShareIDs
    ) -> list[AllocationResult]:
        """One allocation per claim, with these devices on this node."""
        allocations = []
        for number, entries in enumerate(self._claims):
            mine, results = [], []
            for index, entry in enumerate(entries):
                device = devices[entry.position]
                mine.append(device)
                share = share_id(number, index) if entry.shared else None
                results.append(self._result(entry, device, share))
            where = node_selector(mine, node_name)
            given = DeviceAllocationResult(results=tuple(results), config=self._configs[number])
            allocations.append(AllocationResult(devices=given, node_selector=where))
        return allocations

    def _result(
        self, entry: _DraftEntry, device: PooledDevice, share_id: str | None
    ) -> DeviceRequestAllocationResult:
        ask, spec = entry.ask, device.spec
        driver, pool, name = device.id
        binding = self._features.DeviceBindingAndStatus
        return DeviceRequestAllocationResult(
            request=ask.name,
            driver=driver,
            pool=pool,
            device=name,
            admin_access=True if ask.admin else None,
            tolerations=ask.tolerations,
            binding_conditions=spec.binding_conditions if binding else (),
            binding_failure_conditions=spec.binding_failure_conditions if binding else (),
            share_id=share_id,
            consumed_capacity=entry.amounts,
            skip_node_operations=device.slice.spec.skip_node_operations,
        )


class _DraftEntry(NamedTuple):
    ask: Ask
    position: int
    shared: bool
    amounts: dict[str, Quantity]


def _config(
    demand: Demand, number: int, asks: Sequence[Ask], classes: Mapping[str, DeviceClass]
) -> tuple[DeviceAllocationConfiguration, ...]:
    """Class configurations, once for each class in request order, then those of the claim that apply.

    A configuration for all requests names none.
    """
    claim = demand.claims[number]
    served = [
        (request.name, ask)
        for request, ask in zip(demand.requests, asks, strict=True)
        if request.claim == number
    ]
    requests_of: dict[str, list[str]] = {}
    for _, ask in served:
        requests_of.setdefault(ask.class_name, []).append(ask.name)
    parts = [
        ("FromClass", tuple(names), config.opaque)
        for class_name, names in requests_of.items()
        if class_name in classes
        for config in classes[class_name].spec.config
    ]
    parts += [("FromClaim", config.requests, config.opaque) for config in _applicable(claim, served)]
    return tuple(
        DeviceAllocationConfiguration(
            source=source,
            requests=() if all(name in names or ask.name in names for name, ask in served) else names,
            opaque=opaque,
        )
        for source, names, opaque in parts
    )


def _applicable(claim: ResourceClaim, served: Sequence[tuple[str, Ask]]) -> list[DeviceClaimConfiguration]:
    return [
        config
        for config in claim.spec.devices.config
        if not config.requests
        or any(name in config.requests or ask.name in config.requests for name, ask in served)
    ]


def node_selector(devices: Sequence[PooledDevice], node_name: str) -> NodeSelector | None:
    """Where these devices can be used together.

    Only on this node if any device is bound to it, else wherever all their selectors hold; None means everywhere.
    """
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for device in devices:
        terms = terms_of(device)
        if terms is None:
            return _only(node_name)
        if len(terms) > 1:
            raise AllocationError(
                f"device {device.id}: its nodeSelector has {len(terms)} terms; a slice may have only one"
            )
        for term in terms:
            _add_new(term.match_fields, fields)
            _add_new(term.match_expressions, expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def terms_of(device: PooledDevice) -> Sequence[NodeSelectorTerm] | None:
    """The terms that select the nodes of a device, of which an allocation can write one; None for a device of one node."""
    bound = device.spec if device.slice.spec.per_device_node_selection else device.slice.spec
    if bound.node_name is not None or device.spec.binds_to_node:
        return None
    return bound.node_selector.node_selector_terms if bound.node_selector is not None else ()


@lru_cache(maxsize=1024)
def _only(node_name: str) -> NodeSelector:
    only = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))


def _add_new(requirements: Sequence[NodeSelectorRequirement], known: list[NodeSelectorRequirement]) -> None:
    for new in requirements:
        if not any(
            old.key == new.key and old.operator == new.operator and set(old.values) == set(new.values)
            for old in known
        ):
            known.append(new)
