"""A device as one coloured sign, and many of them in little room.

Signs differ without their colours too. Where not every device can have one, the devices of each kind are counted:
``█12 ░40 !2`` in place of 54 signs.
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
    from allotment.usage.rollup import NodePool
    from allotment.usage.summary import Summary


class Kind(Enum):
    """What a person tells apart at a glance, in the order of the legend: sign, colour, word."""

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


def kind_of(device: DeviceUsage) -> Kind:
    """What a device looks like."""
    match device.state:
        case DeviceState.AVAILABLE:
            return Kind.FREE
        case DeviceState.PARTIALLY_ALLOCATED:
            return Kind.PARTLY
        case DeviceState.ALLOCATED:
            return Kind.SHARED if any(each.share_id is not None for each in device.allocations) else Kind.USED
        case DeviceState.UNAVAILABLE:
            return _OBSTACLES.get(device.reason, Kind.BLOCKED)
        case DeviceState.UNKNOWN:
            return Kind.UNKNOWN


_OBSTACLES = {TAINTED: Kind.TAINTED, POOL_INVALID: Kind.BROKEN, POOL_INCOMPLETE: Kind.BROKEN}


def cells(pools: Sequence[NodePool], room: int) -> list[Span]:
    """The devices of some pools, a gap between two pools; counted where they need more than ``room``."""
    if room_for(pools) <= room and all(len(pool.devices) == pool.summary.total for pool in pools):
        spans: list[Span] = []
        for pool in pools:
            spans += [(" ", "")] if spans else []
            spans += [kind_of(device).sign for device in pool.devices]
        return _joined(spans)
    found: Counter[Kind] = Counter()
    for pool in pools:
        found += _kinds(pool)
    return _counted(found)


def room_for(pools: Sequence[NodePool]) -> int:
    """How many signs it takes."""
    return sum(pool.summary.total for pool in pools) + max(len(pools) - 1, 0)


def _kinds(pool: NodePool) -> Counter[Kind]:
    """Of a pool whose devices cannot be seen, the published counts tell."""
    if pool.devices or not pool.summary.total:
        return Counter(map(kind_of, pool.devices))
    return Counter(dict(_published(pool.summary, known=pool.hidden is not None)))


def _published(summary: Summary, *, known: bool) -> Mapping[Kind, int]:
    if not known:
        return {Kind.USED: summary.allocated, Kind.UNKNOWN: summary.total - summary.allocated}
    return {
        Kind.USED: summary.allocated - summary.partially_allocated,
        Kind.PARTLY: summary.partially_allocated,
        Kind.FREE: summary.available,
        Kind.BLOCKED: summary.unavailable,
    }


def _counted(found: Counter[Kind]) -> list[Span]:
    spans: list[Span] = []
    for kind in Kind:
        if found[kind] > 0:
            spans += [(" ", "")] if spans else []
            spans.append((f"{kind.sign[0]}{found[kind]}", kind.sign[1]))
    return spans


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Neighbours of one style as one."""
    found: list[Span] = []
    for text, style in spans:
        if found and found[-1][1] == style:
            found[-1] = (found[-1][0] + text, style)
        else:
            found.append((text, style))
    return found
