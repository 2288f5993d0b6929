"""Every need, one after the other, on the first node that can serve it; what is given stays given.

Nodes are tried by name. A pod's claims may be of both device models: then both must fit on the node. Of what a
scheduler asks about a pod, nodeName, nodeSelector, required node affinity and cordons are looked at, nothing else:
this is about devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from allotment.insight.placement.rejections import Rejection, rejection_of
from allotment.scheduler.taint_tolerance import CORDON, tolerated


@dataclass(slots=True)
class NeedOutcome:
    """What became of a need. ``node`` is None if it fits nowhere."""

    need: Need
    node: str | None = None
    fresh: list[Name] = field(default_factory=list)  # claims that were allocated now
    rejections: list[Rejection] = field(default_factory=list)  # of the nodes before it


@dataclass
class PlacementRun:
    """All decisions, and the state before and after them."""

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
    devices = DeviceModel(cluster, strategy)
    instances = InstanceModel(cluster, devices.ledger, strategy)
    placement = PlacementRun(cluster, [devices, instances], Ledger(), devices.ledger)
    for claim in cluster.claims.values():
        if claim.status.allocation is not None:
            try:
                hold(placement.after, claim)
                hold(placement.before, claim)
            except LedgerConflict as exc:
                cluster.notes.append(f"{exc}; what the claim holds is not counted")
    nodes = [node for node in cluster.nodes if only_node in (None, node.metadata.name)]
    cluster.pods += pods_of_daemons(cluster.daemons, nodes, cluster.pods)
    extended = ExtendedResources(cluster)
    desk = _Desk(cluster, devices, instances, extended, only_node, explain)
    for need in needs(cluster, extended):
        settled = need.pod is None and cluster.claims[need.claims[0]].status.allocation is not None
        if not settled:
            placement.decisions.append(desk.decide(need))
    return placement


class _Desk:
    """Where needs are decided."""

    def __init__(
        self,
        cluster: ManifestCluster,
        devices: DeviceModel,
        instances: InstanceModel,
        extended: ExtendedResources,
        only_node: str | None,
        explain: bool,
    ) -> None:
        self._claims = cluster.claims
        self._nodes = [node for node in cluster.nodes if only_node in (None, node.metadata.name)]
        self._open = only_node is None and not any(node.spec.unschedulable for node in cluster.nodes)
        self._devices = devices
        self._models: Sequence[Model] = (devices, instances)
        self._extended = extended
        self._explain = explain

    def decide(self, need: Need) -> NeedOutcome:
        claims = [self._claims[name] for name in need.claims]
        hindrance = _hindrance(need, claims)
        if hindrance:
            return NeedOutcome(need, rejections=[Rejection("", hindrance)])
        pending = [claim for claim in claims if claim.status.allocation is None]
        decision = NeedOutcome(need)
        decision.node = self._find(need, claims) or self._try_each(need, claims, pending, decision)
        if decision.node is not None:
            decision.fresh += [name_of(claim.metadata) for claim in pending]
            self._extended.take(decision.node, need.extended)
            self._reserve(need)
        return decision

    def _find(self, need: Need, claims: Sequence[Claim]) -> str | None:
        """The first node that fits, asked of the whole fleet at once where nothing but devices counts."""
        pending = all(claim.status.allocation is None for claim in claims)
        plain = not need.extended and all(isinstance(claim, self._devices.kind) for claim in claims)
        if self._explain or not (self._open and pending and plain) or _chooses_nodes(need.pod):
            return None
        found = self._devices.find(claims)
        if found is None:
            return None
        self._write(self._devices.finished(claims, found))
        return found.node

    def _try_each(
        self, need: Need, claims: Sequence[Claim], pending: Sequence[Claim], decision: NeedOutcome
    ) -> str | None:
        """The first node that fits, node by node; why the others do not goes into the decision's rejections."""
        refusals: list[str | Outcome] = []
        for node in self._nodes:
            more = self._extended_claim(need, node)
            refusal = (
                _out_of_bounds(node, need.pod, claims)
                or self._extended.lacking(node, need.extended)
                or self._attempt(node, [*pending, *more])
            )
            if refusal is None:
                if self._explain:
                    decision.rejections += map(rejection_of, self._nodes, refusals)
                decision.fresh = [name_of(claim.metadata) for claim in more]
                need.claims += decision.fresh
                return node.metadata.name
            refusals.append(refusal)
        decision.rejections += map(rejection_of, self._nodes, refusals)
        return None

    def _extended_claim(self, need: Need, node: Node) -> list[Claim]:
        """The claim that serves a pod's extended resources on a node, if there it takes one."""
        claim = self._extended.claim(need.pod, node, need.extended) if need.pod and need.extended else None
        return [claim] if claim is not None else []

    def _attempt(self, node: Node, pending: Sequence[Claim]) -> Outcome | None:
        """Allocates the claims on the node, all or none; the outcome that speaks against it, or None."""
        finished: list[Claim] = []
        for model in self._models:
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
            self._claims[name_of(claim.metadata)] = claim
            hold(self._devices.ledger, claim)

    def _reserve(self, need: Need) -> None:
        """Notes the pod as a user of its claims."""
        if need.pod is None:
            return
        pod = _consumer(need.pod)
        for name in need.claims:
            claim = self._claims[name]
            if pod not in claim.status.reserved_for:
                status = replace(claim.status, reserved_for=(*claim.status.reserved_for, pod))
                self._claims[name] = replace(claim, status=status)


def _chooses_nodes(pod: Pod | None) -> bool:
    return pod is not None and bool(pod.spec.node_name or pod.spec.node_selector or pod.spec.affinity)


def _consumer(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def _hindrance(need: Need, claims: Sequence[Claim]) -> str:
    """What keeps a need from any node, or nothing."""
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


def _out_of_bounds(node: Node, pod: Pod | None, claims: Sequence[Claim]) -> str:
    """Why the pod may not go to this node, whatever devices it has; empty if it may."""
    try:
        return next(_bounds(node, pod, claims), "")
    except AllocationError as exc:
        return str(exc)


def _bounds(node: Node, pod: Pod | None, claims: Sequence[Claim]) -> Iterator[str]:
    if pod is not None:
        spec = pod.spec
        if spec.node_name and spec.node_name != node.metadata.name:
            yield f"the pod is on node {spec.node_name}"
        if node.spec.unschedulable and not spec.node_name and not tolerated(spec.tolerations)(CORDON):
            yield "the node is cordoned"
        for key, value in spec.node_selector.items():
            if node.metadata.labels.get(key) != value:
                yield f"the pod's nodeSelector wants {key}={value}"
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        if affinity is not None and affinity.required is not None and not selects(affinity.required, node):
            yield "the pod's node affinity leaves the node out"
    for claim in claims:
        where = _usable_on(claim)
        if where is not None and not selects(where, node):
            yield f"claim {'/'.join(name_of(claim.metadata))} is allocated on another node"


def _usable_on(claim: Claim) -> NodeSelector | None:
    allocation = claim.status.allocation
    if isinstance(allocation, semantic.AllocationResult):
        return allocation.available_on_nodes
    return allocation.node_selector if allocation is not None else None
