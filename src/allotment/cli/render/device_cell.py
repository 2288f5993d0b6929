"""A device as one coloured sign, and many devices in little space.

Signs also differ without their colours. Where there is no room for a sign each, devices are counted by kind: ``█12 ░40 !2``
instead of 54 signs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from allotment.usage.device import POOL_INCOMPLETE, POOL_INVALID, TAINTED
from allotment.usage.summary import DeviceState

if TYPE_CHECKING:
    from allotment.cli.render.screen import Span
    from allotment.usage.device import DeviceUsage
    from allotment.usage.rollup import PoolOnNode
    from allotment.usage.summary import Summary


class DeviceSign(Enum):
    """The states that a person distinguishes at a glance, in the order of the legend: sign, colour, word."""

    USED = ("█", "yellow", "used")
    SHARED = ("▓", "magenta", "shared, full")
    PARTLY = ("▄", "cyan", "shared, some left")
    FREE = ("░", "green", "free")
    TAINTED = ("!", "bold red", "tainted")
    BLOCKED = ("▒", "blue", "out of reach")
    BROKEN = ("x", "bold red", "broken pool")
    UNKNOWN = ("?", "dim", "unknown")

    @property
    def sign(self) -> Span:
        return self.value[0], self.value[1]

    @property
    def words(self) -> str:
        return self.value[2]


def kind_of(device: DeviceUsage) -> DeviceSign:
    """The sign for a device."""
    match device.state:
        case DeviceState.AVAILABLE:
            return DeviceSign.FREE
        case DeviceState.PARTIALLY_ALLOCATED:
            return DeviceSign.PARTLY
        case DeviceState.ALLOCATED:
            return (
                DeviceSign.SHARED
                if any(each.share_id is not None for each in device.allocations)
                else DeviceSign.USED
            )
        case DeviceState.UNAVAILABLE:
            return _OBSTACLES.get(device.reason, DeviceSign.BLOCKED)
        case DeviceState.UNKNOWN:
            return DeviceSign.UNKNOWN


_OBSTACLES = {
    TAINTED: DeviceSign.TAINTED,
    POOL_INVALID: DeviceSign.BROKEN,
    POOL_INCOMPLETE: DeviceSign.BROKEN,
}


def cells(pools: Sequence[PoolOnNode], room: int) -> list[Span]:
    """The cells of the devices of some pools, with a gap between pools; devices are counted if they need more than ``room``."""
    if room_for(pools) <= room and all(len(pool.devices) == pool.summary.total for pool in pools):
        spans: list[Span] = []
        for pool in pools:
            spans += [(" ", "")] if spans else []
            spans += [kind_of(device).sign for device in pool.devices]
        return _joined(spans)
    found: Counter[DeviceSign] = Counter()
    for pool in pools:
        found += _kinds(pool)
    return _counted(found)


def room_for(pools: Sequence[PoolOnNode]) -> int:
    """The number of columns that the signs need."""
    return sum(pool.summary.total for pool in pools) + max(len(pools) - 1, 0)


def _kinds(pool: PoolOnNode) -> Counter[DeviceSign]:
    """How many devices there are of each kind. The counts of a pool whose devices the caller cannot see come from its
    ResourcePool."""
    if pool.devices or not pool.summary.total:
        return Counter(map(kind_of, pool.devices))
    return Counter(dict(_published(pool.summary, known=pool.hidden is not None)))


def _published(summary: Summary, *, known: bool) -> Mapping[DeviceSign, int]:
    if not known:
        return {DeviceSign.USED: summary.allocated, DeviceSign.UNKNOWN: summary.total - summary.allocated}
    return {
        DeviceSign.USED: summary.allocated - summary.partially_allocated,
        DeviceSign.PARTLY: summary.partially_allocated,
        DeviceSign.FREE: summary.available,
        DeviceSign.BLOCKED: summary.unavailable,
    }


def _counted(found: Counter[DeviceSign]) -> list[Span]:
    spans: list[Span] = []
    for kind in DeviceSign:
        if found[kind] > 0:
            spans += [(" ", "")] if spans else []
            spans.append((f"{kind.sign[0]}{found[kind]}", kind.sign[1]))
    return spans


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Merges neighbours that have the same style."""
    found: list[Span] = []
    for text, style in spans:
        if found and found[-1][1] == style:
            found[-1] = (found[-1][0] + text, style)
        else:
            found.append((text, style))
    return found
