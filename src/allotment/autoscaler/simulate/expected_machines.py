"""Adds machines that are on their way to a simulation, and removes those that are being deleted: what plans may count on.

A machine on its way is already a node: pods go there, it counts against limits, and nothing is launched twice. For a node
that exists but is not ready, only the missing parts are predicted; what drivers have published counts. A claim that has just
become ready is treated in the same way, because a follower of the cluster may hear of its node later than of the claim.

A node whose claim is being deleted accepts no more pods, though it still counts against limits.
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
    """Adds the expected nodes; best in a fork. ``is_new`` says for claims with a ready node that the known facts about the
    node may be old. A claim for a machine that is no longer in the catalogue is left out, because its devices are unknown."""
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
    """Adds the taint that the node will have in a moment, if it does not have it yet."""
    there = simulation.objects(Node).get(name)
    if there is not None and all(each.key != DISRUPTED.key for each in there.spec.taints):
        taints = (*there.spec.taints, DISRUPTED)
        simulation.put(replace(there, spec=replace(there.spec, taints=taints)))


def _arrive(simulation: Simulation, claim: NodeClaim, machine: Machine) -> None:
    name = node_name(claim)
    node, slices = foreseen(claim, machine)
    there = simulation.objects(Node).get(name)
    if there is not None:  # its lack of readiness does not matter to a plan
        labels = {**node.metadata.labels, **there.metadata.labels}
        features = there.status.declared_features or node.status.declared_features
        status = replace(node.status, declared_features=features)
        node = replace(node, metadata=replace(there.metadata, labels=labels), status=status)
    published = [each for each in simulation.slices(name) if isinstance(each, ResourceSlice)]
    known = [each for each in simulation.slices(name) if isinstance(each, semantic.NodeResourceSlice)]
    missing = awaited(machine.devices, published, known)
    for each in published:
        if each.spec.driver in missing:  # a part of a pool would prevent the whole
            simulation.drop(each)
    trees = [each for each in trees_of(machine, name) if each.spec.driver_name in missing]
    simulation.put_all((node, *(each for each in slices if each.spec.driver in missing), *trees))
    foresee_drivers(simulation, name)
    start_daemons(simulation, name)
