"""Places every need in turn on the first node that can serve it. An allocation is final.

The manifests become a scheduler's cluster, and nodes are tried by name. If a pod's claims belong to both device models, both must
fit on the node. Apart from devices, only the scheduler's filters in ``node_filters`` count.

The scheduler's DynamicResources does not choose here: it identifies pods by the uids that a server gives, reads v1alpha2 claims
only in their v1 form, and answers with counts where users want the reason for each device. The device models ask the same fleets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from allotment.allocator.errors import AllocationError
from allotment.allocator.ledger import Ledger, LedgerConflict
from allotment.allocator.nodeselector import selects
from allotment.allocator.outcome import Allocated, Outcome
from allotment.api import semantic
from allotment.api.core import Node, NodeSelector, Pod
from allotment.api.resource import ResourceClaimConsumerReference
from allotment.insight.manifest_cluster import Claim, ManifestCluster, Name, name_of
from allotment.insight.placement.device_models import DeviceModel, InstanceModel, Model, hold
from allotment.insight.placement.extended_wants import ExtendedResources
from allotment.insight.placement.made_pods import pods_of_daemons
from allotment.insight.placement.needs import Need, needs
from allotment.insight.placement.node_filters import NodeFilters
from allotment.insight.placement.rejections import Rejection, rejection_of
from allotment.scheduler.cluster import Cluster
from allotment.scheduler.pod import PodInfo


@dataclass(slots=True)
class NeedOutcome:
    """The result for a need. ``node`` is None if it fits nowhere."""

    need: Need
    node: str | None = None
    fresh: list[Name] = field(default_factory=list)  # claims that were allocated now
    rejections: list[Rejection] = field(default_factory=list)  # of the nodes tried before


@dataclass
class PlacementRun:
    """All decisions, with the state before and after them."""

    cluster: ManifestCluster
    models: Sequence[Model]
    before: Ledger
    after: Ledger
    decisions: list[NeedOutcome] = field(default_factory=list)

    @property
    def placed(self) -> list[NeedOutcome]:
        return [decision for decision in self.decisions if decision.node is not None]

    @property
    def refused(self) -> list[NeedOutcome]:
        return [decision for decision in self.decisions if decision.node is None]


def place(
    cluster: ManifestCluster, *, strategy: str, only_node: str | None = None, explain: bool = False
) -> PlacementRun:
    """Decides on all needs. The cluster's claims then carry their allocations and reservations.

    With ``explain``, what was placed has the rejections of earlier nodes too.
    """
    known = _scheduler_cluster(cluster)
    devices = DeviceModel(known, strategy)
    models = (devices, InstanceModel(known, strategy))
    placement = PlacementRun(cluster, models, Ledger(), known.fleet.ledger)
    for claim in cluster.claims.values():
        if claim.status.allocation is not None:
            try:
                hold(placement.after, claim)
                hold(placement.before, claim)
            except LedgerConflict as exc:
                cluster.notes.append(f"{exc}; what the claim holds is not counted")
    nodes = [node for node in cluster.nodes if only_node in (None, node.metadata.name)]
    cluster.pods += pods_of_daemons(cluster.daemons, nodes, cluster.pods)
    extended = ExtendedResources(known)
    all_open = only_node is None and not any(node.spec.unschedulable for node in nodes)
    decider = _NeedDecider(placement, known, devices, extended, nodes, all_open, explain)
    for need in needs(cluster, extended):
        settled = need.pod is None and cluster.claims[need.claims[0]].status.allocation is not None
        if not settled:
            placement.decisions.append(decider.decide(need))
    return placement


def _scheduler_cluster(manifests: ManifestCluster) -> Cluster:
    """The scheduler's cluster for these manifests. It leaves out the claims, and the slices already have the taints of the
    rules."""
    cluster = Cluster()
    parameters = (*manifests.resource_classes, *manifests.class_parameters, *manifests.claim_parameters)
    devices = (*manifests.classes, *manifests.slices, *manifests.node_slices, *parameters)
    for obj in (*devices, *manifests.nodes):
        cluster.change(None, obj)
    for pod in manifests.pods:
        if pod.spec.node_name:
            cluster.change(None, pod)
    return cluster


@dataclass(frozen=True, slots=True)
class _NeedDecider:
    """Decides on one need after another. ``all_open`` means that no node is cordoned, so every node may be used."""

    placement: PlacementRun
    cluster: Cluster
    devices: DeviceModel
    extended: ExtendedResources
    nodes: Sequence[Node]
    all_open: bool
    explain: bool

    def decide(self, need: Need) -> NeedOutcome:
        claims = [self.placement.cluster.claims[name] for name in need.claims]
        hindrance = _hindrance(need, claims)
        if hindrance:
            return NeedOutcome(need, rejections=[Rejection("", hindrance)])
        pending = [claim for claim in claims if claim.status.allocation is None]
        filters = NodeFilters(PodInfo(need.pod), self.cluster) if need.pod is not None else None
        plain = not need.extended and (filters is None or not filters.choosy)
        decision = NeedOutcome(need)
        decision.node = self._find(claims) if plain else None
        decision.node = decision.node or self._try_each(need, claims, pending, filters, decision)
        if decision.node is not None:
            decision.fresh += [name_of(claim.metadata) for claim in pending]
            self._reserve(need, decision.node)
        return decision

    def _find(self, claims: Sequence[Claim]) -> str | None:
        """The first node that fits. If only devices count, it asks the whole fleet at once."""
        pending = all(claim.status.allocation is None for claim in claims)
        mine = all(isinstance(claim, self.devices.kind) for claim in claims)
        if self.explain or not (self.all_open and pending and mine):
            return None
        found = self.devices.find(claims)
        if found is None:
            return None
        self._write(self.devices.finished(claims, found))
        return found.node

    def _try_each(
        self,
        need: Need,
        claims: Sequence[Claim],
        pending: Sequence[Claim],
        filters: NodeFilters | None,
        decision: NeedOutcome,
    ) -> str | None:
        """The first node that fits, tried node by node. The reasons of the others go into the decision's rejections."""
        refusals: list[str | Outcome] = []
        for node in self.nodes:
            more = self.extended.claims(need.pod, node, need.extended) if need.pod is not None else []
            refusal = (
                (filters and filters.rejection(node))
                or _out_of_reach(node, claims)
                or self.extended.lacking(node, need.extended)
                or self._attempt(node, [*pending, *more])
            )
            if refusal is None:
                if self.explain:
                    decision.rejections += map(rejection_of, self.nodes, refusals)
                decision.fresh = [name_of(claim.metadata) for claim in more]
                need.claims += decision.fresh
                return node.metadata.name
            refusals.append(refusal)
        decision.rejections += map(rejection_of, self.nodes, refusals)
        return None

    def _attempt(self, node: Node, pending: Sequence[Claim]) -> Outcome | None:
        """Allocates all claims on the node, or none. Returns the outcome that prevents it, or None."""
        finished: list[Claim] = []
        for model in self.placement.models:
            mine = [claim for claim in pending if isinstance(claim, model.kind)]
            if not mine:
                continue
            outcome = model.allocate(node, mine)
            if not isinstance(outcome, Allocated):
                return outcome
            finished += model.finished(mine, outcome)
        self._write(finished)
        return None

    def _write(self, finished: Iterable[Claim]) -> None:
        for claim in finished:
            self.placement.cluster.claims[name_of(claim.metadata)] = claim
            hold(self.placement.after, claim)

    def _reserve(self, need: Need, node: str) -> None:
        """Records the pod on the node and as a user of its claims."""
        if need.pod is None:
            return
        if not need.pod.spec.node_name:
            self.cluster.assume(PodInfo(need.pod), node)
        pod = _consumer(need.pod)
        for name in need.claims:
            claim = self.placement.cluster.claims[name]
            if pod not in claim.status.reserved_for:
                status = replace(claim.status, reserved_for=(*claim.status.reserved_for, pod))
                self.placement.cluster.claims[name] = replace(claim, status=status)


def _consumer(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def _hindrance(need: Need, claims: Sequence[Claim]) -> str:
    """What keeps a need off every node; empty if nothing does."""
    if need.missing:
        return f"it refers to {', '.join(need.missing)}, which is not in the input"
    if need.pod is None:
        return ""
    me = _consumer(need.pod)
    for claim in claims:
        others = [user.name for user in claim.status.reserved_for if user != me]
        allocation = claim.status.allocation
        if others and isinstance(allocation, semantic.AllocationResult) and not allocation.shareable:
            return f"claim {'/'.join(name_of(claim.metadata))} is not shareable and pod {others[0]} uses it"
    return ""


def _out_of_reach(node: Node, claims: Sequence[Claim]) -> str:
    """Says which allocated claim cannot be used on the node; empty if all can."""
    try:
        for claim in claims:
            where = _usable_on(claim)
            if where is not None and not selects(where, node):
                return f"claim {'/'.join(name_of(claim.metadata))} is allocated on another node"
    except AllocationError as exc:
        return str(exc)
    return ""


def _usable_on(claim: Claim) -> NodeSelector | None:
    allocation = claim.status.allocation
    if isinstance(allocation, semantic.AllocationResult):
        return allocation.available_on_nodes
    return allocation.node_selector if allocation is not None else None
