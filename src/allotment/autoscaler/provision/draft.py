"""What one attempt at a plan comes to so far; and pods put in their places, which is when a draft becomes true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.api.meta import key_of
from allotment.autoscaler.provision.lots import Bundle, lots_of
from allotment.autoscaler.provision.plan import PodPlace, devices_of
from allotment.scheduler.diagnosis import NoNode

if TYPE_CHECKING:
    from allotment.autoscaler.catalogue.machine import Machine
    from allotment.autoscaler.simulate.simulation import Simulation

UNIT = 10**6
"""Prices are counted in millionths."""


@dataclass(slots=True)
class PlanDraft:
    """See the module."""

    nodes: dict[str, Machine] = field(default_factory=dict)
    places: dict[str, PodPlace] = field(default_factory=dict)  # by pod
    reasons: dict[str, str] = field(default_factory=dict)
    types: dict[str, Mapping[str, str]] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)  # by pod, what its machine said when it came
    bound: int = 0
    exact: bool = True
    loose: bool = False  # machines could not be looked at one by one: more may be found, and less may do

    @property
    def price(self) -> int:
        return sum(units(machine) for machine in self.nodes.values())


def units(machine: Machine) -> int:
    """A price in whole numbers."""
    return int(machine.price * UNIT)


def place_on_existing(simulation: Simulation, bundles: Sequence[Bundle], draft: PlanDraft) -> list[Bundle]:
    """Places what fits on the nodes there are; returns the rest. What is like one that did not fit is not tried."""
    lots, _ = lots_of(bundles, simulation)
    for lot in lots:
        for bundle in lot.bundles:
            if not place(simulation, bundle, draft) and not lot.sociable:
                break
    return [bundle for bundle in bundles if key_of(bundle[0]) not in draft.places]


def place(simulation: Simulation, bundle: Bundle, draft: PlanDraft, node: str = "") -> bool:
    """Binds a whole bundle, to one node if that is given; True if that worked."""
    with simulation.trial() as trial:
        places = []
        for pod in bundle:
            if node:
                found = simulation.simulate_bind_pod(pod, node)
            else:
                found = simulation.schedule(pod)
            if isinstance(found, NoNode):
                if node:
                    draft.refusals[key_of(pod)] = found.words
                return False
            places.append(PodPlace(key_of(pod), found.node, devices_of(found)))
        trial.keep()
    draft.places.update({each.pod: each for each in places})
    return True
