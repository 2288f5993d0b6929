"""The two device models behind one interface: claims go in; an outcome, and claims with their allocations, come out.

Both read their devices from the scheduler's cluster. They record what is held in its one ledger, under the claim's
``namespace/name``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec.structs import replace

from allotment.allocator.ledger import Holding, Ledger
from allotment.allocator.outcome import Allocated, Outcome
from allotment.allocator.pool import Pool
from allotment.allocator.semantic import allocate_semantic
from allotment.allocator.semantic_holdings import held_ids
from allotment.allocator.semantic_pools import partition_pools
from allotment.api import semantic
from allotment.api.core import Node
from allotment.api.resource import ResourceClaim
from allotment.insight.manifest_cluster import Claim, name_of
from allotment.scheduler.cluster import Cluster


class Model(Protocol):
    """Serves the claims of one kind. Callers pass only those to ``allocate`` and ``finished``."""

    @property
    def kind(self) -> type[Claim]:
        """The kind of claims that the model serves."""

    def allocate(self, node: Node, claims: Sequence[Claim]) -> Outcome:
        """Chooses devices for all claims or for none; changes nothing."""

    def finished(self, claims: Sequence[Claim], allocated: Allocated) -> Iterator[Claim]:
        """The claims with the outcome written into them."""

    def pools(self, node: Node) -> Sequence[Pool]:
        """The pools that the node reaches. Raises AllocationError."""


class DeviceModel:
    """The model for claims of resource.k8s.io/v1."""

    kind = ResourceClaim

    def __init__(self, cluster: Cluster, strategy: str) -> None:
        self._fleet = cluster.fleet
        self._strategy = strategy

    def allocate(self, node: Node, claims: Sequence[Claim]) -> Outcome:
        return self._fleet.allocate(node.metadata.name, _current(claims), strategy=self._strategy)

    def find(self, claims: Sequence[Claim]) -> Allocated | None:
        """Like ``allocate``, on the first node by name that can serve the claims; None if no node can."""
        found = self._fleet.find(_current(claims), strategy=self._strategy)
        return found if isinstance(found, Allocated) else None

    def finished(self, claims: Sequence[Claim], allocated: Allocated) -> Iterator[Claim]:
        for claim, result in zip(_current(claims), allocated.results, strict=True):
            yield replace(claim, status=replace(claim.status, allocation=result))

    def pools(self, node: Node) -> Sequence[Pool]:
        return self._fleet.site(self._fleet.places[node.metadata.name]).pools


class InstanceModel:
    """The model for claims of v1alpha2, with partitionable instances."""

    kind = semantic.ResourceClaim

    def __init__(self, cluster: Cluster, strategy: str) -> None:
        self._fleet = cluster.semantic
        self._ledger = cluster.fleet.ledger
        self._strategy = strategy

    def allocate(self, node: Node, claims: Sequence[Claim]) -> Outcome:
        return allocate_semantic(
            node,
            self._fleet.slices(node.metadata.name),
            self._fleet.book,
            _semantic(claims),
            self._fleet.held(node.metadata.name),
            holdings=self._ledger,
            strategy=self._strategy,
        )

    def finished(self, claims: Sequence[Claim], allocated: Allocated) -> Iterator[Claim]:
        mine = _semantic(claims)
        for claim, (result, driver) in zip(mine, self._fleet.results(mine, allocated), strict=True):
            yield replace(claim, status=replace(claim.status, driver_name=driver, allocation=result))

    def pools(self, node: Node) -> Sequence[Pool]:
        name = node.metadata.name
        mine = self._fleet.slices(name)
        return partition_pools(name, mine, self._fleet.held(name)) if mine else ()


def _current(claims: Iterable[Claim]) -> list[ResourceClaim]:
    return [claim for claim in claims if isinstance(claim, ResourceClaim)]


def _semantic(claims: Iterable[Claim]) -> list[semantic.ResourceClaim]:
    return [claim for claim in claims if isinstance(claim, semantic.ResourceClaim)]


def hold(ledger: Ledger, claim: Claim) -> None:
    """Records in the ledger what an allocated claim holds. Raises Conflict if that is promised to another claim."""
    name = "/".join(name_of(claim.metadata))
    if isinstance(claim, semantic.ResourceClaim):
        ledger.hold(name, tuple(Holding(id, None, (), False) for id in held_ids(claim)))
    elif claim.status.allocation is not None:
        ledger.commit(name, claim.status.allocation)
