"""When a new node counts as ready, and whether it has the predicted devices.

A node is ready when its kubelet reports it ready, its start-up taints are gone, the requested extended resources exist, and
each driver on whose devices the plan counted has published a complete pool. Then its devices are compared with the
prediction. A difference does not keep the node from being used, but it is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from allotment.api.autoscaling import NodeClaim
from allotment.api.core import Node
from allotment.api.quantity import Quantity
from allotment.api.resource import ResourceSlice
from allotment.api.semantic import NodeResourceSlice
from allotment.autoscaler.catalogue.machine import Machine, trees_of
from allotment.autoscaler.catalogue.node_claims import AS_PREDICTED, drivers_of, foreseen, node_name
from allotment.autoscaler.catalogue.prediction import (
    PredictionDifference,
    awaited,
    differences,
    tree_differences,
)
from allotment.autoscaler.simulate.forkable_cluster import Slice
from allotment.client.form import Obj

_DIFFERENCES_NAMED = 5
_CLIPPED = 200
"""How many differences are described, and the length of each; the others are counted."""


class NotReady(NamedTuple):
    """Why a node is not ready yet."""

    reason: str
    message: str


def obstacle(claim: NodeClaim, node: Node, published: Sequence[Slice]) -> NotReady | None:
    if not any(each.type == "Ready" and each.status == "True" for each in node.status.conditions):
        return NotReady("NodeNotReady", "the node does not report that it is ready")
    present = {(each.key, each.effect) for each in node.spec.taints}
    starting = sorted({each.key for each in claim.spec.startup_taints if (each.key, each.effect) in present})
    if starting:
        return NotReady("StartupTaintsExist", f"the node still has the taints {', '.join(starting)}")
    zero = Quantity.parse("0")
    promised = claim.status.allocatable  # without those that devices provide: nodes do not have them
    absent = [
        name
        for name, amount in claim.spec.resources.requests.items()
        if min(amount, promised.get(name, zero)) > zero == node.status.allocatable.get(name, zero)
    ]
    if absent:
        return NotReady("ResourceNotRegistered", f"the node does not have {', '.join(sorted(absent))} yet")
    drivers = awaited(drivers_of(claim), *apart(published))
    if drivers:
        return NotReady("DevicesNotPublished", f"{', '.join(drivers)} has not published all devices yet")
    return None


def apart(published: Sequence[Slice]) -> tuple[list[ResourceSlice], list[NodeResourceSlice]]:
    """The slices, separated into ResourceSlices and NodeResourceSlices."""
    return (
        [each for each in published if isinstance(each, ResourceSlice)],
        [each for each in published if isinstance(each, NodeResourceSlice)],
    )


class PredictionCondition(NamedTuple):
    """The condition, and the differences that it reports."""

    condition: Obj
    differences: Sequence[PredictionDifference]


def compared(claim: NodeClaim, machine: Machine | None, published: Sequence[Slice]) -> PredictionCondition:
    """Whether a ready node has the predicted devices, for the drivers whose devices were awaited."""
    drivers = set(drivers_of(claim))
    if not drivers:
        return _verdict("True", "NoDevices", "no devices were predicted")
    if machine is None:
        return _verdict("Unknown", "NoPrediction", "the catalogue no longer has the machine")
    slices, trees = apart(published)
    predicted = [each for each in foreseen(claim, machine)[1] if each.spec.driver in drivers]
    grown = [each for each in trees_of(machine, node_name(claim)) if each.spec.driver_name in drivers]
    found = differences(predicted, [each for each in slices if each.spec.driver in drivers])
    found += tree_differences(grown, [each for each in trees if each.spec.driver_name in drivers])
    if not found:
        return _verdict("True", "AsPredicted", "all devices are as predicted")
    told = "; ".join(str(each)[:_CLIPPED] for each in found[:_DIFFERENCES_NAMED])
    more = f"; and {len(found) - _DIFFERENCES_NAMED} more" if len(found) > _DIFFERENCES_NAMED else ""
    return _verdict("False", "DevicesDiffer", f"{told}{more}", found)


def _verdict(
    status: str, reason: str, message: str, found: Sequence[PredictionDifference] = ()
) -> PredictionCondition:
    return PredictionCondition(
        {"type": AS_PREDICTED, "status": status, "reason": reason, "message": message}, tuple(found)
    )
