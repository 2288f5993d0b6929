"""A pool with more or fewer devices: the slices that its driver would publish then.

New devices are copies of an existing one, under the next names (``gpu-7`` is followed by ``gpu-8``), in slices with at most
as many devices as the API allows. A pool whose devices draw on shared counters has no size in this sense.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.api.meta import ObjectMeta

if TYPE_CHECKING:
    from allotment.api.resource import Device, ResourceSlice

MOST_IN_A_SLICE = 128
_NUMBERED = re.compile(r"^(.*?)(\d{1,9})$")


def current(slices: Sequence[ResourceSlice]) -> list[ResourceSlice]:
    """The slices of one pool's newest generation, by name."""
    newest = max((each.spec.pool.generation for each in slices), default=0)
    found = [each for each in slices if each.spec.pool.generation == newest]
    return sorted(found, key=lambda each: each.metadata.name)


def is_partitioned(slices: Sequence[ResourceSlice]) -> bool:
    """Whether devices of a pool draw on counters that they share."""
    return any(
        each.spec.shared_counters or any(device.consumes_counters for device in each.spec.devices)
        for each in slices
    )


def grown(slices: Sequence[ResourceSlice], pattern: Device, more: int) -> list[ResourceSlice]:
    """The changed slices of a pool with this many more devices, the new ones last."""
    names = _names({device.name for each in slices for device in each.spec.devices}, slices)
    new = [replace(pattern, name=name) for name, _ in zip(names, range(more), strict=False)]
    last = slices[-1]
    room = max(0, MOST_IN_A_SLICE - len(last.spec.devices))
    filled = [*slices[:-1], _with(last, (*last.spec.devices, *new[:room]))]
    for number, start in enumerate(range(room, len(new), MOST_IN_A_SLICE), 1):
        made = replace(last, metadata=ObjectMeta(name=f"{last.metadata.name}-more-{number}"))
        filled.append(_with(made, tuple(new[start : start + MOST_IN_A_SLICE])))
    return [
        replace(each, spec=replace(each.spec, pool=replace(each.spec.pool, resource_slice_count=len(filled))))
        for each in filled
    ]


def shrunk(slices: Sequence[ResourceSlice], gone: Collection[str]) -> list[ResourceSlice]:
    """The changed slices of a pool without these devices."""
    return [
        _with(each, tuple([device for device in each.spec.devices if device.name not in gone]))
        for each in slices
        if any(device.name in gone for device in each.spec.devices)
    ]


def _with(slice: ResourceSlice, devices: tuple[Device, ...]) -> ResourceSlice:
    return replace(slice, spec=replace(slice.spec, devices=devices))


def _names(taken: Collection[str], slices: Sequence[ResourceSlice]) -> Iterator[str]:
    """Names for new devices, one after another."""
    last = next((each.spec.devices[-1].name for each in reversed(slices) if each.spec.devices), "device")
    found = _NUMBERED.match(last)
    start, number = (found[1], int(found[2]) + 1) if found else (f"{last}-", 1)
    while True:
        if f"{start}{number}" not in taken:
            yield f"{start}{number}"
        number += 1
