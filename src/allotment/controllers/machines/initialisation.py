"""When a new node counts as ready, and whether it has what was predicted of it.

It is ready when its kubelet says so, the taints that it starts with are gone, the extended resources that were asked for are
there, and each driver whose devices the plan counted on has published a complete pool. Then its devices are held against the
prediction: a difference is no reason not to use the node, but somebody should know.
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

_NAMED = 5
_CLIPPED = 200
"""So many differences are told in words, and so much of each; the others are counted."""


class NotReady(NamedTuple):
    """Why a node is not ready yet."""

    reason: str
    message: str


def obstacle(claim: NodeClaim, node: Node, published: Sequence[Slice]) -> NotReady | None:
    if not any(each.type == "Ready" and each.status == "True" for each in node.status.conditions):
        return NotReady("NodeNotReady", "the node does not say that it is ready")
    present = {(each.key, each.effect) for each in node.spec.taints}
    starting = sorted({each.key for each in claim.spec.startup_taints if (each.key, each.effect) in present})
    if starting:
        return NotReady("StartupTaintsExist", f"the node still has the taints {', '.join(starting)}")
    zero = Quantity.parse("0")
    promised = claim.status.allocatable  # without what devices serve: nodes do not have that
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
    """ResourceSlices, and NodeResourceSlices."""
    return (
        [each for each in published if isinstance(each, ResourceSlice)],
        [each for each in published if isinstance(each, NodeResourceSlice)],
    )


class PredictionCondition(NamedTuple):
    """The condition, and what it is about."""

    condition: Obj
    differences: Sequence[PredictionDifference]


def compared(claim: NodeClaim, machine: Machine | None, published: Sequence[Slice]) -> PredictionCondition:
    """Whether a node that is ready has the devices that were predicted, of the drivers that were waited for."""
    drivers = set(drivers_of(claim))
    if not drivers:
        return _verdict("True", "NoDevices", "no devices were predicted")
    if machine is None:
        return _verdict("Unknown", "NoPrediction", "the catalogue does not have the machine any more")
    slices, trees = apart(published)
    predicted = [each for each in foreseen(claim, machine)[1] if each.spec.driver in drivers]
    grown = [each for each in trees_of(machine, node_name(claim)) if each.spec.driver_name in drivers]
    found = differences(predicted, [each for each in slices if each.spec.driver in drivers])
    found += tree_differences(grown, [each for each in trees if each.spec.driver_name in drivers])
    if not found:
        return _verdict("True", "AsPredicted", "all devices are as predicted")
    told = "; ".join(str(each)[:_CLIPPED] for each in found[:_NAMED])
    more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return _verdict("False", "DevicesDiffer", f"{told}{more}", found)


def _verdict(
    status: str, reason: str, message: str, found: Sequence[PredictionDifference] = ()
) -> PredictionCondition:
    return PredictionCondition(
        {"type": AS_PREDICTED, "status": status, "reason": reason, "message": message}, tuple(found)
    )
