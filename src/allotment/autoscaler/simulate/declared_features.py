"""The kubelet features that new machines will declare: those that every ready node of their pool or group declares.

Pods and devices may need a feature that not every kubelet has, and a catalogue does not say which features a machine's
kubelet will have. Machines of one pool start from one image, so the next node is expected to declare what all its nodes
declare. A pool without nodes is expected to declare nothing: a pod that needs a feature stays pending, and the reason names
the feature. If a machine then comes without the feature, not all nodes of the pool declare it any more, and no second machine
is launched for the same pod.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from allotment.api.autoscaling import NODE_GROUP, NODE_POOL
from allotment.api.core import Node

if TYPE_CHECKING:
    from allotment.autoscaler.catalogue.machine import Machine
    from allotment.autoscaler.simulate.forkable_cluster import ForkableCluster

_Owner = tuple[str, str]
"""The label with which a node names its pool or group, and the name."""


def declaring(cluster: ForkableCluster, machines: Iterable[Machine]) -> list[Machine]:
    """The machines with the features that they are expected to declare. Unchanged machines are the same objects."""
    known = _by_owner(cluster)
    found = []
    for machine in machines:
        label = NODE_POOL if machine.pool is not None else NODE_GROUP
        features = known.get((label, machine.source), machine.features)
        found.append(
            machine if features == machine.features else dataclasses.replace(machine, features=features)
        )
    return found


def _by_owner(cluster: ForkableCluster) -> dict[_Owner, tuple[str, ...]]:
    """What all ready nodes of each pool and group declare."""
    common: dict[_Owner, frozenset[str]] = {}
    for node in cluster.objects(Node).values():
        if not _is_ready(node):  # its kubelet may not have reported yet
            continue
        declared = frozenset(node.status.declared_features)
        for label in (NODE_POOL, NODE_GROUP):
            if name := node.metadata.labels.get(label):
                common[label, name] = common.get((label, name), declared) & declared
    return {owner: tuple(sorted(features)) for owner, features in common.items()}


def _is_ready(node: Node) -> bool:
    """A node that does not report its readiness counts as ready, as nodes from manifests do."""
    return all(each.status == "True" for each in node.status.conditions if each.type == "Ready")
