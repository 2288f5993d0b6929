"""Machines that come and go, put into a simulation as if they had: what plans may count on, and what not.

A machine that is on its way is a node already: pods go there, limits are drawn by it, and nothing is launched twice. Of a node that
is there but not ready only what is missing is foreseen; drivers that have published are taken at their word. A claim that has
just become ready is looked at in the same way, since who follows a cluster may hear of its node later than of the claim.

A node whose claim is going takes no pods any more, though it still counts against limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.api import semantic
from allotment.api.core import Node
from allotment.api.resource import ResourceSlice
from allotment.autoscaler.catalogue.machine import trees_of
from allotment.autoscaler.catalogue.node_claims import (
    DISRUPTED,
    ClaimProgress,
    foreseen,
    machine_of,
    node_name,
    state_of,
)
from allotment.autoscaler.catalogue.prediction import awaited
from allotment.autoscaler.simulate.declared_features import declaring
from allotment.autoscaler.simulate.node_arrival import foresee_drivers, start_daemons

if TYPE_CHECKING:
    from allotment.api.autoscaling import NodeClaim
    from allotment.autoscaler.catalogue.machine import Machine
    from allotment.autoscaler.simulate.simulation import Simulation


def expect(
    simulation: Simulation,
    claims: Iterable[NodeClaim],
    machines: Sequence[Machine],
    is_new: Callable[[NodeClaim], bool] = lambda claim: False,
) -> None:
    """Puts up what will be; best in a fork. ``is_new`` tells of claims with a ready node that what is known of it may be old.
    A claim for a machine that is in no catalogue any more is left out: nobody knows what it will be."""
    claims = list(claims)
    if claims:
        machines = declaring(simulation, machines)
    for claim in claims:
        state = state_of(claim)
        if state is ClaimProgress.GOING:
            _cordon(simulation, node_name(claim))
        elif state.is_coming or (state is ClaimProgress.INITIALIZED and is_new(claim)):
            machine = machine_of(claim, machines)
            if machine is not None:
                _arrive(simulation, claim, machine)


def _cordon(simulation: Simulation, name: str) -> None:
    """The taint that it will have in a moment, if it does not have it yet."""
    there = simulation.objects(Node).get(name)
    if there is not None and all(each.key != DISRUPTED.key for each in there.spec.taints):
        taints = (*there.spec.taints, DISRUPTED)
        simulation.put(replace(there, spec=replace(there.spec, taints=taints)))


def _arrive(simulation: Simulation, claim: NodeClaim, machine: Machine) -> None:
    name = node_name(claim)
    node, slices = foreseen(claim, machine)
    there = simulation.objects(Node).get(name)
    if there is not None:  # that it is not ready yet does not matter to a plan
        labels = {**node.metadata.labels, **there.metadata.labels}
        features = there.status.declared_features or node.status.declared_features
        status = replace(node.status, declared_features=features)
        node = replace(node, metadata=replace(there.metadata, labels=labels), status=status)
    published = [each for each in simulation.slices(name) if isinstance(each, ResourceSlice)]
    known = [each for each in simulation.slices(name) if isinstance(each, semantic.NodeResourceSlice)]
    missing = awaited(machine.devices, published, known)
    for each in published:
        if each.spec.driver in missing:  # a part of a pool would be in the way of the whole
            simulation.drop(each)
    trees = [each for each in trees_of(machine, name) if each.spec.driver_name in missing]
    simulation.put_all((node, *(each for each in slices if each.spec.driver in missing), *trees))
    foresee_drivers(simulation, name)
    start_daemons(simulation, name)
