"""Compares what a machine published with the prediction, and says whether it has published everything that we expect.

A new node counts as ready when each requested driver has a complete pool. Then its devices are compared with the prediction
by driver and name, because the driver chooses the names of pools and slices. Known values must be as predicted. A value that
was not known must exist, be equal where it was bound, and differ between different bindings, because plans counted on both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from allotment.allocator.constraint import Element, elements_of
from allotment.allocator.features import ALL
from allotment.allocator.pool import whole_pool
from allotment.allocator.semantic_pools import Instance, partition_pools
from allotment.api import semantic
from allotment.api.core import Node
from allotment.api.resource import Device, DeviceAttribute, ResourceSlice
from allotment.api.unknown_attribute import UnknownAttribute
from allotment.autoscaler.catalogue.attribute_bindings import qualified

__all__ = ["awaited", "differences"]


class PredictionDifference(NamedTuple):
    """A difference from the prediction."""

    driver: str
    device: str
    words: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.device}: {self.words}"


def published_by(node: Node, slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The slices of a node: those that only it reaches, and those whose owner it is."""
    name, uid = node.metadata.name, node.metadata.uid
    return [
        each
        for each in slices
        if each.spec.node_name == name
        or any(
            owner.kind == "Node" and owner.name == name and owner.uid == uid
            for owner in each.metadata.owner_references
        )
    ]


def awaited(
    drivers: Iterable[str],
    published: Iterable[ResourceSlice],
    trees: Iterable[semantic.NodeResourceSlice] = (),
) -> list[str]:
    """The drivers that have neither a complete pool among the slices of a node yet, nor a NodeResourceSlice of the node."""
    complete = {driver for driver, pool in _newest(published) if _is_complete(pool)}
    return sorted(set(drivers) - complete - {each.spec.driver_name for each in trees})


def tree_differences(
    predicted: Iterable[semantic.NodeResourceSlice], published: Iterable[semantic.NodeResourceSlice]
) -> list[PredictionDifference]:
    """The differences between NodeResourceSlices of one node, by driver and instance; as with devices, additional attributes
    do no harm."""
    before, after = _instances(predicted), _instances(published)
    found = _unmatched(before, after)
    for id in before.keys() & after.keys():
        for name, value in before[id].items():
            if name not in after[id]:
                found.append(PredictionDifference(*id, f"{name}: was predicted, but is missing"))
            elif after[id][name] != value:
                found.append(
                    PredictionDifference(*id, f"{name}: {value} was predicted, but it is {after[id][name]}")
                )
    return sorted(found)


def _unmatched(before: Collection[ID], after: Collection[ID]) -> list[PredictionDifference]:
    """What is missing, and what was not predicted of drivers of which something was."""
    drivers = {driver for driver, _ in before}
    found = [PredictionDifference(*id, "is missing") for id in before if id not in after]
    return found + [
        PredictionDifference(*id, "was not predicted")
        for id in after
        if id[0] in drivers and id not in before
    ]


def _instances(slices: Iterable[semantic.NodeResourceSlice]) -> dict[ID, dict[str, Any]]:
    """Attributes of the instances that can be allocated, by ``map.name``."""
    pools = partition_pools("", [replace(each, spec=replace(each.spec, node_name="")) for each in slices])
    return {
        (device.id.driver, device.id.device): {
            f"{map}.{name}": value for map, values in device.maps.items() for name, value in values.items()
        }
        for pool in pools
        for device in pool.devices
        if isinstance(device, Instance)
    }


def differences(
    predicted: Iterable[ResourceSlice], published: Iterable[ResourceSlice]
) -> list[PredictionDifference]:
    """The differences, by driver and device. Drivers without predicted devices do not matter, nor do slices that are being
    replaced: only the newest generation of each pool counts."""
    before = _devices(predicted)
    after = _devices(each for _, pool in _newest(published) for each in pool)
    found = _unmatched(before, after)
    for id in before.keys() & after.keys():
        found += [PredictionDifference(*id, words) for words in _changes(id[0], before[id], after[id])]
    found += _unbound(before, after)
    return sorted(found)


# --- pools ---


def _newest(slices: Iterable[ResourceSlice]) -> Iterator[tuple[str, Sequence[ResourceSlice]]]:
    """Each pool's newest generation, with its driver."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for each in slices:
        pools.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
    for (driver, _), members in pools.items():
        newest = max(each.spec.pool.generation for each in members)
        yield driver, [each for each in members if each.spec.pool.generation == newest]


def _is_complete(pool: Sequence[ResourceSlice]) -> bool:
    return whole_pool(pool, ALL).usable


# --- devices ---

ID = tuple[str, str]
"""A driver and a device."""


def _devices(slices: Iterable[ResourceSlice]) -> dict[ID, Device]:
    return {(each.spec.driver, device.name): device for each in slices for device in each.spec.devices}


def _changes(driver: str, before: Device, after: Device) -> Iterator[str]:
    old, new = _attributes(driver, before), _attributes(driver, after)
    for name in sorted(old.keys() | new.keys()):
        one, other = old.get(name), new.get(name)
        if isinstance(one, UnknownAttribute):
            if other is None:
                yield f"attribute {name}: was predicted, but is missing"
        elif one is not None and one != other:  # additional attributes do no harm
            yield f"attribute {name}: {_shown(one)} was predicted, but it is {_shown(other)}"
    for name in sorted(before.capacity.keys() | after.capacity.keys()):
        wanted, found = before.capacity.get(name), after.capacity.get(name)
        if wanted is not None and wanted != found:
            yield f"capacity {name}: {wanted.value} was predicted, but it is {found.value if found is not None else 'missing'}"
    for field in ("consumes_counters", "taints", "allow_multiple_allocations"):
        if (getattr(before, field) or None) != (getattr(after, field) or None):
            yield f"{_json(field)}: not as predicted"


def _json(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(each.capitalize() for each in others)


def _attributes(driver: str, device: Device) -> dict[str, DeviceAttribute]:
    return {qualified(driver, name): value for name, value in device.attributes.items()}


def _shown(attribute: DeviceAttribute | None) -> str:
    if attribute is None:
        return "missing"
    return ", ".join(str(value) for _, value in elements_of(attribute, lists=True)) or "empty"


def _unbound(before: Mapping[ID, Device], after: Mapping[ID, Device]) -> Iterator[PredictionDifference]:
    """Values that were bound and differ, or were bound separately and are equal. The first device of a binding counts as
    right."""
    # attribute and binding → its first device and value
    firsts: dict[tuple[str, str], tuple[ID, list[Element]]] = {}
    # attribute and value → its first device, and its binding
    owners: dict[tuple[str, Element], tuple[ID, str]] = {}
    for id in sorted(before.keys() & after.keys()):
        published = _attributes(id[0], after[id])
        for name, foreseen in sorted(_attributes(id[0], before[id]).items()):
            found = published.get(name)
            if not isinstance(foreseen, UnknownAttribute) or found is None:
                continue
            values, key = elements_of(found, lists=True), foreseen.binding_key
            first, expected = firsts.setdefault((name, key), (id, values))
            if not set(values) & set(expected):
                yield PredictionDifference(
                    *id, f"attribute {name}: should be equal to that of {first[0]}/{first[1]}, but is not"
                )
                continue
            for value in values:
                other, binding = owners.setdefault((name, value), (id, key))
                if binding != key:
                    yield PredictionDifference(
                        *id,
                        f"attribute {name}: should differ from that of {other[0]}/{other[1]}, but does not",
                    )
                    break
