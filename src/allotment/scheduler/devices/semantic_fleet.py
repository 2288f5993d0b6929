"""The semantic part of the cluster: partition trees by node, classes and parameters, and what carried claims hold.

The fleet answers node by node. It remembers one answer for each shape of demand and node, until the node, its slices, their use,
or any
class or parameters change.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allotment.allocator.effort import Effort
from allotment.allocator.errors import NodeError
from allotment.allocator.outcome import Allocated, InvalidInput, Unsatisfiable
from allotment.allocator.paused_searches import PausedSearches
from allotment.allocator.semantic import SemanticBook, allocate_semantic, semantic_results
from allotment.api import semantic
from allotment.scheduler.devices.semantic_claim import carried_holdings
from allotment.scheduler.devices.wording import GENERIC, NodeWording, refusal, unjudged

if TYPE_CHECKING:
    from allotment.allocator.ledger import Holding, Ledger
    from allotment.allocator.outcome import Outcome
    from allotment.allocator.pool import DeviceID
    from allotment.api.core import Node
    from allotment.api.meta import ApiStruct
    from allotment.api.resource import ResourceClaim

_SHAPES_KEPT = 64


@dataclass(slots=True)
class _NodeAnswer:
    node: Node
    version: tuple[int, int]  # of classes and parameters, of the node's slices and their use
    verdict: Allocated | NodeWording


class SemanticFleet:
    """Answers whether nodes can serve semantic claims. It calls ``note`` with nodes on which answers may have changed because
    devices were taken or released. ``effort`` limits a search in one turn."""

    def __init__(self, ledger: Ledger, note: Callable[[str], None], effort: Effort) -> None:
        self._searches = PausedSearches(effort)
        self._ledger = ledger
        self._note = note
        self._slices: dict[str, dict[str, semantic.NodeResourceSlice]] = {}  # by node and name
        self._objects: dict[type[ApiStruct], dict[str, Any]] = {
            semantic.ResourceClass: {},
            semantic.ResourceClassParameters: {},
            semantic.ResourceClaimParameters: {},
        }
        self._home: dict[str, str] = {}  # slice → node
        self._drivers: set[str] = set()  # drivers that publish trees, or once did
        self._held: dict[str, dict[DeviceID, None]] = {}  # by node, published or not
        self._book: SemanticBook | None = None
        self._edition = 0  # of classes and parameters
        self._versions: dict[str, int] = {}  # by node
        self._answers: OrderedDict[Hashable, dict[str, _NodeAnswer]] = OrderedDict()
        ledger.also_tell(self._use_changed)

    # --- what changes ---

    def change(self, old: ApiStruct | None, new: ApiStruct | None) -> Iterable[str]:
        """Takes a slice, a class or parameters. Returns the nodes on which answers may change."""
        for each in (old, new):
            if isinstance(each, semantic.NodeResourceSlice):
                return self._slice(each.metadata.name, new)
        shown: Any = new if new is not None else old
        objects = self._objects[type(shown)]
        key = f"{shown.metadata.namespace}/{shown.metadata.name}"
        if new is None:
            objects.pop(key, None)
        else:
            objects[key] = new
        self._book = None
        self._edition += 1
        return list(self._slices)

    def _slice(self, name: str, new: ApiStruct | None) -> list[str]:
        changed = []
        before = self._home.pop(name, None)
        if before is not None:
            del self._slices[before][name]
            if not self._slices[before]:
                del self._slices[before]
            changed.append(before)
        if isinstance(new, semantic.NodeResourceSlice):
            node = self._home[name] = new.spec.node_name
            self._slices.setdefault(node, {})[name] = new
            self._meet(new.spec.driver_name)
            changed.append(node)
        for node in changed:
            self._versions[node] = self._versions.get(node, 0) + 1
        return changed

    def _meet(self, driver: str) -> None:
        """Tracks from now on what is held of a driver's devices."""
        if driver in self._drivers:
            return
        self._drivers.add(driver)
        for claim in self._ledger.claims():
            for each in self._ledger.holdings(claim):
                if each.device.driver == driver:
                    self._use_changed(each.device)

    def _use_changed(self, device: DeviceID) -> None:
        if device.driver not in self._drivers:
            return
        node = device.pool
        held = self._held.setdefault(node, {})
        if self._ledger.exclusive(device):
            held[device] = None
        else:
            held.pop(device, None)
        if not held:
            del self._held[node]
        self._versions[node] = self._versions.get(node, 0) + 1
        self._note(node)

    def holdings(self, claim: ResourceClaim) -> tuple[Holding, ...] | None:
        """What a carried claim's allocation holds; None for v1's own claims."""
        found = carried_holdings(claim)
        for each in found or ():
            self._meet(each.device.driver)
        return found

    # --- questions ---

    @property
    def book(self) -> SemanticBook:
        if self._book is None:
            classes, of_classes, of_claims = (objects.values() for objects in self._objects.values())
            self._book = SemanticBook(classes, of_classes, of_claims)
        return self._book

    def fault(self, claims: Sequence[semantic.ResourceClaim]) -> str:
        """What is wrong with claims on every node alike; empty if nothing is."""
        fault = self.book.demand(claims).fault
        return str(fault) if fault is not None else ""

    def shareable(self, claim: semantic.ResourceClaim) -> bool:
        """Whether the claim's current parameters let several pods use what it gets."""
        demand = self.book.demand([claim])
        return demand.fault is None and bool(demand.terms[0].claim_parameters.shareable)

    def ask(
        self, node: Node, key: Hashable, claims: Sequence[semantic.ResourceClaim], strategy: str
    ) -> Allocated | NodeWording:
        """The answer of one node. ``key`` is equal for claims that ask for the same."""
        name = node.metadata.name
        answers = self._answers.setdefault(key, {})
        self._answers.move_to_end(key)
        if len(self._answers) > _SHAPES_KEPT:
            self._answers.popitem(last=False)
        version = (self._edition, self._versions.get(name, 0))
        known = answers.get(name)
        if known is None or known.version != version or known.node is not node:
            slices = self._slices.get(name, {}).values()
            held = self._held.get(name, ())
            asked = (key, name, version, node.metadata.resource_version)
            outcome = allocate_semantic(
                node,
                slices,
                self.book,
                claims,
                held,
                holdings=self._ledger,
                strategy=strategy,
                run=lambda search: self._searches.run(asked, lambda: search)[1],
            )
            verdict = _verdict(outcome, bool(held), at_fault=bool(self.fault(claims)))
            if not slices and not isinstance(verdict, Allocated):
                # independent of parameters: callers that remember it hear of changes only for nodes with trees
                verdict = NodeWording(f"have no {claims[0].spec.resource_class_name}", False)
            known = answers[name] = _NodeAnswer(node, version, verdict)
        return known.verdict

    def examine(self, node: Node, claims: Sequence[semantic.ResourceClaim]) -> Outcome:
        """The answer of one node with all its reasons, which ``ask`` does not keep."""
        name = node.metadata.name
        return allocate_semantic(
            node, self.slices(name), self.book, claims, self.held(name), holdings=self._ledger
        )

    def slices(self, node: str) -> list[semantic.NodeResourceSlice]:
        """What a node publishes."""
        return list(self._slices.get(node, {}).values())

    def held(self, node: str) -> list[DeviceID]:
        """Instances of a node that are in use, published or not."""
        return list(self._held.get(node, ()))

    def parameters(
        self,
    ) -> tuple[
        list[semantic.ResourceClass],
        list[semantic.ResourceClassParameters],
        list[semantic.ResourceClaimParameters],
    ]:
        """The classes, and the parameters of classes and claims."""
        classes, of_classes, of_claims = self._objects.values()
        return list(classes.values()), list(of_classes.values()), list(of_claims.values())

    def results(
        self, claims: Sequence[semantic.ResourceClaim], allocated: Allocated
    ) -> list[tuple[semantic.AllocationResult, str]]:
        """An answer in v1alpha2 form for these claims: the allocation of each and its class's driver."""
        demand = self.book.demand(claims)
        drivers = [terms.resource_class.driver_name for terms in demand.terms]
        return list(zip(semantic_results(demand, allocated), drivers, strict=True))

    def in_use(self, node: str) -> int:
        """How many instances of a node are in use."""
        return len(self._held.get(node, ()))

    def validate(self) -> None:
        """Raises AssertionError where the kept state differs from the ledger."""
        held: dict[str, set[DeviceID]] = {}
        for claim in self._ledger.claims():
            for each in self._ledger.holdings(claim):
                if each.device.driver in self._drivers and each.share is None and not each.admin:
                    held.setdefault(each.device.pool, set()).add(each.device)
        kept = {node: set(devices) for node, devices in self._held.items()}
        assert kept == held, "instances in use are not those that the ledger knows"
        for name, node in self._home.items():
            assert name in self._slices[node], f"slice {name} is not with node {node}"


def _verdict(outcome: Outcome, in_use: bool, *, at_fault: bool) -> Allocated | NodeWording:
    """An outcome without its working data. It keeps an error that comes from the node's instances: broken trees, or selectors
    that fail on them. It drops an error in the claims themselves, which may name them, because the next caller has other
    claims."""
    if isinstance(outcome, Allocated):
        return outcome
    if isinstance(outcome, Unsatisfiable):
        return refusal(outcome.problem)
    if isinstance(outcome, InvalidInput) and (isinstance(outcome.error, NodeError) or not at_fault):
        return NodeWording(unjudged(str(outcome.error)), in_use)
    return NodeWording(GENERIC, in_use)
