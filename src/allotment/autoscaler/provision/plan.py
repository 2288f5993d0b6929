"""The result of a provisioner: machines to launch, the place and devices of each pod, and the pods that stay pending with the
reasons."""

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
    """A machine to launch. ``name`` identifies it only within the plan. ``serves`` are pods elsewhere that have devices of
    it."""

    name: str
    machine: Machine
    places: tuple[PodPlace, ...]
    serves: tuple[PodPlace, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A pod that stays pending, and why: for the pod itself, and for each instance type."""

    pod: str
    why: str
    types: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan for waiting pods. Prices are per hour. ``bound`` is proven: no machines that serve the pods on ``nodes`` cost
    less, if the same pools and alternatives of claims are used for them. None: no bound is known."""

    nodes: tuple[NewNode, ...]
    existing: tuple[PodPlace, ...]  # pods for which there is already room
    pending: tuple[LeftOut, ...]
    bound: Decimal | None
    exact: bool  # nothing cheaper serves them, in the sense of ``bound``; whether they are the best choice of pods is not claimed

    @property
    def price(self) -> Decimal:
        return sum((each.machine.price for each in self.nodes), Decimal(0))

    @property
    def gap(self) -> float | None:
        """By how much the price may be too high, as a fraction of the bound; None if no bound is known."""
        if self.bound is None:
            return None
        return float((self.price - self.bound) / self.bound) if self.price > self.bound else 0.0

    @property
    def saving(self) -> float | None:
        """The largest fraction of the price that a cheaper plan could save; None if no bound is known."""
        if self.bound is None:
            return None
        return float((self.price - self.bound) / self.price) if self.price > self.bound else 0.0


def devices_of(bound: BoundPod) -> tuple[str, ...]:
    """The devices of a binding: ``driver/pool/device``; for v1alpha2 claims, the instances by their true ids."""
    return tuple(name for claim in bound.claims for name in _names(claim))


def _names(claim: ResourceClaim) -> Iterator[str]:
    instances = carried_holdings(claim)
    if instances is not None:
        yield from (str(each.device) for each in instances)
    elif claim.status.allocation is not None:
        for each in claim.status.allocation.devices.results:
            yield f"{each.driver}/{each.pool}/{each.device}"
