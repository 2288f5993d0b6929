"""Pools and groups for the page of machines: the number and price of their machines, and how much of the limits is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from allotment.api.autoscaling import NODE_GROUP, NODE_POOL, READY, NodeClaim, NodeGroup, NodePool
from allotment.api.quantity import Quantity
from allotment.api.validation import validate_node_group, validate_node_pool
from allotment.autoscaler.catalogue.node_claims import ClaimProgress, state_of
from allotment.dashboard.cut_text import said
from allotment.dashboard.machine_choice import MachineChoice
from allotment.dashboard.price import price

ROWS_LISTED = 200
"""How many pools and groups are listed together; of more, only the number is given."""
_NONE = Quantity.parse("0")


@dataclass(frozen=True, slots=True)
class _Source:
    """The facts of a pool or group, including those that can be summed. ``unpriced`` is the number of machines whose price is
    unknown."""

    document: dict[str, Any]
    machines: int
    cost: Decimal
    unpriced: int

    def told(self) -> dict[str, Any]:
        return {
            **self.document,
            "machines": self.machines,
            "price": price(self.cost),
            "unpriced": self.unpriced,
        }


def sources_document(
    pools: Iterable[NodePool], groups: Iterable[NodeGroup], asked: Iterable[NodeClaim], choice: MachineChoice
) -> dict[str, Any]:
    """``asked`` are all requested machines; those that failed do not count."""
    claims: dict[tuple[str, str], list[NodeClaim]] = {}
    for claim in asked:
        for label in (NODE_POOL, NODE_GROUP):
            if (name := claim.metadata.labels.get(label)) and state_of(claim) is not ClaimProgress.FAILED:
                claims.setdefault((label, name), []).append(claim)
    sources = [
        *[_pool(each, claims.get((NODE_POOL, each.metadata.name), ()), choice) for each in pools],
        *[_group(each, claims.get((NODE_GROUP, each.metadata.name), ()), choice) for each in groups],
    ]
    return {
        "count": len(sources),
        "machines": sum(each.machines for each in sources),
        "price": price(sum((each.cost for each in sources), Decimal(0))),
        "rows": [each.told() for each in sources[:ROWS_LISTED]],
    }


def _pool(pool: NodePool, claims: Sequence[NodeClaim], choice: MachineChoice) -> _Source:
    used = pool.status.resources or _sum(each.status.capacity for each in claims)
    limits = [_limit(name, used.get(name, _NONE), limit) for name, limit in sorted(pool.spec.limits.items())]
    document = {
        **_about(pool, [str(error) for error in validate_node_pool(pool)]),
        "fixed": pool.spec.replicas,
        "limits": limits,
    }
    machines = len(claims) or pool.status.nodes or 0
    prices = [choice.price_of(each) for each in claims]
    known = [each for each in prices if each is not None]
    return _Source(document, machines, sum(known, Decimal(0)), len(prices) - len(known))


def _group(group: NodeGroup, claims: Sequence[NodeClaim], choice: MachineChoice) -> _Source:
    size = max(0, group.status.size if group.status.size is not None else len(claims))
    least = f", at least {group.spec.min}" if group.spec.min else ""
    part = _part(size, group.spec.max)
    limit = {"name": f"machines{least}", "used": str(size), "limit": str(group.spec.max), "part": part}
    document = {
        **_about(group, [str(error) for error in validate_node_group(group)]),
        "fixed": None,
        "limits": [limit],
    }
    each = choice.price_of_group(group)
    return _Source(document, size, (each or Decimal(0)) * size, size if each is None else 0)


def _about(source: NodePool | NodeGroup, errors: list[str]) -> dict[str, Any]:
    problems = [
        said(each) for each in source.status.conditions if each.type == READY and each.status == "False"
    ]
    return {
        "kind": source.kind,
        "name": source.metadata.name,
        "inFile": not source.metadata.uid,
        "problems": [*errors, *problems],
    }


def _sum(amounts: Iterable[Mapping[str, Quantity]]) -> Mapping[str, Quantity]:
    total: dict[str, Quantity] = {}
    for each in amounts:
        for name, amount in each.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def _limit(name: str, used: Quantity, limit: Quantity) -> dict[str, Any]:
    part = _part(used.approximate_float(), limit.approximate_float())
    return {"name": name, "used": str(used), "limit": str(limit), "part": part}


def _part(used: float, limit: float) -> float:
    return round(min(1.0, max(0.0, used / limit)), 3) if limit else 1.0
