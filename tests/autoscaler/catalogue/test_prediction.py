"""Predicted and published slices: what counts as ready, and what is told of differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pytest

from allotment.api.core import Node
from allotment.api.meta import ObjectMeta, OwnerReference
from allotment.api.quantity import Quantity
from allotment.api.resource import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceTaint,
    ResourceSlice,
)
from allotment.api.unknown_attribute import UnknownAttribute
from allotment.autoscaler.catalogue.machine import node_of
from allotment.autoscaler.catalogue.prediction import awaited, differences, published_by
from tests.allocator.build import slice_
from tests.autoscaler.build import GPU, NIC, ROOT, binding, device, devices, machine, overlay, template, type_

replace = msgspec.structs.replace
MACHINE = machine(
    type_("t"),
    overlay(
        "o",
        dynamicResources=devices(
            template("gpus", GPU, *(device(f"gpu-{number}", model="h100") for number in range(2))),
            template("nics", NIC, *(device(f"nic-{number}") for number in range(2))),
            bindings=[binding(("gpus", f"gpu-{number}"), ("nics", f"nic-{number}")) for number in range(2)],
        ),
    ),
)
NODE, PREDICTED = node_of(MACHINE, "new")


@dataclass
class Reality:
    """What drivers publish: the prediction with values in place of what was not known, then changed by a test."""

    slices: list[ResourceSlice]

    @classmethod
    def as_predicted(cls) -> Reality:
        return cls([_each(made, _known) for made in PREDICTED])

    def change(self, name: str, how: Callable[[Device], Device | None]) -> Reality:
        return Reality(
            [_each(made, lambda each: how(each) if each.name == name else each) for made in self.slices]
        )

    def attribute(self, device: str, name: str, value: DeviceAttribute | None) -> Reality:
        def changed(each: Device) -> Device:
            attributes = {key: old for key, old in each.attributes.items() if key != name}
            return replace(each, attributes=attributes | ({name: value} if value is not None else {}))

        return self.change(device, changed)


def _each(made: ResourceSlice, how: Callable[[Device], Device | None]) -> ResourceSlice:
    kept = [found for each in made.spec.devices if (found := how(each)) is not None]
    return replace(made, spec=replace(made.spec, devices=tuple(kept)))


def _known(device: Device) -> Device:
    """The root of a device is called after its number."""
    values = {
        name: DeviceAttribute(string_value=f"root-{device.name[-1]}")
        if isinstance(each, UnknownAttribute)
        else each
        for name, each in device.attributes.items()
    }
    return replace(device, attributes=values)


REAL = Reality.as_predicted()
TEXT = DeviceAttribute(string_value="other")

CASES: dict[str, tuple[Reality, list[str]]] = {
    "as predicted": (REAL, []),
    "a device less": (REAL.change("gpu-1", lambda each: None), [f"{GPU}/gpu-1: is missing"]),
    "a device more": (
        Reality([*REAL.slices, slice_(Device(name="gpu-9"), driver=GPU, name="more", pool="more")]),
        [f"{GPU}/gpu-9: was not predicted"],
    ),
    "a device of a driver of which nothing was said": (
        Reality([*REAL.slices, slice_(Device(name="x"), driver="x.example.com")]),
        [],
    ),
    "another value": (
        REAL.attribute("gpu-0", "model", TEXT),
        [f"{GPU}/gpu-0: attribute {GPU}/model: h100 was predicted, but it is other"],
    ),
    "a value under its full name": (
        REAL.attribute("gpu-0", "model", None).attribute(
            "gpu-0", f"{GPU}/model", DeviceAttribute(string_value="h100")
        ),
        [],
    ),
    "a value less": (
        REAL.attribute("gpu-0", "model", None),
        [f"{GPU}/gpu-0: attribute {GPU}/model: h100 was predicted, but it is missing"],
    ),
    "a value more": (REAL.attribute("gpu-0", "uuid", TEXT), []),
    "an unknown value that does not come": (
        REAL.attribute("nic-1", ROOT, None),
        [f"{NIC}/nic-1: attribute {ROOT}: was predicted, but is missing"],
    ),
    "bound values that differ": (
        REAL.attribute("nic-1", ROOT, TEXT),
        [f"{NIC}/nic-1: attribute {ROOT}: should be equal to that of {GPU}/gpu-1, but is not"],
    ),
    "values of different bindings that are equal": (
        REAL.attribute("gpu-1", ROOT, DeviceAttribute(string_value="root-0")).attribute(
            "nic-1", ROOT, DeviceAttribute(string_value="root-0")
        ),
        [
            f"{GPU}/gpu-1: attribute {ROOT}: should differ from that of {GPU}/gpu-0, but does not",
            f"{NIC}/nic-1: attribute {ROOT}: should differ from that of {GPU}/gpu-0, but does not",
        ],
    ),
    "values of another type": (
        REAL.attribute("nic-0", ROOT, DeviceAttribute(int_value=0)),
        [f"{NIC}/nic-0: attribute {ROOT}: should be equal to that of {GPU}/gpu-0, but is not"],
    ),
    "a list that has the value": (
        REAL.attribute("nic-0", ROOT, DeviceAttribute(string_values=("root-7", "root-0"))),
        [],
    ),
    "a taint": (
        REAL.change("gpu-0", lambda each: replace(each, taints=(DeviceTaint(key="a", effect="NoSchedule"),))),
        [f"{GPU}/gpu-0: taints: not as predicted"],
    ),
    "more capacity than was predicted": (
        REAL.change(
            "gpu-0", lambda each: replace(each, capacity={"m": DeviceCapacity(value=Quantity.parse("1"))})
        ),
        [],
    ),
}


@pytest.mark.parametrize(("reality", "expected"), CASES.values(), ids=CASES)
def test_differences(reality: Reality, expected: list[str]) -> None:
    assert [str(each) for each in differences(PREDICTED, reality.slices)] == expected


def test_less_capacity_than_was_predicted() -> None:
    def amount(value: str) -> dict[str, DeviceCapacity]:
        return {"m": DeviceCapacity(value=Quantity.parse(value))}

    before, after = (
        slice_(Device(name="d", capacity=amount("80Gi"))),
        slice_(Device(name="d", capacity=amount("40Gi"))),
    )
    assert [str(each) for each in differences([before], [after])] == [
        f"{GPU}/d: capacity m: 80Gi was predicted, but it is 40Gi"
    ]


def test_only_the_newest_generation_counts() -> None:
    old = slice_(Device(name="old"), name="old", generation=1)
    new = slice_(Device(name="new"), name="new", generation=2)
    assert differences([slice_(Device(name="new"))], [old, new]) == []


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([], [GPU, NIC]),
        ([slice_(driver=GPU)], [NIC]),
        ([slice_(driver=GPU), slice_(driver=NIC, of=2)], [NIC]),  # the second of two slices is not there yet
        ([slice_(driver=GPU), slice_(driver=NIC, of=2), slice_(driver=NIC, of=2, name="b")], []),
        ([slice_(driver=GPU), slice_(driver=NIC), slice_(driver=NIC, of=2, generation=2, name="b")], [NIC]),
    ],
)
def test_drivers_that_are_still_awaited(slices: list[ResourceSlice], expected: list[str]) -> None:
    assert awaited([NIC, GPU], slices) == expected


def test_the_slices_of_a_node() -> None:
    node = Node(metadata=ObjectMeta(name="new", uid="u"))
    mine, others = slice_(on="new", name="mine"), slice_(on="old", name="others")
    reached = slice_(everywhere=True, name="everywhere")
    owner = OwnerReference(api_version="v1", kind="Node", name="new", uid="u")
    owned = replace(reached, metadata=ObjectMeta(name="owned", owner_references=(owner,)))
    namesake = replace(
        reached, metadata=ObjectMeta(name="namesake", owner_references=(replace(owner, uid="before"),))
    )
    found = published_by(node, [mine, others, reached, owned, namesake])
    assert [each.metadata.name for each in found] == ["mine", "owned"]
