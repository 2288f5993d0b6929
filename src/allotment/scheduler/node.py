"""A node as the scheduler sees it: the object, and what the pods on it take together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from allotment.scheduler.resource_requests import Amounts, amounts

if TYPE_CHECKING:
    from allotment.api.core import Node
    from allotment.scheduler.pod import HostPort, PodInfo

PODS = "pods"
_ONE_POD = 10**9


class NodeInfo:
    """A node and the pods on it. ``node`` is None if pods name the node but its object is not known (yet).

    Invariant, re-derived by ``validate``: ``taken`` is the sum of its pods' requests (each counting as one of ``pods``),
    plus what their devices take of it (``extra``).
    """

    __slots__ = ("extra", "kind", "name", "node", "offered", "pods", "ports", "taken")

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.offered: Amounts = {}
        self.kind = ""  # equal for nodes that offer the same and reject the same pods
        self.pods: dict[str, PodInfo] = {}
        self.taken: Amounts = {}
        self.ports: dict[HostPort, int] = {}
        self.extra: dict[str, Amounts] = {}  # pod → what its claims' devices cost of the node's own resources

    @property
    def labels(self) -> dict[str, str]:
        return self.node.metadata.labels if self.node is not None else {}

    def describe(self, node: Node | None) -> None:
        """Takes the new node object; None if it was deleted."""
        self.node = node
        self.offered = amounts(node.status.allocatable) if node is not None else {}
        spec = node.spec if node is not None else None
        self.kind = repr((spec.unschedulable, spec.taints, self.offered)) if spec is not None else ""

    def add(self, pod: PodInfo, extra: Amounts | None = None) -> None:
        """Adds a pod that is bound to the node or assumed there."""
        self.pods[pod.key] = pod
        if extra:
            self.extra[pod.key] = extra
        self._count(pod, extra or {}, 1)

    def remove(self, key: str) -> None:
        """Removes a pod from the node."""
        self._count(self.pods.pop(key), self.extra.pop(key, {}), -1)

    def _count(self, pod: PodInfo, extra: Amounts, sign: int) -> None:
        taken = self.taken
        taken[PODS] = taken.get(PODS, 0) + sign * _ONE_POD
        for name, amount in pod.requests.items():
            taken[name] = taken.get(name, 0) + sign * amount
        for name, amount in extra.items():
            taken[name] = taken.get(name, 0) + sign * amount
        for port in pod.ports:
            left = self.ports.get(port, 0) + sign
            if left:
                self.ports[port] = left
            else:
                self.ports.pop(port, None)

    def validate(self) -> None:
        """Raises AssertionError where the sums are not those of the pods."""
        fresh = NodeInfo(self.name)
        for key, pod in self.pods.items():
            fresh.add(pod, self.extra.get(key))
        assert _nonzero(fresh.taken.items()) == _nonzero(self.taken.items()), f"node {self.name}: sums"
        assert fresh.ports == self.ports, f"node {self.name}: ports"
        assert set(self.extra) <= set(self.pods), f"node {self.name}: extra of pods that left"


def kind_of(node: NodeInfo) -> str:
    """What a plugin sees of a node if it reads only the taints and what the node offers."""
    return node.kind


def load_of(node: NodeInfo) -> tuple[object, ...]:
    """What a plugin sees of a node if it also reads how much is taken."""
    return node.kind, *node.taken.items()


def _nonzero(items: Iterable[tuple[str, int]]) -> dict[str, int]:
    return {name: amount for name, amount in items if amount}
