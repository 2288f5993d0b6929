"""Protects the counts of pools from forgery: only the counting controller writes them.

It alone creates ResourcePools and writes their status, and the answers to ResourcePoolStatusRequests, whatever rights
other users have, including administrators. Rights alone govern labels, annotations and deletion, since a deleted pool
returns. Kubernetes' own controller may answer requests too, for users who run kube-controller-manager on this server.
"""

from __future__ import annotations

from allotment.api.status import forbidden
from allotment.apiserver.auth import users
from allotment.apiserver.registry.resource import Resource
from allotment.apiserver.registry.strategy import Operation, Write
from allotment.apiserver.store.record import Obj

POOLS = "resourcepools.resource.k8s.io"
REQUESTS = "resourcepoolstatusrequests.resource.k8s.io"
_COUNTERS = {
    POOLS: frozenset({users.CONTROLLERS}),
    REQUESTS: frozenset(
        {
            users.CONTROLLERS,
            "system:kube-controller-manager",
            "system:serviceaccount:kube-system:resourcepoolstatusrequest-controller",
        }
    ),
}


class PoolCounts:
    judged = frozenset(_COUNTERS)

    def admit(self, resource: Resource, obj: Obj, old: Obj | None, write: Write) -> None:
        made = write.operation is Operation.CREATE and resource.id == POOLS
        if not (made or write.subresource == "status") or write.identity.name in _COUNTERS[resource.id]:
            return
        what = "makes pools" if made else "writes their status"
        why = f'only the controller, user "{users.CONTROLLERS}", {what}: it counts from slices and claims what others rely on'
        raise forbidden(resource.plural, obj["metadata"].get("name", ""), resource.group, why)
