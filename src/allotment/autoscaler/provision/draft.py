"""The state of one attempt at a plan; and the placement of pods that turns a draft into a result."""

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
    """One attempt at a plan, with its machines, places and reasons so far."""

    nodes: dict[str, Machine] = field(default_factory=dict)
    places: dict[str, PodPlace] = field(default_factory=dict)  # by pod
    reasons: dict[str, str] = field(default_factory=dict)
    types: dict[str, Mapping[str, str]] = field(default_factory=dict)
    refusals: dict[str, str] = field(
        default_factory=dict
    )  # by pod, the answer of its machine when it was added
    bound: int = 0
    exact: bool = True
    loose: bool = (
        False  # machines could not be judged one by one: more pods may fit, and a cheaper plan may exist
    )

    @property
    def price(self) -> int:
        return sum(units(machine) for machine in self.nodes.values())


def units(machine: Machine) -> int:
    """A price as an integer."""
    return int(machine.price * UNIT)


def place_on_existing(simulation: Simulation, bundles: Sequence[Bundle], draft: PlanDraft) -> list[Bundle]:
    """Places the pods that fit on existing nodes; returns the others. Once a pod does not fit, equal ones are not tried."""
    lots, _ = lots_of(bundles, simulation)
    for lot in lots:
        for bundle in lot.bundles:
            if not place(simulation, bundle, draft) and not lot.sociable:
                break
    return [bundle for bundle in bundles if key_of(bundle[0]) not in draft.places]


def place(simulation: Simulation, bundle: Bundle, draft: PlanDraft, node: str = "") -> bool:
    """Binds a whole bundle, to the given node if there is one; True if that worked."""
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
