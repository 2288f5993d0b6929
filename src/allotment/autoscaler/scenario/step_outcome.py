"""The outcome of one step of a scenario: whether it was done, which pods got, changed or lost a place, which wait, and the
devices in use."""

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

    PLACED = "placed"  # it had no node, or did not exist, and has a node now
    MOVED = "moved"  # it has another node than before, or other devices
    LOST = "lost"  # it had a node and waits now
    GONE = "gone"  # it had a node, and no longer exists


@dataclass(frozen=True, slots=True)
class PodChange:
    """A pod, ``namespace/name``. Devices, ``driver/pool/device``, are its present ones or, if it has no node, its last ones."""

    pod: str
    turn: PodFate
    before: str  # its node; empty: none
    after: str
    devices: tuple[str, ...] = ()
    orphan: bool = False  # it was evicted, and no controller would recreate it


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod without a node, and why."""

    pod: str
    why: str
    since: int  # the step since which it waits; 0: from the beginning


@dataclass(frozen=True, slots=True)
class DevicesInUse:
    """Devices before and after; None: there were none, or there are none now."""

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
class StepDifferences:
    """What has changed since the step before."""

    census: ClusterCounts
    changes: tuple[PodChange, ...] = ()
    drivers: Mapping[str, DevicesInUse] = field(default_factory=dict)  # of which something changed
    pools: Mapping[PoolID, DevicesInUse] = field(default_factory=dict)  # of which something changed
    classes: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # devices held by class, if changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one step. Step 0 is the state before the first step: waiting pods that fit are placed then."""

    number: int
    name: str  # its title from the author
    verb: str  # as in the scenario; empty for a step with only expectations
    title: str  # what was tried
    news: StepDifferences
    waits: tuple[PendingPod, ...] = ()  # all waiting pods, including those from before
    refused: str = ""  # why it was not done; nothing has changed then
    expected_refusal: bool = False
    holders: Mapping[str, str] = field(
        default_factory=dict
    )  # pods and claims that prevent it, with the reason
    notes: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()  # expectations that do not hold

    @property
    def ok(self) -> bool:
        """Whether the step met its author's expectations."""
        return (not self.refused or self.expected_refusal) and not self.unmet

    @property
    def newly(self) -> tuple[PendingPod, ...]:
        """The pods that wait since this step."""
        return tuple([each for each in self.waits if each.since == self.number])
