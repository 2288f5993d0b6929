"""What came of one step of a scenario: whether it was done, who got, changed or lost a place, who waits, and the devices in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.allocator.pool import PoolID
    from allotment.usage.summary import Summary


class PodFate(StrEnum):
    """What a step did to a pod."""

    PLACED = "placed"  # it had no node, or was not there, and has one now
    MOVED = "moved"  # it has another node than before, or other devices
    LOST = "lost"  # it had a node and waits now
    GONE = "gone"  # it had a node, and is no more


@dataclass(frozen=True, slots=True)
class PodChange:
    """A pod, ``namespace/name``. Devices, ``driver/pool/device``, are those that it has now or, if it has no node, had."""

    pod: str
    turn: PodFate
    before: str  # its node; empty: none
    after: str
    devices: tuple[str, ...] = ()
    orphan: bool = False  # it was evicted, and no controller would make it anew


@dataclass(frozen=True, slots=True)
class Waits:
    """A pod without a node, and why."""

    pod: str
    why: str
    since: int  # the step since which it waits; 0: from the beginning


@dataclass(frozen=True, slots=True)
class DevicesInUse:
    """Devices before and after; None: there were none, or there are none any more."""

    before: Summary | None
    after: Summary | None


@dataclass(frozen=True, slots=True)
class ClusterCounts:
    """How many there are."""

    nodes: int
    running: int  # pods with a node
    pending: int  # pods without
    devices: Summary


@dataclass(frozen=True, slots=True)
class News:
    """What is different since the step before."""

    census: ClusterCounts
    changes: tuple[PodChange, ...] = ()
    drivers: Mapping[str, DevicesInUse] = field(default_factory=dict)  # of which something changed
    pools: Mapping[PoolID, DevicesInUse] = field(default_factory=dict)  # of which something changed
    classes: Mapping[str, tuple[int, int]] = field(
        default_factory=dict
    )  # devices held by class, where changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """See the module. Step 0 is what there is before the first: pods that wait and fit are placed then."""

    number: int
    name: str  # what its author calls it
    verb: str  # as in the scenario; empty for one that only expects
    title: str  # what was tried
    news: News
    waits: tuple[Waits, ...] = ()  # everybody who waits, also from before
    refused: str = ""  # why it was not done; nothing has changed then
    expected_refusal: bool = False
    holders: Mapping[str, str] = field(
        default_factory=dict
    )  # pods and claims that stand in its way, with why
    notes: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()  # expectations that do not hold

    @property
    def ok(self) -> bool:
        """Whether it went as its author meant it to."""
        return (not self.refused or self.expected_refusal) and not self.unmet

    @property
    def newly(self) -> tuple[Waits, ...]:
        """Those who wait since this step."""
        return tuple([each for each in self.waits if each.since == self.number])
