"""Which nodes can be removed, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from allotment.api.autoscaling import INSTANCE_TYPE, ZONE
from allotment.api.text import few, plural
from allotment.autoscaler.catalogue.catalogue_summary import decimals, money
from allotment.cli.render.plan_table import (
    MACHINE,
    devices_cell,
    machine_rows,
    node_document,
    show_rows,
)
from allotment.cli.render.screen import Cell, Screen

if TYPE_CHECKING:
    from decimal import Decimal

    from allotment.autoscaler.consolidate.consolidation import Consolidation, RemovableNode
    from allotment.autoscaler.consolidate.removability import Stay
    from allotment.autoscaler.simulate.simulation import Simulation


def show(found: Consolidation, simulation: Simulation, screen: Screen, *, wide: bool) -> None:
    """Shows the nodes to remove, the machines that replace them, the pods that move, and the nodes that stay with the
    reasons. ``simulation`` contains all of them in their present state."""
    screen.line(_headline(found))
    if found.gone:
        screen.heading(f"Nodes that can go ({len(found.gone)})")
        places = max((decimals(each.price) for each in found.gone if each.price is not None), default=0)
        rows = [_gone_row(each, simulation, places) for each in found.gone]
        show_rows(("node", "type", "zone", "price", "why"), rows, screen, wide=wide)
    if found.machines:
        screen.heading(f"Machines in their place ({len(found.machines)})")
        show_rows(MACHINE, machine_rows(found.machines), screen, wide=wide)
    if found.moved:
        screen.heading(f"Pods that move ({len(found.moved)})")
        pods: list[list[Cell]] = [
            [each.pod, _node_of(each.pod, simulation), each.node, devices_cell(each.devices, wide=wide)]
            for each in found.moved
        ]
        show_rows(("pod", "from", "to", "devices"), pods, screen, wide=wide)
    if found.dropped:
        screen.heading(f"Pods that go with their nodes ({len(found.dropped)})")
        screen.line(few(list(found.dropped)))
    if found.stays:
        screen.heading(f"Nodes that stay ({len(found.stays)})")
        _show_stays(found, screen)


def _headline(found: Consolidation) -> str:
    if not found.gone:
        return "No node can go."
    going = f"{plural(len(found.gone), 'node')} can go"
    if found.machines:
        going += f", with {plural(len(found.machines), 'machine')} in their place"
    return f"{going}: that saves {money(found.saved)} per hour."


def _gone_row(gone: RemovableNode, simulation: Simulation, places: int) -> list[Cell]:
    labels = simulation.node(gone.node).metadata.labels
    why = "empty" if gone.reason == "Empty" else "underused"
    return [gone.node, labels.get(INSTANCE_TYPE, "-"), labels.get(ZONE, "-"), _price(gone.price, places), why]


def _price(price: Decimal | None, places: int) -> str:
    return money(price, places) if price is not None else "not known"


def _node_of(pod: str, simulation: Simulation) -> str:
    return simulation.cluster.pods[pod].node


def _show_stays(found: Consolidation, screen: Screen) -> None:
    """Groups the nodes that stay for the same reason, and names the pods that hold them if there are few."""
    alike: dict[str, list[str]] = {}
    for name, stay in found.stays.items():
        alike.setdefault(stay.why, []).append(name)
    for why, names in sorted(alike.items(), key=lambda each: (-len(each[1]), each[0])):
        screen.line((few(names), "bold"), f": {why}")
        for line in _holders([found.stays[name] for name in names[:_HOLDERS_SHOWN]]):
            screen.line(line, indent=2)


_HOLDERS_SHOWN = 5


def _holders(stays: Sequence[Stay]) -> Iterable[str]:
    told = {pod: why for stay in stays for pod, why in stay.pods.items()}
    for pod, why in list(told.items())[:_HOLDERS_SHOWN]:
        yield f"{pod}: {why}"


# --- for programs ---


def document(found: Consolidation, simulation: Simulation) -> dict[str, Any]:
    return {
        "saved": money(found.saved),
        "nodes": [
            {
                "name": each.node,
                "reason": each.reason,
                "price": money(each.price) if each.price is not None else None,
            }
            for each in found.gone
        ],
        "machines": [node_document(each) for each in found.machines],
        "moved": [
            {
                "pod": each.pod,
                "from": _node_of(each.pod, simulation),
                "to": each.node,
                "devices": list(each.devices),
            }
            for each in found.moved
        ],
        "dropped": list(found.dropped),
        "stays": [
            {"name": name, "reason": stay.why, "held": dict(stay.pods)} for name, stay in found.stays.items()
        ],
    }
