"""Applies overlays to a catalogue: which overlay changes what about which machine, and where overlays conflict.

Machines are created first (every type in every offering for every pool that may launch it, and the next node of every group),
then overlays are applied to them. The rules:

* *Devices* are decided by machine and driver: among the applicable overlays, the one with the highest weight determines
  everything that the driver will publish; it replaces the instance type's own templates. Two overlays with the highest weight
  are in conflict: both report this, and the driver is left out, because nobody knows what it will publish.
* *Prices* are decided by machine, *capacity* by machine and resource. Overlays are taken by weight and, for equal weights,
  the later name first, as in Karpenter. An overlay that has the same weight as an earlier one for the same value is in
  conflict, and neither its price nor its capacity counts anywhere.
* An invalid overlay does not count at all.

An overlay that changes only the price keeps the devices, and vice versa. The order of overlays does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from allotment.api.autoscaling import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODE_GROUP,
    NODE_POOL,
    ON_DEMAND,
    ZONE,
    DynamicResources,
    InstanceType,
    NodeGroup,
    NodeOverlay,
    NodePool,
    Offering,
)
from allotment.api.quantity import Quantity
from allotment.api.validation import validate_node_overlay
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.autoscaler.catalogue.machine import Devices, Machine, unresolved
from allotment.autoscaler.catalogue.requirements import (
    NONE,
    Possible,
    both,
    contradiction,
    failed,
    labelled,
    one,
    passing,
)

__all__ = ["OverlaidCatalogue", "OverlayConflict", "OverlayFinding", "evaluate"]

PRICE, CAPACITY, DEVICES, LABEL = "price", "capacity", "devices", "label"
_NAMED = 3
"""How many conflicting overlays are named, for one driver of one machine."""


@dataclass(frozen=True, slots=True, order=True)
class OverlayConflict:
    """A statement of an overlay about a machine that cannot be used."""

    machine: str
    type: str
    about: str  # PRICE, CAPACITY, DEVICES; LABEL: the host has no certain value of a label
    subject: str  # the resource or the driver; empty for a price
    other: str  # the other overlay; of LABEL, the label

    def __str__(self) -> str:
        what = {PRICE: "price", CAPACITY: f"capacity {self.subject}"}.get(
            self.about, f"driver {self.subject}"
        )
        if self.about == LABEL:
            return f"{self.type}: {what}: matchLabelKeys names {self.other}, of which the node will have no certain value"
        return f"{self.type}: {what}: overlay {self.other} has the same weight"


@dataclass(slots=True)
class OverlayFinding:
    """The result for one overlay."""

    overlay: NodeOverlay
    errors: list[str] = field(default_factory=list)  # why it does not count at all, with field paths
    applies: list[str] = field(default_factory=list)  # names of the machines that meet its requirements
    conflicts: list[OverlayConflict] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OverlaidCatalogue:
    """Machines with overlays applied, by pool (heavier first), type, zone and capacity type; and findings by overlay."""

    machines: tuple[Machine, ...]
    findings: Mapping[str, OverlayFinding]
    notes: tuple[str, ...] = ()  # unusable parts of the catalogue itself


def evaluate(catalogue: Catalogue, overlays: Iterable[NodeOverlay] = ()) -> OverlaidCatalogue:
    """The catalogue with its own overlays and these; these replace overlays of the same names in the catalogue."""
    named = {**catalogue.overlays, **{each.metadata.name: each for each in overlays}}
    findings = {name: OverlayFinding(named[name]) for name in sorted(named)}
    sound: list[_Overlay] = []
    for finding in findings.values():
        finding.errors = [str(error) for error in validate_node_overlay(finding.overlay)]
        if not finding.errors:
            sound.append(_Overlay(finding))
    sound.sort(key=lambda each: each.name, reverse=True)
    sound.sort(key=lambda each: each.weight, reverse=True)
    machines, notes = _usable(_machines(catalogue))
    matches = [
        [each for each in sound if failed(machine.possible, each.tests) is None] for machine in machines
    ]
    for machine, applied in zip(machines, matches, strict=True):
        for each in applied:
            each.finding.applies.append(machine.name)
    _refuse_ties(machines, matches, sound)
    made = tuple([_overlaid(machine, applied) for machine, applied in zip(machines, matches, strict=True)])
    for finding in findings.values():
        finding.conflicts.sort()
    return OverlaidCatalogue(made, findings, notes)


class _Overlay:
    """A valid overlay, prepared for comparison with every machine."""

    def __init__(self, finding: OverlayFinding) -> None:
        self.finding = finding
        self.name = finding.overlay.metadata.name
        self.spec = finding.overlay.spec
        self.weight = self.spec.weight or 0
        self.tests = passing(self.spec.requirements)
        self.priced = self.spec.price is not None or self.spec.price_adjustment is not None
        self.counts = True  # for price and capacity
        resources = self.spec.dynamic_resources
        self.devices = Devices(self.name, resources) if resources is not None else None

    def price_of(self, price: Decimal) -> Decimal:
        if self.spec.price is not None:
            return Decimal(self.spec.price)
        change = self.spec.price_adjustment or "+0"
        if change.endswith("%"):
            return price * (100 + Decimal(change[:-1])) / 100
        return max(price + Decimal(change), Decimal(0))


# --- machines, before overlays ---


def _usable(machines: Iterable[Machine]) -> tuple[list[Machine], tuple[str, ...]]:
    """Machines whose own devices can be predicted, and the errors of the others."""
    found, notes = [], dict[str, None]()
    for machine in machines:
        labels = {
            driver: unresolved(each, driver, machine.labels) for driver, each in machine.devices.items()
        }
        for driver, label in labels.items():
            if label is not None:
                notes[str(OverlayConflict(machine.name, machine.type, LABEL, driver, label))] = None
        if any(labels.values()):
            devices = {driver: each for driver, each in machine.devices.items() if labels[driver] is None}
            machine = replace(machine, devices=devices)
        found.append(machine)
    return found, tuple(notes)


def _machines(catalogue: Catalogue) -> Iterable[Machine]:
    pools = sorted(catalogue.pools.values(), key=lambda pool: (-(pool.spec.weight or 0), pool.metadata.name))
    types = [catalogue.types[name] for name in sorted(catalogue.types)]
    keys = {
        key for each in types for key in (*each.spec.labels, *(test.key for test in each.spec.requirements))
    }
    # Labels that other types have, and this one does not, are known to be absent.
    unlabelled = dict.fromkeys(sorted(keys), NONE)
    shapes = [_Shape(each, unlabelled) for each in types]
    for pool in (*pools, *([] if pools else [None])):
        wanted = _wanted(pool)
        for shape in shapes:
            for offering, own in shape.offerings:
                if contradiction(own, wanted) is None:
                    yield _machine(shape, offering, pool, both([*own.items(), *wanted.items()]))
    for name in sorted(catalogue.groups):
        yield _of_group(catalogue.groups[name])


class _Shape:
    """An instance type, with what all of its machines have in common."""

    def __init__(self, type_: InstanceType, unlabelled: Possible) -> None:
        self.name, self.spec = type_.metadata.name, type_.spec
        zero, spec = Quantity.parse("0"), type_.spec
        self.allocatable = {
            name: each - spec.overhead.get(name, zero) for name, each in spec.capacity.items()
        }
        self.devices = _own(spec.dynamic_resources)
        labels = {**spec.labels, INSTANCE_TYPE: self.name}
        known = both([*labelled(labels).items(), *passing(spec.requirements).items()])
        self.offerings: list[tuple[Offering, Possible]] = []
        for offering in sorted(spec.offerings, key=lambda each: (each.zone, each.capacity_type)):
            place = {ZONE: one(offering.zone), CAPACITY_TYPE: one(offering.capacity_type)}
            self.offerings.append((offering, {**unlabelled, **both([*known.items(), *place.items()])}))


def _own(resources: DynamicResources | None) -> Mapping[str, Devices]:
    if resources is None:
        return {}
    devices = Devices("", resources)
    return dict.fromkeys(devices.drivers, devices)


def _wanted(pool: NodePool | None) -> Possible:
    """The pool's requirements on the labels of its machines."""
    if pool is None:
        return {}
    template = pool.spec.template
    labels = {**template.metadata.labels, NODE_POOL: pool.metadata.name}
    return both([*passing(template.spec.requirements).items(), *labelled(labels).items()])


def _machine(shape: _Shape, offering: Offering, pool: NodePool | None, possible: Possible) -> Machine:
    return Machine(
        type=shape.name,
        offering=offering,
        pool=pool,
        group=None,
        possible=possible,
        labels={key: values.only for key, values in possible.items() if values.only is not None},
        taints=pool.spec.template.spec.taints if pool is not None else (),
        capacity=shape.spec.capacity,
        allocatable=shape.allocatable,
        price=Decimal(offering.price),
        devices=shape.devices,
    )


def _of_group(group: NodeGroup) -> Machine:
    template = group.spec.template
    labels = {**template.metadata.labels, NODE_GROUP: group.metadata.name}
    return Machine(
        type=labels.get(INSTANCE_TYPE, group.metadata.name),
        offering=Offering(
            zone=labels.get(ZONE, ""),
            capacity_type=labels.get(CAPACITY_TYPE, ON_DEMAND),
            price=group.spec.price or "0",
        ),
        pool=None,
        group=group,
        possible=labelled(labels),
        labels=labels,
        taints=template.spec.taints,
        capacity=template.status.capacity,
        allocatable={**template.status.capacity, **template.status.allocatable},
        price=Decimal(group.spec.price or "0"),
        devices=_own(group.spec.dynamic_resources),
    )


# --- overlays on them ---


def _refuse_ties(
    machines: Sequence[Machine], matches: Sequence[Sequence[_Overlay]], order: Iterable[_Overlay]
) -> None:
    """Finds overlays that set a price or capacity with the same weight as an earlier overlay."""
    touched: dict[str, list[int]] = {}
    for number, applied in enumerate(matches):
        for each in applied:
            touched.setdefault(each.name, []).append(number)
    last: dict[tuple[int, str], _Overlay] = {}
    for overlay in order:
        subjects = [
            *([PRICE] if overlay.priced else []),
            *(f"{CAPACITY}:{name}" for name in overlay.spec.capacity),
        ]
        mine = [(number, subject) for number in touched.get(overlay.name, ()) for subject in subjects]
        for number, subject in mine:
            before = last.get((number, subject))
            if before is not None and before.weight == overlay.weight:
                about, _, resource = subject.partition(":")
                machine = machines[number]
                overlay.counts = False
                overlay.finding.conflicts.append(
                    OverlayConflict(machine.name, machine.type, about, resource, before.name)
                )
        if overlay.counts:
            last.update(dict.fromkeys(mine, overlay))


def _overlaid(machine: Machine, applied: Sequence[_Overlay]) -> Machine:
    """The machine with its overlays, which come in order of weight."""
    price = next(
        (each.price_of(machine.price) for each in applied if each.counts and each.priced), machine.price
    )
    extra: dict[str, Quantity] = {}
    for each in applied:
        if each.counts:
            extra = {**each.spec.capacity, **extra}
    devices = _devices(machine, applied)
    if price == machine.price and not extra and devices == machine.devices:
        return machine
    return replace(
        machine,
        price=price,
        capacity={**machine.capacity, **extra},
        allocatable={**machine.allocatable, **extra},
        devices=devices,
    )


def _devices(machine: Machine, applied: Sequence[_Overlay]) -> Mapping[str, Devices]:
    found = dict(machine.devices)
    drivers: dict[str, list[_Overlay]] = {}
    for each in applied:
        for driver in each.devices.drivers if each.devices is not None else ():
            drivers.setdefault(driver, []).append(each)
    for driver, sayers in drivers.items():
        best = [each for each in sayers if each.weight == sayers[0].weight]
        if len(best) > 1:
            found.pop(driver, None)
            for each in best:
                others = [other.name for other in best[: _NAMED + 1] if other is not each][:_NAMED]
                each.finding.conflicts += [
                    OverlayConflict(machine.name, machine.type, DEVICES, driver, other) for other in others
                ]
        elif (devices := best[0].devices) is not None:
            found[driver] = devices
            if (label := unresolved(devices, driver, machine.labels)) is not None:
                del found[driver]
                best[0].finding.conflicts.append(
                    OverlayConflict(machine.name, machine.type, LABEL, driver, label)
                )
    return dict(sorted(found.items()))
