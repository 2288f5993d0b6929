"""NodeClaims: each records a chosen machine, so that a controller launches it and other planners know of it.

A claim created here fixes everything: its requirements allow one value of each certain label, so that exactly one machine of
the catalogue matches. A claim from elsewhere may leave a choice; then it means the cheapest available machine.

The conditions of a claim show its progress; planners and launchers share nothing else:

    LAUNCHING ─► LAUNCHED ─► REGISTERED ─► INITIALIZED        (any of them) ─► GOING
        └─► FAILED: Launched=False, nothing runs for it and nothing will

The launcher keeps a failed claim for a few minutes, as a record of what is out of stock. This record is in the cluster, so it
outlives processes, people can see it, and it ends by itself. :func:`on_offer` leaves out the machines of such claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from msgspec.structs import replace

from allotment.api.autoscaling import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODE_GROUP,
    NODE_POOL,
    ZONE,
    FlexibleRequirement,
    NodeClaim,
    NodeClaimSpec,
    NodeClaimTemplateSpec,
    ResourceRequirements,
)
from allotment.api.core import Node, Taint
from allotment.api.meta import Condition, ObjectMeta, OwnerReference
from allotment.api.quantity import Quantity
from allotment.api.resource import ResourceSlice
from allotment.api.validation.requirements import REQUIREMENTS
from allotment.autoscaler.catalogue.machine import Machine, node_of
from allotment.autoscaler.catalogue.requirements import both, failed, labelled, passing

TERMINATION = "karpenter.sh/termination"
"""The finalizer that keeps a claim until its machine is terminated."""
PODS = "allotment.dev/pods"
"""Annotation: the number of pods for which the machine was planned."""
DISRUPTED = Taint(key="karpenter.sh/disrupted", effect="NoSchedule")
"""The taint of nodes that are being removed."""
DRIVERS = "allotment.dev/drivers"
"""Annotation: the drivers whose devices were predicted, separated by commas. The node is ready when each has published."""

LAUNCHED, REGISTERED, INITIALIZED = "Launched", "Registered", "Initialized"
AS_PREDICTED = "DevicesAsPredicted"
"""Types of conditions, besides Ready."""
INSUFFICIENT_CAPACITY, LAUNCH_FAILED = "InsufficientCapacity", "LaunchFailed"
"""Reasons of Launched=False."""

_FIRST = (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)
_SOURCES = (NODE_POOL, NODE_GROUP)


class ClaimProgress(Enum):
    """The progress of a claim, derived from its conditions."""

    LAUNCHING = "launching"
    FAILED = "failed"
    LAUNCHED = "launched"
    REGISTERED = "registered"
    INITIALIZED = "initialized"
    GOING = "going"

    @property
    def is_coming(self) -> bool:
        """Whether a plan may count on a machine whose node or devices do not exist yet."""
        return self in (ClaimProgress.LAUNCHING, ClaimProgress.LAUNCHED, ClaimProgress.REGISTERED)


# --- from a plan to a claim ---


def claim_of(
    machine: Machine,
    requests: Mapping[str, Quantity],
    *,
    name: str,
    pods: int = 0,
    drivers: Iterable[str] | None = None,
) -> NodeClaim:
    """The claim for one such machine. ``requests`` and ``pods`` are the total requests and the number of its pods;
    ``drivers`` are those whose devices the pods use, by default all predicted ones."""
    template = machine.pool.spec.template.spec if machine.pool is not None else NodeClaimTemplateSpec()
    predicted = sorted(machine.devices if drivers is None else drivers)
    origin = machine.pool or machine.group
    annotations = {
        **(origin.spec.template.metadata.annotations if origin is not None else {}),
        **({PODS: str(pods)} if pods else {}),
        DRIVERS: ",".join(predicted),
    }
    return NodeClaim(
        metadata=ObjectMeta(
            name=name,
            labels=dict(machine.labels),
            annotations=annotations,
            finalizers=(TERMINATION,),
            owner_references=_owners(machine),
        ),
        spec=NodeClaimSpec(
            requirements=_requirements(machine.labels),
            resources=ResourceRequirements(requests=dict(requests)),
            taints=machine.taints,
            startup_taints=template.startup_taints,
            node_class_ref=template.node_class_ref,
            expire_after=template.expire_after,
            termination_grace_period=template.termination_grace_period,
        ),
    )


def _requirements(labels: Mapping[str, str]) -> tuple[FlexibleRequirement, ...]:
    """The distinguishing requirements come first: they identify the machine later, and the number of requirements of a claim
    is limited."""
    order = sorted(labels, key=lambda key: (key not in (*_FIRST, *_SOURCES), key))
    made = [FlexibleRequirement(key=key, operator="In", values=(labels[key],)) for key in order]
    return tuple(made[:REQUIREMENTS])


def _owners(machine: Machine) -> tuple[OwnerReference, ...]:
    """The pool or group as owner, unless it comes from a file: its machines are deleted with it."""
    origin = machine.pool or machine.group
    if origin is None or not origin.metadata.uid:
        return ()
    return (
        OwnerReference(
            api_version=origin.api_version,
            kind=origin.kind,
            name=origin.metadata.name,
            uid=origin.metadata.uid,
        ),
    )


# --- and back ---


def machine_of(claim: NodeClaim, machines: Iterable[Machine]) -> Machine | None:
    """The machine that a claim means: the cheapest available one that it allows; None if there is none.

    Labels that distinguish machines count as requirements, because the launcher records its choice in them."""
    labels = claim.metadata.labels
    chosen = {key: labels[key] for key in (*_FIRST, *_SOURCES) if key in labels}
    tests = both([*passing(claim.spec.requirements).items(), *labelled(chosen).items()])
    allowed = [each for each in machines if failed(each.possible, tests) is None]
    return min(allowed, key=lambda each: (not each.offering.available, each.price, each.name), default=None)


def node_name(claim: NodeClaim) -> str:
    """The name of the claim's node, or the name that stands for it until it has one."""
    return claim.status.node_name or claim.metadata.name


def foreseen(claim: NodeClaim, machine: Machine) -> tuple[Node, list[ResourceSlice]]:
    """The future node of the claim with its slices, for plans that are made before the node exists.

    The taints are those of the claim, because its pool may have changed since; start-up taints are left out."""
    node, slices = node_of(machine, node_name(claim))
    return replace(node, spec=replace(node.spec, taints=claim.spec.taints)), slices


def drivers_of(claim: NodeClaim) -> list[str]:
    """The drivers that must have published for the node to be ready."""
    return [each for each in claim.metadata.annotations.get(DRIVERS, "").split(",") if each]


# --- how far it has come ---


def condition(claim: NodeClaim, type_: str) -> Condition | None:
    return next((each for each in claim.status.conditions if each.type == type_), None)


def state_of(claim: NodeClaim) -> ClaimProgress:
    status = {each.type: each.status for each in claim.status.conditions}
    if claim.metadata.deletion_timestamp is not None:
        return ClaimProgress.GOING
    if status.get(LAUNCHED) == "False":
        return ClaimProgress.FAILED
    for type_, state in (
        (INITIALIZED, ClaimProgress.INITIALIZED),
        (REGISTERED, ClaimProgress.REGISTERED),
        (LAUNCHED, ClaimProgress.LAUNCHED),
    ):
        if status.get(type_) == "True":
            return state
    return ClaimProgress.LAUNCHING


def on_offer(machines: Iterable[Machine], claims: Iterable[NodeClaim]) -> list[Machine]:
    """The machines without those that a claim recently failed to get, for whatever pool."""
    refused = {
        _offering(claim.metadata.labels)
        for claim in claims
        if (told := condition(claim, LAUNCHED)) is not None and told.status == "False"
    }
    return [each for each in machines if _offering(each.labels) not in refused]


def _offering(labels: Mapping[str, str]) -> tuple[str, ...]:
    """What is out of stock together: a type in a place, or a group."""
    return tuple(labels.get(key, "") for key in (*_FIRST, NODE_GROUP))
