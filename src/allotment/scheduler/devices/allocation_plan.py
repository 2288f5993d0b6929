"""How to allocate a pod's pending claims on nodes of one kind.

The claims of one pod are allocated together. v1 claims go through the fleet (``shape_answers``). Semantic claims go through the
partition trees (``semantic_fleet``), of which no v1 claim can take a part. Kinds of nodes differ only if the pod requests
extended resources: the pod need not claim what a node's device plugins offer.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from allotment.allocator.outcome import Allocated
from allotment.api.claim_marks import FINALIZER, SEMANTIC_FINALIZER
from allotment.api.timestamps import timestamp
from allotment.scheduler.binding.binding_conditions import awaited
from allotment.scheduler.binding.step import MakeClaim, WriteClaim
from allotment.scheduler.devices.scoring import FILLED, MOST
from allotment.scheduler.devices.semantic_claim import IMMEDIATE, carried_status
from allotment.scheduler.framework import SUCCESS, Status, StatusCode

if TYPE_CHECKING:
    from allotment.api import semantic
    from allotment.api.core import Node
    from allotment.api.resource import AllocationResult
    from allotment.scheduler.cluster import Cluster
    from allotment.scheduler.devices.claim_references import Reference
    from allotment.scheduler.devices.extended_resources import ExtendedClaim
    from allotment.scheduler.devices.scoring import Sizes
    from allotment.scheduler.devices.shape_answers import ShapeAnswers


@dataclass(frozen=True, slots=True)
class SemanticWant:
    """A semantic claim that must be allocated."""

    reference: Reference
    claim: semantic.ResourceClaim


class DeviceGrant(NamedTuple):
    """What a claim will get. ``step`` writes it."""

    reference: Reference
    allocation: AllocationResult
    step: WriteClaim | MakeClaim


@dataclass(slots=True)
class AllocationPlan:
    """The pending claims of one pod, and the answers for them per node. ``references`` are the v1 claims in the order of
    ``wish``; the last one is ``extended``, if present."""

    plugin: str
    strategy: str
    references: tuple[Reference, ...]
    carried: tuple[SemanticWant, ...]
    key: Hashable  # what the carried claims ask for
    wish: ShapeAnswers | None = None
    extended: ExtendedClaim | None = None
    # v1 allocations chosen together with those of other pods
    prescribed: Mapping[str, AllocationResult] | None = None

    def judge(self, cluster: Cluster, node: Node) -> Status:
        """Whether a node can satisfy all claims."""
        if self.wish is not None:
            place = cluster.fleet.places.get(node.metadata.name)
            if place is None:
                return Status(StatusCode.UNRESOLVABLE, self.plugin, "are not known to the devices")
            if self.wish.draft(place) is None:
                return self.wish.refusal(place)
        return self._judge_carried(cluster, node) if self.carried else SUCCESS

    def score(self, cluster: Cluster, node: Node, sizes: Sizes) -> int:
        """The score of the node, from 0 to 100: the average over v1 and carried claims."""
        scores = []
        place = cluster.fleet.places.get(node.metadata.name)
        if self.wish is not None and place is not None:
            scores.append(self.wish.score(place, sizes))
        if self.carried:
            scores.append(MOST if cluster.semantic.in_use(node.metadata.name) else MOST - FILLED)
        return sum(scores) // len(scores) if scores else 0

    def grants(self, cluster: Cluster, node: Node, now: float) -> list[DeviceGrant] | None:
        """What each claim gets on a node, in the order of the writes; None if the claims do not fit, or no longer."""
        given = self._grants(cluster, node, now)
        if not self.carried or given is None:
            return given
        carried = self._carried_grants(cluster, node)
        return given + carried if carried is not None else None

    def _grants(self, cluster: Cluster, node: Node, now: float) -> list[DeviceGrant] | None:
        if self.wish is None:
            return []
        if self.prescribed is not None:
            allocations = [self.prescribed[each.key] for each in self.references]
        else:
            place = cluster.fleet.places.get(node.metadata.name)
            written = self.wish.write(place, [each.claim for each in self.references]) if place else None
            if written is None:
                return None
            allocations = written
        grants = []
        for reference, allocation in zip(self.references, allocations, strict=True):
            if awaited(allocation):
                allocation = replace(allocation, allocation_timestamp=timestamp(now))
            write = WriteClaim(reference.key, allocation, reference.consumer, FINALIZER)
            step: WriteClaim | MakeClaim = write
            if self.extended is not None and reference.claim is self.extended.claim:
                step = MakeClaim(reference.key, self.extended.manifest(), write)
            grants.append(DeviceGrant(reference, allocation, step))
        return grants

    # --- semantic claims ---

    def _judge_carried(self, cluster: Cluster, node: Node) -> Status:
        claims = [each.claim for each in self.carried]
        verdict = cluster.semantic.ask(node, self.key, claims, self.strategy)
        if isinstance(verdict, Allocated):
            return SUCCESS
        return Status(
            StatusCode.UNSCHEDULABLE if verdict.by_use else StatusCode.UNRESOLVABLE,
            self.plugin,
            verdict.words,
        )

    def _carried_grants(self, cluster: Cluster, node: Node) -> list[DeviceGrant] | None:
        claims = [each.claim for each in self.carried]
        verdict = cluster.semantic.ask(node, self.key, claims, self.strategy)
        if not isinstance(verdict, Allocated):
            return None
        written = cluster.semantic.results(claims, verdict)
        grants = []
        for each, allocation, (told, driver) in zip(self.carried, verdict.results, written, strict=True):
            document: dict[str, Any] = carried_status(each.claim, told, driver)
            step = WriteClaim(
                each.reference.key,
                allocation,
                each.reference.consumer,
                SEMANTIC_FINALIZER,
                keep=each.claim.spec.allocation_mode == IMMEDIATE,
                document=document,
            )
            grants.append(DeviceGrant(each.reference, allocation, step))
        return grants
