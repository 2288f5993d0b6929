"""The level and the flow in which a request is queued (``fairness.py``).

The levels follow the idea of Kubernetes': requests that keep a cluster alive come before those of people, and anonymous
requests come last. Administrators (``system:masters``) and callers in this process are not queued at all. A flow is a
user. All service accounts of a namespace are one flow, as somebody who may create one may create a thousand. An anonymous
flow is an address.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.apiserver.auth.authorization import MASTERS
from allotment.apiserver.auth.identity import ANONYMOUS, Identity
from allotment.apiserver.auth.node import NODES
from allotment.apiserver.auth.service_account import account_of
from allotment.apiserver.http.fairness import Level
from allotment.apiserver.http.route import Target

PROBES = Level("probes", seats=20, work=8, flow_queue=10_000, queue=20_000)
"""Health checks are answered however busy the server is: otherwise it would seem dead."""
LEADERS = Level("leader-election", seats=20, work=4, flow_queue=50, queue=200)
NODE = Level("nodes", seats=120, work=8, flow_queue=50, queue=2_000)
SYSTEM = Level("system", seats=120, work=16, flow_queue=200, queue=1_000)
WORKLOAD = Level("workload", seats=320, work=16, flow_queue=100, queue=1_000)
CATCH_ALL = Level("catch-all", seats=20, work=4, flow_queue=20, queue=200)
REFUSALS = Level("refusals", seats=25_000, work=8, flow_queue=25_000, queue=25_000)
"""For refusals instead of requests: they cost as much as small requests, and clients come back at once."""
LEVELS = (PROBES, LEADERS, NODE, SYSTEM, WORKLOAD, CATCH_ALL, REFUSALS)
"""Highest priority first."""

_OURS = ("allotment:", "system:kube-", "system:serviceaccount:kube-system:")
_WORK_BYTES = 64 * 1024
"""Each such number of bytes in a body is as much work as another small request."""
_WORK_OBJECTS = 200
"""The same for objects in a list."""
WIDEST = 16


class QueuePlace(NamedTuple):
    """Where a request is queued. Without a level, it is not queued."""

    level: Level | None
    flow: str


EXEMPT = QueuePlace(None, "")


def place_of(identity: Identity, target: Target | None, address: str) -> QueuePlace:
    if MASTERS in identity.groups:
        return EXEMPT
    name = identity.name
    if name == ANONYMOUS.name:
        return QueuePlace(CATCH_ALL, address)
    system, node = name.startswith(_OURS), NODES in identity.groups
    if system and target is not None and target.plural == "leases":
        return QueuePlace(LEADERS, name)
    if node or system:
        return QueuePlace(NODE if node else SYSTEM, name)
    account = account_of(name)
    return QueuePlace(WORKLOAD, f"system:serviceaccount:{account[0]}" if account is not None else name)


def width_of(body: int = 0, objects: int = 0) -> int:
    """The work of a request, by the bytes of its body or the objects that it lists."""
    return min(1 + body // _WORK_BYTES + objects // _WORK_OBJECTS, WIDEST)
