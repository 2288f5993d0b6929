"""Terse builders of catalogues and overlays, in the form in which people write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from allotment.api.autoscaling import InstanceType, NodeGroup, NodeOverlay, NodePool
from allotment.api.codec import decode
from allotment.autoscaler.catalogue.catalogue import Catalogue
from allotment.autoscaler.catalogue.machine import Machine
from allotment.autoscaler.catalogue.overlays import OverlaidCatalogue, evaluate

ROOT = "resource.kubernetes.io/pcieRoot"
GPU, NIC = "gpu.example.com", "nic.example.com"
Json = dict[str, Any]


def where(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


def is_type(*names: str) -> Json:
    return where("node.kubernetes.io/instance-type", "In", *names)


def template(name: str, driver: str, *devices: Json, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"driver": driver, "devices": list(devices), **spec}}


def device(name: str, **attributes: Any) -> Json:
    """Text values are strings; a key in ``{"bindingKey": …}`` is as it is."""
    values = {
        key: value if isinstance(value, dict) else {"string": value}
        for key, value in {**attributes.pop("attributes", {}), **attributes}.items()
    }
    return {"name": name, "attributes": values}


def binding(*devices: tuple[str, str], attributes: Sequence[str] = (ROOT,)) -> Json:
    return {
        "attributes": list(attributes),
        "deviceSelectors": [{"resourceSliceTemplate": place, "device": name} for place, name in devices],
    }


def devices(*templates: Json, bindings: Sequence[Json] = ()) -> Json:
    return {"resourceSliceTemplates": list(templates), "attributeBindings": list(bindings)}


def overlay(name: str = "overlay", *requirements: Json, **spec: Any) -> NodeOverlay:
    return decode(NodeOverlay, {"metadata": {"name": name}, "spec": {"requirements": requirements, **spec}})


def gpus(count: int = 1, **attributes: Any) -> Json:
    return devices(template("gpus", GPU, *(device(f"gpu-{number}", **attributes) for number in range(count))))


def type_(
    name: str,
    offers: Mapping[str, str] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> InstanceType:
    """``offers`` are prices by zone; a zone with a plus is of spot machines."""
    offerings = [
        {
            "zone": zone.removesuffix("+"),
            "capacityType": "spot" if zone.endswith("+") else "on-demand",
            "price": price,
        }
        for zone, price in (offers or {"a": "1"}).items()
    ]
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    whole = {"labels": dict(labels or {}), "capacity": capacity, "offerings": offerings, **spec}
    return decode(InstanceType, {"metadata": {"name": name}, "spec": whole})


def pool(name: str, *requirements: Json, labels: Mapping[str, str] | None = None, **spec: Any) -> NodePool:
    made = {"metadata": {"labels": dict(labels or {})}, "spec": {"requirements": list(requirements)}}
    return decode(NodePool, {"metadata": {"name": name}, "spec": {"template": made, **spec}})


def group(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> NodeGroup:
    made = {"metadata": {"labels": dict(labels or {})}, "status": {"capacity": {"cpu": "4"}}}
    return decode(NodeGroup, {"metadata": {"name": name}, "spec": {"max": 3, "template": made, **spec}})


def catalogue(*objects: InstanceType | NodePool | NodeGroup | NodeOverlay) -> Catalogue:
    return Catalogue(
        {each.metadata.name: each for each in objects if isinstance(each, InstanceType)},
        {each.metadata.name: each for each in objects if isinstance(each, NodePool)},
        {each.metadata.name: each for each in objects if isinstance(each, NodeGroup)},
        {each.metadata.name: each for each in objects if isinstance(each, NodeOverlay)},
    )


def evaluated(*objects: InstanceType | NodePool | NodeGroup | NodeOverlay) -> OverlaidCatalogue:
    return evaluate(catalogue(*objects))


def machine(*objects: InstanceType | NodePool | NodeGroup | NodeOverlay) -> Machine:
    """The one machine that there is."""
    [found] = evaluated(*objects).machines
    return found


def origins(machines: Iterable[Machine]) -> dict[str, dict[str, str]]:
    """Which overlay each machine's drivers come from."""
    return {each.name: {driver: made.origin for driver, made in each.devices.items()} for each in machines}
