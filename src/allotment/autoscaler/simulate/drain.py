"""Scale-down: whether a node can be removed, if its pods run elsewhere with newly allocated claims.

All pods are evicted first, so that pods that share a claim can move together. Then the node is removed, and each pod is
placed as the scheduler would. One order of placement may fail where another one works: pods without a place go first in the
next round.

Some pods do not keep a node: pods that belong to it (of a DaemonSet, or static) end with it, and pods with only admin access
to devices also do so if there is no place for them elsewhere. A claim that stays allocated without users (Immediate) does
keep the node. Disruption budgets count as they are now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allotment.api.meta import key_of
from allotment.api.resource import ResourceClaim
from allotment.autoscaler.errors import NodeInUse
from allotment.autoscaler.simulate.simulation import BoundPod, Removed
from allotment.scheduler.disruption_budgets import Budgets

if TYPE_CHECKING:
    from allotment.api.core import Pod
    from allotment.autoscaler.simulate.simulation import Simulation

__all__ = ["CannotDrain", "Drained", "drain"]

DRAIN_ROUNDS = 3
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of pods that a kubelet starts from its own files."""


@dataclass(frozen=True, slots=True)
class Drained:
    """The node is removed."""

    node: Removed
    moved: tuple[BoundPod, ...]  # pods with their new nodes
    gone: tuple[Pod, ...]  # pods that went with it


@dataclass(frozen=True, slots=True)
class CannotDrain:
    """The node cannot be removed, and nothing has changed."""

    node: str
    pods: Mapping[str, str]  # those that keep it, with the reason
    claims: tuple[str, ...] = ()  # those that keep it, because they keep its devices in use or not


@dataclass(slots=True)
class DrainRound:
    """Which pods found a place, and which did not, with the reasons."""

    moved: list[BoundPod] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ClearedNodes:
    """The nodes are removed, and their pods have no node."""

    nodes: tuple[Removed, ...] = ()
    waiting: list[Pod] = field(default_factory=list)  # those that need another node, the most important first
    optional: list[Pod] = field(default_factory=list)  # those that only prefer another node
    gone: list[Pod] = field(default_factory=list)  # those that ended with the node


def drain(simulation: Simulation, node: str) -> Drained | CannotDrain:
    """Moves a node's pods elsewhere and removes it, if possible; tries ``DRAIN_ROUNDS`` different orders. Raises NoSuchNode."""
    simulation.node(node)
    protected = _protected(simulation, simulation.pods(node))
    if protected:
        return CannotDrain(node, protected)
    with simulation.trial() as trial:
        cleared = clear(simulation, [node])
        if isinstance(cleared, CannotDrain):
            return cleared
        [removed] = cleared.nodes
        placed = place(simulation, cleared.waiting)
        if placed.refused or removed.stranded:
            return CannotDrain(node, placed.refused, removed.stranded)
        placed.moved += accommodate(simulation, cleared)
        trial.keep()
        return Drained(removed, tuple(placed.moved), tuple(cleared.gone))


def clear(simulation: Simulation, nodes: Sequence[str]) -> ClearedNodes | CannotDrain:
    """Takes all pods off nodes and removes these. Call it in a fork, because changes before a Held result are not reverted."""
    cleared = ClearedNodes()
    for node in nodes:
        _cleared(simulation, node, cleared)
    removed = []
    for node in nodes:
        try:
            removed.append(simulation.simulate_remove_node(node))
        except NodeInUse as exc:
            return CannotDrain(
                node, dict.fromkeys(exc.pods, f"it uses devices of node {node} from elsewhere")
            )
    cleared.nodes = tuple(removed)
    cleared.waiting.sort(key=lambda pod: (-(pod.spec.priority or 0), key_of(pod)))
    return cleared


def accommodate(simulation: Simulation, cleared: ClearedNodes) -> list[BoundPod]:
    """Places the pods that prefer a place; those that find none end."""
    moved = []
    for pod in cleared.optional:
        found = simulation.schedule(pod)
        if isinstance(found, BoundPod):
            moved.append(found)
        else:
            cleared.gone.append(pod)
            forget(simulation, pod)
    return moved


def _protected(simulation: Simulation, pods: tuple[Pod, ...]) -> dict[str, str]:
    """The pods that may not be evicted now."""
    budgets, known = Budgets(simulation.cluster), simulation.cluster.pods
    return {
        key_of(pod): "its disruption budget allows no more evictions now"
        for pod in pods
        if not goes_along(pod) and not budgets.spend(known[key_of(pod)])
    }


def _cleared(simulation: Simulation, node: str, cleared: ClearedNodes) -> None:
    """Takes all pods off a node."""
    for pod in simulation.pods(node):
        looks = only_looks(simulation, pod)
        evicted = simulation.simulate_evict_pod(pod, node).pod
        if goes_along(pod):
            cleared.gone.append(evicted)
            forget(simulation, evicted)
        else:
            (cleared.optional if looks else cleared.waiting).append(evicted)


def place(simulation: Simulation, pods: Sequence[Pod]) -> DrainRound:
    """Places all pods, or none; in the latter case with the reasons of the pods without a place in the first round."""
    first: DrainRound | None = None
    for _ in range(DRAIN_ROUNDS):
        found = DrainRound()
        with simulation.trial() as trial:
            for pod in pods:
                placed = simulation.schedule(pod)
                if isinstance(placed, BoundPod):
                    found.moved.append(placed)
                else:
                    found.refused[key_of(pod)] = placed.words
            if not found.refused:
                trial.keep()
                return found
        first = first or found
        pods = sorted(pods, key=lambda pod: key_of(pod) not in found.refused)
    assert first is not None
    return first


def goes_along(pod: Pod) -> bool:
    """Whether a pod needs no other place when its node is removed: it belongs to the node, or is already being deleted. A
    StatefulSet's pod that is being deleted comes back under its name."""
    owners = pod.metadata.owner_references
    if pod.metadata.deletion_timestamp and not any(owner.kind == "StatefulSet" for owner in owners):
        return True
    return belongs_to_node(pod)


def belongs_to_node(pod: Pod) -> bool:
    """Whether a pod exists because its node does."""
    return MIRROR in pod.metadata.annotations or any(
        owner.kind == "Node" or (owner.kind == "DaemonSet" and owner.controller)
        for owner in pod.metadata.owner_references
    )


def only_looks(simulation: Simulation, pod: Pod) -> bool:
    """Whether a bound pod has only admin access to devices."""
    cluster = simulation.cluster
    found = [cluster.claims.objects.get(key) for key in cluster.used_by(cluster.pods[key_of(pod)])]
    allocations = [claim.status.allocation for claim in found if claim is not None]
    results = [result for each in allocations if each is not None for result in each.devices.results]
    return bool(results) and all(result.admin_access for result in results)


def forget(simulation: Simulation, pod: Pod) -> None:
    """Removes a pod and the claims that were created for it."""
    claims = simulation.objects(ResourceClaim)
    for key in list(simulation.cluster.claims.owned.get(pod.metadata.uid, ())):
        simulation.drop(claims[key])
    simulation.drop(pod)
