"""What a pod wants from devices in one attempt to place it, and which nodes its allocated claims allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from allotment.allocator.errors import AllocationError
from allotment.allocator.nodeselector import selects
from allotment.allocator.suits import NODE_OPERATIONS
from allotment.api.resource import ResourceClaim
from allotment.scheduler.devices.node_allocatable import NodeCosts
from allotment.scheduler.devices.semantic_claim import IMMEDIATE, carried
from allotment.scheduler.framework import SUCCESS, Status, StatusCode

if TYPE_CHECKING:
    from allotment.api import semantic
    from allotment.api.core import NodeSelector
    from allotment.api.resource import AllocationResult
    from allotment.scheduler.devices.allocation_plan import AllocationPlan, DeviceGrant, SemanticWant
    from allotment.scheduler.devices.claim_references import Reference
    from allotment.scheduler.devices.scoring import Sizes
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.node import NodeInfo

NAME = "DynamicResources"


@lru_cache(maxsize=1024)
def unresolvable(words: str) -> Status:
    return Status(StatusCode.UNRESOLVABLE, NAME, words)


@lru_cache(maxsize=1024)
def unmade(words: str) -> Status:
    """The status of a pod that waits at the gate for a controller to make its claim."""
    return Status(StatusCode.UNRESOLVABLE, NAME, words, awaits=ResourceClaim)


_ELSEWHERE = unresolvable("are not where the pod's allocated claims can be used")
_NO_OPERATIONS = unresolvable(f"do not declare {NODE_OPERATIONS}, which the pod's claims need")
_NOT_READY = unresolvable("cannot be used by a claim whose devices did not become ready")
_UNKNOWN = unresolvable("are not known")
_NO_COSTS = NodeCosts()


@dataclass(frozen=True, slots=True)
class ClaimWithDevices:
    """A claim that has its devices, on the server or in a flight for the pod's gang."""

    reference: Reference
    allocation: AllocationResult
    in_flight: bool
    shared: bool  # another consumer uses it too


class Wants:
    """What a pod wants of this plugin in one cycle; kept in the cycle's state. Most pods want little of all this."""

    given: tuple[ClaimWithDevices, ...] = ()
    selectors: tuple[NodeSelector, ...] = ()  # of given claims, besides node names
    operations = False  # a given claim needs nodes that declare NODE_OPERATIONS
    unready = False  # a given claim's devices failed to become ready
    pending: tuple[Reference, ...] = ()
    key: tuple[bytes, ...] = ()  # what the pending claims ask for
    carried: tuple[SemanticWant, ...] = ()
    carried_key: tuple[tuple[str, bytes], ...] = ()
    stale = ""  # a claim for extended resources that an earlier attempt left behind
    grants: tuple[DeviceGrant, ...] = ()  # by Reserve
    joined: tuple[ClaimWithDevices, ...] = ()  # by Reserve: given claims that the pod joins as a user
    costs = _NO_COSTS  # by Reserve

    def __init__(self, extended: Mapping[str, str], sizes: Sizes) -> None:
        self.extended = extended  # resource → class that can serve it
        self.sizes = sizes
        self.plans: dict[frozenset[str], AllocationPlan] = {}  # by the extended resources to be claimed

    @property
    def nothing(self) -> bool:
        return not (self.given or self.pending or self.carried or self.extended)


NOTHING = Wants({}, {})


def reserved(reference: Reference) -> bool:
    """Whether the server has shown the claim as reserved for the pod or its group."""
    return any(user.uid == reference.consumer.uid for user in reference.claim.status.reserved_for)


def exclusive(claim: semantic.ResourceClaim, reference: Reference, cycle: Cycle) -> bool:
    """Whether a semantic claim allows one user at a time and has another one now."""
    if not in_use_by_others(reference, cycle):
        return False
    allocation = claim.status.allocation
    return not (allocation.shareable if allocation is not None else cycle.cluster.semantic.shareable(claim))


def names_chosen(selector: NodeSelector) -> frozenset[str] | None:
    """The names of the nodes that a selector chooses, if it chooses by name alone."""
    names: list[str] = []
    for term in selector.node_selector_terms:
        if term.match_expressions or len(term.match_fields) != 1:
            return None
        (test,) = term.match_fields
        if test.key != "metadata.name" or test.operator != "In":
            return None
        names += test.values
    return frozenset(names)


def reaches(wants: Wants, node: NodeInfo) -> Status:
    """Whether the given claims can be used on a node."""
    if wants.unready:
        return _NOT_READY
    if node.node is None:
        return _UNKNOWN
    try:
        if not all(selects(selector, node.node) for selector in wants.selectors):
            return _ELSEWHERE
    except AllocationError as exc:
        return unresolvable(f"cannot be matched with a claim's node selector: {exc}")
    if wants.operations and NODE_OPERATIONS not in node.node.status.declared_features:
        return _NO_OPERATIONS
    return SUCCESS


def in_use_by_others(reference: Reference, cycle: Cycle) -> bool:
    users = cycle.cluster.claims.reserved(reference.key)
    return any(user.uid != reference.consumer.uid for user in users.values())


def only_user(given: ClaimWithDevices, cycle: Cycle) -> bool:
    """Whether the scheduler may release a claim for the pod. Only the pod uses it, or only its group and no member has a node
    yet. The server shows the same state, and the claim may be allocated again."""
    if given.in_flight or given.shared:
        return False
    if given.reference.consumer.uid != cycle.pod.uid:
        members = cycle.cluster.members.get(cycle.pod.group, {})
        if any(member.node for member in members.values()):
            return False
    found = carried(given.reference.claim)
    return found is None or found.spec.allocation_mode != IMMEDIATE
