"""The effect of overlays, for people and for programs: the overlays, the resulting machines, and every device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from allotment.allocator.constraint import elements_of
from allotment.api.codec import to_builtins
from allotment.api.resource import DeviceAttribute
from allotment.autoscaler.catalogue.catalogue_summary import (
    SummaryLine,
    applied_to,
    assortment,
    decimals,
    money,
    roots,
    says,
)
from allotment.autoscaler.catalogue.overlay_status import conditions
from allotment.cli.render.screen import Cell, Screen

if TYPE_CHECKING:
    from allotment.autoscaler.catalogue.machine import Devices, Machine
    from allotment.autoscaler.catalogue.overlays import OverlaidCatalogue, OverlayFinding


def show(found: OverlaidCatalogue, screen: Screen, *, wide: bool, each: bool) -> None:
    """Shows overlays with their errors, and machines: one line per type or, with ``wide``, per offering. ``each`` adds every
    device."""
    for note in found.notes:
        screen.line(("note: ", "dim"), (note, "dim"))
    if found.findings:
        screen.heading(f"Overlays ({len(found.findings)})")
        rows = [_overlay(finding) for finding in found.findings.values()]
        screen.table(("overlay", "weight", "machines", "says", "ready"), rows)
    else:
        screen.line("There are no overlays.")
    _show_problems(found, screen)
    if not found.machines:
        screen.line("There are no machines: --catalog names files with instance types.")
        return
    screen.heading(f"Machines ({len(found.machines)})")
    columns = ("from", "type", "zone", "capacity type", "price", "devices", "other resources", "overlays")
    lines = assortment(found, apart=wide)
    places = max((decimals(price) for line in lines for price in line.prices), default=0)
    rows = [_machines(line, places) for line in lines]
    screen.table(columns, rows)
    if each:
        _show_devices(found.machines, screen)


# --- overlays ---


def _overlay(finding: OverlayFinding) -> list[Cell]:
    spec = finding.overlay.spec
    valid = conditions(finding)[0]
    ready: Cell = ("yes", "green") if valid.status == "True" else (f"no ({valid.reason})", "red")
    return [
        finding.overlay.metadata.name,
        str(spec.weight or 0),
        str(len(finding.applies)),
        "; ".join(says(finding.overlay)) or "nothing",
        ready,
    ]


def _show_problems(found: OverlaidCatalogue, screen: Screen) -> None:
    broken = [each for each in found.findings.values() if each.errors or each.conflicts]
    if broken:
        screen.heading(f"What cannot be applied ({len(broken)})")
    for finding in broken:
        screen.line(finding.overlay.metadata.name)
        for words in dict.fromkeys([*finding.errors, *map(str, finding.conflicts)]):
            screen.line((words, "red"), indent=2)


# --- machines ---


def _machines(line: SummaryLine, places: int) -> list[Cell]:
    first = line.machines[0]
    lowest, highest = line.prices
    price = money(lowest, places)
    if lowest != highest:
        price = f"{price} to {money(highest, places)}"
    own = "the type" if first.group is None else "the group"
    devices = [f"{driver}: {count} ({origin or own})" for driver, count, origin in line.devices()]
    return [
        first.source or "-",
        first.type,
        ",".join(line.zones) or "-",
        ",".join(line.capacity_types),
        f"{price} (sold out)" if line.sold_out else price,
        "; ".join(devices) or "-",
        ", ".join(f"{name}: {amount}" for name, amount in sorted(line.capacity.items()) if "/" in name)
        or "-",
        ",".join(line.overlays) or "-",
    ]


# --- devices ---


def _show_devices(machines: Sequence[Machine], screen: Screen) -> None:
    """Shows the devices of the first machine with each distinct set of devices, because most offerings have the same set."""
    shown: set[Any] = set()
    for machine in machines:
        key = tuple((driver, each.origin) for driver, each in machine.devices.items())
        if key in shown or not key:
            continue
        shown.add(key)
        screen.heading(f"Devices of {machine.name.lstrip('/')}")
        rows = [
            [driver, name, attributes, capacity, reach]
            for driver, devices in machine.devices.items()
            for name, attributes, capacity, reach in _rows(driver, devices)
        ]
        screen.table(("driver", "device", "attributes", "capacity", "reached by"), rows)


def _rows(driver: str, devices: Devices) -> Iterator[tuple[str, str, str, str]]:
    for position, template in devices.templates(driver):
        for device in template.spec.devices:
            values = {
                name: _value(each.known())
                for name, each in device.attributes.items()
                if each.binding_key is None
            }
            values |= {
                name: f"<{number + 1}>" for name, number in devices.bound(position, device.name).items()
            }
            amounts = [f"{name}={each.value}" for name, each in sorted(device.capacity.items())]
            attributes = ", ".join(f"{name}={value}" for name, value in sorted(values.items()))
            yield device.name, attributes or "-", ", ".join(amounts) or "-", _reach(template.spec)
    for _, tree in devices.trees(driver):
        for root in roots(tree):
            splits = ", ".join(each.name for each in root.partitions)
            yield root.name, f"can be split: {splits}" if splits else "-", "-", "its host"


def _value(attribute: DeviceAttribute) -> str:
    return ",".join(str(value) for _, value in elements_of(attribute, lists=True))


def _reach(spec: Any) -> str:
    if spec.all_nodes:
        return "every node"
    if spec.node_selector is None:
        return "its host"
    term = spec.node_selector.node_selector_terms[0]
    tests = [f"same {key}" for key in term.match_label_keys]
    tests += [
        f"{each.key} {each.operator} {','.join(each.values)}".strip()
        for each in (*term.match_expressions, *term.match_fields)
    ]
    return "nodes with " + " and ".join(tests)


# --- for programs ---


def document(found: OverlaidCatalogue) -> dict[str, Any]:
    """Everything, with the devices of each machine in the form in which they were written."""
    applied = applied_to(found)
    return {
        "overlays": [_overlay_document(each) for each in found.findings.values()],
        "machines": [_machine_document(each, applied.get(each.name, [])) for each in found.machines],
        "notes": list(found.notes),
    }


def _overlay_document(finding: OverlayFinding) -> dict[str, Any]:
    valid = conditions(finding)[0]
    return {
        "name": finding.overlay.metadata.name,
        "weight": finding.overlay.spec.weight or 0,
        "applies": list(finding.applies),
        "valid": valid.status == "True",
        "reason": valid.reason,
        "errors": finding.errors,
        "conflicts": [
            {
                "machine": each.machine,
                "type": each.type,
                "about": each.about,
                "subject": each.subject,
                "other": each.other,
                "message": str(each),
            }
            for each in finding.conflicts
        ],
    }


def _machine_document(machine: Machine, overlays: Sequence[str]) -> dict[str, Any]:
    return {
        "name": machine.name,
        "pool": machine.pool.metadata.name if machine.pool is not None else "",
        "group": machine.group.metadata.name if machine.group is not None else "",
        "type": machine.type,
        "zone": machine.offering.zone,
        "capacityType": machine.offering.capacity_type,
        "available": machine.offering.available,
        "price": money(machine.price),
        "capacity": {name: str(amount) for name, amount in machine.capacity.items()},
        "allocatable": {name: str(amount) for name, amount in machine.allocatable.items()},
        "labels": dict(machine.labels),
        "overlays": list(overlays),
        "drivers": [
            {
                "driver": driver,
                "overlay": devices.origin,
                "resourceSliceTemplates": [
                    _template_document(devices, position, template)
                    for position, template in devices.templates(driver)
                ],
                **_trees_document(devices, driver),
            }
            for driver, devices in machine.devices.items()
        ],
    }


def _trees_document(devices: Devices, driver: str) -> dict[str, Any]:
    trees = [to_builtins(template) for _, template in devices.trees(driver)]
    return {"nodeResourceSliceTemplates": trees} if trees else {}


def _template_document(devices: Devices, position: int, template: Any) -> dict[str, Any]:
    """The template as written. An attribute that is bound, in either way, carries the number of its class."""
    made: dict[str, Any] = to_builtins(template)
    for device in made["spec"].get("devices", ()):
        bound = devices.bound(position, device["name"])
        if bound:
            own = {
                name: each for name, each in device.get("attributes", {}).items() if "bindingKey" not in each
            }
            device["attributes"] = {
                **own,
                **{name: {"binding": number + 1} for name, number in bound.items()},
            }
    return made
