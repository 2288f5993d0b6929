"""Devices for pods: which claims a pod needs, on which nodes they can be had, and what has to be written for them.

In a cycle:

* PreEnqueue and PreFilter find the pod's claims (``claim_references``) and split them: those that are *given*, allocated or
  about to be for this pod or its gang, restrict nodes; those that are *pending* are to be allocated together.
* Filter asks whether a node can give the pending ones (``device_plan``), and has enough of its own resources for devices that
  are part of those (``node_allocatable``). The answer follows from what the claims ask for and from the node's state, so it
  is asked once for all pods of a shape.
* Reserve writes the chosen devices down for this very pod, as a flight of each claim (``claims``). PreBind says what to write.
* PostFilter gives back claims of the pod that nobody uses and that keep it from nodes where it would fit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allotment.allocator.errors import AllocationError
from allotment.allocator.ledger import Conflict
from allotment.allocator.nodeselector import selects
from allotment.allocator.pool import DeviceID
from allotment.allocator.search import DEFAULT_BUDGET
from allotment.allocator.strategy import BEST_FIT, FIRST_FIT
from allotment.allocator.suits import NODE_OPERATIONS
from allotment.api import alpha2
from allotment.api.batch import PodGroup
from allotment.api.codec import encode
from allotment.api.core import Node, Pod
from allotment.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.scheduler import extended_resources
from allotment.scheduler.binding_conditions import Readiness, awaited, readiness
from allotment.scheduler.carried_claim import FINALIZER as CARRIED_FINALIZER
from allotment.scheduler.carried_claim import IMMEDIATE, carried, is_carrier
from allotment.scheduler.claim_references import Reference, Unusable, blocked, own_reference, references
from allotment.scheduler.device_plan import FINALIZER, Carried, Grant, Plan
from allotment.scheduler.device_wish import Wish
from allotment.scheduler.framework import SKIP, SUCCESS, Action, Code, Release, Status, Wake
from allotment.scheduler.node_allocatable import Costs, Share, beyond, costs, lacking, maps
from allotment.scheduler.placement import EXTRA
from allotment.scheduler.step import AwaitConditions, MakeClaim, PatchStatus, WriteClaim

if TYPE_CHECKING:
    from allotment.allocator.fleet import Place
    from allotment.api.core import NodeSelector
    from allotment.api.meta import ApiStruct
    from allotment.api.resource import AllocationResult, Device, DeviceRequestAllocationResult
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.device_score import Sizes
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo
    from allotment.scheduler.requests import Amounts
    from allotment.scheduler.step import Step

NAME = "DynamicResources"
STRATEGIES = {"keep-whole": BEST_FIT, "first-fit": FIRST_FIT}
BINDING_SECONDS = 600.0

_WISHES_KEPT = 256
_EVERY = frozenset(Action)
_KINDS: tuple[type[ApiStruct], ...] = (
    ResourceClaim,
    ResourceSlice,
    DeviceClass,
    DeviceTaintRule,
    Node,
    Pod,
    PodGroup,
    alpha2.NodeResourceSlice,
    alpha2.ResourceClass,
    alpha2.ResourceClassParameters,
    alpha2.ResourceClaimParameters,
)


def _unresolvable(words: str) -> Status:
    return Status(Code.UNRESOLVABLE, NAME, words)


_ELSEWHERE = _unresolvable("are not where the pod's allocated claims can be used")
_NO_OPERATIONS = _unresolvable(f"do not declare {NODE_OPERATIONS}, which the pod's claims need")
_NOT_READY = _unresolvable("cannot be used by a claim whose devices did not become ready")
_STALE = _unresolvable("have to wait until a claim of an earlier attempt is deleted")
_SHARED = _unresolvable("cannot be used by a claim that is part of a node and in use by another pod")
_UNKNOWN = _unresolvable("are not known")


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
    selectors: list[NodeSelector] = field(default_factory=list)  # of given claims, beyond names of nodes
    operations: bool = False  # a given claim needs nodes that declare NODE_OPERATIONS
    unready: bool = False  # a given claim's devices failed to become ready
    pending: list[Reference] = field(default_factory=list)
    key: tuple[bytes, ...] = ()  # what the pending claims ask for
    carried: list[Carried] = field(default_factory=list)
    carried_key: tuple[tuple[str, bytes], ...] = ()
    extended: dict[str, str] = field(default_factory=dict)  # resource → class that can serve it
    stale: str = ""  # a claim for extended resources that an earlier attempt left behind
    plans: dict[frozenset[str], Plan] = field(default_factory=dict)  # by the extended resources to be claimed
    sizes: Sizes = field(default_factory=dict)
    grants: list[Grant] = field(default_factory=list)  # by Reserve
    joined: list[Given] = field(
        default_factory=list
    )  # by Reserve: given claims that the pod was not a user of
    costs: Costs = field(default_factory=Costs)  # by Reserve

    @property
    def nothing(self) -> bool:
        return not (self.given or self.pending or self.carried or self.extended)


_NOTHING = Wants()
_NO_RESOURCES: frozenset[str] = frozenset()


class DynamicResources:
    """See the module."""

    name = NAME
    local = True
    wakes: Sequence[Wake] = tuple(Wake(kind, _EVERY) for kind in _KINDS)

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
        extended = extended_resources.served(pod, cluster.extended) if cluster.extended else {}
        if not pod.pod.spec.resource_claims and not extended:
            cycle.state[NAME] = _NOTHING
            return SKIP
        wants = cycle.state[NAME] = Wants(extended=extended, sizes=cluster.sizes.largest)
        try:
            for reference in references(pod, cluster):
                waits = blocked(reference, pod, cluster)
                if waits:
                    return _unresolvable(waits)
                self._sort(cycle, wants, reference)
            self._find_stale(cycle, wants)
        except Unusable as exc:
            return _unresolvable(str(exc))
        if wants.nothing:
            return SKIP
        wants.key = tuple([encode(each.claim.spec) for each in wants.pending])
        fault = self._fault(cycle, wants)
        return _unresolvable(f"the pod's claims cannot be allocated: {fault}") if fault else SUCCESS

    def _sort(self, cycle: Cycle, wants: Wants, reference: Reference) -> None:
        allocation = cycle.cluster.claims.allocation(reference.key)
        found = carried(reference.claim) if is_carrier(reference.claim) else None
        if allocation is not None:
            if found is not None and _exclusive(found, reference, cycle):
                raise Unusable(f"the pod's resource claim {reference.key} is in use and not shareable")
            self._restrict(cycle, wants, reference, allocation)
        elif found is not None:
            wants.carried.append(Carried(reference, found))
            wants.carried_key += ((reference.claim.metadata.namespace, encode(found.spec)),)
        else:
            wants.pending.append(reference)

    def _restrict(
        self, cycle: Cycle, wants: Wants, reference: Reference, allocation: AllocationResult
    ) -> None:
        """A given claim leaves only nodes on which it can be used."""
        in_flight = reference.claim.status.allocation is None
        wants.given.append(Given(reference, allocation, in_flight))
        where = allocation.node_selector
        if where is not None:
            names = _names(where)
            if names is not None:
                cycle.restrict(names)
            else:
                wants.selectors.append(where)
        if any(result.skip_node_operations for result in allocation.devices.results):
            wants.operations = True
        if readiness(reference.claim, cycle.now, self._binding_seconds) in (Readiness.FAILED, Readiness.LATE):
            wants.unready = True

    def _find_stale(self, cycle: Cycle, wants: Wants) -> None:
        if not wants.extended:
            return
        found = extended_resources.existing(cycle.pod, cycle.cluster.claims)
        if found is None:
            return
        key = f"{found.metadata.namespace}/{found.metadata.name}"
        if found.metadata.deletion_timestamp is not None:
            raise Unusable(f"the claim {key} of an earlier attempt is being deleted")
        wants.stale = key

    def _fault(self, cycle: Cycle, wants: Wants) -> str:
        """What is wrong with the pending claims, wherever they are asked for."""
        if wants.pending:
            wish = self._plan(cycle, wants, _NO_RESOURCES).wish
            if wish is not None and wish.fault:
                return wish.fault
        if wants.carried:
            return cycle.cluster.semantic.fault([each.claim for each in wants.carried])
        return ""

    def shape(self, cycle: Cycle) -> Hashable:
        """Equal for pods that Filter and Score cannot tell apart, after PreFilter."""
        wants: Wants = cycle.state[NAME]
        if wants is _NOTHING:
            return None
        if not (wants.given or wants.carried or wants.extended):
            return wants.key
        return (
            wants.key,
            wants.carried_key,
            tuple(wants.extended.items()),
            wants.stale,
            cycle.names,
            tuple(encode(selector) for selector in wants.selectors),
            wants.operations,
            wants.unready,
            tuple(
                (encode(given.allocation.devices), given.reference.entries, _in_use_by_others(given, cycle))
                for given in wants.given
            ),
        )

    # --- plans ---

    def _plan_for(self, cycle: Cycle, wants: Wants, node: NodeInfo) -> Plan:
        """How the pending claims are to be allocated on a node."""
        if not wants.extended:
            return self._plan(cycle, wants, _NO_RESOURCES)
        claimed = frozenset([name for name in wants.extended if not node.offered.get(name)])
        return self._plan(cycle, wants, claimed)

    def _plan(self, cycle: Cycle, wants: Wants, resources: frozenset[str]) -> Plan:
        plan = wants.plans.get(resources)
        if plan is not None:
            return plan
        plan = wants.plans[resources] = Plan(NAME, self._strategy)
        plan.references, plan.carried, plan.key = wants.pending, wants.carried, wants.carried_key
        key = wants.key
        if resources:
            plan.extended = extended_resources.extended_claim(cycle.pod, resources, wants.extended)
            claim = plan.extended.claim
            name = f"{claim.metadata.namespace}/{claim.metadata.name}"
            plan.references = [*plan.references, Reference((), name, claim, own_reference(cycle.pod))]
            key = (*key, encode(claim.spec))
        if plan.references:
            plan.wish = self._wish(cycle.cluster, key, plan.references)
        return plan

    def _wish(self, cluster: Cluster, key: tuple[bytes, ...], pending: Sequence[Reference]) -> Wish:
        wish = self._wishes.pop(key, None)
        if wish is None or not wish.of(cluster.fleet):
            claims = [each.claim for each in pending]
            wish = Wish(cluster.fleet, claims, self._strategy, self._budget, NAME)
        self._wishes[key] = wish  # last in, so the first is the one that was not wanted for longest
        if len(self._wishes) > _WISHES_KEPT:
            del self._wishes[next(iter(self._wishes))]
        return wish

    # --- Filter, Score ---

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        wants: Wants = cycle.state[NAME]
        if wants is _NOTHING:
            return SUCCESS
        if node.node is None:
            return _UNKNOWN
        if wants.stale:
            return _STALE
        if wants.given:
            status = _reaches(wants, node)
            if not status.ok:
                return status
        plan = self._plan_for(cycle, wants, node)
        status = plan.judge(cycle.cluster, node.node)
        if not status.ok:
            return status
        place = _bearing(cycle.cluster, node)
        if place is None:
            return SUCCESS
        afforded = self._afford(cycle, wants, plan, place, node)
        return afforded if isinstance(afforded, Status) else SUCCESS

    def score(self, cycle: Cycle, node: NodeInfo) -> int:
        wants: Wants = cycle.state[NAME]
        if wants is _NOTHING or node.node is None:
            return 0
        return self._plan_for(cycle, wants, node).score(cycle.cluster, node.node, wants.sizes)

    def _afford(
        self, cycle: Cycle, wants: Wants, plan: Plan, place: Place, node: NodeInfo
    ) -> tuple[Costs, Amounts] | Status:
        """What the devices cost of the node's own resources; or why it, or the pod, does not have that much."""
        lookup = _Lookup(cycle.cluster, place)
        for given in wants.given:
            if _in_use_by_others(given, cycle) and maps(given.allocation, lookup):
                return _SHARED
        grants = plan.grants(cycle.cluster, place.node, cycle.now) or []
        held: list[Grant | Given] = [*grants, *wants.given]
        shares = [_share(each.reference, each.allocation) for each in held]
        total = costs(cycle.pod.pod, shares, lookup)
        extra = beyond(cycle.pod, total.amounts())
        if isinstance(extra, str):
            return _unresolvable(f"have devices that take more {extra} than the pod requests as a whole")
        short = lacking(node, cycle.pod.requests, extra)
        if not short:
            return total, extra
        code = Code.UNRESOLVABLE if any(always for _, always in short) else Code.UNSCHEDULABLE
        names = " and ".join(name for name, _ in short)
        return Status(code, NAME, f"have too little {names} for the pod and what its devices take")

    # --- PostFilter ---

    def post_filter(self, cycle: Cycle, rejections: Mapping[str, Status]) -> Release | None:
        """Gives back given claims that only this pod uses, if that may lead to a node: those that bind it to nodes where it
        does not fit, or whose devices did not become ready; and a claim that an earlier attempt left behind."""
        wants: Wants = cycle.state[NAME]
        if wants.stale:
            return Release((wants.stale,), "A claim that an earlier attempt made for the pod is deleted")
        mine = [given for given in wants.given if _only_user(given, cycle)]
        if not mine or not self._would_fit(cycle, mine, rejections):
            return None
        what = "A claim of the pod is" if len(mine) == 1 else f"{len(mine)} claims of the pod are"
        return Release(
            tuple(given.reference.key for given in mine),
            f"{what} given back, to be allocated on another node",
        )

    def _would_fit(self, cycle: Cycle, mine: Sequence[Given], rejections: Mapping[str, Status]) -> bool:
        """Whether some node that no other plugin rejected could serve the claims anew."""
        wants: Wants = cycle.state[NAME]
        kept = [given for given in wants.given if given not in mine]
        again = Wants(extended=wants.extended, sizes=wants.sizes)
        attempt = type(cycle)(cycle.pod, cycle.cluster, cycle.now, {NAME: again})
        ledger = cycle.cluster.fleet.ledger
        with ledger.fork():
            for given in mine:
                ledger.release(given.reference.key)
                self._sort_anew(again, given.reference)
            for given in kept:
                self._restrict(attempt, again, given.reference, given.allocation)
            again.pending += wants.pending
            again.carried += wants.carried
            again.carried_key += wants.carried_key
            again.key = tuple(encode(each.claim.spec) for each in again.pending)
            for name, node in cycle.cluster.nodes.items():
                status = rejections.get(name)
                if status is not None and status.plugin != NAME:
                    continue
                if attempt.names is not None and name not in attempt.names:
                    continue
                if self.filter(attempt, node).ok:
                    return True
        return False

    def _sort_anew(self, wants: Wants, reference: Reference) -> None:
        found = carried(reference.claim) if is_carrier(reference.claim) else None
        if found is None:
            wants.pending.append(reference)
        else:
            wants.carried.append(Carried(reference, found))
            wants.carried_key += ((reference.claim.metadata.namespace, encode(found.spec)),)

    # --- Reserve ---

    def reserve(self, cycle: Cycle, node: NodeInfo) -> Status:
        wants: Wants = cycle.state[NAME]
        if wants is _NOTHING or node.node is None:
            return SUCCESS
        cluster, uid = cycle.cluster, cycle.pod.uid
        plan = self._plan_for(cycle, wants, node)
        grants = plan.grants(cluster, node.node, cycle.now)
        place = _bearing(cluster, node)
        if place is not None:
            afforded = self._afford(cycle, wants, plan, place, node)
            if isinstance(afforded, Status):
                return afforded
            wants.costs, extra = afforded
            if extra:
                cycle.state[EXTRA] = extra
        if grants is None:
            return Status(Code.UNSCHEDULABLE, NAME, f"the claims do not fit on node {node.name} any more")
        try:
            for grant in grants:
                cluster.claims.depart(grant.reference.key, uid, grant.reference.consumer, grant.allocation)
                wants.grants.append(grant)
        except Conflict:
            return Status(Code.UNSCHEDULABLE, NAME, "a device was taken by another pod meanwhile")
        for given in wants.given:
            if given.in_flight or not _reserved(given.reference):
                cluster.claims.depart(given.reference.key, uid, given.reference.consumer, None)
                wants.joined.append(given)
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: NodeInfo) -> None:
        wants: Wants = cycle.state.get(NAME, _NOTHING)
        if wants is _NOTHING:
            return
        held: list[Grant | Given] = [*wants.grants, *wants.joined]
        for each in reversed(held):
            cycle.cluster.claims.cancel(each.reference.key, cycle.pod.uid)
        wants.grants.clear()
        wants.joined.clear()
        wants.costs = Costs()
        cycle.state.pop(EXTRA, None)

    # --- PreBind ---

    def pre_bind(self, cycle: Cycle, node: NodeInfo) -> list[Step]:
        wants: Wants = cycle.state[NAME]
        if wants is _NOTHING:
            return []
        steps: list[Step] = [grant.step for grant in wants.grants]
        for given in wants.joined:
            finalizer = CARRIED_FINALIZER if is_carrier(given.reference.claim) else FINALIZER
            steps.append(WriteClaim(given.reference.key, None, given.reference.consumer, finalizer))
        patch: dict[str, Any] = {}
        if any(isinstance(grant.step, MakeClaim) for grant in wants.grants):
            extended = self._plan_for(cycle, wants, node).extended
            assert extended is not None
            patch |= extended.status()
        if wants.costs.statuses:
            patch |= wants.costs.status()
        if patch:
            steps.append(PatchStatus({"status": patch}))
        held: list[Grant | Given] = [*wants.grants, *wants.given]
        waits = [each.reference.key for each in held if awaited(each.allocation)]
        if waits:
            steps.append(AwaitConditions(tuple(waits), self._binding_seconds))
        return steps

    # --- what may help ---

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        """Most changes are claims on their way to being allocated: they help only pods that wait for that very claim, and a
        finalizer helps nobody."""
        if isinstance(old, ResourceClaim) and isinstance(new, ResourceClaim):
            return old.status != new.status or _standing(old) != _standing(new)
        if isinstance(old, Node) and isinstance(new, Node):
            return _other_node(old, new)
        return not isinstance(old, Pod) or isinstance(new, Pod)

    def concerns(
        self, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster
    ) -> Iterable[str] | None:
        """The pods whose gate a change may open: those that use the claim, or the pod itself."""
        changed = new if new is not None else old
        if isinstance(changed, Pod):
            return (f"{changed.metadata.namespace}/{changed.metadata.name}",)
        if not isinstance(changed, ResourceClaim):
            return None if isinstance(changed, PodGroup) else ()
        meta = changed.metadata
        if any(owner.kind == "PodGroup" for owner in meta.owner_references):
            return None
        found = {f"{meta.namespace}/{owner.name}" for owner in meta.owner_references if owner.kind == "Pod"}
        return found | cluster.users.get(f"{meta.namespace}/{meta.name}", set())

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        changed = new if new is not None else old
        if isinstance(changed, ResourceClaim):
            before = old if isinstance(old, ResourceClaim) else None
            after = new if isinstance(new, ResourceClaim) else None
            if before is not None and released(before, after):
                return True
            return _uses(pod, changed, cluster)
        if isinstance(changed, Pod):
            return changed.metadata.uid == pod.uid
        if isinstance(changed, PodGroup):
            group = pod.pod.spec.scheduling_group
            return group is not None and group.pod_group_name == changed.metadata.name
        if isinstance(changed, (DeviceClass, ResourceSlice, Node)):
            return new is not None
        return True


def released(old: ResourceClaim, new: ResourceClaim | None) -> bool:
    """Whether a claim gave devices back, some or all."""
    before = old.status.allocation
    if before is None:
        return False
    after = new.status.allocation if new is not None else None
    if after is None:
        return True
    left = {_id(result) for result in after.devices.results}
    return any(_id(result) not in left for result in before.devices.results)


def _id(result: DeviceRequestAllocationResult) -> tuple[DeviceID, str | None]:
    return DeviceID(result.driver, result.pool, result.device), result.share_id


def _standing(claim: ResourceClaim) -> object:
    """What of a claim's metadata decides who may use it."""
    meta = claim.metadata
    return meta.owner_references, meta.annotations, meta.deletion_timestamp


def _uses(pod: PodInfo, claim: ResourceClaim, cluster: Cluster) -> bool:
    """Whether a claim is one of the pod's, or may be."""
    meta = claim.metadata
    if meta.namespace != pod.namespace:
        return False
    if pod.key in cluster.users.get(f"{meta.namespace}/{meta.name}", ()):
        return True
    return any(owner.uid == pod.uid or owner.kind == "PodGroup" for owner in meta.owner_references)


def _other_node(old: Node, new: Node) -> bool:
    """Whether a node changed in what decides about devices, or in how much it offers."""
    return (
        old.metadata.labels != new.metadata.labels
        or old.status.declared_features != new.status.declared_features
        or old.status.allocatable != new.status.allocatable
    )


def _bearing(cluster: Cluster, node: NodeInfo) -> Place | None:
    """The devices of a node, if any of them bears on the node's own resources."""
    place = cluster.fleet.places.get(node.name)
    try:
        return place if place is not None and cluster.fleet.site(place).bearing else None
    except AllocationError:
        return None  # nobody knows what this node reaches


class _Lookup:
    """Finds devices of a node as they are published."""

    def __init__(self, cluster: Cluster, place: Place) -> None:
        self._devices = {device.id: device.spec for device in cluster.fleet.site(place).devices}

    def __call__(self, result: DeviceRequestAllocationResult) -> Device | None:
        return self._devices.get(DeviceID(result.driver, result.pool, result.device))


def _share(reference: Reference, allocation: AllocationResult) -> Share:
    return Share(reference.claim.metadata.name, reference.entries, allocation)


def _reserved(reference: Reference) -> bool:
    """Whether the server has shown that the pod, or its group, may use the claim."""
    return any(user.uid == reference.consumer.uid for user in reference.claim.status.reserved_for)


def _exclusive(claim: alpha2.ResourceClaim, reference: Reference, cycle: Cycle) -> bool:
    """Whether a claim of seed 0 is for one user at a time, and somebody else's turn."""
    allocation = claim.status.allocation
    if allocation is None or allocation.shareable:
        return False
    users = cycle.cluster.claims.reserved(reference.key)
    return any(user.uid != reference.consumer.uid for user in users.values())


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


def _in_use_by_others(given: Given, cycle: Cycle) -> bool:
    consumer = given.reference.consumer.uid
    users = cycle.cluster.claims.reserved(given.reference.key)
    return any(user.uid != consumer for user in users.values())


def _only_user(given: Given, cycle: Cycle) -> bool:
    """Whether nobody but the pod uses a claim, it is on the server as it is here, and may be allocated anew."""
    if given.in_flight or given.reference.consumer.uid != cycle.pod.uid or _in_use_by_others(given, cycle):
        return False
    found = carried(given.reference.claim)
    return found is None or found.spec.allocation_mode != IMMEDIATE
