"""Honest fleets to measure on: every device has its own uuid and a PCI root of its node, and nodes are in many
different states of use."""

from __future__ import annotations

import random
from collections.abc import Sequence

from allotment.allocator.fleet import Fleet
from allotment.allocator.ledger import Holding
from allotment.allocator.pool import DeviceID
from allotment.api.core import Node
from allotment.api.meta import ObjectMeta
from allotment.api.quantity import Quantity
from allotment.api.resource import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CapacityRequirements,
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)

DRIVER = "gpu.example.com"
PCI_ROOT = "resource.kubernetes.io/pcieRoot"


def text(value: str) -> DeviceAttribute:
    return DeviceAttribute(string_value=value)


def gpu(node: int, index: int, *, model: str = "A100", memory: str = "40Gi") -> Device:
    """A whole GPU with six attributes, two of which nobody else has."""
    return Device(
        name=f"gpu-{index}",
        attributes={
            "uuid": text(f"GPU-{node:06x}-{index:02x}"),
            "model": text(model),
            "driverVersion": DeviceAttribute(version_value="550.54.15"),
            "index": DeviceAttribute(int_value=index),
            "ecc": DeviceAttribute(bool_value=True),
            PCI_ROOT: text(f"pci{node:06x}:{index // 8}"),
        },
        capacity={"memory": DeviceCapacity(value=Quantity.parse(memory))},
    )


def mig(node: int, index: int, part: int, slices: int, memory: str) -> Device:
    """A partition of a GPU: it takes slices and memory from the card's counters."""
    use = DeviceCounterConsumption(
        counter_set=f"card-{index}",
        counters={
            "slices": Counter(value=Quantity.of(slices)),
            "memory": Counter(value=Quantity.parse(memory)),
        },
    )
    return Device(
        name=f"gpu-{index}-mig-{slices}g-{part}",
        attributes={
            "uuid": text(f"MIG-{node:06x}-{index:02x}-{slices}-{part}"),
            "model": text("A100-MIG"),
            "profile": text(f"{slices}g"),
            PCI_ROOT: text(f"pci{node:06x}:{index // 4}"),
        },
        capacity={"memory": DeviceCapacity(value=Quantity.parse(memory))},
        consumes_counters=(use,),
    )


def nic(node: int, index: int) -> Device:
    """A network card of which several claims can have a share of the bandwidth."""
    policy = CapacityRequestPolicy(
        default=Quantity.parse("1G"),
        valid_range=CapacityRequestPolicyRange(min=Quantity.parse("1G"), step=Quantity.parse("1G")),
    )
    return Device(
        name=f"nic-{index}",
        attributes={
            "uuid": text(f"NIC-{node:06x}-{index}"),
            "model": text("CX7"),
            PCI_ROOT: text(f"pci{node:06x}:{index}"),
        },
        capacity={"bandwidth": DeviceCapacity(value=Quantity.parse("100G"), request_policy=policy)},
        allow_multiple_allocations=True,
    )


def node_name(number: int) -> str:
    return f"node-{number:05d}"


def node(number: int) -> Node:
    return Node(metadata=ObjectMeta(name=node_name(number)))


def node_slice(
    number: int,
    devices: Sequence[Device],
    *,
    suffix: str = "",
    of: int = 1,
    counters: Sequence[CounterSet] = (),
) -> ResourceSlice:
    name = node_name(number)
    return ResourceSlice(
        metadata=ObjectMeta(name=f"{name}-gpu{suffix}"),
        spec=ResourceSliceSpec(
            driver=DRIVER,
            pool=ResourcePool(name=name, generation=1, resource_slice_count=of),
            node_name=name,
            devices=tuple(devices),
            shared_counters=tuple(counters),
        ),
    )


def device_class(name: str, expression: str) -> DeviceClass:
    selector = DeviceSelector(cel=CELDeviceSelector(expression=expression))
    return DeviceClass(metadata=ObjectMeta(name=name), spec=DeviceClassSpec(selectors=(selector,)))


CLASSES = (
    device_class("gpu", f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "A100"'),
    device_class("mig", f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "A100-MIG"'),
    device_class("nic", f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "CX7"'),
)


def request(
    name: str,
    *,
    count: int = 1,
    class_name: str = "gpu",
    selector: str = "",
    capacity: dict[str, str] | None = None,
) -> DeviceRequest:
    selectors = (DeviceSelector(cel=CELDeviceSelector(expression=selector)),) if selector else ()
    wanted = {key: Quantity.parse(value) for key, value in (capacity or {}).items()}
    return DeviceRequest(
        name=name,
        exactly=ExactDeviceRequest(
            device_class_name=class_name,
            allocation_mode="ExactCount",
            count=count,
            selectors=selectors,
            capacity=CapacityRequirements(requests=wanted) if wanted else None,
        ),
    )


def claim(name: str, *requests: DeviceRequest, match: str = "", distinct: str = "") -> ResourceClaim:
    constraints = []
    if match:
        constraints.append(DeviceConstraint(match_attribute=match))
    if distinct:
        constraints.append(DeviceConstraint(distinct_attribute=distinct))
    devices = DeviceClaim(requests=requests, constraints=tuple(constraints))
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace="bench"), spec=ResourceClaimSpec(devices=devices)
    )


def gpu_fleet(nodes: int, devices: int = 8) -> Fleet:
    """Nodes with so many whole GPUs each."""
    slices = [node_slice(n, [gpu(n, index) for index in range(devices)]) for n in range(nodes)]
    return Fleet([node(n) for n in range(nodes)], slices, CLASSES)


def different_fleet(nodes: int, devices: int = 8) -> Fleet:
    """Nodes of which no two have the same memory sizes."""
    slices = [
        node_slice(n, [gpu(n, index, memory=f"{40960 + n * devices + index}Mi") for index in range(devices)])
        for n in range(nodes)
    ]
    return Fleet([node(n) for n in range(nodes)], slices, CLASSES)


def occupy(fleet: Fleet, seed: int, *, spare: int = 0) -> int:
    """Gives some devices of each node to claims, at random but leaving ``spare`` free. Returns how many different
    states of use there are."""
    rng = random.Random(seed)
    states = set()
    for name, place in fleet.places.items():
        devices = fleet.site(place).devices
        taken = sorted(rng.sample(range(len(devices)), rng.randint(0, len(devices) - spare)))
        states.add(tuple(taken))
        held = tuple(Holding(devices[position].id, None, (), False) for position in taken)
        if held:
            fleet.ledger.hold(f"others/{name}", held)
    return len(states)


def held_ids(fleet: Fleet) -> list[DeviceID]:
    return [
        device.id
        for place in fleet.places.values()
        for device in fleet.site(place).devices
        if fleet.ledger.exclusive(device.id)
    ]


def mixed_fleet(nodes: int, shapes: int = 20) -> Fleet:
    """Nodes of several shapes: whole GPUs, partitioned ones, shared network cards, in different numbers."""
    slices: list[ResourceSlice] = []
    for n in range(nodes):
        shape = n % shapes
        whole = [gpu(n, index, memory="40Gi" if shape % 2 else "80Gi") for index in range(2 + shape % 7)]
        cards = [nic(n, index) for index in range(1 + shape % 3)]
        split = 1 + shape % 4
        parts = [
            mig(n, 10 + card, part, size, memory)
            for card in range(split)
            for size, memory, count in ((1, "5Gi", 7), (2, "10Gi", 3), (3, "20Gi", 2), (7, "40Gi", 1))
            for part in range(count)
        ]
        counters = [
            CounterSet(
                name=f"card-{10 + card}",
                counters={
                    "slices": Counter(value=Quantity.of(7)),
                    "memory": Counter(value=Quantity.parse("40Gi")),
                },
            )
            for card in range(split)
        ]
        slices.append(node_slice(n, [*whole, *cards], of=3))
        slices.append(node_slice(n, parts, suffix="-mig", of=3))
        slices.append(node_slice(n, [], suffix="-counters", of=3, counters=counters))
    return Fleet([node(n) for n in range(nodes)], slices, CLASSES)
