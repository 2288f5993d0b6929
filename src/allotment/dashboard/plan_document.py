"""A plan for its page: the result in a sentence, similar machines together, and the pods that stay pending grouped by reason.

The document stays small, however many pods there are: each list is cut, with the number of the other entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from allotment.autoscaler.provision.plan import LeftOut, NewNode, Plan, PodPlace
from allotment.dashboard.price import price

GROUPS_LISTED = 100
"""How many kinds of machines, and how many groups of reasons, are listed."""
MACHINES_LISTED = 50
"""How many machines of one kind are listed."""
PODS_LISTED = 100
"""How many pods are listed for one machine, one reason, or the existing nodes."""
REASONS_LISTED = 20
"""How many reasons are listed for one pod that stays pending."""
_REASON_LENGTH = 500


def plan_document(plan: Plan, notes: Iterable[str] = ()) -> dict[str, Any]:
    machines = _machines(plan.nodes)
    left = _left(plan.pending)
    return {
        "headline": headline(plan),
        "proof": proof(plan),
        "price": price(plan.price),
        "lowerBound": price(plan.bound) if plan.bound is not None else "",
        "machines": machines[:GROUPS_LISTED],
        "moreMachines": sum(each["count"] for each in machines[GROUPS_LISTED:]),
        "existing": _places(plan.existing),
        "left": left[:GROUPS_LISTED],
        "moreLeft": sum(each["count"] for each in left[GROUPS_LISTED:]),
        "notes": list(notes)[:PODS_LISTED],
    }


def headline(plan: Plan) -> str:
    """The result of the plan in one sentence."""
    taken = sum(len(each.places) for each in plan.nodes)
    room, left = len(plan.existing), len(plan.pending)
    pods = _count(taken + room + left, "pending pod")
    if not taken + room + left:
        return "No pod waits for a node."
    if plan.nodes:
        machines = f"{_count(len(plan.nodes), 'machine')}, {price(plan.price)} per hour"
        words = f"{machines}, would take {taken} of {pods}"
        words += (
            f"; {room} {'has' if room == 1 else 'have'} room on nodes that exist or are on their way"
            if room
            else ""
        )
        return f"{words}; {left} would stay pending." if left else f"{words}."
    if not left:
        whom = "the pending pod" if room == 1 else f"all {pods}"
        return f"No machine is needed: nodes that exist or are on their way have room for {whom}."
    words = f"No machine would help {left} of {pods}" if room else f"No machine would help the {pods}"
    return (
        f"{words}; {room} {'has' if room == 1 else 'have'} room on nodes that exist or are on their way."
        if room
        else f"{words}."
    )


def proof(plan: Plan) -> str:
    """How close the price is to the minimum."""
    if not plan.nodes:
        return ""
    if plan.exact:
        return "There is no cheaper plan."
    if plan.bound is None:
        return "The minimum is not known: a cheaper plan may exist."
    if plan.price <= plan.bound:
        return "No cheaper plan exists."
    return f"No plan costs less than {price(plan.bound)} per hour: at most {plan.saving:.1%} could be saved."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _machines(nodes: Iterable[NewNode]) -> list[dict[str, Any]]:
    """By type, place and price; the most expensive first."""
    alike: dict[Any, list[NewNode]] = {}
    for node in nodes:
        machine = node.machine
        alike.setdefault((machine.name, machine.price), []).append(node)
    order = sorted(alike.items(), key=lambda item: (-item[0][1] * len(item[1]), item[0][0]))
    return [_sort(each) for _, each in order]


def _sort(nodes: Sequence[NewNode]) -> dict[str, Any]:
    machine = nodes[0].machine
    return {
        "count": len(nodes),
        "type": machine.type,
        "source": machine.source,
        "zone": machine.offering.zone,
        "capacityType": machine.offering.capacity_type,
        "price": price(machine.price),
        "together": price(machine.price * len(nodes)),
        "pods": sum(len(each.places) for each in nodes),
        "each": [{"name": each.name, **_places(each.places)} for each in nodes[:MACHINES_LISTED]],
    }


def _places(places: Sequence[PodPlace]) -> dict[str, Any]:
    told = [
        {"pod": each.pod, "node": each.node, "devices": _devices(each.devices)}
        for each in places[:PODS_LISTED]
    ]
    return {"count": len(places), "pods": told}


def _devices(names: Iterable[str]) -> list[str]:
    """``driver/device``; the pool is left out, because it is usually the node's."""
    parts = [name.split("/") for name in names]
    return [f"{each[0]}/{each[-1]}" for each in parts[:PODS_LISTED]]


def _left(pending: Iterable[LeftOut]) -> list[dict[str, Any]]:
    """The most common reason first."""
    alike: dict[Any, list[LeftOut]] = {}
    for each in pending:
        alike.setdefault((each.why, tuple(each.types.items())), []).append(each)
    groups = sorted(alike.values(), key=lambda group: -len(group))
    return [
        {
            "count": len(group),
            "pods": [each.pod for each in group[:PODS_LISTED]],
            "reason": (group[0].why or "does not fit")[:_REASON_LENGTH],
            "types": _by_reason(group[0]),
        }
        for group in groups
    ]


def _by_reason(left: LeftOut) -> list[dict[str, Any]]:
    reasons: dict[str, list[str]] = {}
    for name, words in left.types.items():
        reasons.setdefault(words, []).append(name)
    order = sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        {"reason": words[:_REASON_LENGTH], "count": len(names), "types": names[:PODS_LISTED]}
        for words, names in order[:REASONS_LISTED]
    ]
