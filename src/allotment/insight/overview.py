"""A cluster at one moment, for ``allot top``: nodes with their devices, pools, waiting pods with reasons, and totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allotment.api.core import Node
from allotment.insight.usage_document import device_document, pool_document, summary_document
from allotment.usage.rollup import ClusterUsage, NodeUsage, by_node, in_cluster

if TYPE_CHECKING:
    from allotment.insight.snapshot import Snapshot
    from allotment.insight.usage_document import Document
    from allotment.insight.waiting_pods import WaitingPod
    from allotment.usage.pool import PoolUsage


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node that has devices of its own. ``trouble`` says why nothing starts there; empty: nothing is known to be wrong."""

    usage: NodeUsage
    trouble: str
    broken: bool  # nothing can be allocated from one of its pools

    @property
    def name(self) -> str:
        return self.usage.name

    def mentions(self, text: str) -> bool:
        """Whether the node, or a pool, driver or claim with a device there, has such a name."""
        return text in self.name.lower() or any(
            text in f"{pool.id.driver} {pool.id.pool}".lower()
            or any(text in each.claim.lower() for device in pool.devices for each in device.allocations)
            for pool in self.usage.pools
        )


@dataclass(frozen=True, slots=True)
class Overview:
    """A cluster at one moment: nodes with their devices, pools, waiting pods and totals. ``bare`` nodes have no devices of
    their own; None: the caller sees no nodes."""

    nodes: Sequence[NodeView]
    pools: Sequence[PoolUsage]
    pending: Sequence[WaitingPod]
    cluster: ClusterUsage
    bare: int | None
    notes: Sequence[str]


def overview_of(snapshot: Snapshot, pending: Sequence[WaitingPod]) -> Overview:
    pools = snapshot.pools()
    bad = {pool.id for pool in pools if pool.broken}
    known = {node.metadata.name: node for node in snapshot.of(Node)} if snapshot.sees(Node) else None
    nodes = [
        NodeView(usage, _trouble(usage.name, known), any(pool.id in bad for pool in usage.pools))
        for usage in by_node(pools).values()
    ]
    bare = None if known is None else len(known.keys() - {node.name for node in nodes})
    return Overview(nodes, pools, pending, in_cluster(pools), bare, list(snapshot.notes))


def _trouble(name: str, known: dict[str, Node] | None) -> str:
    if known is None:
        return ""
    node = known.get(name)
    if node is None:
        return "no such node"
    ready = next((each.status for each in node.status.conditions if each.type == "Ready"), "True")
    words = ["not ready"] if ready != "True" else []
    return ", ".join([*words, *(["cordoned"] if node.spec.unschedulable else [])])


def overview_document(overview: Overview) -> Document:
    """The same for programs: devices by node; those that several nodes reach are with their pool."""
    cluster = overview.cluster
    return {
        "summary": summary_document(cluster.summary, cluster.hidden),
        "hidden": cluster.hidden,
        "nodes": [
            {
                "node": node.name,
                "trouble": node.trouble or None,
                "summary": summary_document(node.usage.summary, node.usage.hidden),
                "pools": [
                    {
                        "driver": pool.id.driver,
                        "pool": pool.id.pool,
                        "devices": [device_document(device) for device in pool.devices],
                    }
                    for pool in node.usage.pools
                ],
            }
            for node in overview.nodes
        ],
        "pools": [pool_document(pool, devices=not pool.node_name) for pool in overview.pools],
        "pending": [pod.document() for pod in overview.pending],
        "notes": list(overview.notes),
    }
