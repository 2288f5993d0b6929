"""A plan, for people and for programs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from allotment.api.text import few, plural
from allotment.autoscaler.catalogue.catalogue_summary import decimals, money
from allotment.cli.render.screen import Cell, Screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allotment.autoscaler.provision.plan import LeftOut, NewNode, Plan

MACHINE = ("node", "type", "from", "zone", "capacity type", "price", "pods")
_DEVICES_SHOWN = 3
_MOST_ROWS = 100
_MOST_REASONS = 10


def show(plan: Plan, screen: Screen, *, wide: bool) -> None:
    """Shows the machines, the place of each pod, and the pods that stay pending. ``wide`` names every device."""
    screen.line(_headline(plan))
    if plan.nodes:
        screen.heading(f"Machines to add ({len(plan.nodes)})")
        show_rows(MACHINE, machine_rows(plan.nodes), screen, wide=wide)
    places = [*plan.existing, *(place for each in plan.nodes for place in each.places)]
    if places:
        screen.heading(f"Pods with a place ({len(places)})")
        rows: list[list[Cell]] = [
            [each.pod, each.node, devices_cell(each.devices, wide=wide)] for each in places
        ]
        show_rows(("pod", "node", "devices"), rows, screen, wide=wide)
    if plan.pending:
        screen.heading(f"Pods that stay pending ({len(plan.pending)})")
        _show_pending(plan, screen, wide=wide)


def show_rows(columns: Sequence[str], rows: Sequence[Sequence[Cell]], screen: Screen, *, wide: bool) -> None:
    """A table with the first rows and the number of the others; with ``wide``, all of them."""
    shown = rows if wide else rows[:_MOST_ROWS]
    screen.table(columns, shown)
    _show_rest(len(rows) - len(shown), screen)


def _show_rest(more: int, screen: Screen) -> None:
    if more > 0:
        screen.line(f"and {more} more: -o wide has all")


def _headline(plan: Plan) -> str:
    if not plan.nodes:
        return (
            "No machine needs to be added." if plan.existing or not plan.pending else "No machine would help."
        )
    price = f"{plural(len(plan.nodes), 'machine')} to add for {money(plan.price)} per hour"
    if plan.exact:
        return f"{price}; there is no cheaper plan."
    if plan.bound is None:
        return f"{price}; the minimum is not known: a cheaper plan may exist."
    if plan.price <= plan.bound:
        return f"{price}; no cheaper plan exists."
    return f"{price}; no plan costs less than {money(plan.bound, decimals(plan.price))} ({plan.saving:.1%} less)."


def machine_rows(nodes: Sequence[NewNode]) -> list[list[Cell]]:
    """Rows of MACHINE. All prices have as many decimals as the one that needs most."""
    places = max((decimals(each.machine.price) for each in nodes), default=0)
    return [_machine_row(each, places) for each in nodes]


def _machine_row(node: NewNode, places: int) -> list[Cell]:
    machine = node.machine
    pods = str(len(node.places))
    if node.serves:
        pods += f", and devices for {plural(len(node.serves), 'pod')} elsewhere"
    return [
        node.name,
        machine.type,
        machine.source or "-",
        machine.offering.zone or "-",
        machine.offering.capacity_type,
        money(machine.price, places),
        pods,
    ]


def devices_cell(names: tuple[str, ...], *, wide: bool) -> str:
    """``driver/device``; the pool is left out because it usually has the node's name."""
    if wide:
        return ", ".join(names) or "-"
    short = [f"{driver}/{device}" for driver, _, device in (_parts(each) for each in names)]
    more = len(short) - _DEVICES_SHOWN
    return ", ".join(short[:_DEVICES_SHOWN]) + (f" and {more} more" if more > 0 else "") or "-"


def _parts(name: str) -> tuple[str, str, str]:
    driver, _, rest = name.partition("/")
    pool, _, device = rest.rpartition("/")
    return driver, pool, device


def _show_pending(plan: Plan, screen: Screen, *, wide: bool) -> None:
    """Groups the pods that have the same reasons."""
    alike: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for each in plan.pending:
        alike.setdefault((each.why, tuple(each.types.items())), []).append(each.pod)
    for (why, types), pods in list(alike.items())[: None if wide else _MOST_ROWS]:
        screen.line((few(pods), "bold"), ": ", (why or "does not fit", "red"))
        reasons: dict[str, list[str]] = {}
        for name, words in types:
            reasons.setdefault(words, []).append(name)
        listed = sorted(reasons.items(), key=lambda each: (-len(each[1]), each[0]))
        for words, names in listed[:_MOST_REASONS]:
            screen.line(f"{words}: {few(names)}", indent=2)
        if len(listed) > _MOST_REASONS:
            screen.line(f"and {len(listed) - _MOST_REASONS} more", indent=2)
    _show_rest(0 if wide else sum(map(len, list(alike.values())[_MOST_ROWS:])), screen)


def show_alternative(plan: Plan, cheapest: Plan, screen: Screen) -> None:
    """Shows how ``--cheapest-alternative`` would improve the plan, if it would."""
    more = len(plan.pending) - len(cheapest.pending)
    if more > 0:
        screen.line(f"With --cheapest-alternative {plural(more, 'more pod')} would have a place.")
    elif not more and cheapest.price < plan.price:
        saved = float((plan.price - cheapest.price) / plan.price)
        words = f"{money(cheapest.price)} per hour would do ({saved:.1%} less)"
        screen.line(
            f"With --cheapest-alternative {words}: pods would get other alternatives of their claims."
        )


def show_comparison(first: Plan, second: Plan, screen: Screen) -> None:
    """Shows what would be different with the other catalogue."""
    screen.heading("Compared")
    prices = (first.price, second.price, first.bound, second.bound)
    places = max(decimals(each) for each in prices if each is not None)
    rows: list[list[Cell]] = [
        ["price per hour", *(money(each.price, places) for each in (first, second))],
        [
            "lower bound",
            *(
                money(each.bound, places) if each.bound is not None else "not known"
                for each in (first, second)
            ),
        ],
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
        **({"servesElsewhere": [each.pod for each in node.serves]} if node.serves else {}),
    }


def _pending_document(left: LeftOut) -> dict[str, Any]:
    return {"pod": left.pod, "reason": left.why, "types": dict(left.types)}
