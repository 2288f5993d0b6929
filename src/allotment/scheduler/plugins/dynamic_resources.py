"""Devices for pods: which claims a pod needs, which nodes can satisfy them, and what to write for them.

In a cycle:

* PreEnqueue and PreFilter find the pod's claims (``claim_references``) and split them.
  *Given* claims are allocated already, or about to be for this pod or its gang; they restrict the nodes. *Pending* claims
  must be allocated together.
* Filter asks whether a node can satisfy the pending claims (``allocation_plan``), and whether it has enough of its own resources
  for devices that are part of them (``node_allocatable``). The answer depends only on what the claims request and on the node's
  state, so the plugin asks once for all pods of a shape.
* Reserve records the chosen devices for this pod, as a flight of each claim (``claims``). PreBind lists the writes.
* PostFilter releases claims of the pod that nobody uses and that keep it off nodes where it would fit.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from allotment.allocator.ledger import LedgerConflict
from allotment.allocator.search import DEFAULT_BUDGET
from allotment.allocator.strategy import BEST_FIT, FIRST_FIT
from allotment.api import semantic
from allotment.api.batch import PodGroup
from allotment.api.claim_marks import FINALIZER, SEMANTIC_FINALIZER
from allotment.api.codec import encode
from allotment.api.core import Node, Pod
from allotment.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.scheduler.binding.binding_conditions import Readiness, awaited, readiness
from allotment.scheduler.binding.step import AwaitConditions, MakeClaim, PatchStatus, WriteClaim
from allotment.scheduler.devices import extended_resources
from allotment.scheduler.devices import wake_ups as device_wakes
from allotment.scheduler.devices.allocation_plan import AllocationPlan, DeviceGrant, SemanticWant
from allotment.scheduler.devices.claim_references import (
    Reference,
    UnusableClaim,
    blocked,
    check,
    own_reference,
    references,
)
from allotment.scheduler.devices.node_allocatable import NodeCosts
from allotment.scheduler.devices.node_costs import afford, bearing
from allotment.scheduler.devices.pod_wants import (
    NAME,
    NOTHING,
    ClaimWithDevices,
    Wants,
    exclusive,
    in_use_by_others,
    names_chosen,
    only_user,
    reaches,
    reserved,
    unmade,
    unresolvable,
)
from allotment.scheduler.devices.semantic_claim import IMMEDIATE, carried, is_carrier
from allotment.scheduler.devices.shape_answers import ShapeAnswers
from allotment.scheduler.framework import (
    SKIP,
    SUCCESS,
    ObjectAction,
    Release,
    Sight,
    Status,
    StatusCode,
    Wake,
)
from allotment.scheduler.placement import EXTRA

if TYPE_CHECKING:
    from allotment.api.meta import ApiStruct
    from allotment.api.resource import AllocationResult
    from allotment.scheduler.binding.step import Step
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.framework import Cycle
    from allotment.scheduler.node import NodeInfo
    from allotment.scheduler.pod import PodInfo

STRATEGIES = {"keep-whole": BEST_FIT, "first-fit": FIRST_FIT}
BINDING_SECONDS = 600.0

_MOST_WISHES, _FEWEST_WISHES = 256, 16
_MOST_ANSWERS = 2_000_000
"""The approximate number of answers about nodes that the plugin keeps for all wishes together."""
_EVERY = frozenset(ObjectAction)
_LATER = frozenset(
    (ObjectAction.UPDATE, ObjectAction.DELETE)
)  # a new pod passes its gate, or not, when it arrives
_KINDS: tuple[type[ApiStruct], ...] = (
    ResourceClaim,
    ResourceSlice,
    DeviceClass,
    DeviceTaintRule,
    Node,
    PodGroup,
    semantic.NodeResourceSlice,
    semantic.ResourceClass,
    semantic.ResourceClassParameters,
    semantic.ResourceClaimParameters,
)

_STALE = unresolvable("have to wait until a claim of an earlier attempt is deleted")
_UNKNOWN = unresolvable("are not known")
_NO_RESOURCES: frozenset[str] = frozenset()
_NUMBERED = re.compile(r"\bclaim #(\d{1,4})\b")  # as the fleet calls claims, which serve many pods alike


def _nothing(node: NodeInfo) -> Hashable:
    return ()


class DynamicResources:
    """The plugin that allocates devices to a pod's claims, in every phase from PreEnqueue to PreBind."""

    name = NAME
    local = True
    stands_for_unasked = True
    wakes: Sequence[Wake] = (*(Wake(kind, _EVERY) for kind in _KINDS), Wake(Pod, _LATER))

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
        self._wishes: dict[tuple[bytes, ...], ShapeAnswers] = {}
        self._short = False  # a node once had too little of its own resources, so a pod that leaves may help

    # --- PreEnqueue, PreFilter ---

    def pre_enqueue(self, pod: PodInfo, cluster: Cluster) -> Status:
        """Checks that all claims exist and that the pod may use them."""
        try:
            check(pod, cluster)
        except UnusableClaim as exc:
            return unmade(str(exc))
        return SUCCESS

    def pre_filter(self, cycle: Cycle) -> Status:
        pod, cluster = cycle.pod, cycle.cluster
        extended = extended_resources.served(pod, cluster.extended) if cluster.extended else {}
        if not pod.pod.spec.resource_claims and not extended:
            cycle.state[NAME] = NOTHING
            return SKIP
        wants = cycle.state[NAME] = Wants(extended, cluster.sizes.largest)
        try:
            for reference in references(pod, cluster):
                if cluster.claims.untouched(reference.key) and not is_carrier(reference.claim):
                    wants.pending += (reference,)
                    continue
                waits = blocked(reference, pod, cluster)
                if waits:
                    return Status(StatusCode.WAIT, NAME, waits)
                self._sort(cycle, wants, reference)
            if extended:
                self._find_stale(cycle, wants)
        except UnusableClaim as exc:
            return unresolvable(str(exc))
        if not wants.pending and wants.nothing:
            return SKIP
        wants.key = tuple([encode(each.claim.spec) for each in wants.pending])
        fault = self._fault(cycle, wants)
        if fault:
            return unresolvable(f"the pod's claims cannot be allocated: {self.told(cycle, fault)}")
        return SUCCESS

    def _sort(self, cycle: Cycle, wants: Wants, reference: Reference) -> None:
        allocation = cycle.cluster.claims.allocation(reference.key)
        found = carried(reference.claim) if is_carrier(reference.claim) else None
        if allocation is not None:
            if found is not None and exclusive(found, reference, cycle):
                raise UnusableClaim(f"the pod's resource claim {reference.key} is in use and not shareable")
            self._restrict(cycle, wants, reference, allocation)
        elif found is not None:
            wants.carried += (SemanticWant(reference, found),)
            wants.carried_key += ((reference.claim.metadata.namespace, encode(found.spec)),)
        else:
            wants.pending += (reference,)

    def _restrict(
        self, cycle: Cycle, wants: Wants, reference: Reference, allocation: AllocationResult
    ) -> None:
        """Restricts the cycle to the nodes on which a given claim can be used."""
        in_flight = reference.claim.status.allocation is None
        wants.given += (
            ClaimWithDevices(reference, allocation, in_flight, in_use_by_others(reference, cycle)),
        )
        where = allocation.node_selector
        if where is not None:
            names = names_chosen(where)
            if names is not None:
                cycle.restrict(names)
            else:
                wants.selectors += (where,)
        if any(result.skip_node_operations for result in allocation.devices.results):
            wants.operations = True
        if readiness(reference.claim, cycle.now, self._binding_seconds) in (Readiness.FAILED, Readiness.LATE):
            wants.unready = True

    def _find_stale(self, cycle: Cycle, wants: Wants) -> None:
        found = extended_resources.existing(cycle.pod, cycle.cluster.claims)
        if found is None:
            return
        key = f"{found.metadata.namespace}/{found.metadata.name}"
        if found.metadata.deletion_timestamp is not None:
            raise UnusableClaim(f"the claim {key} of an earlier attempt is being deleted")
        wants.stale = key

    def _fault(self, cycle: Cycle, wants: Wants) -> str:
        """What is wrong with the pending claims on every node alike."""
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
        if wants is NOTHING:
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
                (encode(given.allocation.devices), given.reference.entries, given.shared)
                for given in wants.given
            ),
        )

    def told(self, cycle: Cycle, words: str) -> str:
        """Replaces the claim numbers in words that all pods of a shape share by this pod's own claim names."""
        wants: Wants = cycle.state[NAME]

        def named(numbered: re.Match[str]) -> str:
            number = int(numbered[1])
            if 1 <= number <= len(wants.pending):
                return f"claim {wants.pending[number - 1].entries[0]}"
            return "the claim for extended resources" if wants.extended else numbered[0]

        return _NUMBERED.sub(named, words)

    # --- plans ---

    def _plan_for(self, cycle: Cycle, wants: Wants, node: NodeInfo) -> AllocationPlan:
        """The plan that allocates the pending claims on a node."""
        if not wants.extended:
            return self._plan(cycle, wants, _NO_RESOURCES)
        claimed = frozenset([name for name in wants.extended if not node.offered.get(name)])
        return self._plan(cycle, wants, claimed)

    def _plan(self, cycle: Cycle, wants: Wants, resources: frozenset[str]) -> AllocationPlan:
        plan = wants.plans.get(resources)
        if plan is not None:
            return plan
        plan = wants.plans[resources] = AllocationPlan(
            NAME, self._strategy, wants.pending, wants.carried, wants.carried_key
        )
        key = wants.key
        if resources:
            plan.extended = extended_resources.extended_claim(cycle.pod, resources, wants.extended)
            claim = plan.extended.claim
            name = f"{claim.metadata.namespace}/{claim.metadata.name}"
            plan.references = (*plan.references, Reference((), name, claim, own_reference(cycle.pod)))
            key = (*key, encode(claim.spec))
        if plan.references:
            plan.wish = self._wish(cycle.cluster, key, plan.references)
        return plan

    def _wish(self, cluster: Cluster, key: tuple[bytes, ...], pending: Sequence[Reference]) -> ShapeAnswers:
        wish = self._wishes.pop(key, None)
        if wish is None or not wish.of(cluster.fleet):
            claims = [each.claim for each in pending]
            wish = ShapeAnswers(cluster.fleet, claims, self._strategy, self._budget, NAME)
            most = max(_FEWEST_WISHES, min(_MOST_WISHES, _MOST_ANSWERS // (1 + len(cluster.nodes))))
            while len(self._wishes) >= most:
                del self._wishes[next(iter(self._wishes))]
        self._wishes[key] = wish  # last in, so the first is the least recently used
        return wish

    # --- Filter, Score ---

    def filter(self, cycle: Cycle, node: NodeInfo) -> Status:
        wants: Wants = cycle.state[NAME]
        if wants is NOTHING:
            return SUCCESS
        if node.node is None:
            return _UNKNOWN
        if wants.stale:
            return _STALE
        if wants.given:
            status = reaches(wants, node)
            if not status.ok:
                return status
        plan = self._plan_for(cycle, wants, node)
        status = plan.judge(cycle.cluster, node.node)
        if not status.ok:
            return status
        place = bearing(cycle.cluster, node)
        if place is None:
            return SUCCESS
        afforded = afford(cycle, wants, plan, place, node)
        if isinstance(afforded, Status):
            self._short = True
            return afforded
        return SUCCESS

    def score(self, cycle: Cycle, node: NodeInfo) -> int:
        wants: Wants = cycle.state[NAME]
        if wants is NOTHING or node.node is None:
            return 0
        return self._plan_for(cycle, wants, node).score(cycle.cluster, node.node, wants.sizes)

    def sees(self, cycle: Cycle) -> Sight | None:
        """What the wish reads of the node, if all claims are still pending."""
        wants: Wants = cycle.state[NAME]
        if wants.given or wants.carried or wants.extended:
            return None
        wish = self._plan(cycle, wants, _NO_RESOURCES).wish if wants.pending else None
        if wish is None:
            return _nothing
        places = cycle.cluster.fleet.places

        def likeness(node: NodeInfo) -> Hashable:
            place = places.get(node.name)
            return wish.likeness(place) if place is not None else None

        return likeness

    # --- PostFilter ---

    def post_filter(self, cycle: Cycle, rejections: Mapping[str, Status]) -> Release | None:
        """Releases given claims that only this pod uses, if that may open a node: claims that tie the pod to nodes where it does
        not fit, claims whose devices did not become ready, and a claim that an earlier attempt left behind."""
        wants: Wants = cycle.state[NAME]
        if wants.stale:
            return Release((wants.stale,), "A claim that an earlier attempt made for the pod is deleted")
        mine = [given for given in wants.given if only_user(given, cycle)]
        if not mine or not self._would_fit(cycle, mine, rejections):
            return None
        what = "A claim of the pod is" if len(mine) == 1 else f"{len(mine)} claims of the pod are"
        return Release(
            tuple(given.reference.key for given in mine),
            f"{what} given back, to be allocated on another node",
        )

    def _would_fit(
        self, cycle: Cycle, mine: Sequence[ClaimWithDevices], rejections: Mapping[str, Status]
    ) -> bool:
        """Whether a node that no other plugin rejected could satisfy the claims if they were allocated afresh."""
        wants: Wants = cycle.state[NAME]
        kept = [given for given in wants.given if given not in mine]
        again = Wants(wants.extended, wants.sizes)
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
            wants.pending += (reference,)
        else:
            wants.carried += (SemanticWant(reference, found),)
            wants.carried_key += ((reference.claim.metadata.namespace, encode(found.spec)),)

    # --- Reserve ---

    def reserve(self, cycle: Cycle, node: NodeInfo) -> Status:
        wants: Wants = cycle.state[NAME]
        if wants is NOTHING or node.node is None:
            return SUCCESS
        cluster, uid = cycle.cluster, cycle.pod.uid
        plan = self._plan_for(cycle, wants, node)
        grants = plan.grants(cluster, node.node, cycle.now)
        place = bearing(cluster, node)
        if place is not None:
            afforded = afford(cycle, wants, plan, place, node)
            if isinstance(afforded, Status):
                return afforded
            wants.costs, extra = afforded
            if extra:
                cycle.state[EXTRA] = extra
        if grants is None:
            return Status(
                StatusCode.UNSCHEDULABLE, NAME, f"the claims do not fit on node {node.name} any more"
            )
        try:
            for grant in grants:
                cluster.claims.depart(grant.reference.key, uid, grant.reference.consumer, grant.allocation)
                wants.grants += (grant,)
        except LedgerConflict:
            return Status(StatusCode.UNSCHEDULABLE, NAME, "a device was taken by another pod meanwhile")
        for given in wants.given:
            alone = (
                given.reference.consumer.uid == uid
            )  # holds also if the claim is reserved already, by any scheduler: see claim_writer
            if alone or given.in_flight or not reserved(given.reference):
                cluster.claims.depart(given.reference.key, uid, given.reference.consumer, None)
                wants.joined += (given,)
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: NodeInfo) -> None:
        wants: Wants = cycle.state.get(NAME, NOTHING)
        if wants is NOTHING:
            return
        held: list[DeviceGrant | ClaimWithDevices] = [*wants.grants, *wants.joined]
        for each in reversed(held):
            cycle.cluster.claims.cancel(each.reference.key, cycle.pod.uid)
        wants.grants, wants.joined, wants.costs = (), (), NodeCosts()
        cycle.state.pop(EXTRA, None)

    # --- gangs: choosing devices for several pods together ---

    def pending(self, cycle: Cycle, node: NodeInfo) -> dict[str, ResourceClaim]:
        """The v1 claims that still need devices on a node, by key. PreFilter must have run."""
        wants: Wants = cycle.state[NAME]
        references = () if wants is NOTHING else self._plan_for(cycle, wants, node).references
        return {reference.key: reference.claim for reference in references}

    def prescribe(self, cycle: Cycle, node: NodeInfo, chosen: Mapping[str, AllocationResult] | None) -> None:
        """Makes Reserve use these allocations on a node instead of choosing devices itself. None ends that."""
        wants: Wants = cycle.state[NAME]
        if wants is not NOTHING:
            self._plan_for(cycle, wants, node).prescribed = chosen

    # --- PreBind ---

    def pre_bind(self, cycle: Cycle, node: NodeInfo) -> list[Step]:
        wants: Wants = cycle.state[NAME]
        if wants is NOTHING:
            return []
        steps: list[Step] = [grant.step for grant in wants.grants]
        steps += [_join(given) for given in wants.joined]
        patch: dict[str, Any] = {}
        if wants.extended and any(isinstance(grant.step, MakeClaim) for grant in wants.grants):
            extended = self._plan_for(cycle, wants, node).extended
            assert extended is not None
            patch |= extended.status()
        if wants.costs.statuses:
            patch |= wants.costs.status()
        if patch:
            steps.append(PatchStatus({"status": patch}))
        held: list[DeviceGrant | ClaimWithDevices] = [*wants.grants, *wants.given]
        waits = [each.reference.key for each in held if awaited(each.allocation)]
        if waits:
            steps.append(AwaitConditions(tuple(waits), self._binding_seconds))
        return steps

    # --- what may help ---

    def helps_anyone(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        return device_wakes.helps_anyone(old, new) or (self._short and device_wakes.left_node(old, new))

    def concerns(
        self, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster
    ) -> Iterable[str] | None:
        return device_wakes.concerns(old, new, cluster)

    def helps_others(self, old: ApiStruct | None, new: ApiStruct | None) -> bool:
        return device_wakes.helps_others(old, new)

    def helps(self, pod: PodInfo, old: ApiStruct | None, new: ApiStruct | None, cluster: Cluster) -> bool:
        return device_wakes.helps(pod, old, new, cluster)


def _join(given: ClaimWithDevices) -> WriteClaim:
    """Makes the pod a user of a claim that is allocated already."""
    reference = given.reference
    found = carried(reference.claim) if is_carrier(reference.claim) else None
    return WriteClaim(
        reference.key,
        None,
        reference.consumer,
        SEMANTIC_FINALIZER if found is not None else FINALIZER,
        keep=found is not None and found.spec.allocation_mode == IMMEDIATE,
        joins=given.in_flight or given.shared,
    )
