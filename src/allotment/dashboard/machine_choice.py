"""The machines that can be launched, after overlays, and the price of each requested machine."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from decimal import Decimal
from typing import Any

from allotment.api.autoscaling import INSTANCE_TYPE, NODE_GROUP, NODE_POOL, NodeClaim, NodeGroup, NodeOverlay
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.catalogue.node_claims import machine_of
from allotment.autoscaler.catalogue.overlays import OverlaidCatalogue, evaluate
from allotment.dashboard.machine_choice_document import choice_document


def choice_of(catalogue: Catalogue, overlays: Iterable[NodeOverlay]) -> MachineChoice:
    """Takes time in proportion to the machines and overlays; everything that is derived from the result later is fast."""
    return MachineChoice(evaluate(catalogue, overlays))


class MachineChoice:
    """``document`` is its form for the page."""

    def __init__(self, found: OverlaidCatalogue) -> None:
        self.document: dict[str, Any] = choice_document(found)
        self._types: dict[str, list[Machine]] = {}
        for machine in found.machines:
            self._types.setdefault(machine.type, []).append(machine)
        self._groups = {
            each.group.metadata.name: each.price for each in found.machines if each.group is not None
        }
        self._prices: dict[Hashable, Decimal | None] = {}

    def price_of_group(self, group: NodeGroup) -> Decimal | None:
        """The price of one machine of a group."""
        return self._groups.get(group.metadata.name)

    def price_of(self, claim: NodeClaim) -> Decimal | None:
        """The price of a machine per hour; None if the catalogue has no such machine, or if its type is still open. Claims
        with the same requirements are looked up once."""
        labels = certain_labels(claim)
        key = (
            labels.get(NODE_POOL),
            labels.get(NODE_GROUP),
            labels.get(INSTANCE_TYPE),
            claim.spec.requirements,
        )
        if key not in self._prices:
            machine = machine_of(claim, self._types.get(labels.get(INSTANCE_TYPE, ""), ()))
            self._prices[key] = machine.price if machine is not None else None
        return self._prices[key]


def certain_labels(claim: NodeClaim) -> dict[str, str]:
    """The labels of the claim, and those that its requirements determine."""
    certain = {
        each.key: each.values[0]
        for each in claim.spec.requirements
        if each.operator == "In" and len(each.values) == 1
    }
    return {**certain, **claim.metadata.labels}
