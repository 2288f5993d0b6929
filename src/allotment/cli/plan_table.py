"""A plan, for people and for programs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from allotment.cli.screen import Cell, Screen
from allotment.cli.usage_table import plural

if TYPE_CHECKING:
    from decimal import Decimal

    from allotment.autoscaler.plan import LeftOut, NewNode, Plan

MACHINE = ("node", "type", "from", "zone", "capacity type", "price", "pods")
_DEVICES_SHOWN = 3


def show(plan: Plan, screen: Screen, *, wide: bool) -> None:
    """Machines, who goes where, and who stays out. ``wide`` names every device."""
    screen.line(_headline(plan))
    if plan.nodes:
        screen.heading(f"Machines to add ({len(plan.nodes)})")
        screen.table(MACHINE, [machine_row(each) for each in plan.nodes])
    places = [*plan.existing, *(place for each in plan.nodes for place in each.places)]
    if places:
        screen.heading(f"Pods with a place ({len(places)})")
        rows: list[list[Cell]] = [
            [each.pod, each.node, devices_cell(each.devices, wide=wide)] for each in places
        ]
        screen.table(("pod", "node", "devices"), rows)
    if plan.pending:
        screen.heading(f"Pods that stay pending ({len(plan.pending)})")
        _show_pending(plan, screen)


def _headline(plan: Plan) -> str:
    if not plan.nodes:
        return "No machine is to be added." if plan.existing or not plan.pending else "No machine would help."
    price = f"{plural(len(plan.nodes), 'machine')} to add for {money(plan.price)} per hour"
    if plan.exact:
        return f"{price}; there is no cheaper way."
    if plan.bound is None:
        return f"{price}; no bound is known: something cheaper may do."
    if plan.price <= plan.bound:
        return f"{price}; nothing cheaper would do."
    return f"{price}; nothing below {money(plan.bound)} would do ({plan.saving:.1%} less)."


def machine_row(node: NewNode) -> list[Cell]:
    machine = node.machine
    return [
        node.name,
        machine.type,
        machine.source or "-",
        machine.offering.zone or "-",
        machine.offering.capacity_type,
        money(machine.price),
        str(len(node.places)),
    ]


def devices_cell(names: tuple[str, ...], *, wide: bool) -> str:
    """``driver/device``; the pool is the node's name, mostly."""
    if wide:
        return ", ".join(names) or "-"
    short = [f"{driver}/{device}" for driver, _, device in (_parts(each) for each in names)]
    more = len(short) - _DEVICES_SHOWN
    return ", ".join(short[:_DEVICES_SHOWN]) + (f" and {more} more" if more > 0 else "") or "-"


def _parts(name: str) -> tuple[str, str, str]:
    driver, _, rest = name.partition("/")
    pool, _, device = rest.rpartition("/")
    return driver, pool, device


def _show_pending(plan: Plan, screen: Screen) -> None:
    """Pods with the same reasons are told of together."""
    alike: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for each in plan.pending:
        alike.setdefault((each.why, tuple(each.types.items())), []).append(each.pod)
    for (why, types), pods in alike.items():
        screen.line((few(pods), "bold"), ": ", (why or "does not fit", "red"))
        reasons: dict[str, list[str]] = {}
        for name, words in types:
            reasons.setdefault(words, []).append(name)
        for words, names in sorted(reasons.items()):
            screen.line(f"{words}: {few(names)}", indent=2)


def few(names: list[str]) -> str:
    more = len(names) - 5
    return ", ".join(names[:5]) + (f" and {more} more" if more > 0 else "")


def money(price: Decimal) -> str:
    return f"{price.normalize():f}"


def show_comparison(first: Plan, second: Plan, screen: Screen) -> None:
    """What would be different with the other catalogue."""
    screen.heading("Compared")
    rows: list[list[Cell]] = [
        ["price per hour", money(first.price), money(second.price)],
        ["lower bound", money(first.bound), money(second.bound)],
        ["machines", str(len(first.nodes)), str(len(second.nodes))],
        ["pods that stay pending", str(len(first.pending)), str(len(second.pending))],
    ]
    counts = [Counter(each.machine.type for each in plan.nodes) for plan in (first, second)]
    rows += [
        [f"machines of type {name}", *(str(each[name]) for each in counts)]
        for name in sorted({*counts[0], *counts[1]})
    ]
    screen.table(("", "--catalog", "--compare"), rows)


# --- for programs ---


def document(plan: Plan) -> dict[str, Any]:
    return {
        "price": money(plan.price),
        "lowerBound": money(plan.bound) if plan.bound is not None else None,
        "exact": plan.exact,
        "machines": [node_document(each) for each in plan.nodes],
        "existing": [
            {"pod": each.pod, "node": each.node, "devices": list(each.devices)} for each in plan.existing
        ],
        "pending": [_pending_document(each) for each in plan.pending],
    }


def node_document(node: NewNode) -> dict[str, Any]:
    machine = node.machine
    return {
        "name": node.name,
        "type": machine.type,
        "pool": machine.pool.metadata.name if machine.pool is not None else "",
        "group": machine.group.metadata.name if machine.group is not None else "",
        "zone": machine.offering.zone,
        "capacityType": machine.offering.capacity_type,
        "price": money(machine.price),
        "pods": [{"pod": each.pod, "devices": list(each.devices)} for each in node.places],
        "podsElsewhereWithItsDevices": [each.pod for each in node.serves],
    }


def _pending_document(left: LeftOut) -> dict[str, Any]:
    return {"pod": left.pod, "reason": left.why, "types": dict(left.types)}
