"""The size of NodePools and NodeGroups: their nodes, and the machines whose nodes are on their way.

Counting visits all nodes and claims, so it happens at most a few times a second, and only after relevant changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from allotment.api.autoscaling import NODE_GROUP, NODE_POOL, NodeClaim, NodeGroup, NodePool
from allotment.api.core import Node
from allotment.api.quantity import Quantity
from allotment.api.rights import READ
from allotment.autoscaler.catalogue.node_claims import ClaimProgress, node_name, state_of
from allotment.client.client import Client, Collection
from allotment.client.form import Obj, ResourcePath, Typed
from allotment.client.shared_informers import Informers
from allotment.client.work_queue import WorkQueue
from allotment.controllers.controller import Again

SIZES_PAUSE = 0.2
_INDEX = "machines: source"
_COMING = (ClaimProgress.LAUNCHING, ClaimProgress.LAUNCHED)


class MachineSource(NamedTuple):
    """A pool or a group: the label of its nodes and claims, and its name."""

    label: str
    name: str


class SourceSizes:
    """Reconciles the statuses of pools and groups; either kind may be missing on a server."""

    name = "machine-sizes"
    rights = (
        f"{READ}: core: nodes",
        f"{READ}: karpenter.sh: nodeclaims,nodepools",
        f"{READ}: allotment.dev: nodegroups",
        "patch: karpenter.sh: nodepools/status",
        "patch: allotment.dev: nodegroups/status",
    )

    def __init__(
        self,
        client: Client,
        informers: Informers,
        *,
        claims: ResourcePath,
        pools: ResourcePath | None,
        groups: ResourcePath | None,
    ) -> None:
        self.queue: WorkQueue[MachineSource] = WorkQueue()
        self._claims, self._nodes = informers.at(claims, NodeClaim), informers.of(Node)
        for informer in (self._claims, self._nodes):
            informer.add_index(_INDEX, sources_of)
            informer.on_change(self._changed)
        self._pools = informers.at(pools, NodePool) if pools is not None else None
        self._groups = informers.at(groups, NodeGroup) if groups is not None else None
        if pools is not None and self._pools is not None:
            self._client_pools = Collection(client, pools, Typed(NodePool))
            self._pools.on_change(lambda _, new: self._asked(NODE_POOL, new))
        if groups is not None and self._groups is not None:
            self._client_groups = Collection(client, groups, Typed(NodeGroup))
            self._groups.on_change(lambda _, new: self._asked(NODE_GROUP, new))

    def _changed(self, old: NodeClaim | Node | None, new: NodeClaim | Node | None) -> None:
        if old is not None and new is not None and _counted(old) == _counted(new):
            return
        for each in (old, new):
            for source in sources_of(each) if each is not None else ():
                self.queue.add_after(source, SIZES_PAUSE)

    def _asked(self, label: str, new: NodePool | NodeGroup | None) -> None:
        if new is not None:
            self.queue.add(MachineSource(label, new.metadata.name))

    async def reconcile(self, key: MachineSource) -> Again | None:
        nodes = self._nodes.by(_INDEX, key)
        there = {each.metadata.name for each in nodes}
        coming = [
            each
            for each in self._claims.by(_INDEX, key)
            if state_of(each) in _COMING and node_name(each) not in there
        ]
        size = len(nodes) + len(coming)
        if key.label == NODE_POOL and self._pools is not None:
            pool = self._pools.get(key.name)
            parts = [*(each.status.capacity for each in nodes), *(each.status.capacity for each in coming)]
            amounts = _total(parts)
            change = _pool_change(pool, size, amounts) if pool is not None else None
            if pool is not None and change is not None:
                await self._client_pools.change(pool, {"status": change}, subresource="status")
        elif key.label == NODE_GROUP and self._groups is not None:
            group = self._groups.get(key.name)
            if group is not None and group.status.size != size:
                await self._client_groups.change(group, {"status": {"size": size}}, subresource="status")
        return None


def sources_of(obj: NodeClaim | Node) -> tuple[MachineSource, ...]:
    """The pool or group to which a node or a claim belongs."""
    labels = obj.metadata.labels
    return tuple(MachineSource(key, labels[key]) for key in (NODE_POOL, NODE_GROUP) if key in labels)


def _counted(obj: NodeClaim | Node) -> object:
    """The values on which the sums depend."""
    coming = isinstance(obj, NodeClaim) and (state_of(obj) in _COMING, obj.status.node_name)
    return sources_of(obj), obj.status.capacity, coming


def _total(amounts: Iterable[Mapping[str, Quantity]]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for each in amounts:
        for name, amount in each.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def _pool_change(pool: NodePool, size: int, amounts: Mapping[str, Quantity]) -> Obj | None:
    """The part of the pool's status that must change. Resources that it no longer has are removed by name."""
    if (pool.status.nodes, pool.status.resources) == (size, amounts):
        return None
    gone: Obj = dict.fromkeys(pool.status.resources.keys() - amounts.keys())
    return {"nodes": size, "resources": gone | {name: str(amount) for name, amount in amounts.items()}}
