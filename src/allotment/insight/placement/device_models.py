"""The two device models behind one face: claims in, outcome out, and claims with their allocations written in.

Both count what is held in the same ledger, under the claim's ``namespace/name``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec.structs import replace

from allotment.allocator.fleet import Fleet
from allotment.allocator.ledger import Holding, Ledger
from allotment.allocator.outcome import Allocated, Outcome
from allotment.allocator.pool import DeviceID, Pool
from allotment.allocator.semantic import SemanticBook, allocate_semantic, semantic_results
from allotment.allocator.semantic_holdings import held_ids
from allotment.allocator.semantic_pools import partition_pools
from allotment.api import semantic
from allotment.api.core import Node
from allotment.api.resource import ResourceClaim
from allotment.insight.manifest_cluster import Claim, ManifestCluster, name_of


class Model(Protocol):
    """Serves the claims of its kind. ``allocate`` and ``finished`` get no others."""

    @property
    def kind(self) -> type[Claim]:
        """Which claims are its own."""

    def allocate(self, node: Node, claims: Sequence[Claim]) -> Outcome:
        """Chooses devices for all claims or for none; changes nothing."""

    def finished(self, claims: Sequence[Claim], allocated: Allocated) -> Iterator[Claim]:
        """The claims as they are once the outcome is written into them."""

    def pools(self, node: Node) -> Sequence[Pool]:
        """The pools that the node reaches. Raises AllocationError."""


class DeviceModel:
    """resource.k8s.io/v1. Its fleet keeps the ledger."""

    kind = ResourceClaim

    def __init__(self, cluster: ManifestCluster, strategy: str) -> None:
        self._fleet = Fleet(cluster.nodes, cluster.slices, cluster.classes)
        self._strategy = strategy

    @property
    def ledger(self) -> Ledger:
        """Everything that is held, also by claims of the other model."""
        return self._fleet.ledger

    def allocate(self, node: Node, claims: Sequence[Claim]) -> Outcome:
        return self._fleet.allocate(node.metadata.name, _current(claims), strategy=self._strategy)

    def find(self, claims: Sequence[Claim]) -> Allocated | None:
        """As ``allocate``, on the first node by name that can serve the claims; None if no node can."""
        found = self._fleet.find(_current(claims), strategy=self._strategy)
        return found if isinstance(found, Allocated) else None

    def finished(self, claims: Sequence[Claim], allocated: Allocated) -> Iterator[Claim]:
        for claim, result in zip(_current(claims), allocated.results, strict=True):
            yield replace(claim, status=replace(claim.status, allocation=result))

    def pools(self, node: Node) -> Sequence[Pool]:
        return self._fleet.site(self._fleet.places[node.metadata.name]).pools


class InstanceModel:
    """v1alpha2 with partitionable instances."""

    kind = semantic.ResourceClaim

    def __init__(self, cluster: ManifestCluster, ledger: Ledger, strategy: str) -> None:
        self._cluster = cluster
        self._book = SemanticBook(
            cluster.resource_classes, cluster.class_parameters, cluster.claim_parameters
        )
        self._ledger = ledger
        self._strategy = strategy
        self._slices: dict[str, list[semantic.NodeResourceSlice]] = {}
        for slice in cluster.node_slices:
            self._slices.setdefault(slice.spec.node_name, []).append(slice)

    def allocate(self, node: Node, claims: Sequence[Claim]) -> Outcome:
        return allocate_semantic(
            node,
            self._slices.get(node.metadata.name, ()),
            self._book,
            _semantic(claims),
            self._held(),
            holdings=self._ledger,
            strategy=self._strategy,
        )

    def finished(self, claims: Sequence[Claim], allocated: Allocated) -> Iterator[Claim]:
        mine = _semantic(claims)
        demand = self._book.demand(mine)
        for claim, terms, result in zip(mine, demand.terms, semantic_results(demand, allocated), strict=True):
            driver = terms.resource_class.driver_name
            yield replace(claim, status=replace(claim.status, driver_name=driver, allocation=result))

    def pools(self, node: Node) -> Sequence[Pool]:
        mine = self._slices.get(node.metadata.name)
        return partition_pools(node.metadata.name, mine, self._held()) if mine else ()

    def _held(self) -> list[DeviceID]:
        return [
            holding.device
            for claim in _semantic(self._cluster.claims.values())
            for holding in self._ledger.holdings(ledger_name(claim))
        ]


def _current(claims: Iterable[Claim]) -> list[ResourceClaim]:
    return [claim for claim in claims if isinstance(claim, ResourceClaim)]


def _semantic(claims: Iterable[Claim]) -> list[semantic.ResourceClaim]:
    return [claim for claim in claims if isinstance(claim, semantic.ResourceClaim)]


def ledger_name(claim: Claim) -> str:
    """What the ledger calls a claim."""
    return "/".join(name_of(claim.metadata))


def hold(ledger: Ledger, claim: Claim) -> None:
    """Writes down what an allocated claim holds. Raises Conflict if that was promised to another."""
    if isinstance(claim, semantic.ResourceClaim):
        ledger.hold(ledger_name(claim), tuple(Holding(id, None, (), False) for id in held_ids(claim)))
    elif claim.status.allocation is not None:
        ledger.commit(ledger_name(claim), claim.status.allocation)
