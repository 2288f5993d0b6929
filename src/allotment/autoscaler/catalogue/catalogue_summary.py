"""A summary of the available machines for people: one line for machines that differ only in their place, and a short
description of each overlay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allotment.api.autoscaling import NodeOverlay, NodeResourceSliceTemplate
    from allotment.api.quantity import Quantity
    from allotment.api.semantic import ResourceInstance
    from allotment.autoscaler.catalogue.machine import Machine
    from allotment.autoscaler.catalogue.overlays import OverlaidCatalogue


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """Machines of one type from one pool with the same contents. ``overlays`` are those that apply to any of them."""

    machines: Sequence[Machine]
    overlays: tuple[str, ...]

    @property
    def prices(self) -> tuple[Decimal, Decimal]:
        """The lowest and the highest price."""
        return min(each.price for each in self.machines), max(each.price for each in self.machines)

    @property
    def listed(self) -> tuple[Decimal, Decimal]:
        """The prices before overlays."""
        listed = [Decimal(each.offering.price) for each in self.machines]
        return min(listed), max(listed)

    @property
    def zones(self) -> list[str]:
        return list(dict.fromkeys(each.offering.zone for each in self.machines if each.offering.zone))

    @property
    def capacity_types(self) -> list[str]:
        return list(dict.fromkeys(each.offering.capacity_type for each in self.machines))

    @property
    def sold_out(self) -> bool:
        return not any(each.offering.available for each in self.machines)

    @property
    def capacity(self) -> Mapping[str, Quantity]:
        return self.machines[0].capacity

    def devices(self) -> Iterator[tuple[str, int, str]]:
        """The driver, the number, and the overlay that says so; empty: the type or group does."""
        for driver, devices in self.machines[0].devices.items():
            count = sum(len(template.spec.devices) for _, template in devices.templates(driver))
            count += sum(len(roots(template)) for _, template in devices.trees(driver))
            yield driver, count, devices.origin


def roots(template: NodeResourceSliceTemplate) -> Sequence[ResourceInstance]:
    """The instances of a tree before it is split."""
    tree = template.spec.partitionable
    return tree.resource_instances if tree is not None else ()


def assortment(found: OverlaidCatalogue, *, apart: bool = False) -> list[SummaryLine]:
    """The lines in the order of the evaluation. ``apart`` gives each offering a line of its own."""
    applied = applied_to(found)
    groups: dict[Any, list[Machine]] = {}
    for machine in found.machines:
        origins = tuple((driver, each.origin) for driver, each in machine.devices.items())
        other = tuple(sorted((name, str(amount)) for name, amount in machine.capacity.items()))
        key = machine.name if apart else (machine.source, machine.type, origins, other)
        groups.setdefault(key, []).append(machine)
    return [
        SummaryLine(alike, tuple(sorted({name for each in alike for name in applied.get(each.name, ())})))
        for alike in groups.values()
    ]


def applied_to(found: OverlaidCatalogue) -> dict[str, list[str]]:
    """The overlays of each machine, by its name."""
    applied: dict[str, list[str]] = {}
    for name, finding in found.findings.items():
        for machine in finding.applies:
            applied.setdefault(machine, []).append(name)
    return applied


def says(overlay: NodeOverlay) -> Iterator[str]:
    """The changes that an overlay makes."""
    spec = overlay.spec
    if spec.price is not None or spec.price_adjustment is not None:
        yield f"price {spec.price or spec.price_adjustment}"
    for name, amount in sorted(spec.capacity.items()):
        yield f"{name}: {amount}"
    counts: dict[str, int] = {}
    for template in spec.dynamic_resources.resource_slice_templates if spec.dynamic_resources else ():
        counts[template.spec.driver] = counts.get(template.spec.driver, 0) + len(template.spec.devices)
    for tree in spec.dynamic_resources.node_resource_slice_templates if spec.dynamic_resources else ():
        counts[tree.spec.driver_name] = counts.get(tree.spec.driver_name, 0) + len(roots(tree))
    for driver, count in sorted(counts.items()):
        yield f"{driver}: {'1 device' if count == 1 else f'{count} devices'}"


def money(price: Decimal, places: int = 0) -> str:
    """A price as it was written, without trailing zeros, but with at least so many decimals."""
    return f"{price:.{max(places, decimals(price))}f}"


def decimals(price: Decimal) -> int:
    return max(0, -int(price.normalize().as_tuple().exponent))
