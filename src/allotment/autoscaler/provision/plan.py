"""What a provisioner proposes: machines to launch, who goes where with which devices, who stays out and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from allotment.allocator.semantic_carrier import carried_holdings

if TYPE_CHECKING:
    from allotment.api.resource import ResourceClaim
    from allotment.autoscaler.catalogue.machine import Machine
    from allotment.autoscaler.simulate.simulation import BoundPod

__all__ = ["LeftOut", "NewNode", "Plan", "PodPlace"]


@dataclass(frozen=True, slots=True)
class PodPlace:
    """A pod, ``namespace/name``, on a node, with its devices: ``driver/pool/device``."""

    pod: str
    node: str
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewNode:
    """A machine to launch. ``name`` stands for it within the plan only. ``serves`` are pods elsewhere that have devices of it."""

    name: str
    machine: Machine
    places: tuple[PodPlace, ...]
    serves: tuple[PodPlace, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A pod that stays pending, and why: by itself, and for each instance type."""

    pod: str
    why: str
    types: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """See the module. Prices are per hour. ``bound`` is proven: no machines that serve the pods on ``nodes`` cost less, as far as
    the same pools and alternatives of claims are used for them. None: no bound is known."""

    nodes: tuple[NewNode, ...]
    existing: tuple[PodPlace, ...]  # pods for which there is room already
    pending: tuple[LeftOut, ...]
    bound: Decimal | None
    exact: bool  # nothing cheaper serves them, in the sense of ``bound``; that their choice was the best one is not said

    @property
    def price(self) -> Decimal:
        return sum((each.machine.price for each in self.nodes), Decimal(0))

    @property
    def gap(self) -> float | None:
        """By how much the price may be too high, as a part of the bound; None if no bound is known."""
        if self.bound is None:
            return None
        return float((self.price - self.bound) / self.bound) if self.price > self.bound else 0.0

    @property
    def saving(self) -> float | None:
        """The part of the price that a cheaper plan could save at most; None if no bound is known."""
        if self.bound is None:
            return None
        return float((self.price - self.bound) / self.price) if self.price > self.bound else 0.0


def devices_of(bound: BoundPod) -> tuple[str, ...]:
    """What a binding took: ``driver/pool/device``; of claims of v1alpha2 the instances by their true ids."""
    return tuple(name for claim in bound.claims for name in _names(claim))


def _names(claim: ResourceClaim) -> Iterator[str]:
    instances = carried_holdings(claim)
    if instances is not None:
        yield from (str(each.device) for each in instances)
    elif claim.status.allocation is not None:
        for each in claim.status.allocation.devices.results:
            yield f"{each.driver}/{each.pool}/{each.device}"
