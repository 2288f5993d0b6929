"""How many more semantic claims fit: ``remaining`` for partition trees.

The rules are the same: one claim after another until the allocator refuses, then all of them plus one more together, until
it proves that they do not fit. Each tree belongs to one node, so nodes add up. Nodes with equal trees in equal use are
counted once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.allocator.errors import AllocationError
from allotment.allocator.nodeselector import selects
from allotment.allocator.outcome import Allocated, GaveUp, InvalidInput
from allotment.allocator.pool import DeviceID, PoolID
from allotment.allocator.semantic import SemanticBook, allocate_semantic
from allotment.api.codec import encode
from allotment.usage.allocation import AnyClaim, held_by
from allotment.usage.pool import in_use
from allotment.usage.remaining import (
    MOST_CLAIMS_OF_A_PROOF,
    MOST_COUNTED,
    PROOF_STEPS,
    CountingBudget,
    Fits,
    Remaining,
)

if TYPE_CHECKING:
    from allotment.api.core import Node
    from allotment.api.semantic import NodeResourceSlice, ResourceClaim


def remaining_instances(
    claim: ResourceClaim,
    *,
    nodes: Iterable[Node],
    trees: Iterable[NodeResourceSlice],
    book: SemanticBook,
    claims: Iterable[AnyClaim] = (),
    limit: int = MOST_COUNTED,
    steps: int = PROOF_STEPS,
) -> Remaining:
    """How many more claims like ``claim`` fit beside what ``claims`` hold.

    ``book`` has the classes and parameters that they refer to.
    """
    by_node: dict[str, list[NodeResourceSlice]] = {}
    for tree in sorted(trees, key=lambda tree: tree.metadata.name):
        by_node.setdefault(tree.spec.node_name, []).append(tree)
    held: dict[str, list[DeviceID]] = {}
    for each in claims:
        for pool, devices in held_by(each).items():
            held.setdefault(pool.pool, []).extend(DeviceID(*pool, name) for name in in_use(devices))
    count = _Count(claim, book, CountingBudget(limit, steps))
    on_nodes: dict[str, Fits] = {}
    on_pools: dict[PoolID, Fits] = {}
    for node in sorted(nodes, key=lambda node: node.metadata.name):
        name = node.metadata.name
        mine, taken = by_node.get(name, []), held.get(name, [])
        on_nodes[name] = count.on(node, mine, taken)
        for driver in sorted({tree.spec.driver_name for tree in mine}):
            of_driver = [tree for tree in mine if tree.spec.driver_name == driver]
            on_pools[PoolID(driver, name)] = count.on(node, of_driver, taken)
    total = sum(fits.number for fits in on_nodes.values())
    return Remaining(
        Fits(total, all(fits.exact for fits in on_nodes.values()), count.fault),
        on_nodes,
        dict(sorted(on_pools.items())),
    )


class _Count:
    """Counts for one claim, and reuses results for nodes in equal state."""

    def __init__(self, claim: ResourceClaim, book: SemanticBook, bounds: CountingBudget) -> None:
        self._claim = claim
        self._book = book
        self._bounds = bounds
        demand = book.demand([claim])
        self.fault = str(demand.fault) if demand.fault is not None else ""
        self._suitable = demand.terms[0].resource_class.suitable_nodes if demand.terms else None
        self._known: dict[Hashable, Fits] = {}

    def on(self, node: Node, trees: Sequence[NodeResourceSlice], held: Sequence[DeviceID]) -> Fits:
        if self.fault:
            return Fits(0, True, self.fault)
        try:
            suited = self._suitable is None or selects(self._suitable, node)
        except AllocationError as exc:
            return Fits(0, True, str(exc))
        alike = tuple(encode(replace(tree.spec, node_name="")) for tree in trees)
        key = (suited, alike, frozenset((id.driver, id.device) for id in held))
        fits = self._known.get(key)
        if fits is None:
            fits = self._known[key] = self._proved(node, trees, held, self._filled(node, trees, held))
        return fits

    def _filled(self, node: Node, trees: Sequence[NodeResourceSlice], held: Sequence[DeviceID]) -> Fits:
        number, taken = 0, list(held)
        while number < self._bounds.limit:
            outcome = allocate_semantic(node, trees, self._book, [self._claim], taken)
            if not isinstance(outcome, Allocated):
                words = str(outcome.error) if isinstance(outcome, InvalidInput) else ""
                return Fits(number, not isinstance(outcome, GaveUp), words)
            results = outcome.results[0].devices.results
            taken += [DeviceID(each.driver, each.pool, each.device) for each in results]
            number += 1
        return Fits(number, exact=False)

    def _proved(
        self, node: Node, trees: Sequence[NodeResourceSlice], held: Sequence[DeviceID], fits: Fits
    ) -> Fits:
        number, bounds = fits.number, self._bounds
        if not fits.exact or not trees:
            return fits
        while number < min(bounds.limit, MOST_CLAIMS_OF_A_PROOF) and bounds.steps > 0:
            together = [self._claim] * (number + 1)
            outcome = allocate_semantic(node, trees, self._book, together, held, budget=bounds.steps)
            bounds.steps -= outcome.steps
            if isinstance(outcome, GaveUp):
                break
            if not isinstance(outcome, Allocated):
                return Fits(number, True, fits.words)
            number += 1
        return Fits(number, False, fits.words)
