"""Whether a node may be removed: its price, its owner, and what keeps it regardless of its pods' alternatives.

A node may be removed if it comes from a known NodePool or NodeGroup without a fixed size, is ready, is not already being
removed, and neither its annotations nor those of its pods forbid it. These annotations count:

- ``karpenter.sh/do-not-disrupt: "true"`` of a node or a pod;
- ``cluster-autoscaler.kubernetes.io/scale-down-disabled: "true"`` of a node;
- ``cluster-autoscaler.kubernetes.io/safe-to-evict`` of a pod: ``"false"`` keeps it where it is, ``"true"`` allows its
  eviction although no controller owns it.

A pod without a controller would not come back, so it keeps its node, as with Cluster Autoscaler (Karpenter evicts it). Pods
that need no other place (``drain.goes_along``) do not keep it, nor do pods with only admin access to devices.

The price is that of the machine with the node's instance type, zone, capacity type and pool, or of its group. A node of
unknown price counts as free: it is removed if its pods find room, but it does not justify new machines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from allotment.api.autoscaling import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODE_GROUP,
    NODE_POOL,
    ZONE,
    NodeGroup,
    NodePool,
)
from allotment.api.core import Node
from allotment.api.meta import key_of
from allotment.autoscaler.catalogue.node_claims import DISRUPTED
from allotment.autoscaler.consolidate.disruption_policy import EMPTY, UNDERUTILIZED, DisruptionPolicy
from allotment.autoscaler.simulate.drain import goes_along, only_looks

if TYPE_CHECKING:
    from allotment.api.core import Pod
    from allotment.autoscaler.catalogue.machine import Machine
    from allotment.autoscaler.simulate.simulation import Simulation

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
TRUE = "true"

Source = tuple[str, str]
"""The label and the name of a pool or a group."""


@dataclass(frozen=True, slots=True)
class Stay:
    """A node stays. ``why`` has counts and no names of pods; ``pods`` are those that keep it, with the reason for each."""

    why: str
    pods: Mapping[str, str] = field(default_factory=dict)


def source_of(node: Node) -> Source | None:
    """The pool or group from which a node comes."""
    for label in (NODE_POOL, NODE_GROUP):
        if name := node.metadata.labels.get(label):
            return label, name
    return None


class Removability:
    """Which nodes of one simulation may be removed at one time. ``owners`` are pools and groups besides those of machines."""

    def __init__(
        self,
        simulation: Simulation,
        machines: Iterable[Machine],
        owners: Iterable[NodePool | NodeGroup],
        *,
        now: float,
    ) -> None:
        self._simulation = simulation
        self._now = now
        self._owners: dict[Source, NodePool | NodeGroup] = {}
        self._prices: dict[tuple[str, ...], Decimal] = {}
        for machine in machines:
            if (origin := machine.pool or machine.group) is not None:
                self._own(origin)
                self._prices[_key(_source(origin), machine.labels)] = machine.price
        for each in owners:
            self._own(each)
        nodes = simulation.objects(Node)
        self._sources = {name: source for name, node in nodes.items() if (source := source_of(node))}
        self._sizes = Counter(self._sources.values())
        self._absent = Counter(source for name, source in self._sources.items() if _absent(nodes[name]))

    def _own(self, origin: NodePool | NodeGroup) -> None:
        self._owners[_source(origin)] = origin

    def price(self, node: Node) -> Decimal | None:
        """Per hour; None: unknown."""
        source = source_of(node)
        return self._prices.get(_key(source, node.metadata.labels)) if source is not None else None

    # --- what keeps a node ---

    def keeps(self, node: Node, quiet: float) -> Stay | None:
        """Why a node stays that was quiet for ``quiet`` seconds; None if it may be removed, subject to pods and budgets."""
        why = self._node_keeps(node)
        if why:
            return Stay(why)
        name = node.metadata.name
        origin = self._owners[self._sources[name]]
        if isinstance(origin, NodePool) and (
            why := DisruptionPolicy.of(origin).keeps(empty=not self.moving(name), quiet=quiet)
        ):
            return Stay(why)
        held = {key_of(pod): why for pod in self._simulation.pods(name) if (why := self._pod_keeps(pod))}
        return Stay(f"{_pods(len(held))} on it must not be moved", held) if held else None

    def _node_keeps(self, node: Node) -> str:
        source, annotations = source_of(node), node.metadata.annotations
        if source is None:
            return "it comes from no pool and no group"
        what, origin = _named(source), self._owners.get(source)
        if origin is None:
            return f"its {what} is unknown"
        if isinstance(origin, NodePool) and origin.spec.replicas is not None:
            return f"{what} has a fixed number of nodes"
        if is_leaving(node):
            return "it is already being removed"
        if not _ready(node):
            return "it is not ready"
        for mark in (DO_NOT_DISRUPT, SCALE_DOWN_DISABLED):
            if annotations.get(mark) == TRUE:
                return f"it is annotated {mark}"
        return ""

    def _pod_keeps(self, pod: Pod) -> str:
        annotations = pod.metadata.annotations
        if goes_along(pod):
            return ""
        if annotations.get(DO_NOT_DISRUPT) == TRUE:
            return f"it is annotated {DO_NOT_DISRUPT}"
        safe = annotations.get(SAFE_TO_EVICT)
        if safe == "false":
            return f"it is annotated {SAFE_TO_EVICT}: false"
        owned = any(owner.controller for owner in pod.metadata.owner_references)
        if not owned and safe != TRUE and not only_looks(self._simulation, pod):
            return "no controller owns it, so it would not come back"
        return ""

    def moving(self, node: str) -> list[Pod]:
        """The pods of a node that need another one if it is removed."""
        pods = self._simulation.pods(node)
        return [pod for pod in pods if not goes_along(pod) and not only_looks(self._simulation, pod)]

    # --- how many may go ---

    def spare(self, going: Mapping[str, str]) -> str:
        """For each reason, Empty or Underutilized, why no more nodes can be removed after those that were; empty if they can."""
        sources: dict[Source, list[str]] = {}
        for name, reason in going.items():
            sources.setdefault(self._sources[name], []).append(reason)
        for source, reasons in sources.items():
            origin = self._owners[source]
            if isinstance(origin, NodePool):
                rules, count = DisruptionPolicy.of(origin), len(reasons) + self._absent[source]
                for reason in sorted(set(reasons)):
                    allowed = rules.allowed(reason, self._sizes[source], self._now)
                    if count > allowed:
                        return f"the budgets of {_named(source)} allow the removal of {_nodes(allowed)} at a time ({reason})"
        return ""

    def went(self, nodes: Iterable[str]) -> None:
        """Records that nodes were removed for good."""
        self._absent.update(self._sources[name] for name in nodes)

    def enough(self) -> str:
        """Why too many nodes have been removed in the present simulation; empty if they have not."""
        nodes = self._simulation.objects(Node).values()
        sizes = Counter(source for node in nodes if (source := source_of(node)))
        for source, before in self._sizes.items():
            origin = self._owners.get(source)
            if isinstance(origin, NodeGroup) and sizes[source] < min(before, origin.spec.min):
                return f"{_named(source)} has no more than its minimum of {_nodes(origin.spec.min)}"
        return ""

    def reason(self, node: str) -> str:
        """Why a node would be removed."""
        return UNDERUTILIZED if self.moving(node) else EMPTY


def _source(origin: NodePool | NodeGroup) -> Source:
    return (NODE_POOL if isinstance(origin, NodePool) else NODE_GROUP), origin.metadata.name


def _key(source: Source, labels: Mapping[str, str]) -> tuple[str, ...]:
    """The key under which machines like the node's are found; nodes of a group are all alike."""
    if source[0] == NODE_GROUP:
        return source
    return (*source, *(labels.get(each, "") for each in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)))


def is_leaving(node: Node) -> bool:
    """Whether a node is being removed."""
    return node.metadata.deletion_timestamp is not None or any(
        each.key == DISRUPTED.key for each in node.spec.taints
    )


def _ready(node: Node) -> bool:
    """Conditions that a node does not report count as fulfilled, as for nodes from files."""
    return all(each.status == "True" for each in node.status.conditions if each.type == "Ready")


def _absent(node: Node) -> bool:
    return is_leaving(node) or not _ready(node)


def _named(source: Source) -> str:
    return f"{'pool' if source[0] == NODE_POOL else 'group'} {source[1]}"


def _pods(count: int) -> str:
    return f"{count} pod{'s' if count != 1 else ''}"


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"
