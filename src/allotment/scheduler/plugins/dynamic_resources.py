"""Devices for pods: which claims a pod needs, on which nodes they can be had, and what has to be written for them.

In a cycle:

* PreEnqueue and PreFilter find the pod's claims (``claim_references``) and split them: those that are *given*, allocated or
  about to be for this pod or its gang, restrict nodes; those that are *pending* are to be allocated together.
* Filter asks the fleet whether a node can give the pending ones (``device_wish``). The answer follows from what the claims ask
  for and from the node's state, so it is asked once for all pods of a shape.
* Reserve writes the chosen devices down for this very pod, as a flight of each claim (``claims``). PreBind says what to write.
* PostFilter gives back claims of the pod that nobody uses and that keep it from nodes where it would fit.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.allocator.errors import AllocationError
from allotment.allocator.ledger import Conflict
from allotment.allocator.nodeselector import selects
from allotment.allocator.search import DEFAULT_BUDGET
from allotment.allocator.strategy import BEST_FIT, FIRST_FIT
from allotment.allocator.suits import NODE_OPERATIONS
from allotment.api.batch import PodGroup
from allotment.api.codec import encode
from allotment.api.core import Node, Pod
from allotment.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.scheduler.binding_conditions import Readiness, awaited, readiness, timestamp
from allotment.scheduler.claim_references import Reference, Unusable, blocked, references
from allotment.scheduler.device_wish import Wish
from allotment.scheduler.framework import SKIP, SUCCESS, Action, Code, Release, Status, Wake
from allotment.scheduler.step import AwaitConditions, WriteClaim

if TYPE_CHECKING:
    from allotment.api.core import NodeSelector
    from allotment.api.meta import ApiStruct
    from allotment.api.resource import AllocationResult
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.device_score import Sizes
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo
    from allotment.scheduler.step import Step

NAME = "DynamicResources"
FINALIZER = "resource.kubernetes.io/delete-protection"
STRATEGIES = {"keep-whole": BEST_FIT, "first-fit": FIRST_FIT}
BINDING_SECONDS = 600.0

_WISHES_KEPT = 256
_EVERY = frozenset(Action)

_ELSEWHERE = Status(Code.UNRESOLVABLE, NAME, "are not where the pod's allocated claims can be used")
_NO_OPERATIONS = Status(
    Code.UNRESOLVABLE, NAME, f"do not declare {NODE_OPERATIONS}, which the pod's claims need"
)
_NOT_READY = Status(Code.UNRESOLVABLE, NAME, "cannot be used by a claim whose devices did not become ready")
_UNKNOWN = Status(Code.UNRESOLVABLE, NAME, "are not known to the devices")


@dataclass(frozen=True, slots=True)
class Given:
    """A claim that has its devices: on the server, or in a flight for the pod's gang."""

    reference: Reference
    allocation: AllocationResult
    in_flight: bool


@dataclass(slots=True)
class Wants:
    """What a pod wants of this plugin in one cycle; kept in the cycle's state."""

    given: list[Given] = field(default_factory=list)
    pending: list[Reference] = field(default_factory=list)
    selectors: list[NodeSelector] = field(default_factory=list)  # of given claims, beyond names of nodes
    operations: bool = False  # a given claim needs nodes that declare NODE_OPERATIONS
    unready: bool = False  # a given claim's devices failed to become ready
    key: tuple[bytes, ...] = ()  # what the pending claims ask for
    wish: Wish | None = None
    sizes: Sizes = field(default_factory=dict)
    reserved: dict[str, AllocationResult | None] = field(
        default_factory=dict
    )  # by Reserve: claim → new allocation


_NOTHING = Wants()


class DynamicResources:
    """See the module."""

    name = NAME
    local = True
    wakes: Sequence[Wake] = tuple(
        Wake(kind, _EVERY)
        for kind in (ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule, Node, Pod, PodGroup)
    )

    def __init__(
        self,
        device_strategy: str = "keep-whole",
        binding_seconds: float = BINDING_SECONDS,
        budget: int = DEFAULT_BUDGET,
    ) -> None:
        if device_strategy not in STRATEGIES:
            raise ValueError(f"deviceStrategy {device_strategy!r} is not one of {', '.join(STRATEGIES)}")
        self._strategy = STRATEGIES[device_strategy]
        self._binding_seconds = binding_seconds
        self._budget = budget
        self._wishes: dict[tuple[bytes, ...], Wish] = {}

    # --- PreEnqueue, PreFilter ---

    def pre_enqueue(self, pod: PodInfo, cluster: Cluster) -> Status:
        """All claims exist and are the pod's to use."""
        try:
            references(pod, cluster)
        except Unusable as exc:
            return _unresolvable(str(exc))
        return SUCCESS

    def pre_filter(self, cycle: Cycle) -> Status:
        pod, cluster = cycle.pod, cycle.cluster
        if not pod.pod.spec.resource_claims:
            cycle.state[NAME] = _NOTHING
            return SKIP
        wants = cycle.state[NAME] = Wants(sizes=cluster.sizes.largest)
        try:
            for reference in references(pod, cluster):
                waits = blocked(reference, pod, cluster)
                if waits:
                    return _unresolvable(waits)
                self._sort(cycle, wants, reference)
        except (Unusable, AllocationError) as exc:
            return _unresolvable(str(exc))
        if not wants.given and not wants.pending:
            return SKIP
        if wants.pending:
            wants.key = tuple([encode(each.claim.spec) for each in wants.pending])
            wants.wish = self._wish(cluster, wants)
            if wants.wish.fault:
                return _unresolvable(f"the pod's claims cannot be allocated: {wants.wish.fault}")
        return SUCCESS

    def _sort(self, cycle: Cycle, wants: Wants, reference: Reference) -> None:
        claims = cycle.cluster.claims
        allocation = claims.allocation(reference.key)
        if allocation is None:
            wants.pending.append(reference)
            return
        in_flight = reference.claim.status.allocation is None
        wants.given.append(Given(reference, allocation, in_flight))
        where = allocation.node_selector
        if where is not None:
            names = _names(where)
            if names is not None:
                cycle.restrict(names)
            else:
                wants.selectors.append(where)
        wants.operations = wants.operations or any(
            result.skip_node_operations for result in allocation.devices.results
        )
        ready = readiness(reference.claim, cycle.now, self._binding_seconds)
        wants.unready = wants.unready or ready in (Readiness.FAILED, Readiness.LATE)

    def _wish(self, cluster: Cluster, wants: Wants) -> Wish:
        wish = self._wishes.pop(wants.key, None)
        if wish is None or not wish.of(cluster.fleet):
            claims = [each.claim for each in wants.pending]
            wish = Wish(cluster.fleet, claims, self._strategy, self._budget, NAME)
        self._wishes[wants.key] = wish  # last in, so the first is the one that was not wanted for longest
        if len(self._wishes) > _WISHES_KEPT:
            del self._wishes[next(iter(self._wishes))]
        return wish

    def shape(self, cycle: Cycle) -> Hashable:
        """Equal for pods that Filter and Score cannot tell apart, after PreFilter."""
        wants: Wants = cycle.state[NAME]
        if wants is _NOTHING:
            return None
        if not wants.given:
            return wants.key
        return (
            wants.key,
            cycle.names,
            tuple([encode(selector) for selector in wants.selectors]),
            wants.operations,
            wants.unready,
        )

    # --- Filter, Score ---

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        wants: Wants = cycle.state[NAME]
        if wants.given:
            status = _reaches(wants, node)
            if not status.ok:
                return status
        wish = wants.wish
        if wish is None:
            return SUCCESS
        place = cycle.cluster.fleet.places.get(node.name)
        if place is None:
            return _UNKNOWN
        return SUCCESS if wish.fits(place) else wish.refusal(place)

    def score(self, cycle: Cycle, node: NodeInfo) -> int:
        wants: Wants = cycle.state[NAME]
        place = cycle.cluster.fleet.places.get(node.name)
        if wants.wish is None or place is None:
            return 0
        return wants.wish.score(place, wants.sizes)

    # --- PostFilter ---

    def post_filter(self, cycle: Cycle, rejections: Mapping[str, Status]) -> Release | None:
        """Gives back given claims that only this pod uses, if that may lead to a node: those that bind it to nodes where it
        does not fit, or whose devices did not become ready."""
        wants: Wants = cycle.state[NAME]
        mine = [given for given in wants.given if _only_user(given, cycle)]
        if not mine or not self._would_fit(cycle, mine, rejections):
            return None
        count = "a claim" if len(mine) == 1 else f"{len(mine)} claims"
        words = f"gives back {count} of its own, which it cannot use on any node that it fits on"
        return Release(tuple(given.reference.key for given in mine), words)

    def _would_fit(self, cycle: Cycle, mine: Sequence[Given], rejections: Mapping[str, Status]) -> bool:
        """Whether the devices of some node that no other plugin rejected could serve the claims anew."""
        wants: Wants = cycle.state[NAME]
        kept = Wants(given=[given for given in wants.given if given not in mine])
        fleet = cycle.cluster.fleet
        claims = [given.reference.claim for given in mine] + [each.claim for each in wants.pending]
        with fleet.ledger.fork():
            for given in mine:
                fleet.ledger.release(given.reference.key)
            view = fleet.view(claims, self._strategy, self._budget)
            for name, node in cycle.cluster.nodes.items():
                status = rejections.get(name)
                place = fleet.places.get(name)
                if place is None or (status is not None and status.plugin != NAME):
                    continue
                if _reaches(kept, node).ok and view.draft(place) is not None:
                    return True
        return False

    # --- Reserve ---

    def reserve(self, cycle: Cycle, node: NodeInfo) -> Status:
        wants: Wants = cycle.state[NAME]
        if wants is _NOTHING:
            return SUCCESS
        try:
            self._reserve_pending(cycle, wants, node)
        except Conflict:
            return Status(Code.UNSCHEDULABLE, NAME, "a device was taken by another pod meanwhile")
        claims, uid = cycle.cluster.claims, cycle.pod.uid
        for given in wants.given:
            reference = given.reference
            if given.in_flight or not _reserved(reference):
                claims.depart(reference.key, uid, reference.consumer, None)
                wants.reserved[reference.key] = None
        return SUCCESS

    def _reserve_pending(self, cycle: Cycle, wants: Wants, node: NodeInfo) -> None:
        if wants.wish is None:
            return
        place = cycle.cluster.fleet.places.get(node.name)
        claims = [each.claim for each in wants.pending]
        allocations = wants.wish.write(place, claims) if place is not None else None
        if allocations is None:
            raise Conflict(f"the claims do not fit on node {node.name} any more")
        for reference, allocation in zip(wants.pending, allocations, strict=True):
            if awaited(allocation):
                allocation = replace(allocation, allocation_timestamp=timestamp(cycle.now))
            cycle.cluster.claims.depart(reference.key, cycle.pod.uid, reference.consumer, allocation)
            wants.reserved[reference.key] = allocation

    def unreserve(self, cycle: Cycle, node: NodeInfo) -> None:
        wants: Wants = cycle.state.get(NAME, _NOTHING)
        if wants is _NOTHING:
            return
        for key in reversed(wants.reserved):
            cycle.cluster.claims.cancel(key, cycle.pod.uid)
        wants.reserved.clear()

    # --- PreBind ---

    def pre_bind(self, cycle: Cycle, node: NodeInfo) -> list[Step]:
        wants: Wants = cycle.state[NAME]
        steps: list[Step] = []
        for reference in (*wants.pending, *[given.reference for given in wants.given]):
            if reference.key in wants.reserved:
                allocation = wants.reserved[reference.key]
                steps.append(WriteClaim(reference.key, allocation, reference.consumer, FINALIZER))
        waits = [key for key, allocation in self._allocations(wants) if awaited(allocation)]
        if waits:
            steps.append(AwaitConditions(tuple(waits), self._binding_seconds))
        return steps

    def _allocations(self, wants: Wants) -> list[tuple[str, AllocationResult]]:
        """Of all the pod's claims, once it has reserved them."""
        fresh = [(key, allocation) for key, allocation in wants.reserved.items() if allocation is not None]
        return fresh + [(given.reference.key, given.allocation) for given in wants.given]

    # --- what may help ---

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        """A claim that was made for one pod, and changed without releasing anything, helps at most that pod, which is not
        waiting for it any more once it is allocated."""
        if isinstance(old, ResourceClaim) and isinstance(new, ResourceClaim):
            return released(old, new) or old.status != new.status or _other_meta(old, new)
        return True

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        changed = new if new is not None else old
        if isinstance(changed, ResourceClaim):
            return self._claim_helps(pod, old, new, cluster)
        if isinstance(changed, Pod):
            return changed.metadata.uid == pod.uid and new is not None
        return True

    def _claim_helps(
        self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster
    ) -> bool:
        return True


def released(old: ResourceClaim, new: ResourceClaim | None) -> bool:
    """Whether a claim gave devices back, some or all."""
    before = old.status.allocation
    if before is None:
        return False
    after = new.status.allocation if new is not None else None
    return after is None or not set(before.devices.results) <= set(after.devices.results)


def _other_meta(old: ResourceClaim, new: ResourceClaim) -> bool:
    before, after = old.metadata, new.metadata
    return (before.owner_references, before.annotations, before.deletion_timestamp) != (
        after.owner_references,
        after.annotations,
        after.deletion_timestamp,
    )


def _unresolvable(words: str) -> Status:
    return Status(Code.UNRESOLVABLE, NAME, words)


def _reserved(reference: Reference) -> bool:
    """Whether the server has shown that the pod, or its group, may use the claim."""
    return any(user.uid == reference.consumer.uid for user in reference.claim.status.reserved_for)


def _names(selector: NodeSelector) -> frozenset[str] | None:
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


def _reaches(wants: Wants, node: NodeInfo) -> Status:
    """Whether the given claims can be used on a node."""
    if wants.unready:
        return _NOT_READY
    if node.node is None:
        return _UNKNOWN
    try:
        if not all(selects(selector, node.node) for selector in wants.selectors):
            return _ELSEWHERE
    except AllocationError as exc:
        return _unresolvable(f"cannot be matched with a claim's node selector: {exc}")
    if wants.operations and NODE_OPERATIONS not in node.node.status.declared_features:
        return _NO_OPERATIONS
    return SUCCESS


def _only_user(given: Given, cycle: Cycle) -> bool:
    """Whether nobody but the pod uses a claim, and it is on the server as it is here."""
    if given.in_flight or given.reference.consumer.uid != cycle.pod.uid:
        return False
    users = cycle.cluster.claims.reserved(given.reference.key)
    return all(user.uid == cycle.pod.uid for user in users.values())
